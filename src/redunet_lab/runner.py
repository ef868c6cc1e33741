"""The one runner: a learner over a stream, evaluated after each task, resumable at any point."""

from __future__ import annotations

import inspect
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.base import BaseEstimator

from redunet.errors import ReduNetError
from redunet.estimators import storage
from redunet.progress import Progress, silent
from redunet.safety.files import make_folder
from redunet_lab.record import (
    bytes_by_kind,
    confusion,
    peak_device_memory,
    peak_memory,
    run_so_far,
    write_record,
)
from redunet_lab.streams import pooled
from redunet_lab.vectors import Vectors

_MOST_CONFUSED = 50
"""Classes up to which a record has a confusion matrix; with more it would be all of the record."""

_TIMED = 1000
"""Samples whose answers are timed, once everything is built."""


class Learner(Protocol):
    """An object that can be run over a stream.

    With ``save`` and ``load`` too, a run resumes at once and records what the
    learner keeps; one with an attribute ``progress`` may report its own.
    """

    def partial_fit(self, X: Any, y: Any) -> Any:
        """Learn one task."""

    def predict(self, X: Any) -> Any:
        """Labels among all classes seen."""


@dataclass(frozen=True)
class Entry:
    """A method in a run, and the record of its own that it has there."""

    folder: Path
    settings: Mapping[str, Any]  # a record with other settings is not resumed
    name: str = ""
    # Makes what answers from the learner's moments; None where the learner answers itself.
    estimator: Callable[[], Any] | None = None
    # Numbers of components to label by, each also without layers.
    readings: Mapping[str, int] = field(default_factory=dict)
    # Further entries of the record, computed from the learner after the last task.
    at_end: Mapping[str, Callable[[Any], Any]] = field(default_factory=dict)

    @property
    def path(self) -> Path:
        """Of the record."""
        return self.folder / "record.json"

    def pending(self, record: Mapping[str, Any], n_tasks: int) -> bool:
        """Whether something of the record is still to be done."""
        return len(record["tasks"]) < n_tasks or any(key not in record for key in self.at_end)

    def answering(self, learner: Any, **changes: Any) -> Any:
        """The learner, or an estimator over its moments, whichever gives the labels."""
        if self.estimator is None:
            return learner
        return self.estimator().set_params(**changes).remember(learner.moments_)


def run(
    make: Callable[[], Learner],
    tasks: Sequence[Any],
    entries: Sequence[Entry],
    checkpoints: Path | None,
    vectors: Vectors | None = None,
    progress: Progress = silent,
) -> list[dict[str, Any]]:
    """Run a learner over a stream once; every entry's record is written after each task.

    A run that was interrupted continues after the last task that is in all
    records, and ends with the same numbers: from a checkpoint where the learner
    has ``save`` and ``load``, else by learning the finished tasks once more.
    """
    records = [run_so_far(one.path, one.settings) for one in entries]
    pairs = list(zip(entries, records, strict=True))
    if not any(one.pending(record, len(tasks)) for one, record in pairs):
        return records
    if checkpoints is not None:
        make_folder(checkpoints)
    if torch.cuda.is_available():
        torch.cuda.reset_peak_memory_stats()
    done = min(len(record["tasks"]) for record in records)
    learner = _resumed(make(), tasks[:done], checkpoints, progress)
    for number in range(done + 1, len(tasks) + 1):
        tell = _within_task(progress, number, len(tasks))
        tell("", 0.0)
        if hasattr(learner, "progress"):
            learner.progress = tell
        task, start = tasks[number - 1], time.perf_counter()
        learner.partial_fit(task.x_train, task.y_train)
        seconds = round(time.perf_counter() - start, 3)
        kept: dict[str, Any] = {}
        if resumable(learner) and checkpoints is not None:
            file = _checkpoint(checkpoints, number)
            learner.save(file)
            kept = {"bytes": bytes_by_kind(storage.sizes(file))}
        for one, record in pairs:
            if len(record["tasks"]) >= number:
                continue
            if one.name:
                tell(one.name, 0.5)
            row = evaluated(one, learner, tasks[:number], vectors, last=number == len(tasks))
            row["seconds"] = {"learn": seconds, **row["seconds"]}
            record["tasks"].append({**row, **kept})
            _keep(one, record)
        if checkpoints is not None:
            _checkpoint(checkpoints, number - 1).unlink(missing_ok=True)
    for one, record in reversed(pairs):  # the first one, a network, may have much to do
        for key, compute in one.at_end.items():
            if key not in record:
                progress(key.replace("_", " "), 1.0)
                record[key] = compute(learner)
                _keep(one, record)
    return records


