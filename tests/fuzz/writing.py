"""Processes that write at once, or are killed while they write; each storm counts its faults.

As a program, ``python -m tests.fuzz.writing kill_storm 1000``: a process without threads, which
can be forked safely.
"""

from __future__ import annotations

import mmap
import os
import random
import signal
import struct
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from functools import partial
from pathlib import Path

from redunet.files import write_bytes, writing
from redunet.lock import changing

_PROCESSES = 4


def kill_storm(n: int) -> int:
    """Kill n processes while they change a file; a file that is not whole or stays is a fault."""
    rng, faults = random.Random(0), 0
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "model")
        contents = [letter * size for letter, size in ((b"a", 10), (b"b", 10**5), (b"c", 10**6))]
        write_bytes(path, contents[0])

        def change(ready: int) -> None:
            os.close(ready)
            while True:
                for content in contents:
                    with changing(path, _silent):
                        write_bytes(path, content)

        for _ in range(n):
            reader, writer = os.pipe()
            process = _fork(partial(change, writer))
            os.close(writer)
            os.read(reader, 1)
            os.close(reader)
            time.sleep(rng.uniform(0, 0.01))
            os.kill(process, signal.SIGKILL)
            killed = os.waitpid(process, 0)[1] == signal.SIGKILL
            whole = path.read_bytes() in contents
            with changing(path, _silent):
                write_bytes(path, contents[0])
            faults += not (killed and whole and os.listdir(folder) == ["model"])
    return faults


def lock_storm(n: int) -> int:
    """Lock a file n times in several processes; two inside, an error, a file left are faults."""
    with tempfile.TemporaryDirectory() as folder, mmap.mmap(-1, 4 * (2 + _PROCESSES)) as shared:
        path = Path(folder, "model")
        inside, turns, errors = 0, 1, 2

        def add(slot: int, number: int) -> int:
            """Not in one step: whoever is not alone loses some."""
            (value,) = struct.unpack_from("i", shared, 4 * slot)
            struct.pack_into("i", shared, 4 * slot, value + number)
            return int(value)

        def take_turns(own: int) -> None:
            for _ in range(n // _PROCESSES):
                try:
                    with changing(path, _silent):
                        add(own, add(inside, 1) != 0)
                        add(turns, 1)
                        os.sched_yield()
                        add(inside, -1)
                except Exception:  # noqa: BLE001 - counted, whatever it is
                    traceback.print_exc()
                    add(own, 1)

        processes = [_fork(partial(take_turns, errors + index)) for index in range(_PROCESSES)]
        exits = [os.waitpid(process, 0)[1] != 0 for process in processes]
        _, taken, *faults = struct.unpack(f"{2 + _PROCESSES}i", shared[:])
        missing = n // _PROCESSES * _PROCESSES - taken
        return int(abs(missing) + sum(faults) + sum(exits) + len(os.listdir(folder)))


def overwrite_storm(n: int) -> int:
    """Write one file from two processes at once, n times; mixed rows or an error is a fault."""
    faults = 0
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "same.csv")
        rows = [b"first,1\n" * 3000, b"second,2\n" * 2000]

        def write(text: bytes, reader: int, writer: int) -> None:
            os.close(writer)
            os.read(reader, 1)  # until both are there
            with writing(path) as file:
                for row in text.splitlines(keepends=True):
                    file.write(row)
                    if file.tell() % 700 < len(row):
                        file.flush()

        for _ in range(n):
            reader, writer = os.pipe()
            processes = [_fork(partial(write, text, reader, writer)) for text in rows]
            os.close(reader)
            os.close(writer)
            failed = [os.waitpid(process, 0)[1] for process in processes]
            whole = path.read_bytes() in rows
            faults += any(failed) or not whole or os.listdir(folder) != ["same.csv"]
    return faults


def command_storm(n: int) -> int:
    """Kill n commands, learn and forget in turn; a model neither old nor new is a fault."""
    import numpy as np

    from redunet.cli import lines
    from redunet.cli.app import main
    from redunet.user_data import model_changes

    assert lines, model_changes  # loaded once, not by each command
    rng, faults = random.Random(0), 0
    with tempfile.TemporaryDirectory() as folder:
        model = Path(folder, "model")
        X = np.random.default_rng(0).standard_normal((60, 30))
        for name, classes in (("first", (0, 1)), ("more", (2,))):
            rows = np.isin(np.arange(60) % 3, classes)
            np.savez(Path(folder, f"{name}.npz"), X=X[rows], y=(np.arange(60) % 3)[rows])

        def run(*words: str) -> None:
            if main([*words, "--quiet"], standalone_mode=False):
                raise RuntimeError(f"{words} was refused")

        def time_of(*words: str) -> float:
            start = time.perf_counter()
            ended = os.waitpid(_fork(partial(run, *words)), 0)[1]
            return time.perf_counter() - start if not ended else float("nan")

        learn = ("learn", str(model), f"{folder}/more.npz")
        forget = ("forget", str(model), "2")
        time_of("learn", str(model), f"{folder}/first.npz", "--set", "n_layers=2")
        small = model.read_bytes()
        longest = {learn: time_of(*learn)}
        large = model.read_bytes()
        longest[forget] = time_of(*forget)
        assert model.read_bytes() == small != large
        left = sorted(os.listdir(folder))
        for turn in range(n):
            words = forget if turn % 2 else learn
            write_bytes(model, large if turn % 2 else small)
            process = _fork(partial(run, *words))
            time.sleep(rng.uniform(0, longest[words]))
            os.kill(process, signal.SIGKILL)
            whole = os.waitpid(process, 0)[1] in (0, signal.SIGKILL)
            faults += not whole or model.read_bytes() not in (small, large)
            with changing(model, _silent):
                write_bytes(model, small)
            faults += sorted(os.listdir(folder)) != left
    return faults


STORMS: dict[str, Callable[[int], int]] = {
    storm.__name__: storm for storm in (kill_storm, lock_storm, overwrite_storm, command_storm)
}


def _silent(_: str) -> None:
    pass


def _fork(work: Callable[[], object]) -> int:
    process = os.fork()
    if process:
        return process
    status = 1
    try:
        work()
        status = 0
    except BaseException:  # noqa: BLE001 - the parent counts it
        traceback.print_exc()
    finally:
        os._exit(status)


if __name__ == "__main__":
    sys.stdout.write(f"{STORMS[sys.argv[1]](int(sys.argv[2]))}\n")
