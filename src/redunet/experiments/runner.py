"""Running a learner over a stream, and what is written down about it."""

from __future__ import annotations

import hashlib
import inspect
import json
import os
import platform
import resource
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Protocol, TypeVar

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray

from redunet._version import __version__
from redunet.errors import SettingsError
from redunet.estimators import metrics, storage
from redunet.estimators.classifier import ReduNetClassifier
from redunet.experiments.plan import completed
from redunet.experiments.streams import Task, pooled
from redunet.progress import Progress, silent


class Learner(Protocol):
    """What can be run over a stream.

    With ``save`` and ``load`` too, a run resumes at once and knows what the
    learner keeps; one with an attribute ``progress`` may tell of it.
    """

    def partial_fit(self, X: Any, y: Any) -> Any:
        """Learn one task."""

    def predict(self, X: Any) -> Any:
        """Labels among all classes seen."""


L = TypeVar("L", bound=Learner)


def run(
    learner: L,
    tasks: Sequence[Task],
    settings: dict[str, Any],
    out: Path,
    evaluate: Callable[[Any, NDArray[Any]], dict[str, NDArray[Any]]] = lambda learner, X: {
        "predict": learner.predict(X)
    },
    progress: Progress = silent,
) -> tuple[dict[str, Any], L]:
    """Run a learner over a stream, writing a record after every task.

    A run that was interrupted goes on after the last task that is in its
    record, and ends with the same numbers: from a checkpoint where the learner
    has ``save`` and ``load``, else by learning the finished tasks once more.

    Parameters
    ----------
    learner : Learner
        That has learnt nothing yet.
    tasks : sequence of Task
    settings : dict
        What decides the numbers; a record of other settings is not resumed.
    out : Path
        Folder of ``record.json`` and of the checkpoint.
    evaluate : callable, default=predict
        From a learner and test samples to labels, one set for each reading of
        the learner; the first one is the learner's own.
    progress : callable, default=nothing
        Told what begins, and which share of the whole is done.

    Returns
    -------
    record : dict
    learner : Learner
        Having learnt all tasks.
    """
    path = storage.make_folder(out) / "record.json"
    record = record_so_far(path, settings)
    done = len(record["tasks"])
    checkpoint = out / f"after-task-{done}.safetensors"
    if done and hasattr(learner, "load") and checkpoint.exists():
        learner = _restored(learner, checkpoint)
    else:
        for number, task in enumerate(tasks[:done], 1):
            progress(f"task {number} once more", 0.0)
            learner.partial_fit(task.x_train, task.y_train)
    for number in range(done + 1, len(tasks) + 1):
        told = _within_task(progress, number, len(tasks))
        told("", 0.0)
        if hasattr(learner, "progress"):
            learner.progress = told
        row = run_task(learner, tasks[:number], evaluate, last=number == len(tasks))
        record["tasks"].append(row)
        if hasattr(learner, "save"):
            checkpoint = out / f"after-task-{number}.safetensors"
            learner.save(checkpoint)
            row["bytes_kept"] = storage.sizes(checkpoint)
        record["peak_memory_bytes"] = max(record["peak_memory_bytes"], peak_memory())
        record["summary"] = summary(record["tasks"])
        write_record(path, record)
        (out / f"after-task-{number - 1}.safetensors").unlink(missing_ok=True)
    return record, learner


def _within_task(progress: Progress, number: int, count: int) -> Progress:
    """What a learner tells of its own progress with a task, as progress of the whole."""

    def tell(what: str, share: float) -> None:
        words = f"task {number} of {count}"
        progress(f"{words}, {what}" if what else words, (number - 1 + share) / count)

    return tell


def run_task(
    learner: Learner,
    seen: Sequence[Task],
    evaluate: Callable[[Any, NDArray[Any]], dict[str, NDArray[Any]]],
    last: bool,
) -> dict[str, Any]:
    """Learn the newest of the tasks seen, then evaluate on all of them; a row of a record.

    Parameters
    ----------
    learner : Learner
        Having learnt all of the tasks but the newest.
    seen : sequence of Task
    evaluate : callable
        As for `run`.
    last : bool
        Whether to count what is taken for what.
    """
    task = seen[-1]
    start = time.perf_counter()
    learner.partial_fit(task.x_train, task.y_train)
    learnt = time.perf_counter()
    x_test, y_test = pooled(seen, "test")
    readings = evaluate(learner, x_test)
    evaluated = time.perf_counter()
    edges = np.cumsum([len(t.test_rows) for t in seen])[:-1]
    own, *_ = readings.values()
    return {
        "classes": [int(c) if isinstance(c, np.integer) else c for c in task.classes],
        "train_samples": len(task.y_train),
        "test_samples": len(y_test),
        **_accuracies(own == y_test, edges),
        "readings": {
            name: _accuracies(labels == y_test, edges)
            | ({"confusion": metrics.confusion(y_test, labels)} if last else {})
            for name, labels in readings.items()
        },
        "seconds": {"learn": round(learnt - start, 3), "evaluate": round(evaluated - learnt, 3)},
    }


def _accuracies(hits: NDArray[np.bool_], edges: NDArray[Any]) -> dict[str, Any]:
    return {
        "accuracy": float(np.mean(hits)),
        "accuracy_by_task": [float(np.mean(hit)) for hit in np.split(hits, edges)],
    }


