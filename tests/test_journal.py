"""The log of changes: what it holds after any interruption, and who notices what."""

from __future__ import annotations

import os
import tempfile
import threading
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from redunet import DataError, FileAccessError
from redunet.journal import CHANGE, DONE, NOT_DONE, Journal


def written(path: Path, outcomes: str = "ddn") -> bytes:
    journal = Journal(path)
    for number, one in enumerate(outcomes):
        line = journal.plan(f"{number}", f"{number + 1}", {"about": "ä\n" * number})
        journal.close(line, DONE if one == "d" else NOT_DONE)
    return path.read_bytes()


with tempfile.TemporaryDirectory() as folder:
    WHOLE = written(Path(folder, "log"))


@given(st.integers(0, len(WHOLE)))
def test_any_beginning_of_a_log_can_be_read_and_gone_on_with(cut: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "log")
        path.write_bytes(WHOLE[:cut])
        complete = WHOLE[:cut].count(b"\n")
        assert len(Journal(path).lines()) == complete
        journal = Journal(path)
        journal.plan("x", "y", {})
        lines = journal.lines()
        assert [line.body["number"] for line in lines] == list(range(complete + 1))
        assert lines[-1].body["kind"] == CHANGE
        assert path.read_bytes().startswith(WHOLE[: WHOLE[:cut].rfind(b"\n") + 1])


@given(st.integers(0, len(WHOLE) - 1), st.integers(1, 255))
def test_any_altered_byte_is_noticed(place: int, by: int) -> None:
    data = bytearray(WHOLE)
    data[place] ^= by
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "log")
        path.write_bytes(bytes(data))
        try:
            found = Journal(path).lines()
        except DataError:
            return
        # The end of the last line alone may be gone, and one that is cut short is not read.
        assert len(found) == 5
        assert place == len(WHOLE) - 1


def test_writers_take_turns(tmp_path: Path) -> None:
    def write(place: int) -> None:
        journal = Journal(tmp_path / "log")
        for number in range(20):
            journal.close(journal.plan(f"{place}", f"{number}", {}))

    threads = [threading.Thread(target=write, args=(place,)) for place in range(4)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    journal = Journal(tmp_path / "log")
    assert len(journal.lines()) == 160
    assert {outcome for _, outcome in journal.changes()} == {DONE}


def test_places_that_are_no_file(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for name, what in (("pipe", "is no regular file"), ("", "cannot write")):
        with pytest.raises(FileAccessError, match=what):
            Journal(tmp_path / name).plan("a", "b", {})


def test_rewriting_keeps_what_is_asked_for(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "log")
    written(tmp_path / "log")
    kept = [(line.body, outcome or "") for line, outcome in journal.changes()][1:]
    journal.rewrite(kept)
    found = journal.changes()
    assert [(line.body["before"], outcome) for line, outcome in found] == [
        ("1", DONE),
        ("2", NOT_DONE),
    ]
    assert [line.body["number"] for line in journal.lines()] == [0, 1, 2, 3]
