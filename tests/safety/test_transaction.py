"""Changes of a file: all of one or nothing, written down before and closed after."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import Any, NoReturn

import pytest

from redunet.errors import BusyError, DataError, FileAccessError
from redunet.safety import files
from redunet.safety.files import write_bytes
from redunet.safety.lock import changing
from redunet.safety.transaction import Change, transaction


class Text:
    """A model that is a text."""

    def __init__(self, text: str) -> None:
        self.text = text

    def save(self, path: str | os.PathLike[str]) -> None:
        write_bytes(path, self.text.encode())

    def sha256(self) -> str:
        return hashlib.sha256(self.text.encode()).hexdigest()


class Steps:
    """A record that remembers what it was told, and what the file was then."""

    name = "the diary"

    def __init__(self, path: Path, fails: str = "") -> None:
        self.path, self.fails, self.seen = path, fails, list[tuple[str, str]]()

    def settle(self, path: Path, present: str | None) -> None:
        self._note("settle")

    def plan(self, change: Change[Any, Any]) -> None:
        assert change.before_sha256 == Text("old").sha256()
        assert change.after_sha256 == Text("old+").sha256()
        self._note("plan")

    def close(self) -> None:
        self._note("close")

    def _note(self, step: str) -> None:
        self.seen.append((step, self.path.read_text()))
        if step == self.fails:
            raise OSError("no ink")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    (tmp_path / "m").write_text("old")
    return tmp_path / "m"


def silent(said: str) -> None:
    """Nobody needs to hear it."""


def grow(path: Path, *records: Steps, **more: Any) -> Change[Text, Text]:
    def longer(text: Text) -> Text:
        text.text += "+"
        return text

    return transaction(path, lambda: Text(path.read_text()), longer, records, tell=silent, **more)


def test_a_change_is_written_down_made_and_closed(path: Path) -> None:
    steps = Steps(path)
    change = grow(path, steps)
    assert (change.before.text, change.after.text, path.read_text()) == ("old", "old+", "old+")
    assert steps.seen == [("settle", "old"), ("plan", "old"), ("close", "old+")]
    assert change.notes == []
    assert os.listdir(path.parent) == ["m"]


@pytest.mark.parametrize("fails", ["settle", "plan"])
def test_what_cannot_be_written_down_is_not_done(path: Path, fails: str) -> None:
    with pytest.raises(OSError, match="no ink"):
        grow(path, Steps(path, fails))
    assert path.read_text() == "old"


def test_what_cannot_be_closed_is_a_note(path: Path) -> None:
    (note,) = grow(path, Steps(path, "close")).notes
    assert note.startswith("the change is in the file, but not yet written down as done with the ")
    assert path.read_text() == "old+"


def test_an_error_changes_nothing(path: Path) -> None:
    def refuse(text: Text) -> NoReturn:
        raise DataError("no")

    steps = Steps(path)
    with pytest.raises(DataError):
        transaction(path, lambda: Text("old"), refuse, [steps], tell=silent)
    assert steps.seen == [("settle", "old")]
    assert path.read_text() == "old"


def test_an_error_after_the_file_was_replaced_is_a_note(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(folder: Path, path: Path) -> NoReturn:
        raise FileAccessError("the folder could not be synced")

    monkeypatch.setattr(files, "sync_folder", fail)
    assert grow(path, Steps(path)).notes == ["the folder could not be synced"]
    assert path.read_text() == "old+"


def test_one_at_a_time(path: Path) -> None:
    with changing(path, silent), pytest.raises(BusyError, match="nothing was changed"):
        grow(path, timeout=0.1)
    assert path.read_text() == "old"
