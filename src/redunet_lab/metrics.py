"""How well a learner did over a stream of tasks, and how well it knows what it knows.

Most are functions of the accuracy matrix A, where A[t, s] is the accuracy on
the test samples of task s after learning task t (both from 0; s ≤ t, and NaN
above the diagonal).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from redunet.errors import DataError

Matrix = NDArray[np.float64]


def average_incremental_accuracy(seen: ArrayLike) -> float:
    """Mean over t of the accuracy on all classes seen after task t."""
    return float(np.mean(np.asarray(seen, dtype=np.float64)))


def decay(seen: ArrayLike) -> float:
    """Accuracy on all classes seen after the first task, minus that after the last."""
    values = np.asarray(seen, dtype=np.float64)
    return float(values[0] - values[-1])


def forgetting(A: ArrayLike) -> float:
    """Mean over all tasks but the last of the best accuracy it had before, minus its final one.

    That is the mean over s < T−1 of max_{s ≤ t < T−1} A[t, s] − A[T−1, s]; zero
    for a single task.

    Examples
    --------
    >>> nan = float("nan")
    >>> forgetting([[1.0, nan, nan], [0.75, 1.0, nan], [0.5, 0.875, 1.0]])
    0.3125
    """
    A = _matrix(A)
    if len(A) == 1:
        return 0.0
    best = np.nanmax(A[:-1, :-1], axis=0)
    return float(np.mean(best - A[-1, :-1]))


def backward_transfer(A: ArrayLike) -> float:
    """Mean over s < T−1 of A[T−1, s] − A[s, s]: what later tasks did to earlier ones.

    Examples
    --------
    >>> nan = float("nan")
    >>> backward_transfer([[1.0, nan, nan], [0.75, 1.0, nan], [0.5, 0.875, 1.0]])
    -0.3125
    """
    A = _matrix(A)
    if len(A) == 1:
        return 0.0
    return float(np.mean(A[-1, :-1] - np.diagonal(A)[:-1]))


def _matrix(values: ArrayLike) -> Matrix:
    A: Matrix = np.asarray(values, dtype=np.float64)
    if A.ndim != 2 or A.shape[0] != A.shape[1] or np.isnan(A[np.tril_indices(len(A))]).any():
        raise DataError(
            f"expected a square accuracy matrix, known up to its diagonal, got shape {A.shape}"
        )
    return A


def confusion(true: ArrayLike, given: ArrayLike) -> dict[str, Any]:
    """How many samples of each class were given each label.

    Examples
    --------
    >>> confusion(["cat", "cat", "dog"], ["cat", "dog", "dog"])
    {'labels': ['cat', 'dog'], 'counts': [[1, 1], [0, 1]]}
    """
    true, given = np.asarray(true), np.asarray(given)
    labels = np.union1d(true, given)
    counts = np.zeros((len(labels), len(labels)), dtype=np.int64)
    np.add.at(counts, (np.searchsorted(labels, true), np.searchsorted(labels, given)), 1)
    return {"labels": labels.tolist(), "counts": counts.tolist()}


def summed_confusion(confusions: Sequence[Mapping[str, Any] | None]) -> dict[str, Any] | None:
    """Confusions of several runs as one; None where one of them is not known."""
    known = [one for one in confusions if one is not None]
    if not known or len(known) < len(confusions):
        return None
    labels = sorted({label for one in known for label in one["labels"]})
    place = {label: index for index, label in enumerate(labels)}
    counts = np.zeros((len(labels), len(labels)), dtype=np.int64)
    for one in known:
        where = [place[label] for label in one["labels"]]
        counts[np.ix_(where, where)] += np.asarray(one["counts"], dtype=np.int64)
    return {"labels": labels, "counts": counts.tolist()}
