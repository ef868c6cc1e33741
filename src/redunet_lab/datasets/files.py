"""Files and members of archives read into memory, never more bytes than expected."""

from __future__ import annotations

import gzip
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


@contextmanager
def reading(path: Path) -> Iterator[None]:
    """Turn whatever goes wrong while a file is read into one line that names it."""
    try:
        yield
    except _DAMAGED as error:
        reason = str(error) or type(error).__name__
        raise DataError(f"{path} is damaged ({reason}): download it again.") from error
    except (DataError, FileAccessError):
        raise
    except OSError as error:
        raise FileAccessError(f"cannot read {path}: {error.strerror or error}") from error


def read_file(path: Path, limit: int) -> bytes:
    """The content of a file of at most ``limit`` bytes, unpacked if its name ends in .gz."""
    with reading(path), open_regular(path) as file:
        if path.suffix != ".gz":
            return _take(file, limit, str(path))
        with gzip.open(file, "rb") as stream:
            return _take(stream, limit, str(path))


def read_tar(path: Path, limits: Mapping[str, int]) -> dict[str, bytes]:
    """Members of a gzipped tar archive by name, none longer than its limit."""
    found: dict[str, bytes] = {}
    with (
        reading(path),
        open_regular(path) as file,
        tarfile.open(fileobj=file, mode="r|gz") as archive,
    ):
        for member in archive:
            wanted = member.name in limits and member.name not in found and member.isreg()
            if wanted and (stream := archive.extractfile(member)):
                what = f"{member.name} in {path}"
                found[member.name] = _take(stream, limits[member.name], what)
            if len(found) == len(limits):
                break
    return _complete(path, limits, found)


def read_zip(path: Path, limits: Mapping[str, int]) -> dict[str, bytes]:
    """Members of a zip archive (a wheel, an npz) by name, none longer than its limit."""
    found: dict[str, bytes] = {}
    with reading(path), open_regular(path) as file, zipfile.ZipFile(file) as archive:
        for name in limits.keys() & set(archive.namelist()):
            with archive.open(name) as stream:
                found[name] = _take(stream, limits[name], f"{name} in {path}")
    return _complete(path, limits, found)


def _take(stream: _Readable, limit: int, what: str) -> bytes:
    raw = stream.read(limit + 1)
    if len(raw) > limit:
        raise DataError(f"{what} is longer than the {limit} bytes expected: download it again.")
    return raw


def _complete(path: Path, limits: Mapping[str, int], found: dict[str, bytes]) -> dict[str, bytes]:
    if missing := sorted(limits.keys() - found.keys()):
        raise DataError(
            f"{path} should hold {', '.join(missing)}, and does not: download it again."
        )
    return found
