"""Whether a model that learnt task after task is the one that had all the data at once."""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from redunet.core.layers import LayerSequence
from redunet.estimators import storage
from redunet.estimators.ensemble import EnsembleClassifier
from redunet_lab.streams import Task, pooled


def joint_check(model: Any, seen: Sequence[Task], make: Callable[[], Any]) -> dict[str, Any]:
    """Compare a model with one that learns all tasks seen at once, for a record.

    Each network is built by itself: of many features, two may not fit in memory.
    """
    joint = make().fit(*pooled(seen, "train"))
    x_test, y_test = pooled(seen, "test")
    same_moments = joint.moments_ == model.moments_
    labels = joint.predict(x_test)
    network, file = network_hash(joint), file_hash(joint)
    del joint
    return {
        "accuracy": float(np.mean(labels == y_test)),
        "equivalence": {
            "moments": same_moments,
            "network": network == network_hash(model),
            "file": file == file_hash(model),
            "labels_that_differ": int(np.sum(labels != model.predict(x_test))),
        },
    }


def network_hash(model: Any) -> str:
    """sha256 of E and C of every layer of a model's network, or of the networks of an ensemble."""
    digest = hashlib.sha256()
    members: list[Any] = [*model.members()] if isinstance(model, EnsembleClassifier) else [model]
    for one in members:
        layers = one.network_.layers
        # A layer of a pass is made in the memory of the one before.
        for layer in layers.iter_reusing_memory() if isinstance(layers, LayerSequence) else layers:
            for operators in (layer.E, layer.C):
                digest.update(repr((operators.dtype, operators.shape)).encode())
                digest.update(storage.bits(operators.cpu().contiguous()))
    return digest.hexdigest()


def file_hash(model: Any) -> str:
    """sha256 of the file that a model saves."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model"
        model.save(path)
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
