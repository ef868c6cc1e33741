"""One process at a time changes a model file; what was interrupted is noticed."""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from redunet.errors import FileAccessError

Tell = Callable[[str], None]
"""Told what a person may want to know, in one line."""


@contextmanager
def changing(path: Path, tell: Tell) -> Iterator[None]:
    """Hold a model file alone, waiting for whoever holds it.

    Beside the model lies a locked file while it is being changed. The lock
    ends with the process, however that ends; the file then stays, and tells
    the next one that the model is as it was.

    Parameters
    ----------
    path : Path
        Of the model, which need not be there yet.
    tell : callable
    """
    if path.is_dir():
        raise FileAccessError(f"{path} is a folder: give the name of a model file")
    beside = path.absolute().parent / f".{path.name}.changing"
    with _locked(beside, path, tell) as file:
        before = _state(path)
        _say_what_was_interrupted(file, path, before, tell)
        try:
            _write(file, path, {"process": os.getpid(), "model": before})
            yield
        except KeyboardInterrupt:
            what = "is as it was" if _state(path) == before else "was saved before that"
            raise KeyboardInterrupt(f"stopped; {path} {what}") from None
        finally:
            beside.unlink(missing_ok=True)


@contextmanager
def _locked(beside: Path, path: Path, tell: Tell) -> Iterator[IO[bytes]]:
    while True:
        try:
            handle = os.open(beside, os.O_RDWR | os.O_CREAT, 0o666)
        except (OSError, ValueError) as error:  # a path with a NUL is a ValueError
            raise _cannot_write(path, error) from error
        with open(handle, "r+b") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                holder = _read(file).get("process", "unknown")
                tell(f"process {holder} is changing {path}: waiting until it is done")
                _wait(file, path)
            if not beside.exists() or not os.path.samestat(os.fstat(handle), beside.stat()):
                continue  # whoever held the lock has removed it meanwhile
            yield file
            return


def _wait(file: IO[bytes], path: Path) -> None:
    try:
        fcntl.flock(file, fcntl.LOCK_EX)
    except KeyboardInterrupt:
        raise KeyboardInterrupt(f"stopped while waiting; {path} was left alone") from None


def _say_what_was_interrupted(file: IO[bytes], path: Path, now: Any, tell: Tell) -> None:
    left = _read(file)
    if left and left.get("model") == now:
        tell(
            f"process {left.get('process')} ended before it had changed {path}, "
            f"which is as it was before that"
        )


def _state(path: Path) -> list[int] | None:
    """What differs after the file was replaced; None where there is none."""
    try:
        found = path.stat()
    except (OSError, ValueError):
        return None
    return [found.st_ino, found.st_mtime_ns]


def _read(file: IO[bytes]) -> dict[str, Any]:
    file.seek(0)
    try:
        content = json.loads(file.read(4096))
    except ValueError:
        return {}
    return content if isinstance(content, dict) else {}


def _write(file: IO[bytes], path: Path, content: dict[str, Any]) -> None:
    file.seek(0)
    file.truncate()
    try:
        file.write(json.dumps(content).encode())
        file.flush()
    except OSError as error:
        raise _cannot_write(path, error) from error


def _cannot_write(path: Path, error: Exception) -> FileAccessError:
    why = getattr(error, "strerror", None) or error
    return FileAccessError(f"cannot write {path}: {why}; check its folder and the free space")
