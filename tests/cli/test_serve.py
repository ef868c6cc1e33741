"""The command `serve`, from its words to its end."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from redunet.cli.app import main
from tests.fuzz.serving import process
from tests.serve.running import X, small_model

pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    small_model().save(tmp_path / "model.safetensors")
    return tmp_path / "model.safetensors"


def run(*words: object) -> tuple[int, str]:
    done = CliRunner().invoke(main, ["serve", *map(str, words)])
    return done.exit_code, done.output


def test_mistakes_are_one_line(path: Path, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        cases: dict[str, tuple[object, ...]] = {
            "expected a model file to serve, or --demo, got neither": (),
            "cannot read": (tmp_path / "nosuch",),
            "Address already in use; choose another": (path, "--port", taken.getsockname()[1]),
            "cannot listen on no.such.host.invalid": (path, "--host", "no.such.host.invalid"),
            "with --sign-key, got --sign-key alone": (path, "--sign-key", "x"),
            "chmod 600": (path, "--token-file", path),
        }
        path.chmod(0o644)
        for said, words in cases.items():
            code, output = run(*words)
            assert (code, output.count("\n")) == (2, 1), output
            assert said in output


@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGTERM])
def test_it_ends_in_good_order(path: Path, sent: signal.Signals, tmp_path: Path) -> None:
    with process(path) as (running, client):
        body = {"sample": X[50].tolist(), "label": "dog"}
        learnt = client.send("POST", "/v1/learn", body)[1]
        connection = socket.create_connection(("127.0.0.1", client.port))
        connection.sendall(b"GET /v1/events HTTP/1.1\r\nHost: localhost\r\n\r\n")
        connection.recv(10)
        begun = time.monotonic()
        os.kill(running.pid, sent)
        assert running.wait(20) == 0
        assert time.monotonic() - begun < 15
        assert running.stdout is not None
        assert "Stopped; all changes that were answered are in" in running.stdout.read()
        connection.close()
    verified = CliRunner().invoke(main, ["verify", str(path)])
    assert learnt["sha256"] in verified.output.replace("\n", "")


def test_the_demo_needs_nothing_and_leaves_nothing(tmp_path: Path) -> None:
    words = [sys.executable, "-m", "redunet", "serve", "--demo", "--port", "0"]
    places = {**os.environ, "TMPDIR": str(tmp_path)}
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True, env=places) as running:
        assert running.stdout is not None
        said = running.stdout.readline()
        assert "digits.safetensors at http://127.0.0.1:" in said
        assert len(said.strip().partition("#token=")[2]) >= 40
        running.terminate()  # at once: whoever knows the address can end the server in good order
        assert running.wait(20) == 0
    assert list(tmp_path.glob("redunet-*")) == []


def test_ctrl_c_at_the_start_of_the_demo_leaves_nothing(tmp_path: Path) -> None:
    words = [sys.executable, "-m", "redunet", "serve", "--demo", "--port", "0"]
    places = {**os.environ, "TMPDIR": str(tmp_path)}
    pipe = subprocess.PIPE
    with subprocess.Popen(words, stdout=pipe, stderr=pipe, text=True, env=places) as running:
        for _ in range(6000):  # until the folder of the demo is there, which is written then
            if list(tmp_path.glob("redunet-*")) or running.poll() is not None:
                break
            time.sleep(0.005)
        running.send_signal(signal.SIGINT)
        _, said = running.communicate(timeout=60)
    assert (running.returncode, said.count("\n")) == (1, 1), said
    assert "stopped; all changes that were answered are in the file" in said
    assert list(tmp_path.glob("redunet-*")) == []


def test_a_model_of_which_no_network_can_be_built_is_served(path: Path) -> None:
    small_model().partial_fit(np.zeros((1, X.shape[1])), ["zero"]).save(path)
    words = [sys.executable, "-m", "redunet", "serve", str(path), "--port", "0"]
    pipe = subprocess.PIPE
    with subprocess.Popen(words, stdout=pipe, stderr=pipe, text=True) as running:
        assert running.stdout is not None
        assert running.stderr is not None
        assert "Serving " in running.stdout.readline()
        said = running.stderr.readline()
        running.terminate()
        running.communicate(timeout=60)
    assert running.returncode == 0
    assert said.startswith(f"redunet: no network can be built of {path}, so nothing is answered")


def test_packages_that_are_missing_are_named(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    code, output = run(path)
    assert code == 2
    assert output.endswith("there is no uvicorn: pip install 'redunet[serve]'\n")
    monkeypatch.setitem(sys.modules, "cryptography.hazmat.primitives", None)
    words = ["forget", str(path), "ant", "--receipt", str(path) + ".log", "--sign-key", str(path)]
    done = CliRunner().invoke(main, words)
    assert done.exit_code == 2
    assert done.output.endswith("pip install 'redunet[receipts]'\n")
