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
from redunet.estimators import metrics, storage
from redunet.progress import Progress, silent
from redunet.safety.files import make_folder
from redunet_lab.record import (
    bytes_by_kind,
    peak_device_memory,
    peak_memory,
    run_so_far,
    write_record,
)
from redunet_lab.streams import AnyTask, pooled

_MOST_CONFUSED = 50
"""Classes up to which a record has a confusion matrix; with more it would be all of the record."""

_TIMED = 1000
"""Samples whose answers are timed, once everything is built."""


class Learner(Protocol):
    """What can be run over a stream.

    With ``save`` and ``load`` too, a run resumes at once and records what the
    learner keeps; one with an attribute ``progress`` may report its own.
    """

    def partial_fit(self, X: Any, y: Any) -> Any:
        """Learn one task."""

    def predict(self, X: Any) -> Any:
        """Labels among all classes seen."""


@dataclass(frozen=True)
class Evaluation:
    """How labels are read off a learner, and the record they go to.

    Several evaluations of one learner have a record each, so that each can be
    resumed, or added later, by itself.

    Parameters
    ----------
    folder : Path
        Of ``record.json``.
    settings : mapping
        What decides the numbers; a record with other settings is not resumed.
    labels : callable
        From a learner and test samples to labels, one array for each reading.
        By default a single reading, ``predict``.
    name : str, default=""
        For progress.
    without_layers : callable, default=None
        The same readings of the learner's network without its layers.
    answer : callable
        From a learner that has just given `labels` and some samples to labels, timed.
    answering : callable, default=None
        Further entries of a task's row, on how its labels were computed.
    after_task : callable, default=None
        From a learner, the tasks seen and the task's row to further entries of it.
    at_end : mapping from an entry of the record to a callable, default={}
        What is computed from the learner after the last task.
    """

    folder: Path
    settings: Mapping[str, Any]
    labels: Callable[[Any, NDArray[Any]], Mapping[str, NDArray[Any]]] = lambda learner, X: {
        "predict": learner.predict(X)
    }
    name: str = ""
    without_layers: Callable[[Any, NDArray[Any]], Mapping[str, NDArray[Any]]] | None = None
    answer: Callable[[Any, NDArray[Any]], Any] = lambda learner, X: learner.predict(X)
    answering: Callable[[], Mapping[str, Any]] = dict
    after_task: Callable[[Any, Any, dict[str, Any]], Mapping[str, Any]] | None = None
    at_end: Mapping[str, Callable[[Any], Any]] = field(default_factory=dict)

    @property
    def path(self) -> Path:
        """Of the record."""
        return self.folder / "record.json"

    def pending(self, record: Mapping[str, Any], n_tasks: int) -> bool:
        """Whether something of the record is still to be done."""
        return len(record["tasks"]) < n_tasks or any(key not in record for key in self.at_end)


def run(
    make: Callable[[], Learner],
    tasks: Sequence[AnyTask],
    evaluations: Sequence[Evaluation],
    checkpoints: Path | None,
    progress: Progress = silent,
) -> list[dict[str, Any]]:
    """Run a learner over a stream once; every evaluation writes its record after each task.

    A run that was interrupted continues after the last task that is in all
    records, and ends with the same numbers: from a checkpoint where the learner
    has ``save`` and ``load``, else by learning the finished tasks once more.

    Parameters
    ----------
    make : callable
        Gives a learner that has learnt nothing yet; not called where all is finished.
    tasks : sequence of tasks
    evaluations : sequence of Evaluation
    checkpoints : Path, or None
        Folder of the learner's own file, ``after-task-N.safetensors``; None saves none.
    progress : callable, default=nothing
        Told what begins, and which share of the whole is done.

    Returns
    -------
    list of dict
        The records, one for each evaluation.
    """
    records = [run_so_far(one.path, one.settings) for one in evaluations]
    pairs = list(zip(evaluations, records, strict=True))
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
            row = _evaluated(one, learner, tasks[:number], last=number == len(tasks))
            row["seconds"] = {"learn": seconds, **row["seconds"]}
            more = one.after_task(learner, tasks[:number], row) if one.after_task else {}
            record["tasks"].append({**row, **kept, **more})
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


def _evaluated(
    evaluation: Evaluation, learner: Any, seen: Sequence[AnyTask], last: bool
) -> dict[str, Any]:
    """A row of a record: accuracy on the test samples of all tasks seen."""
    x_test, y_test = pooled(seen, "test")
    start = time.perf_counter()
    readings = evaluation.labels(learner, x_test)
    seconds = round(time.perf_counter() - start, 3)
    answering = dict(evaluation.answering())
    taken = {"evaluate": seconds}
    if last:
        some = x_test[:_TIMED]
        start = time.perf_counter()
        evaluation.answer(learner, some)
        taken["answer_1000"] = round((time.perf_counter() - start) * 1000 / len(some), 4)
    edges = np.cumsum([len(task.y_test) for task in seen])[:-1]
    bare = evaluation.without_layers(learner, x_test) if evaluation.without_layers else {}
    rows: dict[str, dict[str, Any]] = {}
    for name, labels in readings.items():
        hits = labels == y_test
        rows[name] = {
            "accuracy": float(np.mean(hits)),
            "accuracy_by_task": [float(np.mean(hit)) for hit in np.split(hits, edges)],
        }
        if name in bare:
            rows[name]["no_layers_accuracy"] = float(np.mean(bare[name] == y_test))
        if last and len({*y_test.tolist()}) <= _MOST_CONFUSED:
            rows[name]["confusion"] = metrics.confusion(y_test, labels)
    return {"readings": rows, "seconds": taken, **answering}


def _keep(one: Evaluation, record: dict[str, Any]) -> None:
    record["peak_memory_bytes"] = max(record["peak_memory_bytes"], peak_memory())
    record["peak_device_memory_bytes"] = peak_device_memory()
    make_folder(one.folder)
    write_record(one.path, record)


def _resumed(
    learner: Any, finished: Sequence[AnyTask], checkpoints: Path | None, progress: Progress
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
