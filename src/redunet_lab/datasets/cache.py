"""Decoded data sets kept on disk, each in one file that vouches for itself.

A cached file is a plain uncompressed npz. The comment that a zip archive may
end with holds the sha256 of all the bytes before it, so that file and hash
come and go in one rename, and a change of any byte is noticed.
"""

import hashlib
import os
import warnings
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from redunet.errors import DataError, FileAccessError
from redunet.safety.files import make_folder, writing
from redunet.safety.untrusted import open_regular
from redunet_lab.datasets.dataset import ARRAYS, Dataset, Published, UnavailableError, check_shapes

_HEX = 64


def folder() -> Path:
    """Return the cache folder: ``REDUNET_CACHE``, else ``redunet`` in the user's cache folder."""
    named = os.environ.get("REDUNET_CACHE")
    if named:
        return Path(named).expanduser()
    base = Path(os.environ.get("XDG_CACHE_HOME", ""))
    # The XDG specification says that a relative path is to be ignored.
    return (base if base.is_absolute() else Path("~/.cache").expanduser()) / "redunet"


def _digest(stream: BinaryIO) -> bytes:
    """Return the sha256, in hexadecimal, of all but the last 64 bytes."""
    left = stream.seek(0, os.SEEK_END) - _HEX
    stream.seek(0)
    digest = hashlib.sha256()
    while left > 0 and (chunk := stream.read(min(left, 1 << 20))):
        digest.update(chunk)
        left -= len(chunk)
    return digest.hexdigest().encode()


def read(published: Published) -> Dataset:
    """Read a data set from the cache.

    Parameters
    ----------
    published : Published
        Which one, and the shapes it should have.

    Returns
    -------
    Dataset
        With ``source`` "cache".

    Raises
    ------
    UnavailableError
        It is not there, cannot be read, or is damaged.
    """
    path = folder() / f"{published.name}.npz"
    data = Dataset(name=published.name, source="cache", **read_arrays(path, ARRAYS))
    try:
        check_shapes(data, published, str(path))
    except DataError as error:
        msg = f"the cached {path} is of another version"
        raise UnavailableError(msg) from error
    return data


def read_arrays(path: Path, names: Sequence[str]) -> dict[str, NDArray[Any]]:
    """Arrays by name from a file that `write_arrays` wrote; `UnavailableError` where it cannot."""
    try:
        if not path.exists():
            raise UnavailableError(f"the cache has no {path}")
        with open_regular(path) as stream:
            digest = _digest(stream)
            if stream.read() != digest:
                msg = f"the cached {path} is damaged"
                raise UnavailableError(msg)
            stream.seek(0)
            with np.load(stream, allow_pickle=False) as arrays:
                return {name: arrays[name] for name in names}
    except UnavailableError:
        raise
    except OSError as error:
        msg = f"the cached {path} cannot be read ({error.strerror or error})"
        raise UnavailableError(msg) from error
    except (DataError, KeyError, ValueError, zipfile.BadZipFile) as error:
        msg = f"the cached {path} is of another version"
        raise UnavailableError(msg) from error


def write(data: Dataset) -> None:
    """Put a data set into the cache, in one atomic step.

    A cache that cannot be written is a warning: the data is there all the same.
    """
    arrays = {field: getattr(data, field) for field in ARRAYS}
    write_arrays(folder() / f"{data.name}.npz", data.name, arrays)


def write_arrays(target: Path, name: str, arrays: Mapping[str, NDArray[Any]]) -> None:
    """Put arrays into a file of the cache, in one atomic step, or warn."""
    try:
        make_folder(target.parent)
        with writing(target) as stream:
            np.savez(stream, allow_pickle=False, **arrays)
            with zipfile.ZipFile(stream, "a") as archive:
                archive.comment = b"0" * _HEX
            digest = _digest(stream)
            stream.seek(-_HEX, os.SEEK_END)
            stream.write(digest)
    except FileAccessError as error:
        warnings.warn(
            f"{name} could not be cached ({error}): it will be fetched again; "
            "name a folder that can be written in REDUNET_CACHE.",
            stacklevel=3,
        )
