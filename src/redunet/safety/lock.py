"""One process at a time changes a model file; the others wait, and say for whom."""

from __future__ import annotations

import errno
import os
import stat
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path

from filelock import lock_descriptor

from redunet.errors import BusyError, FileAccessError
from redunet.safety.files import NO_LINK, NOT_WAITING, cannot_write, follow, is_at

Tell = Callable[[str], None]
"""Told what a person may want to know, in one line."""

_POLL = 0.05  # seconds; nobody notices it, and 20 looks a second cost nothing
_LONGEST_NUMBER = 20  # digits of 64 bits
_REMOVED_WHEN_CLOSED = os.name == "nt"  # Windows removes no file that is open


@contextmanager
def changing(
    path: Path,
    tell: Tell,
    *,
    timeout: float | None = None,
    cancelled: Callable[[], bool] | None = None,
) -> Iterator[list[str]]:
    """Hold a model file alone, waiting for whoever holds it.

    Beside the file, which links are followed to, lies a locked one while it is being changed.
    The lock ends with the process, however that ends.

    Parameters
    ----------
    path : Path
        Of the model, which need not be there yet.
    tell : callable
    timeout : float, default=None
        Seconds to wait for another process at most; None waits for as long as it takes.
    cancelled : callable, default=None
        Asked about every 0.05 seconds while waiting; True ends the wait.

    Yields
    ------
    list of str
        Notes on what a change of this file does not reach.

    Raises
    ------
    BusyError
        Another process still holds the file; nothing was changed.
    """
    model = follow(path)
    lock = partial(
        _lock, path=path, tell=tell, timeout=timeout, cancelled=cancelled, begun=time.monotonic()
    )
    # All who change the model agree on this name.
    with _locked(model.parent / f".{model.name}.changing", path, lock) as handle:
        _write(handle, path)
        yield _other_names(model, path)


@contextmanager
def _locked(beside: Path, path: Path, lock: Callable[[int, Path], None]) -> Iterator[int]:
    """Lock a file, made where it is missing, and remove it at the end.

    Whoever waited for a file that was then removed holds the lock of a file
    without a name, and begins again.
    """
    held = False
    while not held:
        handle = _opened(beside, path)
        try:
            lock(handle, beside)
            held = is_at(handle, beside)
            if held:
                yield handle
        finally:
            remove = held and is_at(handle, beside)
            if _REMOVED_WHEN_CLOSED:
                os.close(handle)
            if remove:
                with suppress(OSError):  # it is another user's, or opened by the next one
                    beside.unlink()
            if not _REMOVED_WHEN_CLOSED:
                os.close(handle)


def _opened(beside: Path, path: Path) -> int:
    try:
        # Not to wait for a pipe that someone put there.
        handle = os.open(beside, os.O_RDWR | os.O_CREAT | NOT_WAITING | NO_LINK, 0o666)
    except OSError as error:
        if error.errno != errno.ELOOP:
            raise cannot_write(path, error) from error
    else:
        found = os.fstat(handle)
        if stat.S_ISREG(found.st_mode) and found.st_nlink <= 1:
            return handle
        os.close(handle)
    raise FileAccessError(
        f"cannot lock {path}: expected {beside} to be missing or left by redunet, got something "
        f"else: remove it"
    )


def _lock(
    handle: int,
    beside: Path,
    path: Path,
    tell: Tell,
    timeout: float | None,
    cancelled: Callable[[], bool] | None,
    begun: float,
) -> None:
    """Lock an open file, waiting for whoever has locked it."""
    try:
        if lock_descriptor(handle, blocking=False):
            return
        holder = _holder(handle)
        tell(f"{holder} is changing {path}: waiting until it is done")
        while not lock_descriptor(handle, blocking=False):
            waited = time.monotonic() - begun
            if (timeout is not None and waited >= timeout) or (cancelled and cancelled()):
                raise BusyError(
                    f"{holder} is still changing {path} after {waited:.1f} s: nothing was changed; "
                    f"try again when it is done"
                )
            time.sleep(_POLL)
    except KeyboardInterrupt:
        raise KeyboardInterrupt(f"stopped while waiting; {path} was left alone") from None
    except BusyError:
        raise
    except OSError as error:
        if not os.fstat(handle).st_size:  # nobody holds it
            beside.unlink(missing_ok=True)
        raise FileAccessError(
            f"cannot lock {path}: {error.strerror or error}; its file system may have no locks: "
            f"copy the model to another disk and change it there"
        ) from error


def _other_names(model: Path, path: Path) -> list[str]:
    try:
        others = model.stat().st_nlink - 1
    except OSError:
        return []
    if others < 1:
        return []
    names = "another name (a hard link)" if others == 1 else f"{others} other names (hard links)"
    return [f"{path} had {names}: the file there is unchanged and holds what the model held before"]


def _holder(handle: int) -> str:
    """The process that a lock names; anyone may have written the file, and anything."""
    try:
        os.lseek(handle, 0, os.SEEK_SET)
        found = os.read(handle, _LONGEST_NUMBER)
    except OSError:  # Windows lets nobody read what is locked
        found = b""
    return f"process {found.decode() if found.isdigit() else 'unknown'}"


def _write(handle: int, path: Path) -> None:
    try:
        os.ftruncate(handle, 0)
        os.lseek(handle, 0, os.SEEK_SET)
        os.write(handle, str(os.getpid()).encode())
    except OSError as error:
        raise cannot_write(path, error) from error
