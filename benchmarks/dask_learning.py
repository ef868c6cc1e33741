"""Learning a large table in one process and on Dask: ``python -m benchmarks.dask_learning``.

A table of float32 in Parquet files is generated in a temporary folder, learnt by the command
``redunet learn`` as it is, with one worker and with two, in turns, and each time the model file
is the same. The floor is that of `benchmarks.measure`, from the rate of a matrix product between
these turns. ``--rows 100000`` is a trial. Needs ``redunet[dask]``, and 2.2 GB of disk in full.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import statistics
import subprocess
import sys
import tempfile
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import torch

from benchmarks.measure import Row, clock, machine, moments_floor, record, yardsticks
from redunet import ReduNetClassifier
from redunet.distributed import learn
from redunet.distributed.dask_cluster import local_client

RECORD = Path(__file__).parent / "results" / "dask-cpu.json"
FILES, GROUP_ROWS = 4, 25_000
WAYS: dict[str, tuple[str, ...]] = {
    "one process": (),
    "1 worker": ("--workers", "1"),
    "2 workers": ("--workers", "2"),
}


def write_files(folder: Path, rows: int, d: int, k: int, seed: int) -> list[Path]:
    """Parquet files of vectors around k centres, and their labels."""
    rng = np.random.default_rng(seed)
    centres = rng.standard_normal((k, d), dtype=np.float32)
    names = [*(f"v{index}" for index in range(d)), "label"]
    paths = [folder / f"{number}.parquet" for number in range(FILES)]
    for path in paths:
        schema = pa.schema([(name, pa.float32()) for name in names[:-1]] + [("label", pa.int64())])
        with pq.ParquetWriter(path, schema, use_dictionary=["label"]) as file:
            for start in range(0, rows // FILES, GROUP_ROWS):
                n = min(GROUP_ROWS, rows // FILES - start)
                y = rng.integers(0, k, n)
                X = centres[y] + rng.standard_normal((n, d), dtype=np.float32)
                file.write_table(pa.table([*X.T.copy(), y], schema=schema))
    return paths


def command(way: str, paths: list[Path], model: Path) -> None:
    """Learn all files into a new model, as a person would."""
    model.unlink(missing_ok=True)
    words = [sys.executable, "-m", "redunet", "learn", str(model), *map(str, paths), *WAYS[way]]
    subprocess.run(words, check=True, capture_output=True)


def over_the_wire(paths: list[Path], n_workers: int) -> dict[str, int]:
    """Bytes of all messages: those of the workers, and those of client and scheduler."""
    with local_client(n_workers) as client:
        client.run(_count)
        _count()
        model = learn(ReduNetClassifier(), paths, client)
        here, there = _sent(), client.run(_sent)
    d = model.moments_.n_features
    triangles = 8 * len(model.moments_) * (d * (d + 1) // 2 + d + 1)
    return {
        "bytes_sent_by_workers": sum(there.values()),
        "bytes_sent_to_workers": here,
        "bytes_of_a_result": triangles,
    }


def _count() -> None:
    """Let this process count the bytes that it writes to sockets, from 0 on."""
    from distributed.comm.tcp import TCP

    if hasattr(TCP, "n_bytes_sent"):
        TCP.n_bytes_sent = 0
        return
    write = TCP.write

    async def counting(self: Any, *args: Any, **kwargs: Any) -> Any:
        n_bytes = await write(self, *args, **kwargs)
        TCP.n_bytes_sent += n_bytes or 0
        return n_bytes

    TCP.write, TCP.n_bytes_sent = counting, 0


def _sent() -> int:
    from distributed.comm.tcp import TCP

    return int(TCP.n_bytes_sent)


def measure(rows: int, d: int, k: int, rounds: int, seed: int) -> list[Row]:
    """A row for each way of learning."""
    product = yardsticks(d, torch.float64)["product"]
    product()
    seconds: dict[str, list[float]] = {way: [] for way in WAYS}
    products: list[float] = []
    hashes = set()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        paths = write_files(folder, rows, d, k, seed)
        size = sum(path.stat().st_size for path in paths)
        for _ in range(rounds):
            for way in WAYS:
                products += [clock(product) for _ in range(9)]
                model = folder / "model.safetensors"
                seconds[way].append(clock(partial(command, way, paths, model)))
                hashes.add(hashlib.sha256(model.read_bytes()).hexdigest())
        wire = {"1 worker": over_the_wire(paths, 1), "2 workers": over_the_wire(paths, 2)}
    assert len(hashes) == 1, "the model files differ"
    floor = moments_floor(rows, d, statistics.median(products))
    plain = statistics.median(seconds["one process"])
    return [
        {
            "case": f"learn {rows:,} × {d} float32 from Parquet, {way}",
            "way": way,
            "measured": statistics.median(times),
            "least": min(times),
            "most": max(times),
            "rows_per_second": rows / statistics.median(times),
            "bytes_read": size,
            "floor": floor,
            "over_floor": statistics.median(times) / floor,
            "over_one_process": statistics.median(times) / plain,
            **wire.get(way, {}),
        }
        for way, times in seconds.items()
    ]


def main() -> None:
    """Measure, and write the record."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--features", type=int, default=512)
    parser.add_argument("--classes", type=int, default=10)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--record", type=Path, default=RECORD)
    asked = parser.parse_args()
    about = machine() | {
        "versions": {name: version(name) for name in ("dask", "distributed", "pyarrow")},
        "seed": asked.seed,
        "classes": asked.classes,
        "rounds": asked.rounds,
        "cores": os.cpu_count(),
    }
    rows = measure(asked.rows, asked.features, asked.classes, asked.rounds, asked.seed)
    record(asked.record, about, rows)
    for row in rows:
        print(row)


if __name__ == "__main__":
    main()
