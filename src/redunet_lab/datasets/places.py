"""Where a data set is looked for: a folder that the user names, the cache, packages."""

from __future__ import annotations

import os
import warnings
import zipfile
import zlib
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from redunet.errors import DataError, FileAccessError
from redunet.safety.files import make_folder, writing
from redunet.safety.untrusted import open_regular
from redunet_lab.datasets.dataset import (
    ARRAYS,
    Published,
    Samples,
    UnavailableError,
    check_shapes,
)


def find(
    published: Published,
    data_dir: Path | None,
    look: Callable[[Path], Samples],
    fetch: Callable[[], Samples],
    advice: str,
) -> Samples:
    """A data set from the first place that has it; ``look`` reads it in a folder.

    Each place checks what it finds, or raises `UnavailableError`; what is fetched is cached. If
    all fail, ``advice`` says how a user gets the files.
    """
    tried: list[str] = []
    for place in (partial(_named, data_dir, look), partial(cached, published), fetch):
        try:
            data = place()
        except UnavailableError as reason:
            tried.append(str(reason))
            continue
        if place is fetch:
            arrays = {name: getattr(data, name) for name in ARRAYS}
            write_cache(f"{data.name}.npz", data.name, arrays)
        return data
    raise FileAccessError(f"{published.name} was not found: {'; '.join(tried)}. {advice}")


def _named(data_dir: Path | None, look: Callable[[Path], Samples]) -> Samples:
    folder = named_folder(data_dir)
    if folder is None:
        raise UnavailableError("no data folder is named (data_dir or REDUNET_DATA)")
    return look(folder)


def named_folder(data_dir: Path | None) -> Path | None:
    """The data folder that the user named, here or in ``REDUNET_DATA``; None for none."""
    named = data_dir or os.environ.get("REDUNET_DATA")
    if not named:
        return None
    folder = Path(named).expanduser()
    if not folder.is_dir():
        raise FileAccessError(
            f"The data folder {folder} is not a folder: name one that is, or none."
        )
    return folder


def cache_folder() -> Path:
    """``REDUNET_CACHE``, else ``redunet`` in the user's cache folder."""
    if named := os.environ.get("REDUNET_CACHE"):
        return Path(named).expanduser()
    base = Path(os.environ.get("XDG_CACHE_HOME", ""))
    # The XDG specification says that a relative path is to be ignored.
    return (base if base.is_absolute() else Path("~/.cache").expanduser()) / "redunet"


def cached(published: Published) -> Samples:
    """A data set from the cache, or `UnavailableError`."""
    path = cache_folder() / f"{published.name}.npz"
    data = Samples(**read_arrays(path, ARRAYS), name=published.name, source="cache")
    try:
        check_shapes(data, published, str(path))
    except DataError as error:
        raise UnavailableError(f"the cached {path} is of another version") from error
    return data


def read_arrays(path: Path, names: Sequence[str]) -> dict[str, Any]:
    """Arrays of an npz by name, each checked against its checksum; or `UnavailableError`."""
    if not path.exists():
        raise UnavailableError(f"the cache has no {path}")
    try:
        with open_regular(path) as stream:
            with zipfile.ZipFile(stream) as archive:
                if archive.testzip() is not None:
                    raise zipfile.BadZipFile
            stream.seek(0)
            with np.load(stream, allow_pickle=False) as arrays:
                return {name: arrays[name] for name in names}
    except OSError as error:
        reason = error.strerror or error
        raise UnavailableError(f"the cached {path} cannot be read ({reason})") from error
    except (EOFError, NotImplementedError, RuntimeError, zipfile.BadZipFile, zlib.error) as error:
        raise UnavailableError(f"the cached {path} is damaged") from error
    except (KeyError, ValueError) as error:
        raise UnavailableError(f"the cached {path} is of another version") from error


def write_cache(file: str, name: str, arrays: Mapping[str, NDArray[Any]]) -> None:
    """Put arrays into a file of the cache in one atomic step; where that fails, only warn."""
    target = cache_folder() / file
    try:
        make_folder(target.parent)
        with writing(target) as stream:
            np.savez(stream, allow_pickle=False, **arrays)
    except FileAccessError as error:
        warnings.warn(
            f"{name} could not be cached ({error}): it will be fetched again; "
            "name a folder that can be written in REDUNET_CACHE.",
            stacklevel=3,
        )
