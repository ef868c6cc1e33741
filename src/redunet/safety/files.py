"""The one place that writes files: each whole or not at all, with the mode that it had."""

from __future__ import annotations

import errno
import os
import re
import secrets
import stat
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from filelock import lock_descriptor

from redunet.errors import FileAccessError, ReduNetError

_TEMPORARY = re.compile(r"\.redunet-[0-9a-f]{32}\.tmp")
_ON_WINDOWS = os.name == "nt"
_KINDS = {
    stat.S_IFDIR: "a folder",
    stat.S_IFIFO: "a pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}

NOT_WAITING = getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOCTTY", 0)
"""Flags that open no pipe that someone put there, where the system knows them."""

NO_LINK = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0)
"""Flags that open the file of a name and nothing that it leads to, as bytes."""


@contextmanager
def writing(path: str | os.PathLike[str]) -> Iterator[BinaryIO]:
    """Open a file to write; it is there when the block ends, and not if the block fails.

    Links are followed to the file that they lead to, which is replaced in one step and keeps its
    mode. A folder, a pipe, a device, or the file that standard output goes to is an error.

    Parameters
    ----------
    path : path of the file

    Yields
    ------
    binary file
        One that can be read too and has random access.
    """
    try:
        target = follow(path)
        with _replacing(target) as file:
            yield file
        sync_folder(target.parent, path)
    except ReduNetError:
        raise
    except OSError as error:
        unchanged = " (a file that was there before is unchanged)"
        raise cannot_write(path, error, unchanged) from error


def write_bytes(path: str | os.PathLike[str], data: bytes) -> None:
    """Write a file at once, as `writing` does."""
    write_parts(path, [data])


def write_parts(path: str | os.PathLike[str], parts: Iterable[bytes | memoryview]) -> None:
    """Write a file of parts that are made one after another, as `writing` does."""
    with writing(path) as file:
        for part in parts:
            file.write(part)


def make_folder(path: str | os.PathLike[str]) -> Path:
    """Make a folder, and those above it, where they are missing."""
    try:
        os.makedirs(path, exist_ok=True)
    except (OSError, ValueError) as error:
        raise cannot_write(path, error) from error
    return Path(path)


def cannot_write(
    path: str | os.PathLike[str], error: Exception, unchanged: str = ""
) -> FileAccessError:
    """The error that says why a file cannot be written."""
    why = getattr(error, "strerror", None) or error
    return FileAccessError(
        f"cannot write {os.fspath(path)}: {why}; check the folder, its permissions "
        f"and the free space{unchanged}"
    )


def refuse_overwriting(output: Path, inputs: Iterable[str | os.PathLike[str]]) -> None:
    """Raise an error if an output is one of the inputs, or lies in one, by whatever name."""
    try:
        found, place = os.stat(output), os.path.realpath(output)
    except (OSError, ValueError):
        return  # nothing is there that could be lost
    if not stat.S_ISREG(found.st_mode):
        return
    for path in inputs:
        if _holds(path, found, place):
            raise FileAccessError(
                f"the output {output} is one of the inputs ({os.fspath(path)}): "
                f"choose another name for the output"
            )


def _holds(path: str | os.PathLike[str], found: os.stat_result, place: str) -> bool:
    """Whether a file, known by its status and its place, is this one or lies in this folder."""
    try:
        given = os.stat(path)
    except (OSError, ValueError):
        return False
    folder = os.path.realpath(path)
    inside = stat.S_ISDIR(given.st_mode) and os.path.commonpath([folder, place]) == folder
    return inside or os.path.samestat(given, found)


def follow(path: str | os.PathLike[str]) -> Path:
    """The regular file that a name leads to through links, which need not be there yet."""
    try:
        target = Path(os.path.realpath(path))
        found = os.lstat(target)
    except FileNotFoundError:
        return target
    except (OSError, ValueError) as error:  # a path with a NUL is a ValueError
        raise cannot_write(path, error) from error
    if stat.S_ISLNK(found.st_mode):
        raise cannot_write(path, OSError(errno.ELOOP, os.strerror(errno.ELOOP)))
    kind = irregular(found)
    if kind is None and any(_is_open_as(stream, found) for stream in (1, 2)):
        kind = "the file that standard output goes to"
    if kind is not None:
        raise FileAccessError(
            f"cannot write {os.fspath(path)}: expected a regular file, got {kind}: name another"
        )
    return target


