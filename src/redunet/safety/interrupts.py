"""Ctrl-C: heard at every moment, from the first import to the end of the process.

Python raises KeyboardInterrupt wherever it happens to be. In a finaliser or a
callback it is then ignored, and in the start-up of a compiled module it can
become any other error. So the signal is also recorded here, and whoever looks
at the record (each step of progress, and the end of the command) hears of it.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NoReturn

_heard = False
_begun = False
_outcome: str | Callable[[], str] = "nothing was changed"


def listen() -> None:
    """Take Ctrl-C from now on; where the caller has it ignored, it stays ignored."""
    if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:
        signal.signal(signal.SIGINT, _interrupt)
        sys.unraisablehook = _unraisable


def ignore() -> None:
    """Ignore Ctrl-C from now on: the command has ended, and what it says is final."""
    while True:
        try:
            if signal.getsignal(signal.SIGINT) is _interrupt:
                signal.signal(signal.SIGINT, signal.SIG_IGN)
            return
        except KeyboardInterrupt:
            continue


def protect(words: str) -> None:
    """Stop by an exception from now on, and say in these words what has become of the files."""
    global _begun, _outcome
    if not _begun:
        _begun, _outcome = True, words


def heard() -> bool:
    """Whether Ctrl-C was pressed."""
    return _heard


def check() -> None:
    """Stop here if Ctrl-C was pressed, and an earlier exception about it was lost."""
    if _heard:
        raise KeyboardInterrupt


def state() -> str:
    """Say what has become of the files of this command."""
    return _outcome if isinstance(_outcome, str) else _outcome()


def message(stop: BaseException | None = None) -> str:
    """The last line of an interrupted command."""
    if isinstance(stop, KeyboardInterrupt) and stop.args:
        return str(stop.args[0])
    return f"stopped; {state()}"


@contextmanager
def outcome(path: str | os.PathLike[str]) -> Iterator[None]:
    """Let an interruption from now on say whether a file, replaced as a whole, was changed."""
    global _outcome
    if threading.current_thread() is not threading.main_thread():
        yield  # of a server, which Ctrl-C does not interrupt
        return
    before = _version(path)

    def words() -> str:
        same = _version(path) == before
        return f"{path} {'is as it was' if same else 'was saved before that'}"

    protect(words())
    _outcome = words
    try:
        yield
    finally:
        _outcome = words()


def reset() -> None:
    """Begin another command in the same process."""
    global _heard, _begun, _outcome
    _heard, _begun, _outcome = False, False, "nothing was changed"


def _interrupt(signum: int, frame: Any) -> None:
    global _heard
    _heard = True
    if not _begun:
        end()
    raise KeyboardInterrupt


def end() -> NoReturn:
    """Say what an interrupted command says, and end the process at once."""
    os.write(2, f"redunet: {message()}\n".encode())
    os._exit(1)


def _unraisable(what: Any) -> None:
    """Python's report of an exception that it had to ignore; Ctrl-C is in the record."""
    if not issubclass(what.exc_type, KeyboardInterrupt):
        sys.__unraisablehook__(what)


def _version(path: str | os.PathLike[str]) -> tuple[int, int] | None:
    try:
        found = os.stat(path)
    except (OSError, ValueError):
        return None
    return found.st_ino, found.st_mtime_ns
