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
        As in `redunet.datasets.NAMES`.
    image_shape : tuple of int
        (height, width) or (height, width, channels).
    train_counts, test_counts : tuple of int, length k
        Samples of each class.
    md5 : mapping of str to str
        Hashes of the original files, unpacked, by name.
    mean : tuple of float, optional
        Mean of each channel over the training images, to three decimals.
    """

    name: str
    image_shape: tuple[int, ...]
    train_counts: tuple[int, ...]
    test_counts: tuple[int, ...]
    md5: Mapping[str, str]
    mean: tuple[float, ...] | None = None

    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Return the shape of each of the four arrays."""
        n_train, n_test = sum(self.train_counts), sum(self.test_counts)
        return {
            "x_train": (n_train, *self.image_shape),
            "y_train": (n_train,),
            "x_test": (n_test, *self.image_shape),
            "y_test": (n_test,),
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
        At the first difference: shapes, class counts, channel means, hashes.
    """
    check_shapes(data, published, where)
    for field, counts in (("y_train", published.train_counts), ("y_test", published.test_counts)):
        labels: NDArray[np.int64] = getattr(data, field)
        if labels.min() < 0 or labels.max() >= len(counts):
            msg = (
                f"{where}: {field} of {published.name} should have labels in 0..{len(counts) - 1}, "
                f"not in {labels.min()}..{labels.max()}: download the files again."
            )
            raise DataError(msg)
        found = tuple(np.bincount(labels, minlength=len(counts)).tolist())
        if found != counts:
            msg = (
                f"{where}: {field} of {published.name} should have {counts} samples a class, "
                f"not {found}: download the files again."
            )
            raise DataError(msg)
    if published.mean is not None:
        mean = data.x_train.mean(axis=(0, 1, 2))
        if np.abs(mean - published.mean).max() > 1e-3:
            msg = (
                f"{where}: the training images of {published.name} should have the channel means "
                f"{published.mean}, not {tuple(mean.round(3).tolist())}: download the files again."
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
