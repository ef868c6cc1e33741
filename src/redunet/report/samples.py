"""Samples that a reader names, to see what a model makes of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from redunet.datasets import NAMES, load
from redunet.errors import DataError, FileAccessError
from redunet.estimators.classifier import ReduNetClassifier

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

    def chosen(self) -> NDArray[Any]:
        """The samples to show layer by layer."""
        found: NDArray[Any] = self.X[list(self.rows)]
        return found


def read_samples(
    name: str, model: ReduNetClassifier, rows: Sequence[int] = (), data_dir: Path | None = None
) -> Samples:
    """Samples for a model.

    Parameters
    ----------
    name : str
        A data set of `redunet.datasets`, of which the test samples are taken, or
        a file: ``.npy`` with an array of samples, or ``.npz`` with ``x`` and,
        where labels are known, ``y``.
    model : ReduNetClassifier
        Whose classes the labels are; others are left out of a data set.
    rows : sequence of int, default=the first of each class
    data_dir : Path, default=None
        Where a data set may lie already.
    """
    X, y = _from_data_set(name, model, data_dir) if name in NAMES else _from_file(Path(name))
    if X.ndim < 2 or not len(X) or X.dtype.kind not in "biuf":
        raise DataError(
            f"expected {name} to hold samples as rows of numbers, got an array of shape {X.shape} "
            f"and type {X.dtype}"
        )
    if y is not None and y.shape != (len(X),):
        raise DataError(f"expected a label for each of {len(X)} samples in {name}, got {y.shape}")
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


def _from_data_set(
    name: str, model: ReduNetClassifier, data_dir: Path | None
) -> tuple[NDArray[Any], NDArray[Any]]:
    data = load(name, data_dir)
    known = np.isin(data.y_test, model.classes_)
    if not known.any():
        raise DataError(f"expected classes of {name}, but the model knows none of them")
    return data.x_test[known], data.y_test[known]


def _from_file(path: Path) -> tuple[NDArray[Any], NDArray[Any] | None]:
    try:
        read = np.load(path, allow_pickle=False)
        if isinstance(read, np.ndarray):
            return read, None
        with read:
            names = {key.lower(): key for key in read.files}
            if "x" not in names:
                raise DataError(
                    f"expected {path} to hold an array x, got {', '.join(read.files) or 'none'}"
                )
            return read[names["x"]], read[names["y"]] if "y" in names else None
    except FileNotFoundError:
        raise FileAccessError(
            f"cannot read {path}: no such file, and no data set among {', '.join(NAMES)}"
        ) from None
    except DataError:
        raise
    except OSError as error:
        raise FileAccessError(f"cannot read {path}: {error.strerror or error}") from error
    except Exception as error:
        raise DataError(f"expected samples in a .npy or .npz file, got {path}: {error}") from error
