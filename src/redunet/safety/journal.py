"""An append-only log of changes to a file: each line is chained to the one before it.

A change is written down with the hashes of the file before and after it, then carried out, then
closed. A process that ends in between leaves a line that is not closed; whoever comes next, and
knows what the file is now, closes it as done or not done.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from redunet.errors import DataError, FileAccessError
from redunet.safety.files import cannot_write, follow, make_folder, sync_folder
from redunet.safety.lock import changing
from redunet.safety.untrusted import open_regular

CHANGE, DONE, NOT_DONE, UNKNOWN = "change", "done", "not done", "unknown"
"""The kinds of lines: a change, and what became of it."""

Body = dict[str, Any]
Sign = Callable[[bytes], dict[str, str]]
"""From the bytes of a line to what is added beside them: a public key and a signature."""

LONGEST_LINE = 2**30
"""Bytes: a receipt of 16 million samples. Reading one takes about five times its memory."""

_PATIENCE = 30.0  # seconds; whoever else has locked a log writes one line
_CHUNK = 2**16  # bytes read at a time, to find where a line begins
_BEGINNINGS = (b'{"body":{"after":"', b'{"body":{"change":"')
"""Every line begins with one of these."""

_LONGEST_BEGINNING = max(map(len, _BEGINNINGS))


@dataclass(frozen=True)
class Line:
    """One line.

    Parameters
    ----------
    body : dict
        With its ``number``, from 0, and ``previous``, the hash of the line before it.
    sha256 : str
        Of the body.
    signed : dict
        What was added beside the body; empty where it was not signed.
    """

    body: Body
    sha256: str
    signed: dict[str, str]


class Journal:
    """The log in a file, which is made with its first line.

    A line is added by looking at the end of the file alone, so a log may be of any length.

    Parameters
    ----------
    path : path
    sign : callable, default=None
    longest : int, default=LONGEST_LINE
        Most bytes of a line.
    patience : float, default=30.0
        Seconds to wait for another process that has locked the log.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        sign: Sign | None = None,
        longest: int = LONGEST_LINE,
        patience: float = _PATIENCE,
    ) -> None:
        self.path = Path(path)
        self.unfinished = 0
        self._sign = sign
        self._longest = longest
        self._patience = patience

    def read(self) -> Iterator[Line]:
        """All complete lines, one at a time, each checked; none where there is no file.

        At the end, ``unfinished`` has the bytes of a line that was cut short behind them.
        """
        self.unfinished = 0
        if not os.path.lexists(self.path):
            return
        number, previous = 0, None
        with open_regular(self.path) as file:
            while text := file.readline(_LONGEST_BEGINNING):
                place = f"{self.path}, line {number + 1}"
                _check_beginning(text, place)
                if not text.endswith(b"\n"):
                    text += file.readline(self._longest)
                if not text.endswith(b"\n"):
                    self._check_length(len(text))
                    self.unfinished = len(text)
                    return
                line = _read(text[:-1], place)
                if (line.body["number"], line.body["previous"]) != (number, previous):
                    raise DataError(
                        f"{place} does not follow the line before it: lines were removed, added "
                        f"or put in another order"
                    )
                number, previous = number + 1, line.sha256
                yield line

    def plan(self, before: str, after: str, about: Body) -> Line:
        """Write down a change of a file, from one sha256 to another, before it is carried out.

        The names in ``about`` come after "after" in the alphabet, with which such a line begins.
        """
        with self._opened() as file:
            last, _ = self._end(file)
            body = {**about, "kind": CHANGE, "before": before, "after": after}
            return self._append(file, body, last)

    def close(self, change: Line, outcome: str = DONE) -> None:
        """Write down what became of a change."""
        with self._opened() as file:
            last, _ = self._end(file)
            self._append(file, {"kind": outcome, "change": change.sha256}, last)

    def settle(self, present: str | None) -> str | None:
        """Close a change that is still open by what the file is now."""
        if not os.path.lexists(self.path):
            return None
        with self._opened() as file:
            last, still_open = self._end(file)
            outcome = None
            for line in still_open:
                outcome = closing(line, present)
                last = self._append(file, {"kind": outcome, "change": line.sha256}, last)
            return outcome

    @contextmanager
    def _opened(self) -> Iterator[BinaryIO]:
        """The file, held alone; what is written goes to its end."""
        make_folder(self.path.parent)
        with changing(self.path, lambda said: None, timeout=self._patience):
            try:
                with open(follow(self.path), "a+b", buffering=0) as file:
                    yield file
            except OSError as error:
                if isinstance(error, FileAccessError):
                    raise
                raise cannot_write(self.path, error) from error

    def _append(self, file: BinaryIO, body: Body, last: Line | None) -> Line:
        number, previous = (0, None) if last is None else (last.body["number"] + 1, last.sha256)
        body = {**body, "number": number, "previous": previous}
        data = canonical(body)
        sign = self._sign
        line = Line(body, hashlib.sha256(data).hexdigest(), sign(data) if sign else {})
        text = _text(line) + b"\n"
        self._check_length(len(text))
        if file.write(text) != len(text):
            raise OSError("the line was cut short")
        os.fsync(file.fileno())
        if last is None:  # a new file lasts once its folder is synced
            sync_folder(follow(self.path).parent, self.path)
        return line

    def _end(self, file: BinaryIO) -> tuple[Line | None, list[Line]]:
        """The last line and the changes at the end that are open; a line cut short is removed.

        Whoever plans a change settles first, so that only the last ones can be open.
        """
        size, place = file.seek(0, os.SEEK_END), f"{self.path}, last line"
        _check_beginning(_between(file, 0, _LONGEST_BEGINNING), f"{self.path}, line 1")
        end = self._beginning(file, size)
        if end < size:
            rest = _between(file, end, size)
            _check_beginning(rest, place)
            with suppress(DataError):
                _read(rest, place)
                end = size + 1  # an editor has removed the end of the last line
        complete = end
        last: Line | None = None
        still_open: list[Line] = []
        while end:
            begin = self._beginning(file, end - 1)
            line = _read(_between(file, begin, end - 1), place)
            last = last or line
            if line.body["kind"] != CHANGE:
                break
            still_open.insert(0, line)
            end = begin
        # The file is changed once all that was read of it is sound.
        if complete > size:
            file.write(b"\n")
        elif complete < size:
            file.truncate(complete)
        return last, still_open

    def _beginning(self, file: BinaryIO, end: int) -> int:
        """Where the line begins that ends at a place."""
        at = end
        while at:
            self._check_length(end - at)
            begin = max(0, at - _CHUNK)
            found = _between(file, begin, at).rfind(b"\n")
            if found >= 0:
                return begin + found + 1
            at = begin
        return 0

    def _check_length(self, n_bytes: int) -> None:
        if n_bytes > self._longest:
            raise DataError(
                f"expected lines of at most {self._longest:,} bytes in {self.path}, got more: "
                f"withdraw fewer samples at a time, or name another file"
            )


