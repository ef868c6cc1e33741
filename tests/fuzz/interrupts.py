"""Ctrl-C at any moment of a command on a model file, from its start to its end."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
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
    """How a command ended; the seconds are those from its start, and after what was waited for."""

    code: int
    said: str
    complaint: str
    whole: float
    held: float


def command(
    *words: object, interrupt_after: float | None = None, waiting_for: Path | None = None
) -> Ending:
    """Run a command in a process of its own; interrupt it after some seconds.

    These are counted from its start, or from when a file is there.
    """
    started = time.monotonic()
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
    while waiting_for and not waiting_for.exists() and process.poll() is None:
        time.sleep(0.0005)
    begun = time.monotonic()
    if interrupt_after is not None:
        try:
            process.wait(interrupt_after)
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGINT)
    said, complaint = process.communicate(timeout=120)
    ended = time.monotonic()
    return Ending(process.returncode, said, complaint, ended - started, ended - begun)


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
    # Between its creation and its locking a lock file is empty: the next command takes it over.
    if left := [path.name for path in model.parent.glob(".*") if path.stat().st_size]:
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
    """Interrupt `redunet learn` n times, at random moments from its start to its end.

    Parameters
    ----------
    n : int
        A third of them are spread over the whole command; the others begin when it holds the
        model: reading, saving, printing and exiting take but a tenth of its time.
    seed : int
    at_once : int, default=1
        How many commands run side by side.

    Returns
    -------
    list of str
        What went wrong: empty where every command ended as it should.
    """
    return [wrong for _, wrong in _storm(n, seed, at_once) if wrong is not None]


def _storm(n: int, seed: int, at_once: int) -> Iterator[tuple[str, str | None]]:
    """How each interrupted command ended, and what was wrong with that."""
    shares = np.random.default_rng(seed).uniform(0, 1.2, n)
    with tempfile.TemporaryDirectory() as name, ThreadPoolExecutor(at_once) as pool:
        folder = Path(name)
        rng = np.random.default_rng(0)
        for part in ("first", "second"):
            X, y = rng.standard_normal((200, 12)), rng.integers(0, 3, 200)
            X += 9 * np.eye(3, 12)[y]  # classes that can be told apart: nothing to note
            np.savez(folder / f"{part}.npz", X=X, y=y)
        model = folder / "model"
        settings = ("--set", "n_layers=2", "--set", "n_components=2")
        first = command("learn", model, folder / "first.npz", *settings)
        before = model.read_bytes()
        lock = folder / ".model.changing"
        second = command("learn", model, folder / "second.npz", waiting_for=lock)
        if first.code or second.code:
            raise RuntimeError(f"expected two commands to finish, got {first} and {second}")
        seconds = {"whole": second.whole, "held": second.held}
        after = model.read_bytes()

        def one(index: int) -> tuple[str, str | None]:
            kind = "held" if index % 3 else "whole"
            model = folder / str(index) / "model"
            model.parent.mkdir()
            model.write_bytes(before)
            # Most of the time with the model is the end of the interpreter: aim before that.
            moment = float(shares[index] ** (4 if kind == "held" else 1)) * seconds[kind]
            ending = command(
                "learn",
                model,
                folder / "second.npz",
                interrupt_after=moment,
                waiting_for=model.parent / ".model.changing" if kind == "held" else None,
            )
            wrong = fault(ending, model, before, after)
            how = f"{ending.code} {ending.complaint.replace(str(model), 'MODEL')[-60:].strip()}"
            return how, None if wrong is None else f"{kind}, {moment:.3f} s: {wrong}"

        yield from pool.map(one, range(n))


if __name__ == "__main__":
    number, seed = map(int, sys.argv[1:])
    endings = Counter[str]()
    for how, wrong in _storm(number, seed, at_once=os.cpu_count() or 1):
        endings[how] += 1
        if wrong:
            print(wrong, flush=True)
    print(endings)
