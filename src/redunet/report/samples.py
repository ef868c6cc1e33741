"""Samples that a reader names, to see what a model makes of them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from redunet.data import ReadOptions
from redunet.data.matching import at, label_type, labels_like, open_all, read, samples_for
from redunet.errors import DataError, FileAccessError
from redunet.estimators import Estimator
from redunet.progress import silent

MOST_CHOSEN = 12
"""As many samples as are shown layer by layer where none are chosen."""


@dataclass(frozen=True, eq=False)
class Samples:
    """Samples, their labels where they are known, and which of them to show layer by layer.

    Parameters
    ----------
    name : str
        Where they come from.
    X : ndarray of shape (n, ...)
    y : ndarray of shape (n,), or None
    rows : sequence of int
        Counted from zero.
    """

    name: str
    X: NDArray[Any]
    y: NDArray[Any] | None
    rows: Sequence[int]


def read_samples(
    name: str, model: Estimator, rows: Sequence[int] = (), data_dir: Path | None = None
) -> Samples:
    """Samples for a model.

    Parameters
    ----------
    name : str
        A data set of an installed package, of which the test samples are taken, or
        whatever ``redunet learn`` takes, with or without labels.
    model : estimator
        Whose classes the labels are; others are left out of a data set.
    rows : sequence of int, default=the first of each class
    data_dir : Path, default=None
        Where a data set may lie already.
    """
    X, y = _of_data_set(name, model, data_dir) or _of_file(Path(name), model)
    if y is not None and (y.dtype.kind in "iu") is not (model.classes_.dtype.kind in "iu"):
        raise DataError(
            f"expected labels such as {model.classes_[0]!r} in {name}, got such as {y[0]!r}"
        )
    for row in rows:
        if not 0 <= row < len(X):
            raise DataError(f"expected rows from 0 to {len(X) - 1} of {name}, got {row}")
    if model.features is None:
        X = X.reshape(len(X), -1)
    return Samples(name, X, y, rows or _first_of_each(y, len(X)))


def _first_of_each(y: NDArray[Any] | None, n: int) -> list[int]:
    if y is None:
        return list(range(min(n, MOST_CHOSEN)))
    _, first = np.unique(y, return_index=True)
    return [int(row) for row in first[:MOST_CHOSEN]]


def _of_data_set(
    name: str, model: Estimator, data_dir: Path | None
) -> tuple[NDArray[Any], NDArray[Any] | None] | None:
    """The test samples of a data set; nothing where none is called so."""
    if not re.fullmatch(r"\w+", name):
        return None
    known_names = entry_points(group="redunet.datasets")
    if name not in known_names.names:
        if Path(name).exists():
            return None
        raise FileAccessError(
            f"cannot read {name}: no such file or folder, and no data set among "
            f"{', '.join(sorted(known_names.names))}"
        )
    data = known_names[name].load()(data_dir)
    known = np.isin(data.y_test, model.classes_)
    if not known.any():
        raise DataError(f"expected classes of {name}, but the model knows none of them")
    return data.x_test[known], data.y_test[known]


def _of_file(path: Path, model: Estimator) -> tuple[NDArray[Any], NDArray[Any] | None]:
    """All samples of a file or folder, read as the commands on model files read them."""
    sources = open_all([path], ReadOptions(labels="optional"), model)
    samples, labels = [], []
    for source, batch in read(sources, "reading", silent):
        with at(source, batch):
            samples.append(samples_for(model, batch))
            if batch.y is not None:
                labels.append(labels_like(batch.y, label_type(model)))
    return np.concatenate(samples), np.concatenate(labels) if labels else None
