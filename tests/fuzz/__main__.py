"""Attack models, files and processes: ``python -m tests.fuzz [SCALE]``, or ``make fuzz``.

Each attack counts its faults, and the exit code is 1 where there are any. At scale 1 it
makes 10,000 forged model files, 10,000 interruptions inside the package, 1,000 SIGINT
and 1,000 SIGKILL of real commands, and 100,000 operations compared with joint training.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

from tests.fuzz import interruptions, interrupts, models, operations, reading, writing


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
    "forged data files, of each kind": (1_000, forged_data),
    "interruptions at a bytecode": (10_000, interruptions.interrupt),
    "interruptions while loading": (1_000, interruptions.interrupt_loading),
    "operations compared with joint training": (100_000, operations.operate),
    "SIGINT of learn": (1_000, interrupts.sigint_storm),
    "SIGKILL of learn and forget": (1_000, storm("command_storm")),
    "SIGKILL while writing": (1_000, storm("kill_storm")),
    "turns at a lock": (20_000, storm("lock_storm")),
    "writers of one file": (1_000, storm("overwrite_storm")),
}
"""What is attacked: how often at scale 1, and by which function of a count and a seed."""


def attack(name: str, n: int, seed: int) -> tuple[int, float, list[str]]:
    """The number of attacks, the seconds they took, and the faults."""
    start = time.monotonic()
    faults = ATTACKS[name][1](n, seed)
    return n, time.monotonic() - start, faults


def main(scale: float) -> int:
    """Run all attacks, as many at a time as there are cores; 1 where there was a fault."""
    # Parts of equal size, with seeds of their own, so that cores can share one attack.
    parts = max(1, min(16, os.cpu_count() or 1))
    jobs = []
    with ProcessPoolExecutor(parts, get_context("spawn")) as pool:
        for name, (count, _) in ATTACKS.items():
            n = max(1, round(count * scale))
            sizes = [n // parts + (part < n % parts) for part in range(parts)]
            jobs += [
                (name, pool.submit(attack, name, size, seed))
                for seed, size in enumerate(sizes)
                if size
            ]
        failed = 0
        for name in ATTACKS:
            done = [job.result() for of, job in jobs if of == name]
            faults = [fault for _, _, found in done for fault in found]
            failed += len(faults)
            n, seconds = sum(one[0] for one in done), sum(one[1] for one in done)
            sys.stdout.write(f"{name:42} {n:8,}  faults {len(faults):3}  {seconds:8.0f} s\n")
            for fault in faults[:5]:
                sys.stdout.write(f"    {fault}\n")
            sys.stdout.flush()
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(float(sys.argv[1]) if len(sys.argv) > 1 else 1.0))
