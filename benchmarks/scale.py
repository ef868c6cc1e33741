"""What learning on many workers costs, on paper and measured: ``python -m benchmarks.scale``.

The constants of the model are measured here, as processor time, which other programs on the machine
disturb little: five in one process of one thread, one on Dask with tiny partitions. The network is
assumed. Then jobs on Dask with 1 to 8 worker processes are compared with what the model says.
``--constants-only`` leaves these out. ``python -m benchmarks.scale_page`` puts the record into
benchmarks/scale.md.
"""

from __future__ import annotations

import argparse
import math
import os
import pickle
import time
import warnings
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks.measure import Row, machine, record
from redunet import ReduNetClassifier
from redunet.core.exact_columns import most_columns
from redunet.distributed import learn, task
from redunet.distributed.dask_cluster import local_client
from redunet.distributed.dask_parts import PARTS_PER_WORKER
from redunet.distributed.task import Part, Task

RECORD = Path(__file__).parent / "results" / "scale.json"
WORKERS = (1, 2, 4, 8)
JOBS = ((200_000, 256, 10), (200_000, 256, 40), (60_000, 768, 4))
"""Samples, features and classes of the jobs that are measured."""


@dataclass(frozen=True)
class Constants:
    """Seconds on one core, but for the last.

    Parameters
    ----------
    square, linear : float
        A sample of d features takes square d² + linear d.
    finish, send, add : float
        A byte of moments, of 8 k d², takes so much where a partition ends, where moments are sent
        (packed, and unpacked again), and where two are added.
    partition : float
        What Dask does for a partition, whatever is in it.
    network : float
        Bytes a second between two machines.
    """

    square: float
    linear: float
    finish: float
    send: float
    add: float
    partition: float
    network: float = 1.25e9


@dataclass(frozen=True)
class Job:
    """Samples that are to be learnt.

    Parameters
    ----------
    samples, features, classes, workers : int
    by_class : bool, default=False
        Whether partitions are sorted by class, so that each has its own; else each has all.
    """

    samples: float
    features: int
    classes: int
    workers: int
    by_class: bool = False

    @property
    def partitions(self) -> int:
        """As many as `redunet.distributed` makes of files."""
        return PARTS_PER_WORKER * self.workers

    @property
    def file_bytes(self) -> float:
        """Of the model file, and of the largest message: packed moments of all samples."""
        return self.classes * packed(self.features, self.samples / self.classes)

    @property
    def memory_bytes(self) -> float:
        """Of the moments of all samples in memory."""
        return self.classes * held(self.features, self.samples / self.classes)

    @property
    def part_bytes(self) -> float:
        """Of the moments of one partition in memory."""
        if self.by_class:
            return self.memory_bytes / self.partitions
        seen = min(self.classes, self.samples / self.partitions)
        return seen * held(self.features, self.samples / self.partitions / seen)

    @property
    def worker_bytes(self) -> float:
        """Of what a worker holds at a time: the moments of a partition, or two and their sum."""
        return self.part_bytes if self.by_class else max(self.part_bytes, 3 * self.memory_bytes)

    @property
    def levels(self) -> int:
        """Of the tree of sums."""
        return math.ceil(math.log2(self.partitions))

    @property
    def messages(self) -> int:
        """One for each sum of two where there is more than one worker, and the result."""
        return 1 if self.workers == 1 else self.partitions

    @property
    def wire_bytes(self) -> float:
        """Of all messages."""
        # Sorted by class, all messages of a level together are as large as the result.
        return (self.levels + 1 if self.by_class else self.messages) * self.file_bytes

    def processor_seconds(self, c: Constants) -> float:
        """Of all workers and the client together."""
        sums = 0.0 if self.by_class else (self.partitions - 1) * self.memory_bytes * c.add
        sent = self.wire_bytes / self.file_bytes * self.memory_bytes * c.send
        return self._learning(c) + sums + sent

    def seconds(self, c: Constants) -> float:
        """From the first partition to the result, with a core and a network card a worker."""
        a_sum = self.memory_bytes * c.add
        a_message = self.memory_bytes * c.send + self.file_bytes / c.network
        if self.by_class:  # messages double from level to level, to all classes at the end
            a_sum, one_after_another = 0.0, 2
        else:
            one_after_another = 1 if self.workers == 1 else self.levels + 1
        own = self._learning(c) / self.workers
        return own + self.levels * a_sum + one_after_another * a_message

    def _learning(self, c: Constants) -> float:
        d = self.features
        a_sample = c.square * d**2 + c.linear * d
        a_partition = self.part_bytes * c.finish + c.partition
        return self.samples * a_sample + self.partitions * a_partition


def packed(d: int, samples: float) -> float:
    """Bytes of a class on the wire and in a file."""
    r = samples if samples <= most_columns(d) else d
    return 8 * (r * d - r * (r - 1) / 2 + d + 1)


