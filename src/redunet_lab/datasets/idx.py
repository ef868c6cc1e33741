"""The idx format of MNIST: a header that gives the shape, then the bytes."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from redunet.errors import DataError
from redunet_lab.datasets.dataset import Published, Samples, UnavailableError
from redunet_lab.datasets.dataset import checked as checked_by_hash
from redunet_lab.datasets.files import read_file

FILES = {
    "x_train": "train-images-idx3-ubyte",
    "y_train": "train-labels-idx1-ubyte",
    "x_test": "t10k-images-idx3-ubyte",
    "y_test": "t10k-labels-idx1-ubyte",
}
FOUR = "train-images-idx3-ubyte, train-labels-idx1-ubyte, t10k-images-idx3-ubyte and "
FOUR += "t10k-labels-idx1-ubyte (.gz or not)"


def header(shape: tuple[int, ...]) -> bytes:
    """The idx header of unsigned bytes of this shape."""
    return struct.pack(f">HBB{len(shape)}I", 0, 0x08, len(shape), *shape)


def decode(raw: bytes, shape: tuple[int, ...], what: str) -> NDArray[np.uint8]:
    """The array in an idx file: ndarray of uint8 of the shape it should have."""
    expected = header(shape)
    if raw[: len(expected)] != expected:
        raise DataError(
            f"{what} should begin as an idx file of bytes of shape {shape}: download it again."
        )
    body = len(raw) - len(expected)
    if body != np.prod(shape):
        raise DataError(
            f"{what} should have {np.prod(shape)} bytes after the header, not {body}: "
            f"download it again"
        )
    return np.frombuffer(raw, dtype=np.uint8, offset=len(expected)).reshape(shape).copy()


def locate(folder: Path) -> dict[str, Path] | None:
    """The four files in one folder, in any spelling, gzipped or not; None unless all four."""
    paths: dict[str, Path] = {}
    for field, name in FILES.items():
        dotted = name.replace("-idx", ".idx")
        spellings = (folder / one for one in (name, f"{name}.gz", dotted, f"{dotted}.gz"))
        found = next((path for path in spellings if path.is_file()), None)
        if found is None:
            return None
        paths[field] = found
    return paths


def read(paths: Mapping[str, Path], published: Published, source: str, where: str) -> Samples:
    """Read and check the four files that `locate` found."""
    arrays: dict[str, NDArray[np.uint8]] = {}
    for field, shape in published.shapes().items():
        raw = read_file(paths[field], len(header(shape)) + int(np.prod(shape)))
        arrays[field] = decode(raw, shape, str(paths[field]))
    x_train, y_train, x_test, y_test = arrays.values()
    labels = y_train.astype(np.int64), y_test.astype(np.int64)
    data = Samples(x_train, labels[0], x_test, labels[1], published.name, source)
    return checked(data, published, where)


def checked(data: Samples, published: Published, where: str) -> Samples:
    """The data set itself, if its idx files have the published hashes."""
    files = ((name, getattr(data, field).astype(np.uint8)) for field, name in FILES.items())
    originals = ((name, header(array.shape) + array.tobytes()) for name, array in files)
    return checked_by_hash(data, published, originals, where)


def look(folder: Path, names: Iterable[str], published: Published) -> Samples | None:
    """Read the first of the named folders in ``folder`` that has the four files."""
    for place in (folder / name for name in names):
        if paths := locate(place):
            return read(paths, published, "folder", str(place))
    return None


def look_loose(folder: Path, published: Published) -> Samples | None:
    """Read the four files from a folder that does not say which data set they are.

    MNIST, Fashion-MNIST and others use the same file names: sound files of
    another one raise `UnavailableError`, not the error of a damaged file.
    """
    for place in (folder, folder / "raw"):
        if paths := locate(place):
            try:
                return read(paths, published, "folder", str(place))
            except DataError as error:
                if " the md5 " not in str(error):
                    raise
                raise UnavailableError(
                    f"the idx files in {place} are not those of {published.name}"
                ) from error
    return None
