"""Running a learner over a stream, and what is written down about it."""

from __future__ import annotations

import hashlib
import os
import platform
import tempfile
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike

from redunet._version import __version__
from redunet.classifier import ReduNetClassifier


@dataclass(frozen=True)
class Equivalence:
    """Whether two models are the same, by four measures.

    Parameters
    ----------
    moments : bool
        The integers that both remember are equal.
    network : bool
        Every E and C of every layer is equal to the last bit.
    file : bool
        The saved files are equal to the byte.
    labels_that_differ : int
        Test samples that the two label differently.
    """

    moments: bool
    network: bool
    file: bool
    labels_that_differ: int

    @property
    def exact(self) -> bool:
        """Whether all four agree."""
        return self.moments and self.network and self.file and not self.labels_that_differ

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for a record."""
        return asdict(self)


def equivalence(one: ReduNetClassifier, other: ReduNetClassifier, x_test: ArrayLike) -> Equivalence:
    """Compare two models, layer by layer, byte by byte, label by label."""
    layers = zip(one.network_.layers, other.network_.layers, strict=True)
    return Equivalence(
        moments=one.moments_ == other.moments_,
        network=all(torch.equal(a.E, b.E) and torch.equal(a.C, b.C) for a, b in layers),
        file=file_hash(one) == file_hash(other),
        labels_that_differ=int(np.sum(one.predict(x_test) != other.predict(x_test))),
    )


def file_hash(model: ReduNetClassifier) -> str:
    """sha256 of the file that a model saves."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model"
        model.save(path)
        return hashlib.sha256(path.read_bytes()).hexdigest()


def environment() -> dict[str, Any]:
    """Versions, machine and date, as every record states them."""
    gpu = torch.cuda.get_device_name() if torch.cuda.is_available() else None
    return {
        "date": datetime.now(UTC).date().isoformat(),
        "machine": {
            "processor": _processor(),
            "cores": os.cpu_count(),
            "threads": torch.get_num_threads(),
            "gpu": gpu,
        },
        "versions": {
            "redunet": __version__,
            "python": platform.python_version(),
            **{name: _version(name) for name in ("torch", "numpy", "scikit-learn")},
        },
    }


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "unknown"


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    names = (line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    return next(names, platform.machine())
