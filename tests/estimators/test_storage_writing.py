"""Writing model files: where it cannot be done, and when the process is killed.

Run as a program, this file is the process that the tests below start and kill.
"""

from __future__ import annotations

import errno
import json
import linecache
import os
import random
import re
import resource
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any, NoReturn

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from redunet import FileAccessError, ReduNetClassifier
from redunet.safety import files
from tests.conftest import classes_on_subspaces
from tests.estimators.test_storage import ROOT, TINY, X, file_of, fresh, refusal, y

pytestmark = pytest.mark.usefixtures("one_thread")

# Writing


def listing(folder: Path) -> list[str]:
    return sorted(os.listdir(folder))


def failure(path: Path) -> str:
    """The message with which a save fails."""
    with pytest.raises(FileAccessError) as caught:
        fresh(n_components=1).fit(X[:, :3], y).save(path)
    assert isinstance(caught.value, OSError)
    assert "\n" not in str(caught.value)
    return str(caught.value)


@contextmanager
def powerless() -> Iterator[None]:
    """Without root's right to write everywhere."""
    user = os.geteuid()
    if user == 0:
        os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(user)


@pytest.fixture
def shared() -> Iterator[Path]:
    """A folder that other users can reach, which pytest's own are not, with a model in it."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o777)
        (folder / "model").write_bytes(TINY)
        yield folder
        folder.chmod(0o777)


def test_a_folder_without_write_permission(shared: Path) -> None:
    shared.chmod(0o555)
    with powerless():
        assert "Permission denied" in failure(shared / "model")
        assert "Permission denied" in failure(shared / "new")
    assert listing(shared) == ["model"]
    assert (shared / "model").read_bytes() == TINY


def test_a_file_or_folder_without_read_permission(shared: Path) -> None:
    (shared / "model").chmod(0o000)
    with powerless():
        assert "Permission denied" in refusal(shared / "model", FileAccessError)
    shared.chmod(0o000)
    with powerless():
        assert "Permission denied" in refusal(shared / "model", FileAccessError)
        assert "Permission denied" in failure(shared / "model")


def test_a_folder_that_can_be_written_but_not_listed(shared: Path) -> None:
    shared.chmod(0o733)
    message = ""
    with powerless():
        try:
            fresh().fit(X, y).save(shared / "model")
        except FileAccessError as error:
            message = str(error)
    assert ("unchanged" in message) == ((shared / "model").read_bytes() == TINY)
    assert listing(shared) == ["model"]


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("missing/model", "No such file"),
        ("file/model", "Not a directory"),
        ("x" * 300, "name too long"),
        ("two\nlines/model", "No such file"),
        ("nul\0", "null byte"),
        ("folder", "a folder"),
        (".", "a folder"),
    ],
    ids=["missing", "file", "long", "lines", "nul", "folder", "here"],
)
def test_paths_that_lead_nowhere(tmp_path: Path, name: str, message: str) -> None:
    (tmp_path / "file").write_bytes(TINY)
    (tmp_path / "folder").mkdir()
    assert re.search(message, failure(tmp_path / name))
    assert re.search(message, refusal(tmp_path / name, FileAccessError))
    assert listing(tmp_path) == ["file", "folder"]
    assert listing(tmp_path / "folder") == []


@pytest.mark.parametrize("step", ["fsync", "replace", "truncate"])
@pytest.mark.parametrize("old", [TINY, None], ids=["over", "new"])
def test_a_full_disk_leaves_the_old_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str, old: bytes | None
) -> None:
    def full(*_: object) -> NoReturn:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    path = tmp_path / "model"
    if old:
        path.write_bytes(old)
    if step == "truncate":  # a real limit: the third hundred bytes find no room
        soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (300, hard))
        try:
            assert "File too large" in failure(path)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    else:
        with monkeypatch.context() as patch:
            patch.setattr(os, step, full)
            assert "No space left" in failure(path)
    assert listing(tmp_path) == (["model"] if old else [])
    assert not old or path.read_bytes() == old
    fresh().fit(X, y).save(path)
    assert listing(tmp_path) == ["model"]


def test_an_error_after_the_rename_claims_nothing_false(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, calls = os.fsync, iter([True, False])

    def fail_second(handle: int) -> None:
        if not next(calls):
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        real(handle)

    path = tmp_path / "model"
    path.write_bytes(TINY)
    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", fail_second)
        message = failure(path)
    assert ("unchanged" in message) == (path.read_bytes() == TINY)
    assert listing(tmp_path) == ["model"]


def test_leftovers_of_any_size_are_removed(tmp_path: Path) -> None:
    model = fresh().fit(X, y)
    with pytest.MonkeyPatch.context() as patch:  # what a killed save leaves, found by looking
        patch.setattr(os, "replace", lambda source, _: Path(source).with_name("x").touch())
        model.save(tmp_path / "model")
    [leftover] = set(listing(tmp_path)) - {"x"}
    for size in (0, 10, 10**6):
        (tmp_path / leftover).write_bytes(b"?" * size)
        model.save(tmp_path / "model")
        assert listing(tmp_path) == ["model", "x"]
        assert (tmp_path / "model").read_bytes() == file_of(model)


# Other processes


def big() -> tuple[NDArray[Any], NDArray[Any]]:
    """Enough for threads to share the work."""
    X, y = classes_on_subspaces(k=3, d=96, per_class=700, rank=9)
    return X, np.array(["one", "two", "three"])[y]


def test_processes_and_threads_write_one_file(tmp_path: Path) -> None:
    children = []
    for seed, threads in enumerate(["1", "2"]):
        own = {"PYTHONHASHSEED": str(seed), "OMP_NUM_THREADS": threads}
        children.append(start("learn", tmp_path / str(seed), str(seed), environment=own))
    outputs = [child.communicate(timeout=120)[0] for child in children]
    assert [json.loads(output) for output in outputs] == [1, 2]
    expected = file_of(fresh().fit(*big()))
    assert [Path(tmp_path, str(seed)).read_bytes() == expected for seed in range(2)] == [True] * 2


# Killed processes


def start(
    *arguments: str | Path, environment: dict[str, str] | None = None
) -> subprocess.Popen[bytes]:
    """This file as a program."""
    own = {"PYTHONPATH": os.pathsep.join(sys.path), **(environment or {})}
    return subprocess.Popen(
        [sys.executable, "-m", "tests.estimators.test_storage_writing", *map(str, arguments)],
        cwd=ROOT,
        env={**os.environ, **own},
        stdout=subprocess.PIPE,
    )


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What a process found that killed its children while they saved."""
    program = start("kill", tmp_path_factory.mktemp("killed") / "model")
    output, _ = program.communicate(timeout=300)
    assert program.returncode == 0
    found: dict[str, Any] = json.loads(output)
    return found


