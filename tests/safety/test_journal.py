"""The log of changes: what it holds after any interruption, and who notices what."""

from __future__ import annotations

import hashlib
import json
import tempfile
import threading
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from redunet import BusyError, DataError
from redunet.safety.journal import CHANGE, DONE, NOT_DONE, Journal, canonical, changes
from redunet.safety.lock import changing


def written(path: Path, outcomes: str = "ddn") -> bytes:
    journal = Journal(path)
    for number, one in enumerate(outcomes):
        line = journal.plan(f"{number}", f"{number + 1}", {"told": "ä\n" * number})
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
        assert len(list(Journal(path).read())) == complete
        complete += WHOLE[cut : cut + 1] == b"\n"  # a whole line, but for its end, is kept
        journal = Journal(path)
        journal.plan("x", "y", {})
        lines = list(journal.read())
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
            found = list(Journal(path).read())
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
    assert len(list(journal.read())) == 160
    assert {outcome for _, outcome in changes(list(journal.read()))} == {DONE}


NO_LOGS = [
    b"a model file without any newline",
    b"\0" * 1000,
    b'{"body":{"text":"of another program"}}',
    b'{"body": {"after":"',
    b"\n",
    b"\xef\xbb\xbf" + WHOLE,
    WHOLE + b"junk",
    WHOLE + b"\0" * 4096,
    WHOLE + b"\n",
    WHOLE.replace(b"\n", b"\r\n"),
    WHOLE[:-9] + b"\n",
]


@pytest.mark.parametrize("content", NO_LOGS)
def test_what_is_no_log_is_refused_and_left_as_it_is(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "log"
    change = Journal(tmp_path / "other").plan("a", "b", {})
    path.write_bytes(content)
    for ask in (
        lambda: Journal(path).plan("a", "b", {}),
        lambda: Journal(path).close(change),
        lambda: Journal(path).settle("a"),
        lambda: list(Journal(path).read()),
    ):
        with pytest.raises(DataError, match=r"log that redunet wrote|was altered") as caught:
            ask()
        assert "\n" not in str(caught.value)
        assert path.read_bytes() == content


def test_a_log_of_any_length_is_gone_on_with(tmp_path: Path) -> None:
    """In little memory, and without losing a byte: 4 GB, most of which is a hole."""
    path, size = tmp_path / "log", 2**32
    last = WHOLE[WHOLE[:-1].rfind(b"\n") + 1 :]
    with open(path, "wb") as file:
        file.write(WHOLE)
        file.seek(size)
        file.write(b"\n" + last)
    tracemalloc.start()
    try:
        journal = Journal(path)
        journal.close(journal.plan("x", "y", {}))
        with pytest.raises(DataError, match="line 7: expected a line of a log"):
            list(journal.read())
        assert tracemalloc.get_traced_memory()[1] < 2**20
    finally:
        tracemalloc.stop()
    with open(path, "rb") as file:
        assert file.read(len(WHOLE)) == WHOLE
        file.seek(size + 1)
        assert file.readline() == last
        assert [json.loads(line)["body"]["number"] for line in file] == [6, 7]


def test_lines_have_a_longest_length(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(WHOLE)
    journal = Journal(path, longest=1000)
    with pytest.raises(DataError, match=r"at most 1,000 bytes in .* withdraw fewer samples"):
        journal.plan("x", "y", {"x": "a" * 1000})
    assert path.read_bytes() == WHOLE
    Journal(path).plan("x", "y", {"x": "a" * 100_000})
    before = path.read_bytes()
    for ask in (
        lambda: list(journal.read()),
        lambda: journal.plan("x", "y", {}),
        lambda: journal.settle("x"),
    ):
        with pytest.raises(DataError, match="at most 1,000 bytes"):
            ask()
    assert path.read_bytes() == before
    assert len(list(Journal(path).read())) == 7
    assert Journal(path).settle("x") == NOT_DONE


def forged(change: Callable[[bytes], bytes]) -> bytes:
    """The log with another body in its last line, and with the hash of that body."""
    lines = WHOLE.splitlines(keepends=True)
    old = canonical(json.loads(lines[-1])["body"])
    new = change(old)
    sha256 = hashlib.sha256(new).hexdigest().encode()
    return b"".join(lines[:-1]) + b'{"body":' + new + b',"sha256":"' + sha256 + b'"}\n'


@pytest.mark.parametrize(
    "change",
    [
        lambda body: body[:-1] + b',"kind":"done"}',
        lambda body: body.replace(b'"kind"', b'"kind":"done","kind"'),
        lambda body: body.replace(b":", b": ", 1),
        lambda body: body.replace(b'"not done"', b'"\\u006eot done"'),
        lambda body: body.replace(b'"not done"', b"[]"),
        lambda body: body.replace(b'"number":5', b'"number":5.0'),
        lambda body: b'{"change":null,' + body.split(b",", 1)[1],
        lambda body: b'{"change":"' + b"[" * 100_000,
        lambda body: b"[]",
    ],
)
def test_what_redunet_would_not_have_written_is_refused(
    tmp_path: Path, change: Callable[[bytes], bytes]
) -> None:
    path = tmp_path / "log"
    path.write_bytes(forged(lambda body: body))
    assert path.read_bytes() == WHOLE
    data = forged(change)
    assert data != WHOLE
    path.write_bytes(data)
    for ask in (lambda: list(Journal(path).read()), lambda: Journal(path).plan("x", "y", {})):
        with pytest.raises(DataError, match=r"line: expected a line|line 6: expected a line"):
            ask()
    assert path.read_bytes() == data


def test_a_log_that_stays_locked_is_not_waited_for_without_end(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(WHOLE)
    with changing(path, lambda said: None), pytest.raises(BusyError, match="is still changing"):
        Journal(path, patience=0.1).plan("x", "y", {})
    assert path.read_bytes() == WHOLE


def test_a_line_cut_short_stays_where_the_one_before_it_was_altered(tmp_path: Path) -> None:
    path = tmp_path / "log"
    raw = written(path)
    lines = raw.splitlines(keepends=True)
    altered = b"".join(lines[:-2]) + lines[-2].replace(b'"kind"', b'"Kind"') + lines[-1][:-9]
    path.write_bytes(altered)
    with pytest.raises(DataError, match="last line"):
        Journal(path).plan("x", "y", {})
    assert path.read_bytes() == altered
