"""Writing model files: where it cannot be done, and when the process is killed.

Run as a program, this file is the process that the tests below start and kill.
"""

from __future__ import annotations

import errno
import json
import linecache
import os
import resource
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any, NoReturn

import pytest
import torch

from redunet import FileAccessError, ReduNetClassifier
from redunet.safety import files
from tests.conftest import classes_on_subspaces
from tests.estimators.test_storage import ROOT, TINY, X, file_of, fresh, y

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


# Killed processes


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What a process found that killed its children while they saved."""
    path = tmp_path_factory.mktemp("killed") / "model"
    done = subprocess.run(
        [sys.executable, "-m", "tests.safety.test_kills", str(path)],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        stdout=subprocess.PIPE,
        timeout=300,
        check=True,
    )
    found: dict[str, Any] = json.loads(done.stdout)
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


def main(path: Path) -> object:
    torch.set_num_threads(1)
    saver = Saver(path)
    return {"lines over old": saver.lines("old"), "lines over none": saver.lines("none")}


if __name__ == "__main__":
    json.dump(main(Path(sys.argv[1])), sys.stdout)
