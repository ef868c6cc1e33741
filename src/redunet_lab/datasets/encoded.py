"""Samples of a data set as vectors of an encoder, made once and kept in the cache."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from redunet.errors import SettingsError
from redunet_lab.datasets.dataset import ARRAYS, Samples, UnavailableError
from redunet_lab.datasets.places import cache_folder, named_folder, read_arrays, write_cache

if TYPE_CHECKING:
    from redunet.encoders import Encoder

_AT_A_TIME = 256


def load(
    images_of: Callable[[Path | None], Any], name: str, encoder_name: str, data_dir: Path | None
) -> Samples:
    """Vectors of images, read, or made once, on a GPU where there is one."""
    from redunet.encoders import open_encoder  # takes a while to load
    from redunet.encoders.fitting import fitted_arrays
    from redunet.estimators.settings import resolve_device

    encoder = open_encoder(encoder_name, resolve_device("auto"))
    shape = encoder.image_shape
    if shape is None:
        raise SettingsError(f"expected an encoder of images for {name}, got {encoder.id.name}")
    full_name = f"{name}+{encoder.id.name}"
    kept = kept_in(f"{name}-{encoder.id.name}", encoder)
    found, source, _ = read_kept(kept, ARRAYS, data_dir)
    if found is None:
        images = images_of(data_dir)
        parts = {"x_train": images.x_train, "x_test": images.x_test}
        found = encoded(parts, lambda some: encoder(fitted_arrays(some, shape)), full_name)
        found |= {"y_train": images.y_train, "y_test": images.y_test}
        source = images.source
        write_cache(kept, full_name, found)
    return Samples(**found, name=full_name, source=source)


def kept_in(name: str, encoder: Encoder) -> str:
    """The file of an encoder's vectors: those of other weights are never mistaken for them."""
    return f"{name}-{encoder.id.sha256[:8]}.npz"


def read_kept(
    file: str, names: Sequence[str], data_dir: Path | None
) -> tuple[dict[str, Any] | None, str, list[str]]:
    """Arrays of a file in the named folder or the cache, where they were, else why not."""
    tried = []
    for source, place in (("folder", named_folder(data_dir)), ("cache", cache_folder())):
        if place is None:
            continue
        try:
            return read_arrays(place / file, names), source, []
        except UnavailableError as reason:
            tried.append(str(reason))
    return None, "", tried


def encoded(
    parts: Mapping[str, Sequence[Any] | NDArray[Any]],
    encode: Callable[[Any], NDArray[np.float32]],
    what: str,
) -> dict[str, Any]:
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
