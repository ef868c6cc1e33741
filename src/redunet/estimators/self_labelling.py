"""Learning from samples without labels: the model labels those that it is certain of."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray

from redunet.core.grid import on_grid
from redunet.core.moments import ClassMoments
from redunet.core.self_labelling import in_order, label_in_rounds
from redunet.errors import DataError
from redunet.estimators.state import State

_ROWS = 2048
"""Samples that feature vectors are made of at a time, so that a map needs memory for few."""


def split(
    X: ArrayLike, y: ArrayLike, unlabelled: int | str, state: State | None
) -> tuple[tuple[Any, Any] | None, Any]:
    """Samples with their labels, and samples without; None where there are none.

    Parameters
    ----------
    X : array-like of shape (n, d)
    y : array-like of shape (n,)
    unlabelled : int or str
        The value in y that stands for no label.
    state : State, or None
        Of the model that is to learn them.
    """
    from sklearn.utils import _safe_indexing

    if state is not None and unlabelled in state.moments:
        raise DataError(
            f"expected unlabelled= to be no class, but the model has learnt a class "
            f"{unlabelled!r}: let another value stand for no label"
        )
    without = _equal(y, unlabelled)
    labelled = None
    if not without.all():
        labelled = _safe_indexing(X, ~without), _safe_indexing(y, ~without)
    return labelled, _safe_indexing(X, without) if without.any() else None


def learnt(state: State, rows: NDArray[Any], eps: float, device: str, memory: int) -> ClassMoments:
    """Moments of all samples that a model has labelled itself, with those of more samples."""
    parts = (rows[start : start + _ROWS] for start in range(0, len(rows), _ROWS))
    vectors = torch.cat([state.pipeline.vectors(part, device) for part in parts])
    vectors = vectors[in_order(vectors)]
    given = label_in_rounds(state.total, vectors, eps, memory)
    certain = [row for row, label in enumerate(given) if label is not None]
    own = state.self_labelled or state.moments.select([])
    labels = [given[row] for row in certain]
    return own.update(vectors[certain], labels, on_grid, device)


def _equal(y: Any, value: int | str) -> NDArray[np.bool_]:
    """Whether each label is a value, of its own type."""
    labels = np.asarray(y)
    if labels.dtype.kind not in ("OUT" if isinstance(value, str) else "Oiuf"):
        raise DataError(
            f"expected labels of the type of unlabelled={value!r}, got {labels.dtype}: let a value "
            f"of their own type stand for no label"
        )
    found: NDArray[np.bool_] = labels == value
    return found
