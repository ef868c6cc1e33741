"""The one way to change a model file: lock, read, apply, write down, replace, close."""

from __future__ import annotations

import copy
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar

from redunet.errors import FileAccessError
from redunet.safety import interrupts
from redunet.safety.lock import Tell, changing
from redunet.safety.untrusted import file_sha256


class Saved(Protocol):
    """A model that becomes a file, of bytes that depend on nothing but the model."""

    def save(self, path: str | os.PathLike[str]) -> None:
        """Replace the file by one that holds the model."""

    def sha256(self) -> str:
        """The sha256 of the file that `save` writes."""


Before = TypeVar("Before")
After = TypeVar("After", bound=Saved)


@dataclass(frozen=True)
class Change(Generic[Before, After]):
    """A model file as it was and as it is now.

    Parameters
    ----------
    path : Path
    before, after : model
        What was read, and what the file holds once the change is made.
    before_sha256, after_sha256 : str, or None
        Of the file; None where no record of the change is kept.
    notes : list of str
        Lines that a person should see.
    """

    path: Path
    before: Before
    after: After
    before_sha256: str | None = None
    after_sha256: str | None = None
    notes: list[str] = field(default_factory=list)


class Record(Protocol):
    """Where a change is written down before it is made: a log of receipts, or keys of requests."""

    name: str

    def settle(self, path: Path, present: str | None) -> None:
        """Close what an ended process left open, by the sha256 of the file as it is now."""

    def plan(self, change: Change[Any, Any]) -> None:
        """Write down a change that is about to be made."""

    def close(self) -> None:
        """Write down that the change was made."""


def replace(change: Change[Any, Any]) -> list[str]:
    """Save a changed model; a note where the file was replaced in spite of an error."""
    try:
        change.after.save(change.path)
    except FileAccessError as error:
        if change.after_sha256 is None or file_sha256(change.path) != change.after_sha256:
            raise
        return [str(error)]
    return []


def transaction(
    path: Path,
    read: Callable[[], Before],
    apply: Callable[[Before], After],
    records: Sequence[Record] = (),
    *,
    tell: Tell,
    timeout: float | None = None,
    cancelled: Callable[[], bool] | None = None,
    write: Callable[[Change[Before, After]], list[str]] = replace,
    sha256: Callable[[Path], str] = file_sha256,
) -> Change[Before, After]:
    """Change a model file: nothing is changed by an error, and a crash is told.

    Parameters
    ----------
    path : Path
        Of the model, which need not be there yet.
    read : callable
        Gives what the file holds, once it is held alone.
    apply : callable
        Gives the changed model, from a copy of what was read.
    records : sequence of Record, default=()
        Where the change is written down. What cannot be written once the file is replaced becomes
        a note: the next transaction does it.
    tell : callable
        Told of waiting, and of what an ended process left.
    timeout, cancelled
        As for `redunet.safety.lock.changing`.
    write : callable, default=replace
        Replaces the file; gives notes.
    sha256 : callable, default=file_sha256
        The hash of the file as it is, where a caller knows it without reading.

    Returns
    -------
    Change
    """
    interrupts.protect("nothing was changed")
    with (
        changing(path, tell, timeout=timeout, cancelled=cancelled) as notes,
        interrupts.outcome(path),
    ):
        before, present = read(), None
        if records:
            present = sha256(path) if path.exists() else None
        for record in records:
            record.settle(path, present)
        after = apply(copy.copy(before))
        planned = after.sha256() if records else None
        change = Change(path, before, after, present, planned, notes)
        for record in records:
            record.plan(change)
        notes += write(change)
        for record in records:
            try:
                record.close()
            except Exception as error:  # noqa: BLE001 - the change was made all the same
                notes.append(
                    f"the change is in the file, but not yet written down as done with "
                    f"{record.name}, which the next change will do: {error}"
                )
    return change
