"""Whether a model that learnt task after task is the one that had all the data at once."""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from redunet.core.layers import LayerSequence
from redunet.estimators import storage
from redunet.estimators.classifier import ReduNetClassifier
from redunet.estimators.ensemble import EnsembleClassifier
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


@dataclass(frozen=True, eq=False)
class Trace:
    """What is left of a model to compare with, in little memory.

    Parameters
    ----------
    network, file : str
        sha256 of all its layers and of its file.
    labels : ndarray of shape (n,)
        That it gave.
    """

    network: str
    file: str
    labels: NDArray[Any]

    @classmethod
    def of(cls, model: ReduNetClassifier, labels: ArrayLike) -> Trace:
        """The trace of a model and of the labels it gave."""
        return cls(network_hash(model), file_hash(model), np.asarray(labels))


def equivalence(
    one: ReduNetClassifier,
    other: ReduNetClassifier,
    labels_of_one: ArrayLike,
    labels_of_other: ArrayLike,
) -> Equivalence:
    """Compare two models layer by layer and byte by byte, and the labels they gave."""
    same = one.moments_ == other.moments_
    return _verdict(same, Trace.of(one, labels_of_one), Trace.of(other, labels_of_other))


def joint_check(
    model: ReduNetClassifier, seen: Sequence[Task], make: Callable[[], ReduNetClassifier]
) -> dict[str, Any]:
    """Compare a model with one that learns all tasks seen at once, for a record.

    Each network is built by itself: of many features, two may not fit in memory.
    """
    joint = make().fit(*pooled(seen, "train"))
    x_test, y_test = pooled(seen, "test")
    same = joint.moments_ == model.moments_
    theirs = Trace.of(joint, joint.predict(x_test))
    del joint
    verdict = _verdict(same, Trace.of(model, model.predict(x_test)), theirs)
    accuracy = float(np.mean(theirs.labels == y_test))
    return {"accuracy": accuracy, "equivalence": verdict.to_dict()}


def _verdict(same_moments: bool, one: Trace, other: Trace) -> Equivalence:
    return Equivalence(
        moments=same_moments,
        network=one.network == other.network,
        file=one.file == other.file,
        labels_that_differ=int(np.sum(one.labels != other.labels)),
    )


def network_hash(model: ReduNetClassifier) -> str:
    """sha256 of E and C of every layer of a model's network, or of the networks of an ensemble."""
    digest = hashlib.sha256()
    for one in model.members() if isinstance(model, EnsembleClassifier) else [model]:
        layers = one.network_.layers
        # A layer of a pass is made in the memory of the one before.
        for layer in layers.passing() if isinstance(layers, LayerSequence) else layers:
            for operators in (layer.E, layer.C):
                digest.update(repr((operators.dtype, operators.shape)).encode())
                digest.update(storage.bits(operators.cpu().contiguous()))
    return digest.hexdigest()


def file_hash(model: ReduNetClassifier) -> str:
    """sha256 of the file that a model saves."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model"
        model.save(path)
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