@pytest.mark.parametrize("before", ["old", "none"])
def test_a_kill_before_each_line_leaves_a_whole_file(killed: dict[str, Any], before: str) -> None:
    moments = killed[f"lines over {before}"]
    found = [moment["found"] for moment in moments]
    assert set(found) == {before, "new"}
    assert found == sorted(found, reverse=True)  # the old one until the new one
    assert any(
        set(moment["folder"]) > set() if before == "none" else {"model"} for moment in moments
    )
    assert all(moment["folder after a save"] == ["model"] for moment in moments)
    lines = [moment["line"] for moment in moments]
    for step, times in {"write(part)": 2, "os.fsync(": 2, "os.replace(": 1, "os.close(": 1}.items():
        assert sum(step in line for line in lines) >= times, step


def test_kills_at_random_moments_leave_a_whole_file(killed: dict[str, Any]) -> None:
    moments = killed["random"]
    assert len(moments) == 20
    assert {moment["found"] for moment in moments} == {"old", "new"}
    assert any(len(moment["folder"]) > 1 for moment in moments)
    assert all(moment["folder after a save"] == ["model"] for moment in moments)


def test_two_processes_that_save_at_once_do_so_in_turn(killed: dict[str, Any]) -> None:
    race = killed["race"]
    assert race["exits"] == [0, 0]
    assert set(race["seen"]) == {"old", "new"}
    assert race["folder"] == ["model"]


