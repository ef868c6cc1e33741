"""Standard output and error of the process: any encoding, closed, full, or a broken pipe."""

from __future__ import annotations

import codecs
import errno
import io
import os
import sys
from typing import Any, TextIO

from redunet.errors import ReduNetError

_PLAIN = {
    "…": "...",
    "─": "-",
    "–": "-",
    "−": "-",
    "·": ".",
    "°": "o",
    "±": "~",
    "×": "x",
    "Δ": "D",
    "Σ": "S",
    "α": "a",
    "γ": "g",
    "ε": "e",
    "η": "n",
}


class OutputError(ReduNetError):
    """What was to be printed could not be written; ``broken_pipe`` where nobody reads it."""

    def __init__(self, error: OSError) -> None:
        self.broken_pipe = error.errno == errno.EPIPE
        super().__init__(f"cannot write to standard output: {error.strerror or error}")


class _Output(io.FileIO):
    def write(self, data: Any) -> int:
        try:
            return super().write(data)
        except OSError as error:
            raise OutputError(error) from error


class _Errors(io.FileIO):
    """Where error messages go; there is nobody to tell that one could not be written."""

    def write(self, data: Any) -> int:
        try:
            return super().write(data)
        except OSError:
            return len(data)


def prepare() -> bool:
    """Make standard output and error usable, whatever the caller did to them.

    Returns
    -------
    bool
        Whether standard output is open. If it is not, nothing else may get its
        number: a model file under it would receive what libraries print.
    """
    closed = sys.stdout is None
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)
    codecs.register_error("redunet", _replacement)
    sys.stdout = _text(_Output(1, "w", closefd=False), sys.stdout)
    sys.stderr = _text(_Errors(2, "w", closefd=False), sys.stderr)
    return not closed


def discard(*numbers: int) -> None:
    """Let what could not be written go nowhere, so that the end of the process is quiet."""
    null = os.open(os.devnull, os.O_WRONLY)
    for number in numbers or (1,):
        os.dup2(null, number)
    os.close(null)


def _text(raw: io.FileIO, before: TextIO | None) -> TextIO:
    plain = os.environ.get("LC_ALL") in ("C", "POSIX")
    encoding = "ascii" if plain else getattr(before, "encoding", "utf-8")
    return io.TextIOWrapper(
        io.BufferedWriter(raw), encoding=encoding, errors="redunet", line_buffering=raw.isatty()
    )


def _replacement(error: UnicodeError) -> tuple[str, int]:
    """Something plain for a character that the encoding lacks."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    lacking = error.object[error.start : error.end]
    told = "".join(_PLAIN.get(one) or ascii(one)[1:-1] for one in lacking)
    return told, error.end