def resumable(learner: Any) -> bool:
    """Whether a learner can be saved and loaded."""
    return hasattr(learner, "save") and hasattr(learner, "load")


def evaluated(
    entry: Entry, learner: Any, seen: Sequence[Any], vectors: Vectors | None, last: bool
) -> dict[str, Any]:
    """A row of a record: accuracy on the test samples of all tasks seen."""
    x_test, y_test = pooled(seen, "test")
    own = vectors if entry.estimator is not None else None
    start = time.perf_counter()
    answering = entry.answering(learner)
    samples = x_test if own is None else own.of(x_test)
    readings = labels_by_reading(answering, samples, entry.readings)
    taken = {"evaluate": round(time.perf_counter() - start, 3)}
    if last:
        some = x_test[:_TIMED]
        start = time.perf_counter()
        answering.predict(some if own is None else own.computed(some))
        taken["answer_1000"] = round((time.perf_counter() - start) * 1000 / len(some), 4)
    without: Mapping[str, NDArray[Any]] = {}
    if entry.readings:
        del answering  # two networks may not fit in memory
        bare = entry.answering(learner, n_layers=0)
        without = labels_by_reading(bare, samples, entry.readings)
    edges = np.cumsum([len(task.y_test) for task in seen])[:-1]
    rows: dict[str, dict[str, Any]] = {}
    for name, labels in readings.items():
        hits = labels == y_test
        rows[name] = {
            "accuracy": float(np.mean(hits)),
            "accuracy_by_task": [float(np.mean(hit)) for hit in np.split(hits, edges)],
        }
        if name in without:
            rows[name]["no_layers_accuracy"] = float(np.mean(without[name] == y_test))
        if last and len({*y_test.tolist()}) <= _MOST_CONFUSED:
            rows[name]["confusion"] = confusion(y_test, labels)
    return {"readings": rows, "seconds": taken}


def labels_by_reading(
    model: Any, X: NDArray[Any], readings: Mapping[str, int]
) -> dict[str, NDArray[Any]]:
    """Labels by each number of components, by one network; without readings, those of predict.

    Numbers not below that of the features are left out. Only nearest subspace has
    components: the labels of another read-out stand under each name.
    """
    if not readings:
        return {"predict": model.predict(X)}
    if model.own_settings()["readout"] != "subspace":
        return dict.fromkeys(readings, model.predict(X))
    return {
        name: model.set_params(n_components=r).predict(X)
        for name, r in readings.items()
        if r < model.moments_.n_features
    }


def _keep(one: Entry, record: dict[str, Any]) -> None:
    record["peak_memory_bytes"] = max(record["peak_memory_bytes"], peak_memory())
    record["peak_device_memory_bytes"] = peak_device_memory()
    make_folder(one.folder)
    write_record(one.path, record)


def _resumed(
    learner: Any, finished: Sequence[Any], checkpoints: Path | None, progress: Progress
) -> Any:
    """The learner after the finished tasks."""
    file = None if checkpoints is None else _checkpoint(checkpoints, len(finished))
    if finished and resumable(learner) and file is not None and file.exists():
        try:
            return _restored(learner, file)
        except ReduNetError:
            pass  # removed or damaged in the meantime: the tasks are learnt again
    for number, task in enumerate(finished, 1):
        progress(f"task {number} once more", 0.0)
        learner.partial_fit(task.x_train, task.y_train)
    return learner


def _restored(learner: Any, file: Path) -> Any:
    """The learner as it was saved; where it runs is not in the file."""
    load = type(learner).load
    where = {"device": learner.device} if "device" in inspect.signature(load).parameters else {}
    restored = load(file, **where)
    if isinstance(learner, BaseEstimator):
        own = restored.get_params(deep=False).keys()
        here = {name: getattr(learner, name) for name in ("device", "memory") if name in own}
        return restored.set_params(**here)
    if hasattr(learner, "device"):
        restored.device = learner.device
    return restored


def _checkpoint(folder: Path, number: int) -> Path:
    return folder / f"after-task-{number}.safetensors"


def _within_task(progress: Progress, number: int, count: int) -> Progress:
    """Progress within a task, as progress of the whole."""

    def tell(what: str, share: float) -> None:
        words = f"task {number} of {count}"
        progress(f"{words}, {what}" if what else words, (number - 1 + share) / count)

    return tell
