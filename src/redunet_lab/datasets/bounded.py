"""Files, archives and their members read into memory, never more than expected.

Nothing is unpacked to disk. A member that claims, or turns out, to be longer
than it should be is an error before it fills the memory.
"""

import gzip
import io
import lzma
import tarfile
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

from redunet.errors import DataError, FileAccessError
from redunet.safety.untrusted import open_regular

# What an archive may hold beside the wanted members: read-me files, headers.
_SLACK = 1 << 22
_DAMAGED = (
    EOFError,
    gzip.BadGzipFile,
    lzma.LZMAError,
    NotImplementedError,  # a zip member packed in a way that Python does not know
    RuntimeError,  # or encrypted
    tarfile.TarError,
    zipfile.BadZipFile,
    zlib.error,
)


class _Readable(Protocol):
    def read(self, size: int = ..., /) -> bytes: ...


class _Capped(io.RawIOBase):
    """A stream that refuses to give more than `cap` bytes in all."""

    def __init__(self, stream: _Readable, cap: int, path: Path) -> None:
        super().__init__()
        self._stream, self._left, self._path = stream, cap, path

    def read(self, size: int = -1, /) -> bytes:
        # One byte too many is enough to know.
        allowed = self._left + 1
        chunk = self._stream.read(allowed if size < 0 else min(size, allowed))
        self._left -= len(chunk)
        if self._left < 0:
            msg = f"{self._path} unpacks to more than it should: download it again."
            raise DataError(msg)
        return chunk


@contextmanager
def reading(path: Path) -> Iterator[None]:
    """Turn whatever goes wrong while a file is read into one line that names it."""
    try:
        yield
    except _DAMAGED as error:
        reason = str(error) or type(error).__name__
        msg = f"{path} is damaged ({reason}): download it again."
        raise DataError(msg) from error
    except (DataError, FileAccessError):
        raise
    except OSError as error:
        raise FileAccessError(f"cannot read {path}: {error.strerror or error}") from error


def _take(stream: _Readable, limit: int, what: str) -> bytes:
    raw = stream.read(limit + 1)
    if len(raw) > limit:
        msg = f"{what} is longer than the {limit} bytes expected: download it again."
        raise DataError(msg)
    return raw


def read_file(path: Path, limit: int) -> bytes:
    """Read a file, unpacked if its name ends in ``.gz``.

    Parameters
    ----------
    path : Path
        The file.
    limit : int
        The most bytes it may have, unpacked.

    Returns
    -------
    bytes
        The content.
    """
    with reading(path), open_regular(path) as file:
        if path.suffix == ".gz":
            with gzip.open(file, "rb") as stream:
                return _take(stream, limit, str(path))
        return _take(file, limit, str(path))


def read_tar(path: Path, limits: Mapping[str, int]) -> dict[str, bytes]:
    """Read members of a gzipped tar archive.

    Parameters
    ----------
    path : Path
        The archive.
    limits : mapping of str to int
        The members wanted, and the most bytes that each may have.

    Returns
    -------
    dict of str to bytes
        The content of each.
    """
    found: dict[str, bytes] = {}
    with reading(path), open_regular(path) as file, gzip.open(file, "rb") as unpacked:
        capped = _Capped(unpacked, sum(limits.values()) + _SLACK, path)
        with tarfile.open(fileobj=capped, mode="r|", bufsize=1 << 20) as archive:
            for member in archive:
                limit = limits.get(member.name)
                if limit is None or member.name in found or not member.isreg():
                    continue
                what = f"{member.name} in {path}"
                if member.size > limit:
                    msg = (
                        f"{what} claims {member.size} bytes, more than {limit}: download it again."
                    )
                    raise DataError(msg)
                stream = archive.extractfile(member)
                if stream is not None:
                    found[member.name] = _take(stream, limit, what)
                if len(found) == len(limits):
                    break
    return _complete(path, limits, found)


def read_zip(path: Path, limits: Mapping[str, int]) -> dict[str, bytes]:
    """Read members of a zip archive (a wheel, an npz).

    Parameters
    ----------
    path : Path
        The archive.
    limits : mapping of str to int
        The members wanted, and the most bytes that each may have.

    Returns
    -------
    dict of str to bytes
        The content of each.
    """
    found: dict[str, bytes] = {}
    with reading(path), open_regular(path) as file, zipfile.ZipFile(file) as archive:
        for name in limits.keys() & set(archive.namelist()):
            with archive.open(name) as stream:
                found[name] = _take(stream, limits[name], f"{name} in {path}")
    return _complete(path, limits, found)


def _complete(path: Path, limits: Mapping[str, int], found: dict[str, bytes]) -> dict[str, bytes]:
    missing = sorted(limits.keys() - found.keys())
    if missing:
        msg = f"{path} should hold {', '.join(missing)}, and does not: download it again."
        raise DataError(msg)
    return found
