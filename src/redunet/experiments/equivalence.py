"""Whether a model that learnt task after task is the one that had all the data at once."""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike

from redunet.estimators.classifier import ReduNetClassifier
from redunet.experiments.streams import Task, pooled


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


def equivalence(
    one: ReduNetClassifier,
    other: ReduNetClassifier,
    labels_of_one: ArrayLike,
    labels_of_other: ArrayLike,
) -> Equivalence:
    """Compare two models layer by layer and byte by byte, and the labels they gave."""
    mine, theirs = one.network_.layers, other.network_.layers
    return Equivalence(
        moments=one.moments_ == other.moments_,
        network=len(mine) == len(theirs)
        and all(
            torch.equal(a.E, b.E) and torch.equal(a.C, b.C)
            for a, b in zip(mine, theirs, strict=True)
        ),
        file=file_hash(one) == file_hash(other),
        labels_that_differ=int(np.sum(np.asarray(labels_of_one) != np.asarray(labels_of_other))),
    )


def joint_check(
    model: ReduNetClassifier, seen: Sequence[Task], make: Callable[[], ReduNetClassifier]
) -> dict[str, Any]:
    """Compare a model with one that learns all tasks seen at once, for a record."""
    joint = make().fit(*pooled(seen, "train"))
    x_test, y_test = pooled(seen, "test")
    labels = joint.predict(x_test)
    verdict = equivalence(model, joint, model.predict(x_test), labels)
    return {"accuracy": float(np.mean(labels == y_test)), "equivalence": verdict.to_dict()}


def file_hash(model: ReduNetClassifier) -> str:
    """sha256 of the file that a model saves."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model"
        model.save(path)
        return hashlib.sha256(path.read_bytes()).hexdigest()
