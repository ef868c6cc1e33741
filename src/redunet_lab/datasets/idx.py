"""The idx format of MNIST: a header that gives the shape, then the bytes."""

import struct
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from redunet.errors import DataError
from redunet_lab.datasets import bounded
from redunet_lab.datasets.dataset import Dataset, Published, UnavailableError, check

FILES: Mapping[str, str] = MappingProxyType(
    {
        "x_train": "train-images-idx3-ubyte",
        "y_train": "train-labels-idx1-ubyte",
        "x_test": "t10k-images-idx3-ubyte",
        "y_test": "t10k-labels-idx1-ubyte",
    }
)


def header(shape: tuple[int, ...]) -> bytes:
    """Return the idx header of unsigned bytes of this shape."""
    return struct.pack(f">HBB{len(shape)}I", 0, 0x08, len(shape), *shape)


def decode(raw: bytes, shape: tuple[int, ...], what: str) -> NDArray[np.uint8]:
    """Read the content of an idx file.

    Parameters
    ----------
    raw : bytes
        The file, unpacked.
    shape : tuple of int
        The shape it should have.
    what : str
        The name of the file, for the message.

    Returns
    -------
    ndarray of uint8, of that shape
    """
    expected = header(shape)
    if raw[: len(expected)] != expected:
        msg = f"{what} should begin as an idx file of bytes of shape {shape}: download it again."
        raise DataError(msg)
    body = len(raw) - len(expected)
    if body != np.prod(shape):
        raise DataError(
            f"{what} should have {np.prod(shape)} bytes after the header, not {body}: "
            f"download it again"
        )
    return np.frombuffer(raw, dtype=np.uint8, offset=len(expected)).reshape(shape).copy()


def limits(published: Published) -> dict[str, int]:
    """Return the exact length of each idx file, unpacked."""
    shapes = published.shapes()
    return {field: len(header(shapes[field])) + int(np.prod(shapes[field])) for field in FILES}


def locate(folder: Path) -> dict[str, Path] | None:
    """Find the four files in one folder, in any spelling, gzipped or not; None unless all four."""
    paths: dict[str, Path] = {}
    for field, name in FILES.items():
        dotted = name.replace("-idx", ".idx")
        for spelling in (name, f"{name}.gz", dotted, f"{dotted}.gz"):
            if (folder / spelling).is_file():
                paths[field] = folder / spelling
                break
        else:
            return None
    return paths


def read(paths: Mapping[str, Path], published: Published, source: str) -> Dataset:
    """Read the four files that `locate` found."""
    lengths, shapes = limits(published), published.shapes()
    x_train, y_train, x_test, y_test = (
        decode(bounded.read_file(paths[field], lengths[field]), shapes[field], str(paths[field]))
        for field in FILES
    )
    labels = y_train.astype(np.int64), y_test.astype(np.int64)
    return Dataset(published.name, x_train, labels[0], x_test, labels[1], source)


def originals(data: Dataset) -> Iterator[tuple[str, bytes]]:
    """Write the four files again: pairs of name and content."""
    for field, name in FILES.items():
        array = getattr(data, field).astype(np.uint8)
        yield name, header(array.shape) + array.tobytes()


def checked(data: Dataset, published: Published, where: str) -> Dataset:
    """Return the data set if it is the published one, by the hashes of its idx files."""
    return check(data, published, originals(data), where)


def look(folder: Path, names: Iterable[str], published: Published) -> Dataset | None:
    """Read the first of the named folders in `folder` that has the four files; None if none has."""
    for place in (folder / name for name in names):
        if paths := locate(place):
            return checked(read(paths, published, "folder"), published, str(place))
    return None


def look_loose(folder: Path, published: Published) -> Dataset | None:
    """Read the four files from a folder that does not say which data set they are.

    MNIST, Fashion-MNIST and others use the same file names: sound files of
    another one raise `UnavailableError`, not the error of a damaged file.
    """
    for place in (folder, folder / "raw"):
        if paths := locate(place):
            data = read(paths, published, "folder")
            try:
                return checked(data, published, str(place))
            except DataError as error:
                msg = f"the idx files in {place} are not those of {published.name}"
                raise UnavailableError(msg) from error
    return None
