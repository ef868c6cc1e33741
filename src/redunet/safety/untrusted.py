"""Opening files that others may have made: regular files only, and no longer than expected."""

from __future__ import annotations

import hashlib
import os
import stat
from typing import BinaryIO

from redunet.errors import DataError, FileAccessError
from redunet.safety.files import NOT_WAITING, irregular

_READING = os.O_RDONLY | NOT_WAITING | getattr(os, "O_BINARY", 0)


def open_regular(path: str | os.PathLike[str], most_bytes: int | None = None) -> BinaryIO:
    """Open a regular file for reading, at once or not at all.

    Links are followed. A pipe, which could wait for ever, a device, which may never
    end, a socket and a folder are refused without being opened.

    Parameters
    ----------
    path : path
    most_bytes : int, default=None
        The longest that the file may be; None takes any length.

    Returns
    -------
    binary file

    Raises
    ------
    FileAccessError
        It cannot be opened, or is no regular file.
    DataError
        It is too long.
    """
    try:
        # Looked at first, because opening some devices does something; and once more when
        # open, because another file may have been put there meanwhile.
        _check_kind(path, os.stat(path))
        descriptor = os.open(path, _READING)
        try:
            found = os.fstat(descriptor)
            _check_kind(path, found)
            if most_bytes is not None and found.st_size > most_bytes:
                raise DataError(
                    f"expected at most {most_bytes:,} bytes in {os.fspath(path)}, "
                    f"got {found.st_size:,}"
                )
            return os.fdopen(descriptor, "rb")
        except BaseException:
            os.close(descriptor)
            raise
    except FileAccessError:
        raise
    except OSError as error:
        raise FileAccessError(f"cannot read {os.fspath(path)}: {error.strerror}") from error
    except ValueError as error:  # a path with a NUL; a file too long is one too
        if isinstance(error, DataError):
            raise
        raise FileAccessError(f"cannot read {os.fspath(path)!r}: {error}") from error


def file_sha256(path: str | os.PathLike[str]) -> str:
    """The sha256 of a file, in hexadecimal, read in parts."""
    with open_regular(path) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()  # type: ignore[arg-type]


def open_secret(path: str | os.PathLike[str], most_bytes: int, what: str) -> BinaryIO:
    """Open a file that nobody else may read, such as a key, as `open_regular` does."""
    file = open_regular(path, most_bytes)
    # Windows has no such modes: there every file looks as if all might read it.
    if os.name != "nt" and stat.S_IMODE(os.fstat(file.fileno()).st_mode) & 0o077:
        file.close()
        name = os.fspath(path)
        raise FileAccessError(
            f"expected that nobody else may read {name}, which holds {what}: chmod 600 {name}"
        )
    return file


def _check_kind(path: str | os.PathLike[str], found: os.stat_result) -> None:
    kind = irregular(found)
    if kind is not None:
        raise FileAccessError(f"cannot read {os.fspath(path)}: expected a regular file, got {kind}")
