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
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from filelock import lock_descriptor

from redunet.errors import DataError, FileAccessError
from redunet.files import (
    NOT_WAITING,
    cannot_write,
    follow,
    make_folder,
    open_descriptor,
    sync_folder,
    writing,
)
from redunet.untrusted import open_regular

CHANGE, DONE, NOT_DONE, UNKNOWN = "change", "done", "not done", "unknown"
"""Kinds of lines: a change, and what became of it."""

Body = dict[str, Any]
Sign = Callable[[bytes], dict[str, str]]
"""From the bytes of a line to what is added beside them: a public key and a signature."""

_LONGEST = 2**28


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

    Parameters
    ----------
    path : path
    sign : callable, default=None
    mode : int, default=0o666
        Of a new file, before the process's mask.
    """

    def __init__(
        self, path: str | os.PathLike[str], sign: Sign | None = None, mode: int = 0o666
    ) -> None:
        self.path = Path(path)
        self._sign = sign
        self._mode = mode
        self._lines: list[Line] = []
        self._known = (-1, -1, -1)

    def lines(self) -> list[Line]:
        """All complete lines, checked; none where there is no file."""
        if not os.path.lexists(self.path):
            return []
        with open_regular(self.path, _LONGEST) as file:
            return _checked(file.read(), self.path)[0]

    def plan(self, before: str, after: str, about: Body) -> Line:
        """Write down a change of a file, from one sha256 to another, before it is carried out."""
        with self._opened() as handle:
            return self._append(handle, {**about, "kind": CHANGE, "before": before, "after": after})

    def close(self, change: Line, outcome: str = DONE) -> None:
        """Write down what became of a change."""
        with self._opened() as handle:
            self._append(handle, {"kind": outcome, "change": change.sha256})

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
            outcome = None
            for line in [line for line, closed in changes(self._lines) if closed is None]:
                outcome = closing(line, present)
                self._append(handle, {"kind": outcome, "change": line.sha256})
            return outcome

    def changes(self) -> list[tuple[Line, str | None]]:
        """Every change and what became of it; None where it is open."""
        return changes(self.lines())

    def rewrite(self, kept: list[tuple[Body, str]]) -> None:
        """Keep these changes and their outcomes alone, in one step: for logs that prove nothing."""
        lines: list[Line] = []
        for body, outcome in kept:
            lines.append(_line(body, lines, None))
            closing = {"kind": outcome, "change": lines[-1].sha256}
            lines.append(_line(closing, lines, None))
        with writing(self.path) as file:
            file.writelines(_encoded(line) for line in lines)
        self._known = (-1, -1, -1)

    def _append(self, handle: int, body: Body) -> Line:
        line = _line(body, self._lines, self._sign)
        data = _encoded(line)
        if os.write(handle, data) != len(data):
            raise OSError("the line was cut short")
        os.fsync(handle)
        if not self._lines:  # a new file lasts once its folder is synced
            sync_folder(follow(self.path).parent, self.path)
        self._lines.append(line)
        self._known = _state(handle)
        return line

    @contextmanager
    def _opened(self) -> Iterator[int]:
        """The file, locked, with its lines read; a last line that was cut short is removed."""
        try:
            target = follow(self.path)
            make_folder(target.parent)
            flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | NOT_WAITING
            handle = open_descriptor(target, flags, self._mode)
            try:
                if not stat.S_ISREG(os.fstat(handle).st_mode):
                    raise FileAccessError(f"{self.path} is no regular file: name another")
                lock_descriptor(handle)
                if _state(handle) != self._known:
                    os.lseek(handle, 0, os.SEEK_SET)
                    data = os.read(handle, _LONGEST)
                    self._lines, complete = _checked(data, self.path)
                    if complete < len(data):
                        os.ftruncate(handle, complete)
                    self._known = _state(handle)
                yield handle
            finally:
                os.close(handle)
        except OSError as error:
            if isinstance(error, FileAccessError):
                raise
            raise cannot_write(self.path, error) from error


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
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return text.encode("ascii")


def _line(body: Body, before: list[Line], sign: Sign | None) -> Line:
    previous = before[-1].sha256 if before else None
    data = canonical({**body, "number": len(before), "previous": previous})
    signed = sign(data) if sign else {}
    return Line(json.loads(data), hashlib.sha256(data).hexdigest(), signed)


def _encoded(line: Line) -> bytes:
    return canonical({"body": line.body, "sha256": line.sha256, **line.signed}) + b"\n"


def _checked(data: bytes, path: Path) -> tuple[list[Line], int]:
    """The complete lines of a log, and how many bytes they take."""
    complete = data.rfind(b"\n") + 1
    lines: list[Line] = []
    for number, text in enumerate(data[:complete].splitlines()):
        lines.append(_read(text, number, lines[-1].sha256 if lines else None, path))
    return lines, complete


def _read(text: bytes, number: int, previous: str | None, path: Path) -> Line:
    try:
        content = json.loads(text)
        body, sha256 = content.pop("body"), content.pop("sha256")
        found = hashlib.sha256(canonical(body)).hexdigest()
        signed = {str(name): str(value) for name, value in content.items()}
        intact = hmac.compare_digest(found, str(sha256)) and isinstance(body["kind"], str)
        chained = body["number"] == number and body["previous"] == previous
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
        raise DataError(
            f"{path}, line {number + 1}: expected a line of a log that redunet wrote, got "
            f"something else: name another file, or take another copy"
        ) from None
    if not intact:
        raise DataError(f"{path}, line {number + 1} was altered: its hash is not that of its text")
    if not chained:
        raise DataError(
            f"{path}, line {number + 1} does not follow the line before it: lines were removed, "
            f"added or put in another order"
        )
    return Line(body, found, signed)


def _state(handle: int) -> tuple[int, int, int]:
    found = os.fstat(handle)
    return found.st_ino, found.st_size, found.st_mtime_ns
