"""The main job on the bundled digits: five tasks one after another, then a class is forgotten."""

from __future__ import annotations

import copy
import time
from pathlib import Path
from typing import Any

from redunet.environment import environment
from redunet.estimators import storage
from redunet.estimators.classifier import ReduNetClassifier
from redunet.estimators.inspection import rates_by_layer
from redunet.estimators.tuning import calibration_error
from redunet.progress import Progress, silent
from redunet.safety.files import make_folder
from redunet_lab import report
from redunet_lab.datasets import Samples, load
from redunet_lab.equivalence import file_hash, joint_check
from redunet_lab.experiment import Experiment
from redunet_lab.methods import Method
from redunet_lab.record import bytes_by_kind, experiment_record, method_rows
from redunet_lab.runner import Entry, evaluated
from redunet_lab.vectors import Vectors

FORGOTTEN = 3
MODEL = "digits.safetensors"


def run_demo(out: Path, workers: int | None = None, progress: Progress = silent) -> dict[str, Any]:
    """Run the demonstration; write model, record, figures and reports to a folder."""
    make_folder(out)
    images = load("digits")
    x_train, x_test = (x.reshape(-1, 64) for x in (images.x_train, images.x_test))
    digits = Samples(x_train, images.y_train, x_test, images.y_test, "digits")
    experiment = Experiment.of("digits")
    tasks = experiment.tasks(digits)
    method = Method.of("redunet", experiment)
    vectors = Vectors(experiment, tasks, "auto", "2GB")
    settings = method.run_settings(tasks, seed=0)
    entry = Entry(out, settings, estimator=ReduNetClassifier, readings={"ReduNet": 28})
    start = time.perf_counter()
    model, rows = ReduNetClassifier(), []
    for number, task in enumerate(tasks, 1):
        progress(f"task {number} of {len(tasks)}", (number - 1) / len(tasks))
        begun, seen = time.perf_counter(), tasks[:number]
        model.partial_fit(task.x_train, task.y_train)
        learn = round(time.perf_counter() - begun, 3)
        row = evaluated(entry, model, seen, vectors, last=number == len(tasks))
        row["seconds"] = {"learn": learn, **row["seconds"]}
        rows.append({**row, "joint": joint_check(model, seen, ReduNetClassifier)})
    model.save(out / MODEL)
    rows[-1]["bytes"] = bytes_by_kind(storage.sizes(out / MODEL))
    hits = model.predict(digits.x_test) == digits.y_test
    run = {
        "settings": settings,
        "tasks": rows,
        "rates": rates_by_layer(model),
        "n_features": vectors.n_features,
        "calibration_error": calibration_error(model.predict_proba(digits.x_test), hits),
        **environment(),
    }
    others = digits.y_train != FORGOTTEN
    never = ReduNetClassifier().fit(digits.x_train[others], digits.y_train[others])
    record = experiment_record(
        "redunet demo: five tasks of two classes on scikit-learn's digits",
        "redunet demo",
        "digits",
        "digits",
        tasks,
        method_rows(method.about(settings), [run], n_tasks=len(tasks)),
        seconds=round(time.perf_counter() - start, 1),
        forget={
            "class": FORGOTTEN,
            "before": file_hash(model),
            "after": file_hash(copy.deepcopy(model).forget([FORGOTTEN])),
            "never_seen": file_hash(never),
        },
    )
    if workers is not None:
        progress("the same by workers", 1.0)
        record["workers"] = _by_workers(workers, digits.x_train, digits.y_train)
    report.write(record, out)
    return record


def _by_workers(workers: int, X: Any, y: Any) -> dict[str, Any]:
    """Files of a model that worker processes teach, and from which they withdraw a class."""
    from redunet.distributed import learn, unlearn
    from redunet.distributed.dask_cluster import dask_packages, local_client

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
