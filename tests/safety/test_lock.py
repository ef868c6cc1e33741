"""The lock around changes of a model: planted files, full disks, long names, links."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from redunet import FileAccessError
from redunet.errors import BusyError
from redunet.safety.files import write_bytes
from redunet.safety.lock import changing
from tests.safety.test_kills import listing


def told(path: Path) -> list[str]:
    """What is said when a model is changed."""
    said: list[str] = []
    with changing(path, said.append) as notes:
        write_bytes(path, b"new")
    return said + notes


def refusal(path: Path) -> str:
    with pytest.raises(FileAccessError) as caught:
        told(path)
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.fixture
def model(tmp_path: Path) -> Path:
    (tmp_path / "model").write_bytes(b"old")
    return tmp_path / "model"


def test_what_others_put_in_the_place_of_the_lock(tmp_path: Path, model: Path) -> None:
    lock, victim = tmp_path / ".model.changing", tmp_path / "victim"
    victim.write_bytes(b"precious")
    plants: list[Callable[[], None]] = [
        lambda: lock.symlink_to(victim),
        lambda: lock.symlink_to(tmp_path / "new"),
        lambda: os.link(victim, lock),
        lambda: os.mkfifo(lock),
    ]
    for plant in plants:
        plant()
        assert f"expected {lock} to be missing or left by redunet" in refusal(model)
        lock.unlink()
    lock.mkdir()
    assert "Is a directory" in refusal(model)
    assert victim.read_bytes() == b"precious"
    assert model.read_bytes() == b"old"
    assert listing(tmp_path) == [".model.changing", "model", "victim"]


def test_a_lock_that_is_removed_while_another_waits_is_made_again(
    tmp_path: Path, model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, turns = fcntl.flock, list[int]()
    lock = tmp_path / ".model.changing"

    def flock(handle: int, how: int) -> None:
        if len(turns) < 3:  # whoever held it has removed it, and a third may have made another
            lock.unlink()
            if len(turns) == 1:
                lock.touch()
        turns.append(how)
        real(handle, how)

    monkeypatch.setattr(fcntl, "flock", flock)
    with changing(model, lambda _: None):
        assert len(turns) == 4
        assert lock.exists()
    assert listing(tmp_path) == ["model"]


def test_waiting_ends_in_time(tmp_path: Path, model: Path) -> None:
    lock, said = tmp_path / ".model.changing", list[str]()
    asked: list[bool] = []

    def third_time() -> bool:
        asked.append(True)
        return len(asked) == 3

    with changing(model, said.append):
        for timeout, cancelled in ((0.1, None), (0.0, None), (None, third_time)):
            busy = pytest.raises(BusyError, match="nothing was changed; try again")
            held = changing(model, said.append, timeout=timeout, cancelled=cancelled)
            with busy as caught, held:
                pass
            assert f"process {os.getpid()} is still changing {model} after 0." in str(caught.value)
            assert "\n" not in str(caught.value)
        assert lock.read_text() == f"{os.getpid()}"  # the holder's still
    assert len(asked) == 3
    assert said == [f"process {os.getpid()} is changing {model}: waiting until it is done"] * 3
    assert model.read_bytes() == b"old"
    assert told(model) == []
    assert listing(tmp_path) == ["model"]


def test_all_names_of_a_file_have_one_lock(tmp_path: Path, model: Path) -> None:
    (tmp_path / "there").mkdir()
    link = tmp_path / "there" / "link"
    link.symlink_to("../model")
    with changing(link, lambda _: None):
        assert listing(tmp_path) == [".model.changing", "model", "there"]
        with open(tmp_path / ".model.changing", "rb") as other, pytest.raises(BlockingIOError):
            fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
    assert told(link) == []
    assert link.is_symlink()
    assert model.read_bytes() == b"new"


def test_hard_links_are_told(tmp_path: Path, model: Path) -> None:
    os.link(model, tmp_path / "copy")
    assert told(model) == [
        f"{model} had another name (a hard link): the file there is unchanged and holds what the "
        f"model held before"
    ]
    assert (tmp_path / "copy").read_bytes() == b"old"
    assert told(model) == []
    os.link(model, tmp_path / "two")
    os.link(model, tmp_path / "three")
    assert "had 2 other names (hard links): the file there is unchanged" in told(model)[0]