def irregular(found: os.stat_result) -> str | None:
    """The kind of what is no regular file, with its article; None where it is one."""
    if stat.S_ISREG(found.st_mode):
        return None
    return _KINDS.get(stat.S_IFMT(found.st_mode), "something else")


def is_at(handle: int, path: Path) -> bool:
    """Whether an open file is the one that has this name now."""
    try:
        return os.path.samestat(os.fstat(handle), os.lstat(path))
    except FileNotFoundError:
        return False


def sync_folder(folder: Path, path: str | os.PathLike[str]) -> None:
    """Make a rename in a folder last."""
    try:
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
    except PermissionError:
        return  # a folder that may be written but not read cannot be synced, nor any on Windows
    except OSError as error:
        why = error.strerror or error
        raise FileAccessError(
            f"{os.fspath(path)} is written, but its folder could not be synced: {why}"
        ) from error


def _is_open_as(stream: int, found: os.stat_result) -> bool:
    try:
        return os.path.samestat(os.fstat(stream), found)
    except OSError:
        return False


@contextmanager
def _replacing(target: Path) -> Iterator[BinaryIO]:
    """Write to a temporary name in the same folder, sync, rename."""
    _remove_leftovers(target.parent)
    # What replaces a file is closed to others until it has that file's own mode.
    mode = 0o600 if os.path.lexists(target) else 0o666
    handle, temporary = _temporary(target.parent, mode)
    with open(handle, "w+b") as file:
        try:
            yield file
            file.flush()
            _keep_mode(handle, target)
            os.fsync(handle)
            if _ON_WINDOWS:  # which renames no file that is open
                file.close()
            os.replace(temporary, target)
        except BaseException:
            if _ON_WINDOWS:
                file.close()
            with suppress(OSError):
                os.unlink(temporary)
            raise


def _temporary(folder: Path, mode: int) -> tuple[int, Path]:
    """A new file under a name that nobody can foresee, locked for as long as it is open."""
    while True:
        path = folder / f".redunet-{secrets.token_hex(16)}.tmp"
        handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | NO_LINK, mode)
        if _is_locked(handle) and is_at(handle, path):
            return handle, path
        os.close(handle)  # taken for a leftover before it was locked


def _is_locked(handle: int) -> bool:
    """Lock a file that nobody else has locked; a file system without locks keeps leftovers."""
    if _ON_WINDOWS:  # where a lock would end before the file is renamed
        return True
    try:
        return lock_descriptor(handle, blocking=False)
    except OSError:
        return True


def _remove_leftovers(folder: Path) -> None:
    """Remove temporary files whose process has ended: nobody holds their lock."""
    if _ON_WINDOWS:
        return
    try:
        names = [name for name in os.listdir(folder) if _TEMPORARY.fullmatch(name)]
    except OSError:
        return  # a folder that may be written but not listed
    for name in names:
        with suppress(OSError):
            handle = os.open(folder / name, os.O_RDONLY | NOT_WAITING | NO_LINK)
            try:
                if lock_descriptor(handle, blocking=False):
                    os.unlink(folder / name)
            finally:
                os.close(handle)


def _keep_mode(handle: int, target: Path) -> None:
    """Give a new file the mode of the one that it replaces."""
    try:
        old = os.lstat(target)
    except FileNotFoundError:
        return
    if irregular(old) is not None:
        raise FileExistsError(errno.EEXIST, "something else was put there meanwhile")
    mode = stat.S_IMODE(old.st_mode)
    if os.fstat(handle).st_gid != old.st_gid:  # what one group might do, another might not
        mode &= ~0o070 | (mode & 0o007) << 3
    if hasattr(os, "fchmod"):
        with suppress(OSError):  # a file system without modes
            os.fchmod(handle, mode)
