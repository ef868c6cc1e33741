"""MLflow: the runs of a record, with their settings, metrics after each task, and files."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping

from redunet.adapters.runs import Record, runs_of
from redunet.errors import not_installed

try:
    import mlflow
except ImportError as error:
    raise not_installed("MLflow", "mlflow", error) from error

__all__ = ["log"]


def log(
    record: Record | str | os.PathLike[str],
    *,
    experiment: str = "redunet",
    files: Iterable[str | os.PathLike[str]] = (),
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
        The ids of the runs, one for each method and seed.
    """
    files = list(files)
    ids = []
    mlflow.set_experiment(experiment)
    for run in runs_of(record):
        with mlflow.start_run(run_name=run.name) as started:
            mlflow.log_params(run.settings)
            mlflow.set_tags(run.tags)
            for number, metrics in enumerate(run.tasks, 1):
                mlflow.log_metrics(metrics, step=number)
            mlflow.log_metrics({f"summary_{name}": v for name, v in run.summary.items()})
            if isinstance(record, Mapping):
                mlflow.log_dict(dict(record), "record.json")
            else:
                mlflow.log_artifact(os.fspath(record))
            for file in files:
                mlflow.log_artifact(os.fspath(file))
            ids.append(started.info.run_id)
    return ids
