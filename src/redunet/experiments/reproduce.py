"""Experiments from plan to report: the paper's, set beside what it reports, and any other."""

from __future__ import annotations

import copy
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch
from numpy.typing import NDArray

from redunet.datasets import load
from redunet.errors import SettingsError
from redunet.estimators import storage
from redunet.estimators.classifier import ReduNetClassifier
from redunet.estimators.inspection import rates_by_layer
from redunet.estimators.metrics import summed_confusion
from redunet.estimators.settings import resolve_device
from redunet.experiments.plan import Plan, planned
from redunet.experiments.runner import (
    joint_check,
    peak_memory,
    run,
    summary,
    write_record,
)
from redunet.experiments.selection import labels_by_components
from redunet.progress import Progress, silent
from redunet.report.blocks import Chapter
from redunet.report.document import to_markdown
from redunet.report.figures import accuracy_over_tasks, rate_by_layer
from redunet.report.page import page
from redunet.report.sections import sections

PAPER: dict[str, dict[str, Any]] = {
    "mnist": {
        "row": [0.999, 0.990, 0.984, 0.975, 0.961],
        "rivals": {
            "LwF": [0.999, 0.494, 0.333, 0.252, 0.196],
            "oEWC": [1.0, 0.491, 0.332, 0.25, 0.217],
            "SI": [0.997, 0.494, 0.411, 0.297, 0.197],
            "iCaRL": [0.999, 0.889, 0.8, 0.768, 0.7],
        },
        "source": "Wu et al., CVPR 2021, Table 1",
    },
    "cifar10": {
        "row": [0.875, 0.678, 0.588, 0.547, 0.539],
        "rivals": {
            "LwF": [0.979, 0.461, 0.319, 0.247, 0.196],
            "oEWC": [0.981, 0.383, 0.296, 0.246, 0.194],
            "SI": [0.989, 0.461, 0.317, 0.248, 0.195],
            "iCaRL": [0.964, 0.662, 0.547, 0.5, 0.48],
        },
        "source": "Wu et al., CVPR 2021, Table 1",
    },
}
"""The paper's own figures; accuracy on all classes seen after each task."""


@dataclass(frozen=True)
class Reproduction:
    """What is run, and which numbers of components are read off each network.

    Parameters
    ----------
    paper : str or None
        Which of the paper's experiments it stands beside.
    what : str
        A title.
    plan : Plan
    readings : mapping from a name to a number of components
        The first one is the plan's own.
    """

    paper: str | None
    what: str
    plan: Plan
    readings: dict[str, int]


REPRODUCTIONS = {
    "mnist": Reproduction(
        "mnist",
        "ReduNet on MNIST, as published",
        planned("paper-mnist", data="mnist"),
        {"as published, 28 components": 28},
    ),
    "mnist-tuned": Reproduction(
        "mnist",
        "ReduNet on MNIST, standardised, settings chosen on training data",
        Plan(
            data="mnist",
            features="standardize",
            n_layers=200,
            eps=1.0,
            step=2.0,
            sharpness=16.0,
            n_components=32,
        ),
        {"standardised, chosen on training data": 32},
    ),
    "cifar10": Reproduction(
        "cifar10",
        "ReduNet on CIFAR-10, five random Gaussian kernels",
        planned("paper-cifar10", data="cifar10"),
        {"50 components, chosen on training data": 50, "15 components, as published": 15},
    ),
    "cifar10-uncentred": Reproduction(
        "cifar10",
        "ReduNet on CIFAR-10, five random Gaussian kernels, nothing centred",
        Plan(data="cifar10", features="lift", n_layers=50, n_components=100),
        {"100 components, chosen on training data": 100, "15 components, as published": 15},
    ),
}
"""What `redunet reproduce` runs, by name."""


def carry_out(
    reproduction: Reproduction,
    out: Path,
    command: str,
    *,
    seeds: Sequence[int] = (0,),
    device: str = "auto",
    memory: str = "2GB",
    joint: bool = True,
    data_dir: Path | None = None,
    progress: Progress = silent,
) -> dict[str, Any]:
    """Run an experiment; leave record, figures and reports in a folder.

    Parameters
    ----------
    reproduction : Reproduction
    out : Path
        Runs that are there already, whole or in part, are taken up.
    command : str
        What a reader would type, for the record.
    seeds : sequence of int, default=(0,)
        Of what is random, if anything is.
    device, memory
        As for `ReduNetClassifier`.
    joint : bool, default=True
        Whether to compare with joint training, for the first seed.
    data_dir : Path, default=None
        Where the data set may lie already.
    progress : callable, default=nothing
        Told what begins, and which share of the whole is done.

    Returns
    -------
    dict
        The record, as it was saved.
    """
    start = time.perf_counter()
    anew = not any((out / f"seed-{seed}" / "record.json").exists() for seed in seeds)
    data = load(reproduction.plan.data, data_dir)
    runs = []
    for index, seed in enumerate(seeds):

        def tell(what: str, share: float, index: int = index, seed: int = seed) -> None:
            progress(f"seed {seed}, {what}", (index + share) / len(seeds))

        plan = reproduction.plan.changed({"seed": seed})
        tasks = plan.stream(data)
        features = plan.feature_map(tasks, resolve_device(device))
        record, model = run(
            plan.learner(features, device, memory),
            tasks,
            plan.to_dict(),
            storage.make_folder(out / f"seed-{seed}"),
            lambda learner, X: read(learner, X, reproduction.readings),
            tell,
        )
        if "rates" not in record:
            record["rates"] = rates_by_layer(model)
        if joint and seed == seeds[0] and "joint" not in record:
            tell("joint training", 0.9)
            make = partial(plan.learner, features, device, memory)
            record["joint"] = joint_check(model, tasks, make)
            record["peak_memory_bytes"] = max(record["peak_memory_bytes"], peak_memory())
        write_record(out / f"seed-{seed}" / "record.json", record)
        runs.append({"seed": seed, **record})
    everything = assembled(reproduction, runs, command)
    if anew:
        everything["seconds"] = round(time.perf_counter() - start, 1)
    leave(everything, out)
    return everything


