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
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from redunet.safety.files import write_bytes, writing
from redunet.safety.lock import changing

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
    """End n commands, learn and forget in turn; a model neither old nor new is a fault."""
    return _end_commands(
        n,
        [
            (("learn", "{}/model", "{}/more.npz"), ()),
            (("forget", "{}/model", "3"), ("learn", "{}/model", "{}/more.npz")),
        ],
    )


def choice_storm(n: int) -> int:
    """End n commands, tune and calibrate in turn; a model neither old nor new is a fault."""
    validation = ("{}/model", "{}/validation.npz")
    tune = ("tune", *validation, "--write", "--budget", "3", "--out", "{}/tune")
    return _end_commands(n, [(tune, ()), (("calibrate", *validation), ())])


def _end_commands(n: int, commands: Sequence[tuple[Sequence[str], Sequence[str]]]) -> int:
    """End n commands by SIGKILL, or every other round by SIGINT, at random moments.

    Parameters
    ----------
    n : int
    commands : sequence of (words, words)
        Each changes a model, on which the other command was run before, if any.

    Returns
    -------
    int
        How often the model was neither as before nor as after, something else was left in its
        folder, or SIGINT ended in another exit code than 1, or 0 where it came too late.
    """
    import numpy as np

    from redunet.cli import app, messages, process
    from redunet.data import learning
    from redunet.safety import interrupts

    assert app, (messages, learning)  # loaded once, not by each command
    rng, faults = random.Random(0), 0
    with tempfile.TemporaryDirectory() as folder:
        model = Path(folder, "model")
        y = np.arange(120) % 4
        X = np.random.default_rng(0).standard_normal((120, 10)) + 2 * np.eye(4, 10)[y] + 5
        for name, rows in (("first", y < 3), ("more", y == 3), ("validation", y < 3)):
            half = (np.arange(120) >= 80) == (name == "validation")
            np.savez(Path(folder, f"{name}.npz"), X=X[rows & half], y=y[rows & half])

        def run(words: Sequence[str]) -> int:
            sys.argv[1:] = [*words, "--quiet"]
            nowhere = os.open(os.devnull, os.O_WRONLY)
            for stream in (1, 2):
                os.dup2(nowhere, stream)
            signal.signal(signal.SIGINT, signal.default_int_handler)
            try:  # as the program itself begins
                interrupts.listen()
                signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
            except KeyboardInterrupt:
                return 1
            return process.run()

        def started(words: Sequence[str]) -> int:
            """A process that can be interrupted from its first line on, and not before."""
            signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
            child = _fork(partial(run, [word.format(folder) for word in words]), 3)
            signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
            return child

        def seconds_of(words: Sequence[str]) -> float:
            start = time.perf_counter()
            if os.waitpid(started(words), 0)[1]:
                raise RuntimeError(f"{words} was refused")
            return time.perf_counter() - start

        seconds_of(("learn", "{}/model", "{}/first.npz", "--set", "n_layers=2"))
        small, turns = model.read_bytes(), []
        for words, first in commands:
            write_bytes(model, small)
            if first:
                seconds_of(first)
            before, longest = model.read_bytes(), seconds_of(words)
            turns.append((words, before, model.read_bytes(), longest))
            assert before != turns[-1][2]
        left = sorted(os.listdir(folder))
        for turn in range(n):
            words, before, after, longest = turns[turn % len(turns)]
            by = signal.SIGINT if turn // len(turns) % 2 else signal.SIGKILL
            write_bytes(model, before)
            child = started(words)
            time.sleep(longest * rng.uniform(0, 1) ** 0.5)  # more often near the end
            os.kill(child, by)
            status = os.waitpid(child, 0)[1]
            ended = status in (0, signal.SIGKILL if by == signal.SIGKILL else 1 << 8)
            whole = model.read_bytes() in (before, after)
            with changing(model, _silent):
                write_bytes(model, small)
            faults += not (ended and whole and sorted(os.listdir(folder)) == left)
    return faults


STORMS: dict[str, Callable[[int], int]] = {
    storm.__name__: storm
    for storm in (kill_storm, lock_storm, overwrite_storm, command_storm, choice_storm)
}


def _silent(_: str) -> None:
    pass


def _fork(work: Callable[[], int | None], failed: int = 1) -> int:
    """A process that does some work, and ends with its exit code, or another if it failed."""
    process = os.fork()
    if process:
        return process
    status = failed
    try:
        status = work() or 0
    except BaseException:  # noqa: BLE001 - the parent counts it
        traceback.print_exc()
    finally:
        os._exit(status)


if __name__ == "__main__":
    sys.stdout.write(f"{STORMS[sys.argv[1]](int(sys.argv[2]))}\n")
