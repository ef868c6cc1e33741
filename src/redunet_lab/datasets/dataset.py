"""A data set in memory, and what was published about it."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from redunet.errors import DataError, FileAccessError

ARRAYS = ("x_train", "y_train", "x_test", "y_test")


class UnavailableError(FileAccessError):
    """One place does not have the data; the next one may. The message says why."""


@dataclass(frozen=True, eq=False)
class Samples:
    """Samples and labels for training and for test.

    Parameters
    ----------
    x_train : ndarray of shape (n, …)
    y_train : ndarray of shape (n,), int or str
    x_test, y_test : the same for test
    name : str, default="own data"
    source : str, default=None
        Where they come from: ``scikit-learn``, ``folder``, ``cache``, or a package.
    split : str, default=None
        How the test samples were chosen, in words.
    """

    x_train: NDArray[Any]
    y_train: NDArray[Any]
    x_test: NDArray[Any]
    y_test: NDArray[Any]
    name: str = "own data"
    source: str | None = None
    split: str | None = None


@dataclass(frozen=True)
class Published:
    """Shapes and hashes of a data set of images, as they were published."""

    name: str
    image_shape: tuple[int, ...]
    n_train: int
    n_test: int
    md5: Mapping[str, str]

    def shapes(self) -> dict[str, tuple[int, ...]]:
        """The shape of each of the four arrays."""
        return {
            "x_train": (self.n_train, *self.image_shape),
            "y_train": (self.n_train,),
            "x_test": (self.n_test, *self.image_shape),
            "y_test": (self.n_test,),
        }


def check_shapes(data: Samples, published: Published, where: str) -> None:
    """Raise `DataError` unless the four arrays have the published shapes and types."""
    for field, shape in published.shapes().items():
        array = getattr(data, field)
        dtype = np.dtype(np.uint8 if field.startswith("x") else np.int64)
        if array.shape != shape or array.dtype != dtype:
            raise DataError(
                f"{where}: {field} of {published.name} should be {dtype} of shape {shape}, "
                f"not {array.dtype} of shape {array.shape}: download the files again."
            )


def checked(
    data: Samples, published: Published, originals: Iterable[tuple[str, bytes]], where: str
) -> Samples:
    """The data set itself, if it is the one that was published; else `DataError`."""
    check_shapes(data, published, where)
    for field in ("y_train", "y_test"):
        labels: NDArray[np.int64] = getattr(data, field)
        if labels.min() < 0 or labels.max() > 9:  # written as bytes, 256 would be 0
            raise DataError(
                f"{where}: {field} of {published.name} should have labels in 0..9, "
                f"not in {labels.min()}..{labels.max()}: download the files again."
            )
    for file, content in originals:
        check_md5(file, content, published, where)
    return data


def check_md5(file: str, content: bytes, published: Published, where: str) -> None:
    """Raise `DataError` unless a file has the published hash."""
    digest = hashlib.md5(content, usedforsecurity=False).hexdigest()
    if digest != published.md5[file]:
        raise DataError(
            f"{where}: {file} of {published.name} should have the md5 {published.md5[file]}, "
            f"not {digest}: download the files again."
        )
