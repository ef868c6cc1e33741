"""One data set in many orders of its classes: the model file is the same for each."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from redunet.estimators.settings import resolve_device
from redunet.progress import Progress, silent
from redunet_lab import report
from redunet_lab.equivalence import file_hash
from redunet_lab.experiment import Experiment
from redunet_lab.record import experiment_record
from redunet_lab.streams import described, pooled


def learn_in_orders(
    experiment: Experiment,
    out: Path,
    command: str | None = None,
    *,
    seeds: Sequence[int],
    device: str = "auto",
    data_dir: Path | None = None,
    progress: Progress = silent,
) -> dict[str, Any]:
    """Learn a data set in one order of its classes after another; record the files' hashes.

    No network is built: comparing the saved files is enough. The feature map is
    the same for each order: that of the experiment's own stream.
    """
    data = experiment.load(data_dir)
    own = experiment.tasks(data)
    features = experiment.features(own, resolve_device(device))
    progress("all classes at once", 0.0)
    joint = experiment.estimator(features, device, "2GB").fit(*pooled(own, "train"))
    joint_hash = file_hash(joint)
    n_features, samples = joint.moments_.n_features, sum(joint.moments_.counts)
    del joint  # two models may not fit in memory
    rows = []
    for number, seed in enumerate(seeds, 1):
        progress(f"order {number} of {len(seeds)}", number / (len(seeds) + 1))
        start = time.perf_counter()
        tasks = experiment.changed({"order_seed": seed, "tasks": None}).tasks(data)
        model = experiment.estimator(features, device, "2GB")
        for task in tasks:
            model.partial_fit(task.x_train, task.y_train)
        seconds = round(time.perf_counter() - start, 1)
        classes = [row["classes"] for row in described(tasks)]
        rows.append(
            {"seed": seed, "tasks": classes, "sha256": file_hash(model), "seconds": seconds}
        )
    record = experiment_record(
        f"{experiment.title} learnt in {len(rows)} orders of its classes",
        command,
        experiment.data,
        experiment.title,
        own,
        [],
        recipe=experiment.recipe,
        orders={
            "features_learnt_from_data": features is not None and features.learnt_from_data,
            "n_features": n_features,
            "samples": samples,
            "joint_sha256": joint_hash,
            "files": len({joint_hash, *(row["sha256"] for row in rows)}),
            "settings": {**experiment.stream_settings, **experiment.model_settings},
            "rows": rows,
        },
    )
    report.write(record, out)
    return record
