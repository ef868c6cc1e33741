"""The record of an experiment as runs, in the words that experiment trackers share."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from redunet.errors import DataError, FileAccessError

Record = Mapping[str, Any]


@dataclass(frozen=True)
class Run:
    """A method over a stream, with one seed.

    Parameters
    ----------
    name : str
        Such as "ReduNet" or "ER, seed 3".
    settings : dict
        Parameters of stream, features and method: plain values.
    tags : dict from str to str
        Data, command, date, machine and versions.
    tasks : list of dict from str to float
        Metrics after each task.
    summary : dict from str to float
        Metrics of the whole stream.
    """

    name: str
    settings: dict[str, Any]
    tags: dict[str, str]
    tasks: list[dict[str, float]]
    summary: dict[str, float]


def runs_of(record: Record | str | os.PathLike[str]) -> list[Run]:
    """The runs of a record that ``redunet run``, ``compare``, ``reproduce`` or ``demo`` wrote.

    Parameters
    ----------
    record : mapping, or path of a record.json
        As `redunet_lab.run_learners` returns it, too.

    Returns
    -------
    list of Run
        One for each method and seed.
    """
    found = read_record(record)
    if found.get("kind") != "experiment":
        raise DataError(
            f"expected the record of an experiment, with runs of methods, got one of kind "
            f"{found.get('kind')!r}: pass record.json of redunet run, compare, reproduce or demo"
        )
    return [
        Run(
            name=method["name"] + (f", seed {run['seed']}" if method["random"] else ""),
            settings={**method["settings"], "method": method["method"], "seed": run["seed"]},
            tags=_tags(found, run),
            tasks=[_metrics(task) for task in run["tasks"]],
            summary=_numbers(run["summary"]),
        )
        for method in found["methods"]
        for run in method["runs"]
    ]


def read_record(record: Record | str | os.PathLike[str]) -> Record:
    """A record, read from its file unless it is given."""
    if isinstance(record, Mapping):
        return record
    try:
        read = json.loads(Path(record).read_text(encoding="utf-8"))
    except OSError as error:
        raise FileAccessError(f"cannot read {record}: {error.strerror}") from error
    except ValueError as error:
        raise DataError(f"expected a record in JSON in {record}, got something else") from error
    if not isinstance(read, dict):
        raise DataError(f"expected a record in {record}, got a {type(read).__name__}")
    return read


def _metrics(task: Mapping[str, Any]) -> dict[str, float]:
    """The numbers of a task, all in one level, such as "accuracy_task_1" and "seconds_learn"."""
    by_task = {f"accuracy_task_{n}": v for n, v in enumerate(task["accuracy_by_task"], 1)}
    parts = {
        f"{what}_{name}": value
        for what in ("seconds", "bytes")
        for name, value in (task.get(what) or {}).items()
    }
    return _numbers({**task, **by_task, **parts})


def _numbers(values: Mapping[str, Any]) -> dict[str, float]:
    return {
        name: float(value)
        for name, value in values.items()
        if isinstance(value, int | float) and not isinstance(value, bool)
    }


def _tags(record: Record, run: Mapping[str, Any]) -> dict[str, str]:
    def of(name: str) -> Mapping[str, Any]:
        return run.get(name) or record.get(name) or {}

    machine = of("machine")
    about = {
        "what": record.get("what"),
        "data": record.get("data"),
        "recipe": record.get("recipe"),
        "command": record.get("command"),
        "date": run.get("date") or record.get("date"),
        "machine": machine.get("gpu") or machine.get("processor"),
        **{f"version_{name}": value for name, value in of("versions").items()},
    }
    return {name: str(value) for name, value in about.items() if value is not None}
