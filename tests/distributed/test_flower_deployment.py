"""A federation of real Flower processes, of the app in docs/federation.md."""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from redunet import ReduNetClassifier
from tests.conftest import classes_on_subspaces

psutil = pytest.importorskip("psutil")

X, Y = classes_on_subspaces(k=5, d=12, per_class=24, rank=3)
PARTS = [np.arange(len(X)) % 3 == part for part in range(3)]


def example() -> dict[str, str]:
    """The files of the app in docs/federation.md, by name."""
    blocks = re.findall(r"```(toml|py)\n(.*?)```", Path("docs/federation.md").read_text(), re.S)
    project = next(text for kind, text in blocks if kind == "toml")
    modules = [text for kind, text in blocks if kind == "py" and text.startswith("# birds/")]
    named = {text.split()[1]: text for text in modules}
    return {"pyproject.toml": project, "birds/__init__.py": "", **named}


class Deployment:
    """A SuperLink and SuperNodes, each with a part of the data."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.model = folder, folder / "model.safetensors"
        (folder / "app" / "birds").mkdir(parents=True)
        for name, text in example().items():
            text = text.replace("birds.safetensors", str(self.model))
            (folder / "app" / name).write_text(text.replace("timeout = 600", "timeout = 240"))
        ports = free_ports(1 + len(PARTS))
        (folder / "config.toml").write_text(
            f'[superlink]\ndefault = "here"\n'
            f'[superlink.here]\naddress = "127.0.0.1:{ports[0]}"\ninsecure = true\n'
        )
        self._environment = os.environ | {
            "FLWR_HOME": str(folder),
            "FLWR_TELEMETRY_ENABLED": "0",
            "FLWR_DISABLE_UPDATE_CHECK": "1",
            "OMP_NUM_THREADS": "1",
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        }
        self._started: list[subprocess.Popen[bytes]] = []
        address = ["--insecure", "--host", "127.0.0.1", "--port"]
        self._start(
            "flower-superlink", *address, ports[0], "--disable-runtime-dependency-installation"
        )
        for place, rows in enumerate(PARTS):
            np.savez(folder / f"{place}.npz", X=X[rows], y=Y[rows])
            config = f'data="{folder / str(place)}.npz"'
            link = ["--superlink", f"127.0.0.1:{ports[0]}", "--node-config", config]
            self._start("flower-supernode", *address, ports[1 + place], *link)

    def _start(self, *words: object) -> None:
        with open(self.folder / f"{len(self._started)}.log", "wb") as log:
            self._started.append(
                subprocess.Popen([*map(str, words)], env=self._environment, stdout=log, stderr=log)
            )

    def run(self, config: str = "") -> str:
        """Run the app once; give its log. The model file is what it leaves."""
        words = ["flwr", "run", str(self.folder / "app"), "here", "--stream"]
        words += ["--run-config", config] if config else []
        for _ in range(60):  # the SuperLink takes some seconds to answer
            done = subprocess.run(
                words, env=self._environment, capture_output=True, text=True, timeout=600
            )
            if done.returncode == 0:
                return done.stdout + done.stderr
            time.sleep(1)
        logs = [path.read_text() for path in sorted(self.folder.glob("*.log"))]
        raise RuntimeError("\n".join([done.stderr, *logs]))

    def node_id(self, place: int) -> str:
        """Flower's number of a client."""
        log = (self.folder / f"{1 + place}.log").read_text()
        return str(re.findall(r"SuperNode ID: (\d+)", log)[0])

    def stop(self) -> None:
        """End all processes, also those that they have started."""
        found = [psutil.Process(one.pid) for one in self._started if one.poll() is None]
        everybody = found + [child for one in found for child in one.children(recursive=True)]
        for process in everybody:
            with suppress(psutil.NoSuchProcess):
                process.kill()
        for one in self._started:
            one.wait()


def free_ports(n: int) -> list[int]:
    """Ports that nobody uses now."""
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(n)]
        return [int(one.getsockname()[1]) for one in sockets]


@pytest.fixture
def federation(tmp_path: Path) -> Iterator[Deployment]:
    found = Deployment(tmp_path)
    try:
        yield found
    finally:
        found.stop()


def taken(log: str) -> list[str]:
    """The clients that took part, as a run configuration names them."""
    return re.findall(r"redunet: taken (\d+:\w*)", log)


def test_learning_withdrawal_and_masks(federation: Deployment) -> None:
    def is_that_of(rows: Any) -> bool:
        path = federation.folder / "plain"
        ReduNetClassifier().fit(X[rows], Y[rows]).save(path)
        return federation.model.read_bytes() == path.read_bytes()

    clients = taken(federation.run())
    assert len(clients) == 3
    assert is_that_of(Y >= 0)
    gone = next(one for one in clients if one.startswith(federation.node_id(1)))
    assert f"redunet: withdrawn {gone}" in federation.run(f'withdraw="{gone}"')
    assert is_that_of(~PARTS[1])
    federation.model.unlink()
    assert len(taken(federation.run("masked=true"))) == 3
    assert is_that_of(Y >= 0)
