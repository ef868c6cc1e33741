"""A data set in memory, and what was published about it."""

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from redunet.errors import DataError, FileAccessError

ARRAYS = ("x_train", "y_train", "x_test", "y_test")


class UnavailableError(FileAccessError):
    """One place does not have the data; the next one may. The message says why."""


@dataclass(frozen=True, eq=False)
class Dataset:
    """Images and labels, split for training and test.

    Attributes
    ----------
    name : str
        The name it was asked for by.
    x_train, x_test : ndarray of uint8, shape (n, height, width[, 3])
        Images, rows first, channels last.
    y_train, y_test : ndarray of int64, shape (n,)
        Labels, from 0.
    source : str
        Where it came from: ``scikit-learn``, ``folder``, ``cache``, or the package.
    """

    name: str
    x_train: NDArray[np.uint8]
    y_train: NDArray[np.int64]
    x_test: NDArray[np.uint8]
    y_test: NDArray[np.int64]
    source: str


@dataclass(frozen=True)
class Published:
    """What is known of a data set before it is read.

    Attributes
    ----------
    name : str
        As in `redunet_lab.datasets.NAMES`.
    image_shape : tuple of int
        (height, width) or (height, width, channels).
    n_train, n_test : int
        Samples, of ten classes.
    md5 : mapping of str to str
        Hashes of the original files, unpacked, by name.
    """

    name: str
    image_shape: tuple[int, ...]
    n_train: int
    n_test: int
    md5: Mapping[str, str]

    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Return the shape of each of the four arrays."""
        return {
            "x_train": (self.n_train, *self.image_shape),
            "y_train": (self.n_train,),
            "x_test": (self.n_test, *self.image_shape),
            "y_test": (self.n_test,),
        }


def check_shapes(data: Dataset, published: Published, where: str) -> None:
    """Raise `DataError` unless the four arrays have the published shapes and types."""
    for field, shape in published.shapes().items():
        array = getattr(data, field)
        dtype = np.dtype(np.uint8 if field.startswith("x") else np.int64)
        if array.shape != shape or array.dtype != dtype:
            msg = (
                f"{where}: {field} of {published.name} should be {dtype} of shape {shape}, "
                f"not {array.dtype} of shape {array.shape}: download the files again."
            )
            raise DataError(msg)


def check(
    data: Dataset, published: Published, originals: Iterable[tuple[str, bytes]], where: str
) -> Dataset:
    """Compare a data set with what was published.

    Parameters
    ----------
    data : Dataset
        What was read.
    published : Published
        What it should be.
    originals : iterable of (str, bytes)
        The original files written again from the arrays, so that one hash
        speaks for every layout.
    where : str
        Where it was read, for the message.

    Returns
    -------
    Dataset
        The same data set.

    Raises
    ------
    DataError
        At the first difference: shapes, labels, hashes.
    """
    check_shapes(data, published, where)
    for field in ("y_train", "y_test"):
        labels: NDArray[np.int64] = getattr(data, field)
        if labels.min() < 0 or labels.max() > 9:  # written as bytes, 256 would be 0
            msg = (
                f"{where}: {field} of {published.name} should have labels in 0..9, "
                f"not in {labels.min()}..{labels.max()}: download the files again."
            )
            raise DataError(msg)
    for file, content in originals:
        check_md5(file, content, published, where)
    return data


def check_md5(file: str, content: bytes, published: Published, where: str) -> None:
    """Raise `DataError` unless a file has the published hash."""
    digest = hashlib.md5(content, usedforsecurity=False).hexdigest()
    if digest != published.md5[file]:
        msg = (
            f"{where}: {file} of {published.name} should have the md5 {published.md5[file]}, "
            f"not {digest}: download the files again."
        )
        raise DataError(msg)