class Saver:
    """Saves two models over one path, in children that get killed."""

    def __init__(self, path: Path) -> None:
        self.path = path
        X, y = classes_on_subspaces(k=3, d=80, per_class=9, rank=2)
        self.models = {
            "old": ReduNetClassifier().fit(X, y),
            "new": ReduNetClassifier().fit(X[1:], y[1:]),
        }
        self.files = {file_of(model): name for name, model in self.models.items()}
        self.save("old")

    def save(self, name: str, times: int = 1) -> None:
        for _ in range(times):
            self.models[name].save(self.path)

    def found(self) -> str:
        """Which model the file is."""
        return self.files.get(self.path.read_bytes(), "broken") if self.path.exists() else "none"

    def after_kill(self) -> dict[str, Any]:
        found, folder = self.found(), listing(self.path.parent)
        self.save("old")
        return {"found": found, "folder": folder, "folder after a save": listing(self.path.parent)}

    def child(self, work: Callable[[int], object]) -> tuple[int, int]:
        """A process that works, with a pipe to tell how far it is: its id, and the pipe's end."""
        reader, writer = os.pipe()
        pid = os.fork()
        if pid:
            os.close(writer)
            return pid, reader
        status = 1
        try:
            work(writer)
            status = 0
        finally:
            os._exit(status)

    def save_until_line(self, number: int, pipe: int) -> None:
        """Save the new model, but kill this process before the given line of files.py."""
        count = 0

        def trace(frame: FrameType, event: str, _: object) -> Any:
            nonlocal count
            if frame.f_code.co_filename != files.__file__:
                return None
            count += event == "line"
            if count == number:
                os.write(pipe, linecache.getline(files.__file__, frame.f_lineno).encode())
                os.kill(os.getpid(), signal.SIGKILL)
            return trace

        sys.settrace(trace)
        self.save("new")

    def lines(self, before: str) -> list[dict[str, Any]]:
        """Kill before each line that a save comes to, until one lives to its end."""
        moments: list[dict[str, Any]] = []
        while True:
            if before == "none":
                self.path.unlink()
            pid, pipe = self.child(partial(self.save_until_line, len(moments) + 1))
            with open(pipe) as lines:
                line = lines.read()
            if os.waitpid(pid, 0)[1] != signal.SIGKILL:
                return moments
            moments.append({"line": line, **self.after_kill()})

    def save_forever(self, pipe: int) -> None:
        self.save("new")
        os.close(pipe)
        while True:
            self.save("old")
            self.save("new")

    def random(self, times: int) -> list[dict[str, Any]]:
        rng, moments = random.Random(0), []
        for _ in range(times):
            pid, pipe = self.child(self.save_forever)
            with open(pipe) as lines:
                lines.read()
            time.sleep(rng.uniform(0, 0.02))
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            moments.append(self.after_kill())
        return moments

    def race(self, times: int) -> dict[str, Any]:
        """Two children save at once, and the file is read all the while."""
        seen, exits = set(), []
        running = [self.child(lambda _, n=name: self.save(n, times))[0] for name in self.models]  # type: ignore[misc]
        while running:
            seen.add(self.found())
            for pid in running.copy():
                ended, status = os.waitpid(pid, os.WNOHANG)
                if ended:
                    running.remove(pid)
                    exits.append(status)
        return {"exits": exits, "seen": sorted(seen), "folder": listing(self.path.parent)}


def main(job: str, path: Path, seed: str = "") -> object:
    if job == "learn":
        X, y = big()
        model = fresh()
        for rows in np.array_split(np.random.default_rng(int(seed)).permutation(len(X)), 5):
            model.partial_fit(X[rows], y[rows])
        model.save(path)
        return torch.get_num_threads()
    torch.set_num_threads(1)
    saver = Saver(path)
    return {
        "lines over old": saver.lines("old"),
        "lines over none": saver.lines("none"),
        "random": saver.random(20),
        "race": saver.race(30),
    }


if __name__ == "__main__":
    json.dump(main(sys.argv[1], Path(sys.argv[2]), *sys.argv[3:]), sys.stdout)