def summary(rows: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """Metrics over the stream, from the accuracies after each task."""
    seen = [row["accuracy"] for row in rows]
    matrix = np.full((len(rows), len(rows)), np.nan)
    for index, row in enumerate(rows):
        matrix[index, : index + 1] = row["accuracy_by_task"]
    return {
        "last": seen[-1],
        "average": metrics.average_incremental_accuracy(seen),
        "decay": metrics.decay(seen),
        "forgetting": metrics.forgetting(matrix),
        "backward_transfer": metrics.backward_transfer(matrix),
    }


def record_so_far(path: Path, settings: dict[str, Any]) -> dict[str, Any]:
    """The record to go on with, or a new one; one of other settings is an error.

    A setting of a plan that an older record does not have counts as its default.
    """
    settings = json.loads(json.dumps(settings))
    if not path.exists():
        return {"settings": settings, **environment(), "tasks": [], "peak_memory_bytes": 0}
    record = read_record(path)
    record["settings"] = known = completed(record["settings"], settings)
    changed = sorted(k for k in {*known, *settings} if known.get(k) != settings.get(k))
    if changed:
        raise SettingsError(
            f"{path} is the record of a run with another {changed[0]}: "
            f"name another folder, or remove it to start anew"
        )
    return record


def read_record(path: Path) -> dict[str, Any]:
    """The record of a run, finished or not."""
    try:
        record: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        if not {"settings", "tasks"} <= record.keys():
            raise KeyError("settings and tasks")
    except (ValueError, KeyError, AttributeError, OSError) as error:
        raise SettingsError(
            f"expected {path} to be the record of a run, but it cannot be read ({error}): "
            f"remove it, or name another folder"
        ) from error
    return record


def _restored(learner: Any, checkpoint: Path) -> Any:
    """The learner as it was saved; where it runs is not in a file."""
    load = type(learner).load
    where = {"device": learner.device} if "device" in inspect.signature(load).parameters else {}
    restored = load(checkpoint, **where)
    for name in ("device", "memory"):
        if hasattr(learner, name):
            setattr(restored, name, getattr(learner, name))
    return restored


def write_record(path: Path, record: dict[str, Any]) -> None:
    """Save a record, whole or not at all."""
    text = json.dumps(record, indent=1, ensure_ascii=False, allow_nan=False)
    storage.write_bytes(path, text.encode() + b"\n")


def peak_memory() -> int:
    """Most bytes that this process has held in memory at once."""
    with suppress(OSError, StopIteration):
        # Where the system tells: what getrusage says begins with the peak of whoever started it.
        with open("/proc/self/status", encoding="ascii", errors="replace") as status:
            line = next(line for line in status if line.startswith("VmHWM:"))
        return int(line.split()[1]) * 1024
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


def joint_check(
    model: ReduNetClassifier, tasks: Sequence[Task], make: Callable[[], ReduNetClassifier]
) -> dict[str, Any]:
    """Compare a model that learnt task after task with one that had all the data at once."""
    joint = make().fit(*pooled(tasks, "train"))
    x_test, y_test = pooled(tasks, "test")
    labels = joint.predict(x_test)
    verdict = equivalence(model, joint, model.predict(x_test), labels)
    return {"accuracy": float(np.mean(labels == y_test)), "equivalence": verdict.to_dict()}


@dataclass(frozen=True)
class Equivalence:
    """Whether two models are the same, by four measures.

    Parameters
    ----------
    moments : bool
        The integers that both remember are equal.
    network : bool
        Every E and C of every layer is equal to the last bit.
    file : bool
        The saved files are equal to the byte.
    labels_that_differ : int
        Test samples that the two label differently.
    """

    moments: bool
    network: bool
    file: bool
    labels_that_differ: int

    @property
    def exact(self) -> bool:
        """Whether all four agree."""
        return self.moments and self.network and self.file and not self.labels_that_differ

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for a record."""
        return asdict(self)


def equivalence(
    one: ReduNetClassifier,
    other: ReduNetClassifier,
    labels_of_one: ArrayLike,
    labels_of_other: ArrayLike,
) -> Equivalence:
    """Compare two models layer by layer and byte by byte, and the labels they gave."""
    mine, theirs = one.network_.layers, other.network_.layers
    return Equivalence(
        moments=one.moments_ == other.moments_,
        network=len(mine) == len(theirs)
        and all(
            torch.equal(a.E, b.E) and torch.equal(a.C, b.C)
            for a, b in zip(mine, theirs, strict=True)
        ),
        file=file_hash(one) == file_hash(other),
        labels_that_differ=int(np.sum(np.asarray(labels_of_one) != np.asarray(labels_of_other))),
    )


def file_hash(model: ReduNetClassifier) -> str:
    """sha256 of the file that a model saves."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model"
        model.save(path)
        return hashlib.sha256(path.read_bytes()).hexdigest()


def environment() -> dict[str, Any]:
    """Versions, machine and date, as every record states them."""
    gpu = torch.cuda.get_device_name() if torch.cuda.is_available() else None
    return {
        "date": datetime.now(UTC).date().isoformat(),
        "machine": {
            "processor": _processor(),
            "cores": os.cpu_count(),
            "threads": torch.get_num_threads(),
            "gpu": gpu,
        },
        "versions": {
            "redunet": __version__,
            "python": platform.python_version(),
            **{name: _version(name) for name in ("torch", "numpy", "scikit-learn")},
        },
    }


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "unknown"


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    names = (line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    return next(names, platform.machine())
