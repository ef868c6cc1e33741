"""Ctrl-C at any moment of a command on a model file, from its start to its end."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import numpy as np

ROOT = Path(__file__).parents[2]
LINES = {
    "nothing was changed": False,
    "{} is as it was": False,
    "{} was saved before that": True,
}


class Ending(NamedTuple):
    """How a command ended."""

    code: int
    said: str
    complaint: str
    seconds: float


def command(*words: object, interrupt_after: float | None = None) -> Ending:
    """Run a command in a process of its own, and interrupt it after some seconds."""
    begun = time.monotonic()
    process = subprocess.Popen(
        [sys.executable, "-m", "redunet", *map(str, words)],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT / "src")},
        # A background job ignores the signal, and its children inherit that.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    if interrupt_after is not None:
        try:
            process.wait(interrupt_after)
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGINT)
    said, complaint = process.communicate(timeout=120)
    return Ending(process.returncode, said, complaint, time.monotonic() - begun)


def before_the_first_line(ending: Ending) -> bool:
    """Whether the signal came while Python itself was starting, before any of our code ran."""
    if ending.said or ending.code not in (-signal.SIGINT, 1):
        return False
    if not ending.complaint:
        return ending.code == -signal.SIGINT
    ours = ("redunet/cli", "redunet/__main__")
    return ending.complaint.rstrip().endswith("KeyboardInterrupt") and not any(
        name in ending.complaint for name in ours
    )


def fault(ending: Ending, model: Path, before: bytes, after: bytes) -> str | None:
    """What is wrong with the end of an interrupted command, if anything."""
    found = model.read_bytes()
    if found not in (before, after):
        return "the model is neither the one before nor the one after"
    if left := [path.name for path in model.parent.glob(".*")]:
        return f"left {left}"
    if before_the_first_line(ending):
        return None if found == before else "changed before the first line"
    if ending.code == 0:
        finished = ending.said.startswith("Learnt") and not ending.complaint
        return None if finished and found == after else f"finished, but {ending}"
    lines = {f"redunet: stopped; {line.format(model)}\n": saved for line, saved in LINES.items()}
    if ending.code != 1 or ending.complaint not in lines:
        return f"ended by {ending}"
    if lines[ending.complaint] != (found == after):
        return f"said {ending.complaint!r}, which is not so"
    return None


def sigint_storm(n: int, seed: int, at_once: int = 1) -> list[str]:
    """Interrupt `redunet learn` n times, at random moments; half of them near its end.

    Parameters
    ----------
    n : int
    seed : int
    at_once : int, default=1
        How many commands run side by side.

    Returns
    -------
    list of str
        What went wrong: empty where every command ended as it should.
    """
    rng = np.random.default_rng(seed)
    with _example() as (before, after, data, seconds, folder):
        # From the first import on; then closely around reading, saving, printing and exiting.
        moments = np.where(
            np.arange(n) % 2, rng.uniform(0, seconds, n), rng.uniform(0.8, 1.05, n) * seconds
        )

        def one(index: int) -> str | None:
            place = folder / str(index)
            place.mkdir()
            model = place / "model"
            model.write_bytes(before)
            moment = float(moments[index])
            ending = command("learn", model, data, interrupt_after=moment)
            wrong = fault(ending, model, before, after)
            return None if wrong is None else f"interrupted after {moment:.3f} s: {wrong}"

        with ThreadPoolExecutor(at_once) as pool:
            return [wrong for wrong in pool.map(one, range(n)) if wrong is not None]


@contextmanager
def _example() -> Iterator[tuple[bytes, bytes, Path, float, Path]]:
    """A model before and after a command, the data between them, the command's seconds."""
    rng = np.random.default_rng(0)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for part in ("first", "second"):
            X, y = rng.standard_normal((200, 12)), rng.integers(0, 3, 200)
            np.savez(folder / f"{part}.npz", X=X, y=y)
        model = folder / "model"
        first = command("learn", model, folder / "first.npz", "--set", "n_layers=2")
        before = model.read_bytes()
        second = command("learn", model, folder / "second.npz")
        if first.code or second.code:
            raise RuntimeError(f"expected two commands to finish, got {first} and {second}")
        yield before, model.read_bytes(), folder / "second.npz", second.seconds, folder


if __name__ == "__main__":
    number, seed = map(int, sys.argv[1:])
    for line in sigint_storm(number, seed, at_once=os.cpu_count() or 1):
        print(line)  # noqa: T201
