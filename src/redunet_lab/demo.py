"""The main job on the bundled digits: five tasks one after another, then a class is forgotten."""

from __future__ import annotations

import copy
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from redunet.estimators.classifier import ReduNetClassifier
from redunet.estimators.metrics import calibration_error
from redunet.safety.files import make_folder
from redunet_lab import report
from redunet_lab.datasets import load
from redunet_lab.equivalence import file_hash, joint_check
from redunet_lab.experiment import Experiment
from redunet_lab.reproduce import run_network

FORGOTTEN = 3
MODEL = "digits.safetensors"

Row = dict[str, Any]


def run_demo(
    out: Path,
    on_task: Callable[[Sequence[Row]], None] | None = None,
    workers: int | None = None,
) -> dict[str, Any]:
    """Run the demonstration; write model, record, figures and reports to a folder.

    Parameters
    ----------
    out : Path
        The folder; made where it is missing.
    on_task : callable, default=None
        Given a row for each task so far, before the first task and after each.
    workers : int, default=None
        How many processes learn the digits once more, and withdraw the class.

    Returns
    -------
    dict
        The record, as it was saved.
    """
    make_folder(out)
    digits = load("digits")
    flat = {name: getattr(digits, name).reshape(-1, 64) for name in ("x_train", "x_test")}
    digits = replace(digits, **flat)
    rows: list[Row] = []

    def after_task(make: Any, model: Any, seen: Any, row: Row) -> Row:
        joint = joint_check(model, seen, make)
        accuracy = row["readings"]["ReduNet"]["accuracy"]
        seconds = sum(row["seconds"].values())
        classes = [int(label) for label in seen[-1].classes]
        rows.append({"classes": classes, "accuracy": accuracy, "seconds": seconds, "joint": joint})
        if on_task:
            on_task(rows)
        return {"joint": joint}

    if on_task:
        on_task(rows)
    with tempfile.TemporaryDirectory() as folder:
        record = run_network(
            Experiment.of("digits"),
            Path(folder),
            "redunet demo",
            what="redunet demo: five tasks of two classes on scikit-learn's digits",
            readings={"ReduNet": 28},
            joint=False,
            after_task=after_task,
            data=digits,
            write=False,
        )
        file = Path(folder) / "moments" / "seed-0" / f"after-task-{len(rows)}.safetensors"
        model = ReduNetClassifier.load(file)
    hits = model.predict(digits.x_test) == digits.y_test
    error = calibration_error(model.predict_proba(digits.x_test), hits)
    record["methods"][0]["runs"][0]["calibration_error"] = error
    others = digits.y_train != FORGOTTEN
    never = ReduNetClassifier().fit(digits.x_train[others], digits.y_train[others])
    record["forget"] = {
        "class": FORGOTTEN,
        "before": file_hash(model),
        "after": file_hash(copy.deepcopy(model).forget([FORGOTTEN])),
        "never_seen": file_hash(never),
    }
    if workers is not None:
        record["workers"] = _by_workers(workers, digits.x_train, digits.y_train)
    model.save(out / MODEL)
    report.write(record, out)
    return record


def _by_workers(workers: int, X: Any, y: Any) -> dict[str, Any]:
    """Files of a model that worker processes teach, and from which they withdraw a class."""
    from redunet.distributed import learn, unlearn
    from redunet.distributed.cluster import dask_packages, local_client

    dask_packages()
    import dask.array as da

    gone = y == FORGOTTEN
    with local_client(workers) as client:
        model = learn(
            ReduNetClassifier(), (da.from_array(X, (99, 64)), da.from_array(y, 99)), client
        )
        before = file_hash(model)
        unlearn(model, (da.from_array(X[gone]), da.from_array(y[gone])), client)
    return {"number": workers, "before": before, "after": file_hash(model)}