def held(d: int, samples: float) -> float:
    """Bytes of a class in memory."""
    return 8 * d * (samples if samples <= most_columns(d) else d)


def samples(n: int, d: int, k: int) -> tuple[Any, Any]:
    """Vectors of float32 around k centres, classes mixed, and labels."""
    rng = np.random.default_rng(0)
    y = rng.integers(0, k, n)
    centres = rng.standard_normal((k, d), dtype=np.float32)
    return centres[y] + rng.standard_normal((n, d), dtype=np.float32), y


def processor_time(work: Callable[[], object], rounds: int = 3) -> float:
    """The least seconds of this process that a call takes."""
    times = []
    for _ in range(rounds):
        start = time.process_time()
        work()
        times.append(time.process_time() - start)
    return min(times)


def constants() -> Constants:
    """What one core of this machine takes."""
    sizes, a_sample, finish = (256, 1024), [], []
    for d in sizes:
        few, k = 2048, 4
        X, y = samples(4 * few * k, d, k)
        part = len(X) // 4
        model = ReduNetClassifier(device="cpu")
        least = processor_time(partial(model.fit, X[:part], y[:part]))
        most = processor_time(partial(model.fit, X, y))
        a_sample.append((most - least) / (len(X) - part))
        finish.append(max(0.0, least - a_sample[-1] * part) / (8 * k * d**2))
    # Of two sizes: s = square d² + linear d.
    by_size = [seconds / d for seconds, d in zip(a_sample, sizes, strict=True)]
    square = (by_size[1] - by_size[0]) / (sizes[1] - sizes[0])
    linear = max(0.0, by_size[0] - square * sizes[0])
    whole = Task.of(model).part(model)
    size = 8 * k * d**2
    send = processor_time(lambda: pickle.loads(pickle.dumps(whole, protocol=5)))
    add = processor_time(lambda: whole + whole)
    tiny = 64
    with local_client(2) as client:
        engine = processor_time_on(client, *samples(tiny, 4, 2), rows=1)[0] / tiny
    return Constants(square, linear, max(finish), send / size, add / size, engine)


def processor_time_on(client: Any, X: Any, y: Any, rows: int) -> tuple[float, float, Any]:
    """Seconds of all processes together, and on the clock, that learning takes; and the model.

    Workers have the data, in partitions of so many rows, and have learnt it twice before.
    """
    import dask.array as da
    from distributed import wait

    with warnings.catch_warnings(), client.as_current():
        warnings.simplefilter("ignore")  # the data goes to the workers as it is
        here = client.persist((da.from_array(X, chunks=(rows, -1)), da.from_array(y, chunks=rows)))
        wait(here)
    for _ in range(2):
        learn(ReduNetClassifier(device="cpu"), tuple(here), client)
    client.run(_count)
    before = sum(client.run(time.process_time).values()) + time.process_time()
    start = time.perf_counter()
    model = learn(ReduNetClassifier(device="cpu"), tuple(here), client)
    wall = time.perf_counter() - start
    after = sum(client.run(time.process_time).values()) + time.process_time()
    return after - before, wall, model


def measured(job: Job) -> Row:
    """What a job takes on Dask, with worker processes on this machine."""
    X, y = samples(int(job.samples), job.features, job.classes)
    plain = ReduNetClassifier(device="cpu")
    alone = processor_time(lambda: plain.fit(X, y), rounds=1)
    with local_client(job.workers) as client:
        rows = math.ceil(len(X) / job.partitions)
        processor, wall, model = processor_time_on(client, X, y, rows)
        sent = [*client.run(_counted).values()]
    assert model.moments_ == plain.moments_
    return {
        "case": f"{int(job.samples):,} × {job.features}, {job.classes} classes",
        **asdict(job),
        "partitions": job.partitions,
        "wall": wall,
        "processor": processor,
        "processor_one_process": alone,
        "messages": sum(len(one) for one in sent),
        "wire_bytes": sum(sum(one) for one in sent),
    }


def _count() -> None:
    """Have this worker note the size of each partial result that it sends."""
    reduce = Part.__reduce__

    def counting(self: Part) -> Any:
        found = reduce(self)
        task.__dict__.setdefault("_sent", []).append(len(found[1][0]))
        return found

    Part.__reduce__ = counting  # type: ignore[method-assign]


def _counted() -> list[int]:
    return list(task.__dict__.get("_sent", []))


def main() -> None:
    """Measure, and write the record."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--constants-only", action="store_true")
    parser.add_argument("--record", type=Path, default=RECORD)
    asked = parser.parse_args()
    torch.set_num_threads(1)
    about = machine() | {"cores": os.cpu_count()}
    found = constants()
    print(found)
    rows: list[Row] = []
    for n, d, k in () if asked.constants_only else JOBS:
        for workers in WORKERS:
            rows.append(measured(Job(n, d, k, workers)))
            print(rows[-1], flush=True)
    record(asked.record, about | {"constants": asdict(found)}, rows)


if __name__ == "__main__":
    main()