def find(name: str) -> Reproduction:
    """The reproduction of that name."""
    if name not in REPRODUCTIONS:
        raise SettingsError(f"expected one of {', '.join(REPRODUCTIONS)}, got {name!r}")
    return REPRODUCTIONS[name]


def read(
    model: ReduNetClassifier, X: NDArray[Any], readings: dict[str, int]
) -> dict[str, NDArray[Any]]:
    """Labels for each reading, with the network's layers and without any."""
    wanted = sorted(set(readings.values()))
    by_layers = labels_by_components(model, X, wanted)
    without = copy.deepcopy(model).set_params(n_layers=0)
    by_input = labels_by_components(without, X, wanted)
    return {
        **{name: by_layers[r] for name, r in readings.items()},
        **{f"{name}, no layers": by_input[r] for name, r in readings.items()},
    }


def assembled(
    reproduction: Reproduction, runs: list[dict[str, Any]], command: str
) -> dict[str, Any]:
    """One record of all seeds, with a variant for each reading."""
    first = next(iter(reproduction.readings))
    variants = []
    for name, n_components in reproduction.readings.items():
        settings = {**runs[0]["settings"], "n_components": n_components}
        of_reading = [_reading(one, name, with_costs=name == first) for one in runs]
        variant = {"name": name, "settings": settings, "runs": of_reading}
        last = [one["tasks"][-1]["readings"][name] for one in runs]
        if whole := summed_confusion([row.get("confusion") for row in last]):
            variant["confusion"] = whole
        variants.append(variant)
    return {
        "what": reproduction.what,
        "command": command,
        "paper": PAPER.get(reproduction.paper or ""),
        "variants": variants,
        **{key: runs[0][key] for key in ("date", "machine", "versions")},
    }


def _reading(one: dict[str, Any], name: str, with_costs: bool) -> dict[str, Any]:
    """A run as one of its readings saw it; costs are told once, they are shared."""
    kept = ("classes", "train_samples", "test_samples", *(("seconds",) if with_costs else ()))
    tasks = [
        {
            **{key: row[key] for key in kept},
            **{key: value for key, value in row["readings"][name].items() if key != "confusion"},
            "no_layers_accuracy": row["readings"][f"{name}, no layers"]["accuracy"],
        }
        for row in one["tasks"]
    ]
    shared = ("joint", "peak_memory_bytes", "rates") if with_costs else ()
    return {
        "seed": one["seed"],
        "tasks": tasks,
        "summary": summary(tasks),
        **{key: one.get(key) for key in shared},
    }


def leave(record: dict[str, Any], out: Path) -> None:
    """Save record, figures and reports."""
    pictures = {"accuracy": accuracy_over_tasks(record)}
    if record["variants"][0]["runs"][0]["rates"]["delta_R"]:
        pictures["rate"] = rate_by_layer(record)
    files = {name: f"{name}.png" for name in pictures}
    write_record(out / "record.json", record)
    for name, picture in pictures.items():
        storage.write_bytes(out / files[name], picture)
    storage.write_bytes(out / "report.md", to_markdown(record, files).encode())
    chapter = Chapter(record["what"], sections(record))
    storage.write_bytes(out / "report.html", page([chapter]).encode())


def estimate(
    name: str, seeds: Sequence[int], device: str, dtype: str, joint: bool
) -> dict[str, Any]:
    """What a reproduction would cost here, from one timed matrix product."""
    plan = find(name).plan
    sizes = {"mnist": (784, 1000, 6000), "cifar10": (5120, 1000, 5000)}
    d, test, train = sizes[plan.data]
    build = moves = 0.0
    for k in (2, 4, 6, 8, 10):
        build += plan.n_layers * (4 * k + 1) * d**3
        moves += plan.n_layers * 2 * (k + 1) * (k * test) * d**2
    rate = _product_rate(device, dtype)
    learn = 2 * 10 * train * d**2 / rate
    # Factorisations run at a fraction of a product's rate: 2.8 was measured for the build.
    seconds = learn + (2.8 * build + 1.2 * moves) / rate
    last = plan.n_layers * (2.8 * 41 * d**3 + 1.2 * 2 * 11 * 10 * test * d**2) / rate
    itemsize = 8 if dtype == "float64" else 4
    return {
        "layers": plan.n_layers,
        "features": d,
        "seconds": len(seeds) * seconds + (3 * last if joint else 0.0),
        "memory_bytes": int(1e9 + 10 * d * d * (8 + 4 * itemsize) + 10 * test * d * itemsize),
        "products_per_second": rate,
    }


def _product_rate(device: str, dtype: str) -> float:
    """Operations a second of a matrix product."""
    n = 1024
    where = resolve_device(device)
    A = torch.rand(n, n, dtype=getattr(torch, dtype), device=where)
    float((A @ A)[0, 0])
    start = time.perf_counter()
    repeats = 5
    for _ in range(repeats):
        B = A @ A
    float(B[0, 0])
    return repeats * 2 * n**3 / (time.perf_counter() - start)
