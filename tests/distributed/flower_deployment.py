"""A federation of real Flower processes on this machine.

As a command, ``python -m tests.distributed.flower_deployment`` or ``make federation``, it runs what
takes too long for every run of the tests: withdrawal, masked sums, and a client that is killed.
"""

from __future__ import annotations

import hashlib
import os
import re
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from redunet import ReduNetClassifier
from tests.conftest import classes_on_subspaces

psutil = pytest.importorskip("psutil")

X, Y = classes_on_subspaces(k=5, d=12, per_class=24, rank=3)

PAGE = Path("docs/federation.md")


def example() -> dict[str, str]:
    """The files of the app in docs/federation.md, by name."""
    blocks = re.findall(r"```(toml|py)\n(.*?)```", PAGE.read_text(), re.S)
    project = next(text for kind, text in blocks if kind == "toml")
    modules = [text for kind, text in blocks if kind == "py" and text.startswith("# birds/")]
    named = {text.split()[1]: text for text in modules}
    return {"pyproject.toml": project, "birds/__init__.py": "", **named}


class Deployment:
    """A SuperLink and SuperNodes, each with a part of the data.

    Parameters
    ----------
    folder : Path
        Of everything that the processes write.
    parts : sequence of boolean arrays
        The samples of each client.
    """

    def __init__(self, folder: Path, parts: list[Any]) -> None:
        self.folder, self.model = folder, folder / "model.safetensors"
        (folder / "app" / "birds").mkdir(parents=True)
        for name, text in example().items():
            text = text.replace("birds.safetensors", str(self.model))
            (folder / "app" / name).write_text(text.replace("timeout = 600", "timeout = 240"))
        ports = free_ports(1 + len(parts))
        home = folder / "home"
        home.mkdir()
        (home / "config.toml").write_text(
            f'[superlink]\ndefault = "here"\n'
            f'[superlink.here]\naddress = "127.0.0.1:{ports[0]}"\ninsecure = true\n'
        )
        self._environment = os.environ | {
            "FLWR_HOME": str(home),
            "FLWR_TELEMETRY_ENABLED": "0",
            "FLWR_DISABLE_UPDATE_CHECK": "1",
            "OMP_NUM_THREADS": "1",
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        }
        self._started: list[subprocess.Popen[bytes]] = []
        self.nodes: list[subprocess.Popen[bytes]] = []
        address = ["--insecure", "--host", "127.0.0.1", "--port"]
        self._start(
            "flower-superlink", *address, ports[0], "--disable-runtime-dependency-installation"
        )
        for place, rows in enumerate(parts):
            np.savez(folder / f"{place}.npz", X=X[rows], y=Y[rows])
            config = f'data="{folder / str(place)}.npz"'
            link = ["--superlink", f"127.0.0.1:{ports[0]}", "--node-config", config]
            self.nodes.append(self._start("flower-supernode", *address, ports[1 + place], *link))

    def _start(self, *words: object) -> subprocess.Popen[bytes]:
        name = f"{len(self._started)}.log"
        with open(self.folder / name, "wb") as log:
            process = subprocess.Popen(
                [*map(str, words)], env=self._environment, stdout=log, stderr=log
            )
        self._started.append(process)
        return process

    def run(self, config: str = "") -> str:
        """Run the app once; give its log. The model file is what it leaves."""
        words = ["flwr", "run", str(self.folder / "app"), "here", "--stream"]
        options = ["--run-config", config] if config else []
        for _ in range(60):  # the SuperLink takes some seconds to answer
            done = subprocess.run(
                [*words, *options],
                env=self._environment,
                capture_output=True,
                text=True,
                check=False,
                timeout=600,
            )
            if done.returncode == 0:
                return done.stdout + done.stderr
            time.sleep(1)
        raise RuntimeError(done.stderr + self.logs())

    def node_id(self, place: int) -> str:
        """Flower's number of a client."""
        log = (self.folder / f"{1 + place}.log").read_text()
        return str(re.findall(r"SuperNode ID: (\d+)", log)[0])

    def is_learning(self, place: int) -> bool:
        """Whether the process has started in which a client learns."""
        for one in psutil.Process(self.nodes[place].pid).children(recursive=True):
            with suppress(psutil.NoSuchProcess):  # or one that has ended and waits to be noticed
                if "flwr-clientapp" in " ".join(one.cmdline()):
                    return True
        return False

    def kill(self, place: int) -> None:
        """End a client at once, as a power cut does."""
        client = psutil.Process(self.nodes[place].pid)
        for process in [*client.children(recursive=True), client]:
            process.kill()

    def logs(self) -> str:
        """What all processes have said."""
        return "\n".join(path.read_text() for path in sorted(self.folder.glob("*.log")))

    def stop(self) -> None:
        """End all processes, also those that they have started."""
        found = [psutil.Process(one.pid) for one in self._started if one.poll() is None]
        everybody = found + [child for one in found for child in one.children(recursive=True)]
        for process in everybody:
            with suppress(psutil.NoSuchProcess):
                process.terminate()
        _, alive = psutil.wait_procs(everybody, timeout=10)
        for process in alive:
            with suppress(psutil.NoSuchProcess):
                process.kill()
        for one in self._started:
            one.wait()