def changes(lines: list[Line]) -> list[tuple[Line, str | None]]:
    """Every change among lines and what became of it; None where it is open."""
    outcomes = {one.body["change"]: one.body["kind"] for one in lines if "change" in one.body}
    return [(one, outcomes.get(one.sha256)) for one in lines if one.body["kind"] == CHANGE]


def closing(change: Line, present: str | None) -> str:
    """Tell whether an open change was made, by the sha256 of the file as it is now."""
    ends = {change.body["before"]: NOT_DONE, change.body["after"]: DONE}
    return ends.get(present or "", UNKNOWN)


def canonical(value: Any) -> bytes:
    """Write a value as JSON, in the one way that redunet does."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return text.encode("ascii")


def _text(line: Line) -> bytes:
    return canonical({"body": line.body, "sha256": line.sha256, **line.signed})


def _read(text: bytes, place: str) -> Line:
    """The line that bytes are, without their newline: exactly as redunet writes it."""
    try:
        signed = json.loads(text)
        line = Line(signed.pop("body"), signed.pop("sha256"), signed)
        sound = (
            _is_body(line.body)
            and isinstance(line.sha256, str)
            and line.signed.keys() in ({*()}, {"public_key", "signature"})
            and all(isinstance(one, str) for one in line.signed.values())
            and _text(line) == text
        )
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
        sound = False
    if not sound:
        raise _foreign(place)
    if hashlib.sha256(canonical(line.body)).hexdigest() != line.sha256:
        raise DataError(f"{place} was altered: its hash is not that of its text")
    return line


def _is_body(body: Any) -> bool:
    """Whether a value has what every line has."""
    if not isinstance(body, dict) or body.get("kind") not in (CHANGE, DONE, NOT_DONE, UNKNOWN):
        return False
    texts = ("before", "after") if body["kind"] == CHANGE else ("change",)
    return (
        type(body.get("number")) is int
        and "previous" in body
        and all(isinstance(body.get(one), str) for one in texts)
    )


def _check_beginning(text: bytes, place: str) -> None:
    """Raise a DataError unless bytes begin as a line does, or are such a beginning cut short."""
    if not any(text[: len(one)] == one[: len(text)] for one in _BEGINNINGS):
        raise _foreign(place)


def _foreign(place: str) -> DataError:
    return DataError(
        f"{place}: expected a line of a log that redunet wrote, got something else: name another "
        f"file, or take another copy"
    )


def _between(file: BinaryIO, begin: int, end: int) -> bytes:
    """Some bytes of a file; fewer where it ends before."""
    file.seek(begin)
    return file.read(end - begin)
