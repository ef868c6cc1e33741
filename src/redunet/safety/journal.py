"""An append-only log of changes to a file: each line is chained to the one before it.

A change is written down with the hashes of the file before and after it, then carried out, then
closed. A process that ends in between leaves a line that is not closed; whoever comes next, and
knows what the file is now, closes it as done or not done.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from filelock import lock_descriptor

from redunet.errors import BusyError, DataError, FileAccessError
from redunet.safety.files import (
    NO_LINK,
    NOT_WAITING,
    cannot_write,
    follow,
    is_at,
    make_folder,
    sync_folder,
)
from redunet.safety.lock import POLL
from redunet.safety.untrusted import open_regular

CHANGE, DONE, NOT_DONE, UNKNOWN = "change", "done", "not done", "unknown"
"""Kinds of lines: a change, and what became of it."""

Body = dict[str, Any]
Sign = Callable[[bytes], dict[str, str]]
"""From the bytes of a line to what is added beside them: a public key and a signature."""

LONGEST_LINE = 2**30
"""Bytes: a receipt of 16 million samples. Reading one takes about five times its memory."""

_ENCODER = json.JSONEncoder(sort_keys=True, separators=(",", ":"), allow_nan=False)
_PATIENCE = 30.0  # seconds; whoever else has locked a log writes one line
_CHUNK = 2**16  # bytes read at a time, to find where a line begins
_HEAD = b'{"body":'
_BEGINNINGS = (_HEAD + b'{"after":"', _HEAD + b'{"change":"')
"""Every line begins with one of these."""
_END = re.compile(
    rb',(?:"public_key":"([A-Za-z0-9+/=]+)",)?"sha256":"([0-9a-f]{64})"'
    rb'(?:,"signature":"([A-Za-z0-9+/=]+)")?}\Z'
)
_LONGEST_END = 400  # bytes; one with an Ed25519 signature has 250


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
            while text := file.readline(len(_BEGINNINGS[1])):
                place = f"{self.path}, line {number + 1}"
                if not _may_be_ours(text):
                    raise _foreign(place)
                if not text.endswith(b"\n"):
                    text += file.readline(self._longest)
                if not text.endswith(b"\n"):
                    if len(text) > self._longest:
                        raise _too_long(self.path, self._longest)
                    self.unfinished = len(text)
                    return
                line = _read(text[:-1], place)
                if (line.body["number"], line.body["previous"]) != (number, previous):
                    raise DataError(
                        f"{place} does not follow the line before it: lines were removed, added "
                        f"or put in another order"
                    )
                number, previous = number + 1, line.sha256
                del text  # it may be long
                yield line

    def lines(self) -> list[Line]:
        """All complete lines, checked."""
        return list(self.read())

    def plan(self, before: str, after: str, about: Body) -> Line:
        """Write down a change of a file, from one sha256 to another, before it is carried out.

        The names in ``about`` come after "after" in the alphabet, with which such a line begins.
        """
        with self._opened() as handle:
            last, _ = self._end(handle)
            body = {**about, "kind": CHANGE, "before": before, "after": after}
            return self._append(handle, body, last)

    def close(self, change: Line, outcome: str = DONE) -> None:
        """Write down what became of a change."""
        with self._opened() as handle:
            last, _ = self._end(handle)
            self._append(handle, {"kind": outcome, "change": change.sha256}, last)

    def settle(self, present: str | None) -> str | None:
        """Close a change that is still open by what the file is now.

        Parameters
        ----------
        present : str, or None
            Its sha256; None where there is no file.

        Returns
        -------
        str or None
            What became of the change; None where nothing was open.
        """
        if not os.path.lexists(self.path):
            return None
        with self._opened() as handle:
            last, still_open = self._end(handle)
            outcome = None
            for line in still_open:
                outcome = closing(line, present)
                last = self._append(handle, {"kind": outcome, "change": line.sha256}, last)
            return outcome

    def _append(self, handle: int, body: Body, last: Line | None) -> Line:
        line, text = _made(body, last, self._sign)
        if len(text) > self._longest:
            raise _too_long(self.path, self._longest)
        if os.write(handle, text) != len(text):
            raise OSError("the line was cut short")
        os.fsync(handle)
        if last is None:  # a new file lasts once its folder is synced
            sync_folder(follow(self.path).parent, self.path)
        return line

    @contextmanager
    def _opened(self) -> Iterator[int]:
        """The file, locked."""
        try:
            target = follow(self.path)
            make_folder(target.parent)
            held = False
            while not held:
                handle = self._open(target)
                try:
                    self._lock(handle)
                    held = is_at(handle, target)  # it may have been moved meanwhile
                    if held:
                        yield handle
                finally:
                    os.close(handle)
        except OSError as error:
            if isinstance(error, FileAccessError):
                raise
            raise cannot_write(self.path, error) from error

    def _open(self, target: Path) -> int:
        flags = os.O_RDWR | os.O_APPEND | NOT_WAITING | NO_LINK
        while True:
            try:
                return os.open(target, flags)
            except FileNotFoundError:
                try:
                    return os.open(target, flags | os.O_CREAT | os.O_EXCL, 0o666)
                except FileExistsError:
                    continue  # made by another meanwhile

    def _lock(self, handle: int) -> None:
        end = time.monotonic() + self._patience
        while not lock_descriptor(handle, blocking=False):
            if time.monotonic() >= end:
                raise BusyError(
                    f"another process has locked {self.path} for {self._patience:g} s: nothing "
                    f"was written to it; try again when it is done"
                )
            time.sleep(POLL)

    def _end(self, handle: int) -> tuple[Line | None, list[Line]]:
        """The last line and the changes at the end that are open; a line cut short is removed.

        Whoever plans a change settles first, so that only the last ones can be open.
        """
        size = os.fstat(handle).st_size
        if not _may_be_ours(_between(handle, 0, min(size, len(_BEGINNINGS[1])))):
            raise _foreign(f"{self.path}, line 1")
        place = f"{self.path}, last line"
        end = self._beginning(handle, size)
        if end < size:
            rest = _between(handle, end, size)
            if not _may_be_ours(rest):
                raise _foreign(place)
            if _is_whole(rest):  # an editor has removed the end of the last line
                end = size + 1
        complete = end
        last: Line | None = None
        still_open: list[Line] = []
        while end:
            begin = self._beginning(handle, end - 1)
            line = _read(_between(handle, begin, end - 1), place)
            last = last or line
            if line.body["kind"] != CHANGE:
                break
            still_open.insert(0, line)
            end = begin
        # The file is changed once all that was read of it is sound.
        if complete > size:
            os.write(handle, b"\n")
        elif complete < size:
            os.ftruncate(handle, complete)
        return last, still_open

    def _beginning(self, handle: int, end: int) -> int:
        """Where the line begins that ends at a place."""
        at = end
        while at:
            if end - at > self._longest:
                raise _too_long(self.path, self._longest)
            begin = max(0, at - _CHUNK)
            found = _between(handle, begin, at).rfind(b"\n")
            if found >= 0:
                return begin + found + 1
            at = begin
        return 0


def changes(lines: list[Line]) -> list[tuple[Line, str | None]]:
    """Every change among lines and what became of it; None where it is open."""
    outcomes = {one.body["change"]: one.body["kind"] for one in lines if "change" in one.body}
    return [(one, outcomes.get(one.sha256)) for one in lines if one.body["kind"] == CHANGE]


def closing(change: Line, present: str | None) -> str:
    """What became of a change that is open, by the sha256 of the file as it is now."""
    ends = {change.body["before"]: NOT_DONE, change.body["after"]: DONE}
    return ends.get(present or "", UNKNOWN)


def canonical(value: Any) -> bytes:
    """The one way to write a value as JSON."""
    return _ENCODER.encode(value).encode("ascii")


def _made(body: Body, last: Line | None, sign: Sign | None) -> tuple[Line, bytes]:
    """The line that follows another, and its bytes in the file."""
    number, previous = (0, None) if last is None else (last.body["number"] + 1, last.sha256)
    body = {**body, "number": number, "previous": previous}
    data = canonical(body)
    sha256, signed = hashlib.sha256(data).hexdigest(), sign(data) if sign else {}
    beside = canonical({"sha256": sha256, **signed})
    return Line(body, sha256, signed), b"".join((_HEAD, data, b",", beside[1:], b"\n"))


def _read(text: bytes, place: str) -> Line:
    """The line that bytes are, without their newline: exactly as redunet writes it."""
    end = _END.search(text, max(0, len(text) - _LONGEST_END))
    if end is None or not text.startswith(_HEAD) or (end[1] is None) != (end[3] is None):
        raise _foreign(place)
    data = memoryview(text)[len(_HEAD) : end.start()]  # no copy: it may be long
    sha256 = hashlib.sha256(data).hexdigest()
    try:
        body = json.loads(str(data, "ascii"))
        sound = _is_body(body) and _is_canonical(body, text, len(_HEAD), end.start())
    except (ValueError, RecursionError):
        sound = False
    if not hmac.compare_digest(sha256.encode(), end[2]):
        raise DataError(f"{place} was altered: its hash is not that of its text")
    if not sound:
        raise _foreign(place)
    signed = {} if end[1] is None else {"public_key": end[1].decode(), "signature": end[3].decode()}
    return Line(body, sha256, signed)


def _is_canonical(value: Any, text: bytes, begin: int, end: int) -> bool:
    """Whether part of some bytes is what `canonical` gives, which is not made as a whole."""
    for part in _ENCODER.iterencode(value):
        if not text.startswith(part.encode("ascii"), begin):
            return False
        begin += len(part)
    return begin == end


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


def _may_be_ours(text: bytes) -> bool:
    """Whether bytes begin as a line does, or are such a beginning cut short."""
    return any(text[: len(one)] == one[: len(text)] for one in _BEGINNINGS)


def _is_whole(text: bytes) -> bool:
    try:
        _read(text, "")
    except DataError:
        return False
    return True


def _foreign(place: str) -> DataError:
    return DataError(
        f"{place}: expected a line of a log that redunet wrote, got something else: name another "
        f"file, or take another copy"
    )


def _too_long(path: Path, longest: int) -> DataError:
    return DataError(
        f"expected lines of at most {longest:,} bytes in {path}, got more: withdraw fewer samples "
        f"at a time, or name another file"
    )


def _between(handle: int, begin: int, end: int) -> bytes:
    """Some bytes of a file; fewer where it ends before."""
    os.lseek(handle, begin, os.SEEK_SET)
    parts = []
    while begin < end and (part := os.read(handle, end - begin)):
        parts.append(part)
        begin += len(part)
    return b"".join(parts)
