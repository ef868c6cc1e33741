"""What busy neighbours cost: ``python -m benchmarks.neighbours FOLDER``.

A model is learnt, built and asked beside other programs that keep processors busy, with threads
that soon sleep while they wait for each other, as commands ask for, and with those that spin for
longer, as is usual. Writes ``FOLDER/neighbours.json``. A fair share of two processors, among a
process of two threads and n neighbours, is 2 / (2 + n) of them.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import time
from pathlib import Path

from benchmarks.measure import Row, machine, record

NEIGHBOURS = (0, 1, 2)
SPINS = {"soon_sleep": "2000", "usual": "300000"}
"""GOMP_SPINCOUNT; the latter is what the library takes by itself."""

ROUNDS = 3
LIMIT = 20.0
"""Seconds after which a turn is given up."""


def work() -> None:
    """Learn 50 classes of 50 samples, build their network, answer 1,000 samples: seconds."""
    from benchmarks.answers import overlapping
    from redunet import ReduNetClassifier

    X, y = overlapping(50, 50, d=192)
    new, _ = overlapping(50, 20, d=192, seed=1)
    start = time.perf_counter()
    ReduNetClassifier(n_layers=10, device="cpu").fit(X, y).predict(new)
    print(time.perf_counter() - start)


def turn(policy: str) -> float:
    """Seconds of the work in a new process, at most `LIMIT`."""
    command = [sys.executable, "-m", "benchmarks.neighbours", "--work"]
    environment = os.environ | {"GOMP_SPINCOUNT": SPINS[policy]}
    try:
        found = subprocess.run(
            command, env=environment, capture_output=True, text=True, check=True, timeout=LIMIT
        )
    except subprocess.TimeoutExpired:
        return LIMIT
    return float(found.stdout.split()[-1])


def main() -> None:
    """Measure every number of neighbours, policies in turn, and write the record."""
    if sys.argv[1] == "--work":
        work()
        return
    about, rows = machine("cpu"), []
    for n in NEIGHBOURS:
        busy = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(n)]
        try:
            times: dict[str, list[float]] = {policy: [] for policy in SPINS}
            for _ in range(ROUNDS):
                for policy, seconds in times.items():
                    seconds.append(turn(policy))
        finally:
            for process in busy:
                process.kill()
                process.wait()
        row: Row = {"neighbours": n, "limit": LIMIT}
        row |= {policy: statistics.median(seconds) for policy, seconds in times.items()}
        rows.append(row)
        print(row, flush=True)
    record(Path(sys.argv[1]) / "neighbours.json", about, rows)


if __name__ == "__main__":
    main()
