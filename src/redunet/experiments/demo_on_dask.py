"""The demonstration on a Dask cluster: the bundled digits, and the same files as in one process."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

from redunet.datasets import load
from redunet.distributed import learn, unlearn
from redunet.estimators.classifier import ReduNetClassifier
from redunet.experiments.demo import FORGOTTEN, MODEL
from redunet.experiments.equivalence import file_hash
from redunet.experiments.streams import class_stream
from redunet.files import make_folder

ROWS = 32
"""Samples of a partition: few, so that each task has several."""


def run_on_dask(out: Path, client: Any) -> dict[str, Any]:
    """Learn the digits in five tasks on the workers of a client, then withdraw a class there.

    Parameters
    ----------
    out : Path
        The folder for the model.
    client : distributed.Client

    Returns
    -------
    dict
        ``tasks``, and under ``files`` the sha256 of the model's file: ``before`` and ``after``
        the class was withdrawn; and of those that one process gives, ``one_process`` and
        ``never_seen``.
    """
    import dask.array as da

    make_folder(out)
    digits = load("digits")
    model = ReduNetClassifier()
    rows: list[dict[str, Any]] = []

    def spread(X: Any, y: Any) -> tuple[Any, Any]:
        X = X.reshape(len(X), -1)
        return da.from_array(X, chunks=(ROWS, X.shape[1])), da.from_array(y, chunks=ROWS)

    for task in class_stream(digits, 5):
        data = spread(task.x_train, task.y_train)
        learn(model, data, client)
        rows.append(
            {
                "classes": [int(label) for label in task.classes],
                "partitions": data[0].numblocks[0],
                "samples": len(task.y_train),
                "sha256": file_hash(model),
            }
        )
    X, y = digits.x_train.reshape(-1, 64), digits.y_train
    gone = y == FORGOTTEN
    without = unlearn(copy.deepcopy(model), spread(X[gone], y[gone]), client)
    model.save(out / MODEL)
    files = {
        "class": FORGOTTEN,
        "before": file_hash(model),
        "after": file_hash(without),
        "one_process": file_hash(ReduNetClassifier().fit(X, y)),
        "never_seen": file_hash(ReduNetClassifier().fit(X[~gone], y[~gone])),
    }
    return {"tasks": rows, "files": files}
