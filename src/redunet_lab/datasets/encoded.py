"""Images of a data set as vectors of an encoder, made once and kept in the cache."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from redunet.errors import SettingsError
from redunet_lab.datasets import cache, search
from redunet_lab.datasets.dataset import ARRAYS, UnavailableError

_AT_A_TIME = 256


@dataclass(frozen=True, eq=False)
class Vectors:
    """Vectors of images, and their labels.

    Attributes
    ----------
    name : str
        Of data set and encoder, such as "cifar10+efficientnet-lite2".
    x_train, x_test : ndarray of float32, shape (n, d)
    y_train, y_test : ndarray of int64, shape (n,)
    source : str
        ``folder`` or ``cache`` where the vectors were there already, else the source of the images.
    """

    name: str
    x_train: NDArray[np.float32]
    y_train: NDArray[np.int64]
    x_test: NDArray[np.float32]
    y_test: NDArray[np.int64]
    source: str


def load(
    images_of: Callable[[Path | None], Any], name: str, encoder_name: str, data_dir: Path | None
) -> Vectors:
    """Read vectors, or make them from images once, on a GPU where there is one, and keep them.

    Parameters
    ----------
    images_of : callable
        The loader of the data set of images.
    name, encoder_name : str
        Of the data set, and of an encoder of images, or its folder.
    data_dir : Path or None
        The folder that the user named, if any; else ``REDUNET_DATA`` counts.

    Returns
    -------
    Vectors
    """
    from redunet.encoders import open_encoder  # takes a while to load
    from redunet.encoders.fitting import fitted_arrays
    from redunet.estimators.settings import resolve_device

    encoder = open_encoder(encoder_name, resolve_device("auto"))
    shape = encoder.image_shape
    if shape is None:
        raise SettingsError(f"expected an encoder of images for {name}, got {encoder.id.name}")
    full_name = f"{name}+{encoder.id.name}"
    kept = f"{name}-{encoder.id.name}-{encoder.id.sha256[:8]}.npz"
    for source, place in (("folder", search.named_folder(data_dir)), ("cache", cache.folder())):
        try:
            if place is not None:
                arrays = cache.read_arrays(place / kept, ARRAYS)
                return Vectors(full_name, source=source, **arrays)
        except UnavailableError:
            continue
    images = images_of(data_dir)
    parts = {"x_train": images.x_train, "x_test": images.x_test}
    arrays = encoded(parts, lambda some: encoder(fitted_arrays(some, shape)), full_name)
    arrays |= {"y_train": images.y_train, "y_test": images.y_test}
    cache.write_arrays(cache.folder() / kept, full_name, arrays)
    return Vectors(full_name, source=images.source, **arrays)


def encoded(
    parts: Mapping[str, Sequence[Any] | NDArray[Any]],
    encode: Callable[[Any], NDArray[np.float32]],
    what: str,
) -> dict[str, NDArray[Any]]:
    """Vectors of all parts of a data set, by name, with a progress bar on a terminal."""
    from rich.console import Console
    from rich.progress import Progress

    console = Console(stderr=True)
    arrays = {}
    with Progress(console=console, transient=True, disable=not console.is_terminal) as progress:
        task = progress.add_task(f"encoding {what}", total=sum(map(len, parts.values())))
        for name, samples in parts.items():
            found = []
            for start in range(0, len(samples), _AT_A_TIME):
                some = samples[start : start + _AT_A_TIME]
                found.append(encode(some))
                progress.advance(task, len(some))
            arrays[name] = np.concatenate(found)
    return arrays
