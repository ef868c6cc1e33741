"""Weights & Biases: the runs of a record, with settings, metrics after each task, and files."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any

from redunet.adapters.runs import Record, runs_of
from redunet.errors import not_installed

try:
    import wandb
except ImportError as error:
    raise not_installed("Weights & Biases", "wandb", error) from error

__all__ = ["log"]


def log(
    record: Record | str | os.PathLike[str],
    *,
    project: str = "redunet",
    files: Iterable[str | os.PathLike[str]] = (),
    **init: Any,
) -> list[str]:
    """Log every run of a record.

    Parameters
    ----------
    record : mapping, or path of a record.json
        As ``redunet run``, ``compare``, ``reproduce`` and ``demo`` write it.
    project : str, default="redunet"
    files : paths, default=none
        Stored with each run as an artifact, such as a model file or report.
    **init
        Further arguments of `wandb.init`, such as ``mode="offline"`` or ``dir``.

    Returns
    -------
    list of str
        The ids of the runs, one for each method and seed.
    """
    files = list(files)
    ids = []
    for run in runs_of(record):
        notes = run.tags.get("command")
        config = {**run.settings, **run.tags}
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
