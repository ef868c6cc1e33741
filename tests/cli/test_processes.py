"""Commands on model files as processes: killed, interrupted, several at once, short of memory.

Run as a program, this file is the process that the tests below start.
"""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest
from numpy.lib import format as npy

from tests.own_data import IMAGES, NUMBERS, done, refused

ROOT = Path(__file__).parents[2]
MB = 2**20
VALUES = IMAGES.reshape(len(IMAGES), -1)

pytestmark = pytest.mark.usefixtures("one_thread")


def start(*words: object, program: tuple[str, ...] = ("-m", "redunet")) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, *program, *map(str, words)],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1", "COLUMNS": "200"},
        # A background job ignores the signal, and its children inherit that.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )


def write_part(path: Path, rows: Any) -> Path:
    np.savez(path, X=VALUES[rows], y=NUMBERS[rows])
    return path


def write_endless(folder: Path, rows: int = 2**27) -> tuple[Path, ...]:
    """Samples, all zero, that take minutes to learn and hardly any room."""
    for name, dtype, shape in (("X", "<f8", (rows, 12)), ("y", "|i1", (rows,))):
        with open(folder / f"{name}.npy", "wb") as file:
            npy.write_array_header_1_0(
                file, {"descr": dtype, "fortran_order": False, "shape": shape}
            )
            file.truncate(file.tell() + int(np.prod(shape)) * np.dtype(dtype).itemsize)
    return folder / "X.npy", Path("--label"), folder / "y.npy"


def wait_for(path: Path, process: subprocess.Popen[str]) -> None:
    """Wait until a process holds a model."""
    while not path.exists() or not path.read_bytes():
        assert process.poll() is None, process.stderr
        time.sleep(0.01)


@pytest.fixture
def model(tmp_path: Path) -> Path:
    part = write_part(tmp_path / "first.npz", slice(0, 20))
    done("learn", tmp_path / "model", part, "--set", "n_layers=2")
    return tmp_path / "model"


def test_kill_9_leaves_the_model_and_whoever_waits_goes_on(tmp_path: Path, model: Path) -> None:
    before, lock = model.read_bytes(), tmp_path / ".model.changing"
    first = start("learn", model, *write_endless(tmp_path))
    wait_for(lock, first)
    second = start("learn", model, write_part(tmp_path / "second.npz", slice(20, 40)))
    assert second.stderr is not None
    assert second.stderr.readline() == (
        f"redunet: process {first.pid} is changing {model}: waiting until it is done\n"
    )
    assert lock.read_text() == str(first.pid)
    assert model.read_bytes() == before
    first.kill()
    first.communicate(timeout=60)
    said, _ = second.communicate(timeout=60)
    assert second.returncode == 0
    assert said.startswith("Learnt 20 samples")
    assert not lock.exists()
    whole = write_part(tmp_path / "whole.npz", slice(0, 40))
    done("learn", tmp_path / "once", whole, "--set", "n_layers=2")
    assert model.read_bytes() == (tmp_path / "once").read_bytes()


def test_ctrl_c_leaves_the_model_and_says_so(tmp_path: Path, model: Path) -> None:
    before = model.read_bytes()
    process = start("learn", model, *write_endless(tmp_path))
    wait_for(tmp_path / ".model.changing", process)
    process.send_signal(signal.SIGINT)
    said, complaint = process.communicate(timeout=60)
    assert (process.returncode, said) == (1, "")
    assert complaint == f"redunet: stopped; {model} is as it was\n"
    assert model.read_bytes() == before
    assert not list(tmp_path.glob(".*"))


def test_several_that_learn_at_once_do_so_one_after_another(tmp_path: Path, model: Path) -> None:
    parts = [write_part(tmp_path / f"{i}.npz", slice(20 + 8 * i, 28 + 8 * i)) for i in range(5)]
    process = start(model, *parts, program=("-m", "tests.cli.test_processes", "race"))
    said, complaint = process.communicate(timeout=120)
    assert process.returncode == 0, complaint
    assert json.loads(said.splitlines()[-1]) == [0] * 5
    done(
        "learn",
        tmp_path / "once",
        write_part(tmp_path / "whole.npz", slice(0, 60)),
        "--set",
        "n_layers=2",
    )
    assert model.read_bytes() == (tmp_path / "once").read_bytes()
    assert not list(tmp_path.glob(".*"))