@contextmanager
def deployment(parts: list[Any]) -> Iterator[Deployment]:
    """Processes for a while."""
    with tempfile.TemporaryDirectory() as folder:
        found = Deployment(Path(folder), parts)
        try:
            yield found
        finally:
            found.stop()


def free_ports(n: int) -> list[int]:
    """Ports that nobody uses now."""
    sockets = [socket.socket() for _ in range(n)]
    for one in sockets:
        one.bind(("127.0.0.1", 0))
    ports = [int(one.getsockname()[1]) for one in sockets]
    for one in sockets:
        one.close()
    return ports


def file_of(rows: Any, folder: Path) -> bytes:
    """The file that one process gives with some of the samples."""
    path = folder / "plain"
    ReduNetClassifier().fit(X[rows], Y[rows]).save(path)
    return path.read_bytes()


def taken(log: str) -> list[str]:
    """The clients that took part, as a run configuration names them."""
    return re.findall(r"redunet: taken (\d+:\w*)", log)


def _wait(for_what: Callable[[], bool]) -> None:
    for _ in range(1200):
        if for_what():
            return
        time.sleep(0.1)
    raise TimeoutError


def main() -> None:
    """Learn, withdraw, learn with masks, kill a client: with real processes."""
    parts = [np.arange(len(X)) % 3 == part for part in range(3)]
    with deployment(parts) as federation:
        start = time.monotonic()

        def show(what: str) -> None:
            nonlocal start
            sha256 = hashlib.sha256(federation.model.read_bytes()).hexdigest()
            sys.stdout.write(f"{what:40} {sha256[:16]} {time.monotonic() - start:4.0f} s\n")
            sys.stdout.flush()
            start = time.monotonic()

        def check(rows: Any) -> None:
            assert federation.model.read_bytes() == file_of(rows, federation.folder)

        clients = taken(federation.run())
        assert len(clients) == 3, federation.logs()
        check(np.full(len(X), True))
        show("three clients")
        node = federation.node_id(1)
        gone = next(one for one in clients if one.startswith(node))
        assert f"redunet: withdrawn {gone}" in federation.run(f'withdraw="{gone}"')
        check(~parts[1])
        show("one of them withdrawn")
        federation.model.unlink()
        assert len(taken(federation.run("masked=true"))) == 3, federation.logs()
        check(np.full(len(X), True))
        show("three clients, masked")
        with ThreadPoolExecutor() as pool:
            said = pool.submit(federation.run, "timeout=45")
            _wait(partial(federation.is_learning, 1))
            federation.kill(1)
            log = said.result()
        assert f"client {node}: " in log, log
        assert "nothing was changed" in log, log
        check(np.full(len(X), True))
        show("one client killed: nothing changed")


if __name__ == "__main__":
    main()
