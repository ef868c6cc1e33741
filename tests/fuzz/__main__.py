"""Attack models, files and processes: ``python -m tests.fuzz [SCALE]``, or ``make fuzz``.

Each attack counts its faults, and the exit code is 1 where there are any. At scale 1 it
makes as many of each as `ATTACKS` says.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor

from tests.fuzz import (
    forged_moments,
    interruptions,
    interrupts,
    models,
    operations,
    reading,
    receipts,
    serving,
    writing,
)


def forged_data(n: int, seed: int) -> list[str]:
    """Damaged and hostile data, n files of each kind."""
    found = reading.forge(n, seed)
    return [
        f"{kind}: {outcome}"
        for kind, counts in found.items()
        for outcome, count in counts.items()
        if outcome.startswith("fault")
        for _ in range(count)
    ]


def storm(name: str) -> Callable[[int, int], list[str]]:
    """One of the storms on files that are being written."""
    return lambda n, seed: writing.STORMS[name](n) * ["fault"]


ATTACKS: dict[str, tuple[int, Callable[[int, int], list[str]]]] = {
    "forged model files": (10_000, models.forge),
    "forged moments": (10_000, forged_moments.forge),
    "forged data files, of each kind": (1_000, forged_data),
    "forged receipts logs": (10_000, receipts.forge),
    "interruptions at a bytecode": (10_000, interruptions.interrupt),
    "interruptions while loading": (1_000, interruptions.interrupt_loading),
    "operations compared with joint training": (100_000, operations.operate),
    "SIGINT of learn": (1_000, interrupts.sigint_storm),
    "SIGKILL and SIGINT of learn and forget": (1_000, storm("command_storm")),
    "SIGKILL and SIGINT of tune and calibrate": (400, storm("choice_storm")),
    "SIGKILL while writing": (1_000, storm("kill_storm")),
    "SIGKILL of serve": (50, serving.kill),
    "requests of eight clients": (1_000, serving.interleave),
    "turns at a lock": (20_000, storm("lock_storm")),
    "writers of one file": (1_000, storm("overwrite_storm")),
}
"""What is attacked: how often at scale 1, and by which function of a count and a seed."""


def part(name: str, n: int, seed: int) -> tuple[int, list[str]]:
    """Some of the attacks of one name, in a process of their own: the seconds and the faults.

    Attacks limit their memory, fork and kill, so they share no process.
    """
    start = time.monotonic()
    words = [sys.executable, "-m", "tests.fuzz", name, str(n), str(seed)]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    try:
        faults = json.loads(done.stdout.splitlines()[-1])
    except (IndexError, ValueError):
        faults = [f"ended with {done.returncode}: {done.stderr.strip()[-300:]}"]
    return round(time.monotonic() - start), faults


def main(scale: float) -> int:
    """Run all attacks, as many at a time as there are cores; 1 where there was a fault."""
    cores = max(1, min(16, os.cpu_count() or 1))
    failed = 0
    with ThreadPoolExecutor(cores) as pool:
        jobs: dict[str, list[Future[tuple[int, list[str]]]]] = {}
        counts = {name: max(1, round(count * scale)) for name, (count, _) in ATTACKS.items()}
        for name, n in counts.items():
            # Parts of equal size, with seeds of their own, so that cores can share one attack.
            sizes = [n // cores + (index < n % cores) for index in range(cores)]
            jobs[name] = [
                pool.submit(part, name, size, seed) for seed, size in enumerate(sizes) if size
            ]
        for name, parts in jobs.items():
            done = [one.result() for one in parts]
            faults = [fault for _, found in done for fault in found]
            failed += len(faults)
            seconds = sum(seconds for seconds, _ in done)
            print(f"{name:42} {counts[name]:8,}  faults {len(faults):3}  {seconds:6} s", flush=True)
            for fault in faults[:5]:
                print(f"    {fault}", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    if len(sys.argv) == 4:
        print(json.dumps(ATTACKS[sys.argv[1]][1](int(sys.argv[2]), int(sys.argv[3]))))
    else:
        sys.exit(main(float(sys.argv[1]) if len(sys.argv) > 1 else 1.0))
