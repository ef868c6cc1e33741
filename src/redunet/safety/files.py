"""The one place that writes files: each whole or not at all, with the access rights it had.

Only the standard library: the packages for atomic writing replace links and
devices, lose the mode of a file, or leave behind what a killed process wrote.
"""

from __future__ import annotations

import errno
import os
import re
import secrets
import stat
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from filelock import lock_descriptor

from redunet.errors import FileAccessError, ReduNetError

_TEMPORARY = re.compile(r"\.redunet-[0-9a-f]{32}\.tmp")
_MOST_LINKS = 40
_ACL = "system.posix_acl_access"
_ON_WINDOWS = os.name == "nt"
NOT_WAITING = getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOCTTY", 0)
"""Flags that open no pipe that someone put there, where the system knows them."""
_ALWAYS = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0)


@contextmanager
def writing(path: str | os.PathLike[str]) -> Iterator[BinaryIO]:
    """Open a file to write; it is there when the block ends, and not if the block fails.

    Links are followed to the file that they lead to. A regular file is replaced
    in one step, keeping its mode and, where possible, its owner. Into a pipe, a
    device or an open descriptor such as /dev/stdout the bytes go as they come.

    Parameters
    ----------
    path : path of the file

    Yields
    ------
    binary file
        One that can be read too and has random access, if it is a regular file.
    """
    unchanged = ""
    try:
        target = follow(path)
        if is_special(target):
            with open(_open_special(target), "wb") as file:
                yield file
        else:
            unchanged = " (a file that was there before is unchanged)"
            if target.is_dir():
                raise IsADirectoryError(errno.EISDIR, "a folder is in the way")
            with _replacing(target) as file:
                yield file
            sync_folder(target.parent, path)
    except ReduNetError:
        raise
    except OSError as error:
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
    """Complain of an output that is one of the inputs, or lies in one, by whatever name.

    Parameters
    ----------
    output : Path
    inputs : iterable of paths of files and folders
    """
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
    """The file that a name leads to through links, which need not be there yet.

    Names of this process's open descriptors are kept as they are: what such a
    link reads as may not be a path.
    """
    place = Path(path)
    try:
        for _ in range(_MOST_LINKS):
            place = Path(os.path.realpath(place.parent), place.name)
            if _is_descriptor(place) or not stat.S_ISLNK(os.lstat(place).st_mode):
                return place
            place = place.parent / os.readlink(place)
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
    except FileNotFoundError:
        return place
    except (OSError, ValueError) as error:  # a path with a NUL is a ValueError
        raise cannot_write(path, error) from error


def is_special(target: Path) -> bool:
    """Whether a path that `follow` gave is that of a pipe or device, to be written into."""
    if _is_descriptor(target):
        return True
    try:
        mode = os.lstat(target).st_mode
    except OSError:
        return False
    return not stat.S_ISREG(mode) and not stat.S_ISDIR(mode)


def open_descriptor(path: Path, flags: int, mode: int = 0o666) -> int:
    """A descriptor of a file that is no link and becomes no standard stream.

    Where a standard stream was closed, its number goes to the next file that is
    opened, and whatever a library then prints would end up in that file.
    """
    handle = os.open(path, flags | _ALWAYS, mode)
    streams = []
    while handle <= 2:
        streams.append(handle)
        handle = os.dup(handle)
    for one in streams:
        os.close(one)
    return handle


def is_at(handle: int, path: Path) -> bool:
    """Whether an open file is the one that has this name now."""
    try:
        return os.path.samestat(os.fstat(handle), os.lstat(path))
    except FileNotFoundError:
        return False


def _is_descriptor(place: Path) -> bool:
    return place.name.isdecimal() and str(place.parent) == f"/proc/{os.getpid()}/fd"


def _open_special(target: Path) -> int:
    if _is_descriptor(target):
        return os.dup(int(target.name))
    return open_descriptor(target, os.O_WRONLY | getattr(os, "O_NOCTTY", 0))


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
            _keep_access(handle, target)
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
        handle = open_descriptor(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, mode)
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
            handle = open_descriptor(folder / name, os.O_RDONLY | NOT_WAITING)
            try:
                if lock_descriptor(handle, blocking=False):
                    os.unlink(folder / name)
            finally:
                os.close(handle)


def _keep_access(handle: int, target: Path) -> None:
    """Give a new file the mode, the owner and the access list of the one that it replaces."""
    try:
        old = os.lstat(target)
    except FileNotFoundError:
        return
    if not stat.S_ISREG(old.st_mode):
        raise FileExistsError(errno.EEXIST, "something else was put there meanwhile")
    mode, new = stat.S_IMODE(old.st_mode), os.fstat(handle)
    if new.st_uid != old.st_uid:
        with suppress(OSError):
            os.fchown(handle, old.st_uid, -1)
    if new.st_gid != old.st_gid:
        try:
            os.fchown(handle, -1, old.st_gid)
        except OSError:  # what one group might do, another might not
            mode &= ~0o070 | (mode & 0o007) << 3
    if sys.platform == "linux":
        with suppress(OSError):
            os.removexattr(handle, _ACL)  # one that the folder hands down
        with suppress(OSError):
            os.setxattr(handle, _ACL, os.getxattr(target, _ACL, follow_symlinks=False))
    if hasattr(os, "fchmod"):
        with suppress(OSError):  # a file system without modes
            os.fchmod(handle, mode)


def sync_folder(folder: Path, path: str | os.PathLike[str]) -> None:
    """Make a rename in a folder last."""
    try:
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
    except PermissionError:
        return  # a folder that may be written but not read cannot be synced
    except OSError as error:
        why = error.strerror or error
        raise FileAccessError(
            f"{os.fspath(path)} is written, but its folder could not be synced: {why}"
        ) from error
