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

from redunet.environment import environment
from redunet.errors import SettingsError
from redunet.estimators.model_file import is_of_moments
from redunet.safety.files import write_bytes
from redunet_lab import metrics
from redunet_lab.experiment import with_defaults

VERSION = 2
"""Of the form of all records."""

_OF_A_RUN = (
    "joint",
    "rates",
    "n_features",
    "calibration_error",
    "seconds",
    "peak_memory_bytes",
    "peak_device_memory_bytes",
    "date",
    "machine",
    "versions",
)


def plain(values: Any) -> Any:
    """Values as they are read back from JSON: tuples become lists, what it does not know words."""
    return json.loads(json.dumps(values, default=str))


def write_record(path: Path, record: Mapping[str, Any]) -> None:
    """Save a record, whole or not at all."""
    text = json.dumps(record, indent=1, ensure_ascii=False, allow_nan=False)
    write_bytes(path, text.encode() + b"\n")


def run_so_far(path: Path, settings: Mapping[str, Any]) -> dict[str, Any]:
    """The record of a run to continue, or a new one; one with other settings is an error.

    A setting that an older record does not have counts as its default.
    """
    if not path.exists():
        start = {"kind": "run", "version": VERSION, "settings": settings, **environment()}
        return {**start, "tasks": [], "peak_memory_bytes": 0}
    record = read_run(path)
    known = with_defaults(record["settings"], settings)
    record["settings"] = known
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
        of_reading = [_run_row(run, reading, n_tasks, with_costs=index == 0) for run in runs]
        last = [run["tasks"][-1]["readings"][reading].get("confusion") for run in runs]
        confusion = metrics.summed_confusion(last)
        kept = [(run["tasks"][-1].get("bytes") or {}).get("exemplars", 0) for run in runs]
        named: dict[str, Any] = {}
        if readings and reading in readings:
            components = {"n_components": readings[reading]}
            named = {"name": reading, "settings": {**about["settings"], **components}}
        rows.append(
            {
                **about,
                **named,
                "raw_data_kept": any(kept),
                **({"confusion": confusion} if confusion else {}),
                "runs": of_reading,
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
        shared = ("seconds", "bytes", "joint") if with_costs else ()
        tasks.append({**measured, **{key: row[key] for key in shared if key in row}})
    return {
        "seed": run["settings"].get("seed", 0),
        "tasks": tasks,
        "summary": summary(tasks) if len(tasks) == n_tasks else {"last": tasks[-1]["accuracy"]},
        **({key: run[key] for key in _OF_A_RUN if key in run} if with_costs else {}),
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
