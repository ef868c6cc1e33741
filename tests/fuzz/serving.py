"""Servers that are killed, or asked by many at once; what they answered must be in the file."""

from __future__ import annotations

import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.client import HTTPException
from pathlib import Path
from typing import IO, Any

import numpy as np

from redunet import ReduNetClassifier
from redunet.estimators import load
from tests.serve.running import TOKEN, Client, X, small_model

_SAMPLES = 3
Samples = dict[str, list[list[float]]]


@contextmanager
def process(
    path: Path, *more: str, errors: IO[bytes] | None = None
) -> Iterator[tuple[subprocess.Popen[str], Client]]:
    """A server in a process of its own, and a client of it."""
    token = path.parent / "token"
    token.write_text(TOKEN)
    token.chmod(0o600)
    words = [sys.executable, "-m", "redunet", "serve", str(path), "--port", "0"]
    words += ["--token-file", str(token), *more]
    running = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=errors, text=True)
    assert running.stdout is not None
    try:
        found = re.search(r":(\d+)/", running.stdout.readline())
        assert found, "the server did not start"
        client = Client(int(found[1]))
        for _ in range(500):
            with suppress(OSError, HTTPException):
                if client.send("GET", "/health")[0] == 200:
                    break
            time.sleep(0.02)
        yield running, client
    finally:
        running.terminate()
        running.wait(120)
        running.stdout.close()


@dataclass
class Sequence:
    """The changes of one client, in order, of which all but the last were answered.

    Parameters
    ----------
    place : int
        Of the client.
    """

    place: int
    done: list[tuple[str, dict[str, Any], str]] = field(default_factory=list)
    open: tuple[str, dict[str, Any], str] | None = None
    kept: Samples = field(default_factory=dict)
    faults: list[str] = field(default_factory=list)

    def next(self, rng: random.Random) -> tuple[str, dict[str, Any], str]:
        """A change that nobody else's depends on: a class learnt, or one forgotten."""
        key = f"{self.place}-{len(self.done)}-{rng.random()}"
        if self.kept and rng.random() < 0.3:
            return "/v1/forget", {"classes": [rng.choice(sorted(self.kept))]}, key
        values = np.random.default_rng(rng.randrange(2**32)).uniform(0, 8, (_SAMPLES, X.shape[1]))
        label = f"{self.place}-{len(self.done)}"
        return "/v1/learn", {"samples": values.tolist(), "label": label}, key

    def apply(self, change: tuple[str, dict[str, Any], str]) -> None:
        """Keep what the model holds after a change."""
        what, body, _ = change
        if what == "/v1/forget":
            for label in body["classes"]:
                del self.kept[label]
        else:
            self.kept[body["label"]] = body["samples"]

    def run(self, client: Client, rng: random.Random, most: int) -> None:
        """Send changes and questions until the server is gone."""
        for _ in range(most):
            self.open = self.next(rng)
            what, body, key = self.open
            try:
                asked = {"samples": X[:4].tolist(), "top": 1000}
                status, found = client.send("POST", what, body, {"Idempotency-Key": key})
                if status != 200:
                    self.faults.append(f"{what}: {status} {found}")
                    return
                self.apply(self.open)
                self.done.append(self.open)
                self.open = None
                status, found = client.send("POST", "/v1/predict", asked)
                if status != 200 or len({len(one["top"]) for one in found["answers"]}) != 1:
                    self.faults.append(f"predict: {status} {found}")
                    return
            except (OSError, HTTPException):
                return


def expected(sequences: list[Sequence]) -> bytes:
    """The file of all that the sequences kept, learnt at once."""
    kept = {label: rows for one in sequences for label, rows in one.kept.items()}
    model = small_model()
    rows = [row for one in kept.values() for row in one]
    labels = [label for label, one in kept.items() for _ in one]
    return (model.partial_fit(np.array(rows), labels) if rows else model).to_bytes()


def kill(n: int, seed: int, clients: int = 4) -> list[str]:
    """Kill a server n times at random moments; what was answered must be in the file, once."""
    faults: list[str] = []
    rng = random.Random(seed)
    for number in range(n):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "model.safetensors")
            small_model().save(path)
            faults += [f"{number}: {one}" for one in _killed(path, rng, clients)]
    return faults


def _killed(path: Path, rng: random.Random, clients: int) -> list[str]:
    faults: list[str] = []
    sequences = [Sequence(place) for place in range(clients)]
    with process(path) as (running, client):
        threads = [
            threading.Thread(target=one.run, args=(client, random.Random(rng.random()), 10**6))
            for one in sequences
        ]
        for thread in threads:
            thread.start()
        time.sleep(rng.uniform(0, 1.5))
        os.kill(running.pid, signal.SIGKILL)
        running.wait()
        for thread in threads:
            thread.join()
    faults += [fault for one in sequences for fault in one.faults]
    found = set(load(path).moments_.labels)
    waiting = [(one, one.open) for one in sequences if one.open is not None]
    for one, change in waiting:  # not answered: it may be there, and then wholly
        what, body, _ = change
        learnt = what == "/v1/learn"
        label = body["label"] if learnt else body["classes"][0]
        if (label in found) == learnt:
            one.apply(change)
            one.open = None
    if path.read_bytes() != expected(sequences):
        faults.append("the file holds other things than what was answered")
    with process(path) as (_, client):
        for one, (what, body, key) in waiting:  # sent again, it counts once
            status, answer = client.send("POST", what, body, {"Idempotency-Key": key})
            if status != 200 or answer["repeated"] != (one.open is None):
                faults.append(f"a change that was sent again: {status} {answer}")
            if one.open is not None:
                one.apply(one.open)
        for one in sequences:
            for what, body, key in one.done[-2:]:
                status, answer = client.send("POST", what, body, {"Idempotency-Key": key})
                if status != 200 or not answer["repeated"]:
                    faults.append(f"an answered change was not known: {status} {answer}")
        if path.read_bytes() != expected(sequences):
            faults.append("changes that were sent again did not count once")
    return faults


def interleave(n: int, seed: int, clients: int = 8) -> list[str]:
    """Let clients send n requests at once; the file must be that of the same changes in order."""
    faults: list[str] = []
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "model.safetensors")
        small_model().save(path)
        rng = random.Random(seed)
        sequences = [Sequence(place) for place in range(clients)]
        with process(path) as (_, client):
            each = -(-n // (2 * clients))  # a change and a question
            threads = [
                threading.Thread(target=one.run, args=(client, random.Random(rng.random()), each))
                for one in sequences
            ]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        faults += [fault for one in sequences for fault in one.faults]
        if any(len(one.done) != each for one in sequences):
            faults.append("a request was not answered")
        in_order = small_model()
        for one in sequences:
            for what, body, _ in one.done:
                _applied(in_order, what, body)
        if path.read_bytes() != in_order.to_bytes() or path.read_bytes() != expected(sequences):
            faults.append("the file differs from the same changes in order")
    return faults


def _applied(model: ReduNetClassifier, what: str, body: dict[str, Any]) -> None:
    if what == "/v1/forget":
        model.forget(body["classes"])
    else:
        model.partial_fit(np.array(body["samples"]), [body["label"]] * len(body["samples"]))
