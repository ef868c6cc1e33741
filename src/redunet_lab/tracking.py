"""Records of experiments in MLflow and in Weights & Biases: a run for each method and seed."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from redunet.errors import DataError, FileAccessError, not_installed

Record = Mapping[str, Any]
Paths = Iterable[str | os.PathLike[str]]


class Run(NamedTuple):
    """A method over a stream, with one seed: metrics after each task, and of the whole stream."""

    name: str
    settings: dict[str, Any]
    tags: dict[str, str]
    tasks: list[dict[str, float]]
    summary: dict[str, float]


def log_to_mlflow(
    record: Record | str | os.PathLike[str], *, experiment: str = "redunet", files: Paths = ()
) -> list[str]:
    """Log every run of a record, to wherever MLflow is set to log.

    Parameters
    ----------
    record : mapping, or path of a record.json
        As ``redunet run``, ``compare``, ``reproduce`` and ``demo`` write it.
    experiment : str, default="redunet"
        The experiment of MLflow that the runs belong to; made where it is missing.
    files : paths, default=none
        Stored with each run, such as a model file or report.

    Returns
    -------
    list of str
        The ids of the runs.
    """
    try:
        import mlflow
    except ImportError as error:
        raise not_installed("MLflow", "mlflow", error) from error
    files, ids = list(files), []
    mlflow.set_experiment(experiment)
    for run in runs_of(record):
        with mlflow.start_run(run_name=run.name) as started:
            mlflow.log_params(run.settings)
            mlflow.set_tags(run.tags)
            for number, metrics in enumerate(run.tasks, 1):
                mlflow.log_metrics(metrics, step=number)
            mlflow.log_metrics({f"summary_{name}": v for name, v in run.summary.items()})
            mlflow.log_dict(dict(read_record(record)), "record.json")
            for file in files:
                mlflow.log_artifact(os.fspath(file))
            ids.append(started.info.run_id)
    return ids


def log_to_wandb(
    record: Record | str | os.PathLike[str],
    *,
    project: str = "redunet",
    files: Paths = (),
    **init: Any,
) -> list[str]:
    """Log every run of a record to Weights & Biases.

    Parameters
    ----------
    record, files
        As for `log_to_mlflow`.
    project : str, default="redunet"
    **init
        Further arguments of `wandb.init`, such as ``mode="offline"`` or ``dir``.

    Returns
    -------
    list of str
        The ids of the runs.
    """
    try:
        import wandb
    except ImportError as error:
        raise not_installed("Weights & Biases", "wandb", error) from error
    files, ids = list(files), []
    for run in runs_of(record):
        config, notes = {**run.settings, **run.tags}, run.tags.get("command")
        with wandb.init(
            project=project, name=run.name, config=config, notes=notes, **init
        ) as started:
            for number, metrics in enumerate(run.tasks, 1):
                started.log(metrics, step=number)
            started.summary.update(run.summary)
            if files:
                artifact = wandb.Artifact(f"files-{started.id}", type="redunet")
                for file in files:
                    artifact.add_file(os.fspath(file))
                started.log_artifact(artifact)
            ids.append(started.id)
    return ids


def runs_of(record: Record | str | os.PathLike[str]) -> Iterator[Run]:
    """The runs of a record, one for each method and seed."""
    found = read_record(record)
    if found.get("kind") != "experiment":
        raise DataError(
            f"expected the record of an experiment, with runs of methods, got one of kind "
            f"{found.get('kind')!r}: pass record.json of redunet run, compare, reproduce or demo"
        )
    for method in found["methods"]:
        for run in method["runs"]:
            yield Run(
                name=method["name"] + (f", seed {run['seed']}" if method["random"] else ""),
                settings={**method["settings"], "method": method["method"], "seed": run["seed"]},
                tags=_tags(found, run),
                tasks=[_metrics(task) for task in run["tasks"]],
                summary=_numbers(run["summary"]),
            )


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
    both = {**record, **{name: value for name, value in run.items() if value}}
    machine = both.get("machine") or {}
    about = {name: both.get(name) for name in ("what", "data", "recipe", "command", "date")}
    about["machine"] = machine.get("gpu") or machine.get("processor")
    about |= {f"version_{name}": value for name, value in (both.get("versions") or {}).items()}
    return {name: str(value) for name, value in about.items() if value is not None}
