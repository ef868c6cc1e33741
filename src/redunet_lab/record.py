"""Records of runs, and the rows that they become in the record of an experiment."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.metrics import confusion_matrix

from redunet.environment import environment
from redunet.errors import SettingsError
from redunet.estimators.model_file import is_of_moments
from redunet.safety.files import write_bytes
from redunet_lab.streams import described

VERSION = 2
"""Of the form of all records."""

_OF_TASKS_AND_READINGS = ("settings", "tasks", "kind", "version", "ablation")
"""Entries of the record of a run that the record of an experiment has elsewhere."""


def plain(values: Any) -> Any:
    """Values as they are read back from JSON: tuples become lists, what it does not know words."""
    return json.loads(json.dumps(values, default=str))


def write_record(path: Path, record: Mapping[str, Any]) -> None:
    """Save a record, whole or not at all."""
    text = json.dumps(record, indent=1, ensure_ascii=False, allow_nan=False)
    write_bytes(path, text.encode() + b"\n")


def experiment_record(
    what: str,
    command: str | None,
    data: str,
    title: str,
    tasks: Sequence[Any],
    methods: Sequence[Any],
    **more: Any,
) -> dict[str, Any]:
    """The record of an experiment over a stream."""
    return {
        "kind": "experiment",
        "version": VERSION,
        "what": what,
        "command": command,
        "data": data,
        "title": title,
        "stream": described(tasks),
        "methods": methods,
        **environment(),
        **more,
    }


def run_so_far(path: Path, settings: Mapping[str, Any]) -> dict[str, Any]:
    """The record of a run to continue, or a new one; one with other settings is an error."""
    if not path.exists():
        start = {"kind": "run", "version": VERSION, "settings": settings, **environment()}
        return {**start, "tasks": [], "peak_memory_bytes": 0}
    record = read_run(path)
    known = record["settings"]
    changed = sorted(k for k in {*known, *settings} if known.get(k) != settings.get(k))
    if changed:
        raise SettingsError(
            f"{path} is the record of a run with another {changed[0]}: "
            f"name another folder, or remove it to start again"
        )
    return record


def read_run(path: Path) -> dict[str, Any]:
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


def method_rows(
    about: Mapping[str, Any],
    runs: Sequence[Mapping[str, Any]],
    readings: Mapping[str, int] | None = None,
    *,
    n_tasks: int,
) -> list[dict[str, Any]]:
    """The rows of a method in the record of an experiment, one for each of its readings."""
    rows = []
    for index, reading in enumerate(runs[0]["tasks"][-1]["readings"]):
        last = [run["tasks"][-1] for run in runs]
        counted = summed_confusion([task["readings"][reading].get("confusion") for task in last])
        named: dict[str, Any] = {}
        if readings and reading in readings:
            components = {"n_components": readings[reading]}
            named = {"name": reading, "settings": {**about["settings"], **components}}
        rows.append(
            {
                **about,
                **named,
                "raw_data_kept": any((t.get("bytes") or {}).get("exemplars", 0) for t in last),
                **({"confusion": counted} if counted else {}),
                "runs": [_run_row(run, reading, n_tasks, with_costs=index == 0) for run in runs],
            }
        )
    return rows


def _run_row(
    run: Mapping[str, Any], reading: str, n_tasks: int, with_costs: bool
) -> dict[str, Any]:
    """A run as one of its readings saw it; what readings share is told once."""
    tasks = []
    for row in run["tasks"]:
        measured = {k: v for k, v in row["readings"][reading].items() if k != "confusion"}
        shared = {k: v for k, v in row.items() if k != "readings"} if with_costs else {}
        tasks.append({**measured, **shared})
    costs = {k: v for k, v in run.items() if k not in _OF_TASKS_AND_READINGS}
    return {
        "seed": run["settings"].get("seed", 0),
        "tasks": tasks,
        "summary": summary(tasks) if len(tasks) == n_tasks else {"last": tasks[-1]["accuracy"]},
        **(costs if with_costs else {}),
    }


def summary(rows: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """Measures over the stream, from the accuracies after each task.

    Forgetting is the mean, over all tasks but the last, of the best accuracy before the last task
    minus the final one; decay is the accuracy after the first task minus that after the last.

    Examples
    --------
    >>> by_task = [[1.0], [0.75, 1.0], [0.5, 0.875, 1.0]]
    >>> rows = [{"accuracy": sum(a) / len(a), "accuracy_by_task": a} for a in by_task]
    >>> summary(rows)["forgetting"], round(summary(rows)["decay"], 4)
    (0.3125, 0.2083)
    """
    seen = [row["accuracy"] for row in rows]
    *before, final = [row["accuracy_by_task"] for row in rows]
    lost = [max(row[task] for row in before[task:]) - final[task] for task in range(len(before))]
    return {
        "last": seen[-1],
        "average": float(np.mean(seen)),
        "decay": seen[0] - seen[-1],
        "forgetting": float(np.mean(lost)) if lost else 0.0,
    }


def confusion(true: NDArray[Any], given: NDArray[Any]) -> dict[str, Any]:
    """Counts of samples of each class by the labels they were given."""
    labels = np.union1d(true, given)
    counts = confusion_matrix(true, given, labels=labels)
    return {"labels": labels.tolist(), "counts": counts.tolist()}


def summed_confusion(confusions: Sequence[Mapping[str, Any] | None]) -> dict[str, Any] | None:
    """Confusions of several runs as one; None where one of them is not known."""
    known = [one for one in confusions if one is not None]
    if len(known) < len(confusions) or any(one["labels"] != known[0]["labels"] for one in known):
        return None
    counts = np.sum([one["counts"] for one in known], axis=0)
    return {"labels": known[0]["labels"], "counts": counts.tolist()}


def bytes_by_kind(sizes: Mapping[str, int]) -> dict[str, int]:
    """Bytes of parameters, moments and exemplars, from those of each tensor in a model's file.

    Examples
    --------
    >>> bytes_by_kind({"counts": 80, "sums": 640, "features.mean": 8, "exemplars.images": 50})
    {'parameters': 8, 'moments': 720, 'exemplars': 50}
    """
    kinds = {"parameters": 0, "moments": 0, "exemplars": 0}
    for name, size in sizes.items():
        kept = "exemplars" if name.startswith("exemplars.") else "parameters"
        kinds["moments" if is_of_moments(name) else kept] += size
    return kinds


def peak_memory() -> int:
    """Most bytes that this process has held in memory at once."""
    with suppress(OSError, StopIteration):
        # Preferred: getrusage starts with the peak of the parent process.
        with open("/proc/self/status", encoding="ascii", errors="replace") as status:
            line = next(line for line in status if line.startswith("VmHWM:"))
        return int(line.split()[1]) * 1024
    try:
        import resource
    except ImportError:  # Windows has none
        return 0
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


def peak_device_memory() -> int | None:
    """Most bytes held on a GPU at once; None where none was used."""
    return torch.cuda.max_memory_allocated() or None if torch.cuda.is_available() else None
