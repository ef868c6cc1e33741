"""Memory, time and messages of a model whose classes are spread over processes.

``python -m benchmarks.ranks [--device cuda] [--folder FOLDER] [RANKS ...]`` has 1, 2 and 4
processes under torchrun read a model, build it and label samples by all layers: 200 classes of
many samples, and 2,000 of few. On a GPU, 1 and 2 processes share it. Writes
``FOLDER/ranks-DEVICE.json``, the table of ``benchmarks/scale.md``.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from benchmarks.measure import Row, Work, clock, machine, record
from redunet import ReduNetClassifier, offload
from redunet.distributed import ShardedClassifier, group

Array = NDArray[Any]

SEED, NEW = 0, 500
CASES = {
    "200 classes of 600 samples, d 512": (200, 600, 512),
    "2,000 classes of 40 samples, d 512": (2000, 40, 512),
}
"""Classes, samples of each, features."""

SETTINGS: dict[str, Any] = {
    "n_layers": 3,
    "step": 0.3,
    "step_kind": "relative",
    "sharpness": 30.0,
    "sharpness_kind": "relative",
    "temperature": 1.0,
    "n_components": 16,
}
HERE = {"exact": True, "memory": "1MB"}
"""All layers for every sample, as in a group; and they are not kept, however few classes."""


def drawn(k: int, n: int, d: int, part: int) -> Iterator[tuple[Array, Array]]:
    """Samples of k classes around means of their own, some classes at a time."""
    means = np.random.default_rng(SEED).standard_normal((k, d), dtype=np.float32) / 2
    rng = np.random.default_rng([SEED, part])
    for classes in np.array_split(np.arange(k), -(-k // 50)):
        y = np.repeat(classes, n)
        yield means[y] + rng.standard_normal((len(y), d), dtype=np.float32), y


def make(folder: Path, k: int, n: int, d: int) -> None:
    """The model file of a case, and samples to label."""
    model = ReduNetClassifier(**SETTINGS).partial_fit_batches(drawn(k, n, d, 1))
    model.save(folder / "model.safetensors")
    new = np.concatenate([X for X, _ in drawn(k, -(-NEW // k), d, 2)])
    np.save(folder / "new.npy", new[np.linspace(0, len(new) - 1, NEW).astype(int)])


def measure(folder: Path, device: str) -> None:
    """One process: read, build and label; what it took is written for `main`."""
    X = np.load(folder / "new.npy")
    with group() as ranks:
        if device == "cuda":
            torch.zeros(1, device=device)
        imported, row = _memory(), Row()
        wire = _sent()
        model: list[ShardedClassifier] = []
        path = folder / "model.safetensors"

        def read() -> None:
            with offload(folder):
                found = ReduNetClassifier.load(path).set_params(device=device, **HERE)
            model.append(ShardedClassifier(found, ranks))

        row |= _clock("read", read, device)
        ranks.sum_(torch.zeros(1))
        before = getattr(ranks, "n_bytes", 0), getattr(ranks, "messages", 0)
        row |= _clock("build", lambda: model[0].transform(X[:1]), device)
        built = getattr(ranks, "n_bytes", 0), getattr(ranks, "messages", 0)
        found: list[Array] = []
        row |= _clock("label", lambda: found.append(model[0].decision_function(X)), device)
        ranks.sum_(torch.zeros(1))
        row["bytes_to_build"] = built[0] - before[0]
        row["messages_to_build"] = built[1] - before[1]
        row["bytes_to_label"] = getattr(ranks, "n_bytes", 0) - built[0]
        row["messages_to_label"] = getattr(ranks, "messages", 0) - built[1]
        row["bytes_on_loopback"] = _sent() - wire
        row["classes"] = len(model[0]._places)
        row["peak_memory"], row["memory_before"] = _memory(), imported
        if device == "cuda":
            row["peak_device_memory"] = torch.cuda.max_memory_allocated()
        if ranks.rank == 0:
            np.save(folder / f"scores-{ranks.size}.npy", found[0])
    (folder / f"row-{ranks.rank}-of-{ranks.size}.json").write_text(json.dumps(row))


def _clock(name: str, work: Work, device: str) -> Row:
    """Seconds that one call takes, and those of them that the processor worked for it."""
    start = time.process_time()
    seconds = clock(work, device)
    return {name: seconds, f"{name}_cpu": time.process_time() - start}


def _memory() -> int:
    """The most that this process has held so far; getrusage would count its parent's too."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return 1024 * int(next(line for line in lines if line.startswith("VmHWM")).split()[1])


def _sent() -> int:
    """Bytes that all processes of this machine have sent to each other, where Linux tells."""
    try:
        lines = Path("/proc/net/dev").read_text().splitlines()
    except OSError:
        return 0
    return int(next(line for line in lines if line.strip().startswith("lo:")).split()[9])


def run(folder: Path, n: int, device: str) -> Row:
    """What the most of n processes took, and how their answers differ from those of one."""
    words = [sys.executable, "-m"]
    if n > 1:
        words += ["torch.distributed.run", "--nproc-per-node", str(n), "-m"]
    words += ["benchmarks.ranks", "--device", device, "--measure", str(folder)]
    threads = os.environ.get("OMP_NUM_THREADS", "1")
    subprocess.run(words, check=True, env=os.environ | {"OMP_NUM_THREADS": threads})
    rows = [json.loads((folder / f"row-{r}-of-{n}.json").read_text()) for r in range(n)]
    row: Row = {"ranks": n} | {key: max(one[key] for one in rows) for key in rows[0]}
    row["beyond_imports"] = max(one["peak_memory"] - one["memory_before"] for one in rows)
    one, scores = (np.load(folder / f"scores-{size}.npy") for size in (1, n))
    row["labels_compared"] = len(scores)
    row["labels_that_differ"] = int(np.sum(one.argmax(axis=1) != scores.argmax(axis=1)))
    row["largest_difference_of_scores"] = float(np.abs(one - scores).max())
    return row


def main() -> None:
    """Measure, and write the record."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("ranks", nargs="*", type=int)
    parser.add_argument("--device", default="cpu", choices=["cpu", "cuda"])
    parser.add_argument("--folder", type=Path, default=Path(__file__).parent / "results")
    parser.add_argument("--small", action="store_true", help="small cases, to try the script")
    parser.add_argument("--measure", type=Path, help="what torchrun is asked for")
    given = parser.parse_args()
    if given.measure is not None:
        measure(given.measure, given.device)
        return
    numbers = given.ranks or ([1, 2, 4] if given.device == "cpu" else [1, 2])
    about = {
        **machine(given.device),
        "python": platform.python_version(),
        "seed": SEED,
        "settings": SETTINGS | HERE,
    }
    rows = []
    for case, (k, n, d) in CASES.items():
        if given.small:
            case, k, n, d = f"{case}, small", k // 20, n // 10, d // 8
        with tempfile.TemporaryDirectory() as place:
            make(Path(place), k, n, d)
            size = (Path(place) / "model.safetensors").stat().st_size
            for ranks in numbers:
                rows.append(
                    {"case": case, "file_bytes": size, **run(Path(place), ranks, given.device)}
                )
                print(rows[-1], flush=True)
    record(given.folder / f"ranks-{given.device}.json", about, rows)


if __name__ == "__main__":
    main()