@pytest.mark.slow
def test_data_larger_than_memory(tmp_path: Path) -> None:
    X, *_ = write_endless(tmp_path, rows=2**21)
    rows = 2**15
    values = np.random.default_rng(0).standard_normal((rows, 128))
    table = pa.table({"y": np.arange(rows) % 2, **{f"v{i}": values[:, i] for i in range(128)}})
    with pyarrow.parquet.ParquetWriter(
        tmp_path / "t.parquet", table.schema, use_dictionary=False
    ) as writer:
        for _ in range(16):
            writer.write_table(table, row_group_size=2**13)
    process = start(tmp_path, program=("-m", "tests.cli.test_processes", "limited"))
    said, complaint = process.communicate(timeout=300)
    assert process.returncode == 0, complaint
    for file in (X, tmp_path / "t.parquet"):
        assert f"cannot hold the {file.stat().st_size:,} bytes of {file}\n" in said
    assert f"Learnt {2**21:,} samples of 1 class" in said
    assert f"Learnt {16 * rows:,} samples of 2 classes" in said
    done("verify", tmp_path / "t.parquet.model")


def test_too_little_memory_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from typer.testing import CliRunner

    from redunet.cli.app import main

    part = write_part(tmp_path / "a.npz", slice(0, 20))
    import torch

    ours = RuntimeError("a mistake about memory")
    for error in (
        MemoryError(),
        RuntimeError("DefaultCPUAllocator: can't allocate memory"),
        torch.OutOfMemoryError("CUDA out of memory"),
        ours,
    ):

        def fail(*_: object, error: Exception = error, **__: object) -> None:
            raise error

        monkeypatch.setattr("redunet.estimators.MomentEstimator.partial_fit_batches", fail)
        result = CliRunner().invoke(main, ["learn", str(tmp_path / "m"), str(part)])
        if error is ours:
            assert result.exception is ours
            continue
        assert result.exit_code == 1
        assert result.stderr == f"redunet: out of memory; {tmp_path / 'm'} is as it was\n"
    assert "No such file" in refused("learn", tmp_path / "m", tmp_path / "none.npz")


# The processes


def race(model: str, *parts: str) -> list[int]:
    """Learn each part in a process of its own, all at once."""
    return at_once([["learn", model, part, "--quiet"] for part in parts])


def at_once(commands: list[list[str]]) -> list[int]:
    """Run each command in a process of its own; how they ended."""
    from redunet.cli import messages
    from redunet.cli.app import main
    from redunet.data import learning, predicting

    assert predicting, (messages, learning)  # loaded once, not by each child
    children = []
    for words in commands:
        pid = os.fork()
        if not pid:
            try:
                os._exit(main(words, standalone_mode=False) or 0)
            finally:
                os._exit(1)
        children.append(pid)
    return [os.waitpid(pid, 0)[1] for pid in children]


def limited(folder: str) -> None:
    """Learn files that this process may not hold in memory."""
    import redunet.estimators
    from redunet.cli import messages
    from redunet.cli.app import main
    from redunet.data import learning, parquet_files, tables

    # Loaded before the limit is set.
    assert redunet.estimators, (messages, learning, parquet_files, tables, pyarrow.parquet)

    status = Path("/proc/self/status").read_text().split()
    now = int(status[status.index("VmData:") + 1]) * 1024
    # PyArrow's threads take a good part of what Parquet is granted; 128 MB of data are read once.
    for name, margin, *words in (
        ("X.npy", 190 * MB, "--label", f"{folder}/y.npy"),
        ("t.parquet", 440 * MB),
    ):
        resource.setrlimit(resource.RLIMIT_DATA, (now + margin, resource.RLIM_INFINITY))
        file = Path(folder, name)
        try:
            bytes(file.stat().st_size)
        except MemoryError:
            print(f"cannot hold the {file.stat().st_size:,} bytes of {file}", flush=True)  # noqa: T201
        if main(["learn", f"{file}.model", str(file), *words], standalone_mode=False):
            sys.exit(1)


if __name__ == "__main__":
    job, *words = sys.argv[1:]
    jobs: dict[str, Callable[..., object]] = {"race": race, "limited": limited}
    print(json.dumps(jobs[job](*words)))  # noqa: T201
