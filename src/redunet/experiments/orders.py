"""One data set in many orders of its classes: the model file is the same for each."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from redunet.datasets import load
from redunet.estimators import storage
from redunet.estimators.settings import resolve_device
from redunet.experiments.plan import Plan
from redunet.experiments.runner import environment, file_hash, write_record
from redunet.experiments.streams import pooled
from redunet.progress import Progress, silent


def learn_in_orders(
    plan: Plan,
    out: Path,
    command: str,
    *,
    seeds: Sequence[int],
    device: str = "auto",
    data_dir: Path | None = None,
    progress: Progress = silent,
) -> dict[str, Any]:
    """Learn a data set class order after class order; leave a record of the files' hashes.

    The feature map is one for all orders: that of the plan's own stream.

    Parameters
    ----------
    plan : Plan
    out : Path
        Folder of ``record.json``.
    command : str
        What a reader would type, for the record.
    seeds : sequence of int
        Each shuffles the classes before they are divided into tasks.
    device, data_dir, progress
        As for `redunet.experiments.reproduce.carry_out`.

    Returns
    -------
    dict
        The record, as it was saved; ``files`` is the number of different files.
    """
    storage.make_folder(out)
    data = load(plan.data, data_dir)
    own = plan.stream(data)
    features = plan.feature_map(own, resolve_device(device))
    progress("all classes at once", 0.0)
    joint = plan.learner(features, device, "2GB").fit(*pooled(own, "train"))
    orders = []
    for number, seed in enumerate(seeds, 1):
        progress(f"order {number} of {len(seeds)}", number / (len(seeds) + 1))
        start = time.perf_counter()
        tasks = plan.changed({"order_seed": seed}).stream(data)
        model = plan.learner(features, device, "2GB")
        for task in tasks:
            model.partial_fit(task.x_train, task.y_train)
        seconds = round(time.perf_counter() - start, 1)
        orders.append(
            {
                "seed": seed,
                "tasks": [list(task.classes) for task in tasks],
                "sha256": file_hash(model),
                "seconds": seconds,
            }
        )
    record = {
        "what": f"{plan.data} learnt in {len(orders)} orders of its classes",
        "command": command,
        "settings": plan.to_dict(),
        "n_features": features.n_features,
        "features_learnt_from_data": features.learnt_from_data,
        "samples": sum(joint.moments_.counts),
        "joint_sha256": file_hash(joint),
        "files": len({file_hash(joint), *(order["sha256"] for order in orders)}),
        "orders": orders,
        **environment(),
    }
    write_record(out / "record.json", record)
    return record
