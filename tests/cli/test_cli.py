"""The command line: what it prints, what it leaves, how it fails."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from typer.testing import CliRunner

from redunet import __version__
from redunet.cli.app import main
from tests.own_data import refused


def redunet(*words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "redunet", *words]
    environment = {**os.environ, "COLUMNS": "100"}
    return subprocess.run(command, capture_output=True, text=True, env=environment)


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    out = tmp_path_factory.mktemp("demo") / "deep" / "folder"
    done = CliRunner().invoke(main, ["demo", "--out", str(out)], env={"COLUMNS": "100"})
    assert done.exit_code == 0, done.stderr
    assert done.stderr == ""
    return out, done.stdout


def test_the_demo_shows_five_identical_tasks(demo: tuple[Path, str]) -> None:
    out, said = demo
    record = json.loads((out / "record.json").read_text())
    assert [row["classes"] for row in record["stream"]] == [[0, 1], [2, 3], [4, 5], [6, 7], [8, 9]]
    ((run,),) = (method["runs"] for method in record["methods"])
    for row in run["tasks"]:
        assert row["accuracy"] == row["joint"]["accuracy"] > 0.97
        assert row["joint"]["equivalence"] == {
            "moments": True,
            "network": True,
            "file": True,
            "labels_that_differ": 0,
        }
        assert f"{row['accuracy']:.4f}" in said
    assert said.count("identical") == 22
    assert "different" not in said


def test_the_demo_forgets_to_the_byte(demo: tuple[Path, str]) -> None:
    out, said = demo
    hashes = json.loads((out / "record.json").read_text())["forget"]
    assert hashes["after"] == hashes["never_seen"] != hashes["before"]
    assert said.count(hashes["after"][:32]) == 2


def test_the_version_and_help() -> None:
    assert redunet("--version").stdout == f"redunet {__version__}\n"
    words = redunet("--help").stdout
    assert "demo" in words
    words = " ".join(redunet("demo", "--help").stdout.split())
    assert "needs redunet[dask]" in words
    assert "Example: redunet demo --out demo" in words


def test_an_unwritable_place_is_one_line_and_exit_code_2(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    said = refused("demo", "--out", tmp_path / "file" / "out")
    assert said.startswith(f"cannot write {tmp_path / 'file' / 'out'}: ")


def test_ctrl_c_is_one_line(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "redunet", "demo", "--out", str(tmp_path / "out")]
    process = subprocess.Popen(
        command,
        stderr=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        # A background job ignores the signal, and its children inherit that.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    while not (tmp_path / "out").exists():  # the first thing that it does
        assert process.poll() is None
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=60)
    assert process.returncode == 1
    assert said == "redunet: stopped; what was finished is kept\n"
