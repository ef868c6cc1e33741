"""The main job on the bundled digits: five tasks stream by, then one class is forgotten."""

from __future__ import annotations

import copy
import time
from pathlib import Path
from typing import Any, Literal

import numpy as np
from rich.console import Console, Group
from rich.live import Live
from rich.progress import BarColumn, Progress, TextColumn
from rich.table import Table

from redunet.datasets import load
from redunet.estimators import storage
from redunet.estimators.classifier import ReduNetClassifier
from redunet.estimators.inspection import rates_by_layer
from redunet.estimators.metrics import calibration_error
from redunet.experiments.runner import (
    environment,
    equivalence,
    file_hash,
    write_record,
)
from redunet.experiments.streams import Task, class_stream, pooled
from redunet.report.figures import accuracy_and_rate

FORGOTTEN = 3


def run_demo(out: Path, console: Console) -> dict[str, Any]:
    """Run the demonstration, show it, leave model, figure and record in a folder.

    Parameters
    ----------
    out : Path
        The folder; made where it is missing.
    console : Console
        Where the tables go.

    Returns
    -------
    dict
        The record, as it was saved.
    """
    out = storage.make_folder(out)
    tasks = class_stream(load("digits"))
    model = ReduNetClassifier()
    rows: list[dict[str, Any]] = []
    bar = Progress(
        TextColumn("[progress.description]{task.description}"),
        BarColumn(),
        TextColumn("{task.completed} of {task.total} tasks"),
        console=console,
    )
    learning = bar.add_task("Learning digits", total=len(tasks))
    if console.is_terminal:
        with Live(console=console, transient=True) as live:
            for index, task in enumerate(tasks):
                live.update(Group(_task_table(rows), bar), refresh=True)
                rows.append(_learn_task(model, task, tasks[: index + 1]))
                bar.advance(learning)
    else:
        rows = [_learn_task(model, task, tasks[: i + 1]) for i, task in enumerate(tasks)]
    console.print(_task_table(rows))
    x_test, y_test = _all(tasks, "test")
    record = {
        "what": "redunet demo: five tasks of two classes on scikit-learn's digits",
        "settings": model.get_params(),
        **environment(),
        "tasks": rows,
        "calibration_error": calibration_error(
            model.predict_proba(x_test), model.predict(x_test) == y_test
        ),
        **rates_by_layer(model),
        "forgetting": _forget(tasks, model),
    }
    model.save(out / "digits.safetensors")
    storage.write_bytes(out / "digits.png", _figure(record))
    write_record(out / "record.json", record)
    _say(console, record, out)
    return record


def _learn_task(model: ReduNetClassifier, task: Task, seen: tuple[Task, ...]) -> dict[str, Any]:
    """Learn one task, and compare with a joint model of all tasks seen."""
    x_test, y_test = _all(seen, "test")
    start = time.perf_counter()
    model.partial_fit(_flat(task.x_train), task.y_train)
    labels = model.predict(x_test)
    seconds = time.perf_counter() - start
    joint = ReduNetClassifier().fit(*_all(seen, "train"))
    joint_labels = joint.predict(x_test)
    return {
        "classes": list(task.classes),
        "accuracy": float(np.mean(labels == y_test)),
        "joint_accuracy": float(np.mean(joint_labels == y_test)),
        "equivalence": equivalence(model, joint, labels, joint_labels).to_dict(),
        "seconds": round(seconds, 3),
    }


def _forget(tasks: tuple[Task, ...], model: ReduNetClassifier) -> dict[str, Any]:
    """Forget one class, and compare with a model that never saw it."""
    x, y = _all(tasks, "train")
    others = y != FORGOTTEN
    never = ReduNetClassifier().fit(x[others], y[others])
    forgetful = copy.deepcopy(model).forget([FORGOTTEN])
    return {
        "class": FORGOTTEN,
        "before": file_hash(model),
        "after": file_hash(forgetful),
        "never_seen": file_hash(never),
    }


def _flat(images: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    return images.reshape(len(images), -1)


def _all(tasks: tuple[Task, ...], part: Literal["train", "test"]) -> tuple[Any, Any]:
    x, y = pooled(tasks, part)
    return _flat(x), y


def _names(classes: list[int]) -> str:
    return ", ".join(map(str, classes))


def _task_table(rows: list[dict[str, Any]]) -> Table:
    table = Table(
        title="Digits, two classes at a time: accuracy on all classes seen", title_justify="left"
    )
    table.add_column("task", justify="right")
    table.add_column("classes")
    for heading in ("accuracy", "joint", "networks", "files", "seconds"):
        table.add_column(heading, justify="right")
    for number, row in enumerate(rows, 1):
        same = row["equivalence"]
        table.add_row(
            str(number),
            _names(row["classes"]),
            f"{row['accuracy']:.4f}",
            f"{row['joint_accuracy']:.4f}",
            _verdict(same["network"]),
            _verdict(same["file"]),
            f"{row['seconds']:.2f}",
        )
    return table


def _verdict(identical: bool) -> str:
    return "[green]identical[/]" if identical else "[red]different[/]"


def _figure(record: dict[str, Any]) -> bytes:
    rows = record["tasks"]
    return accuracy_and_rate(
        {
            "incremental, no old data kept": [row["accuracy"] for row in rows],
            "joint, all data at once": [row["joint_accuracy"] for row in rows],
        },
        [_names(row["classes"]) for row in rows],
        {
            "$\\Delta R = R - R_c$, the objective": record["delta_R"],
            "$R$, all classes together": record["R"],
            "$R_c$, class by class": record["R_c"],
        },
        "Digits, two classes at a time: the network after each task equals the joint one",
    )


def _say(console: Console, record: dict[str, Any], out: Path) -> None:
    hashes = record["forgetting"]
    verdict = _verdict(hashes["after"] == hashes["never_seen"])
    table = Table(title=f"Then class {hashes['class']} is forgotten", title_justify="left")
    table.add_column("model file")
    table.add_column("sha256")
    table.add_row("with all ten classes", hashes["before"][:32] + "…")
    table.add_row(f"after forgetting {hashes['class']}", hashes["after"][:32] + "…")
    table.add_row(f"of a model that never saw {hashes['class']}", hashes["never_seen"][:32] + "…")
    console.print(table)
    console.print(f"The last two files are {verdict}.")
    console.print(
        f"Calibration error of predict_proba on the test images: "
        f"{record['calibration_error']:.4f} (0 is best)."
    )
    console.print("Left behind:", style="bold")
    for name, what in {
        "digits.safetensors": "the model, to use with ReduNetClassifier.load",
        "digits.png": "accuracy by task, and ΔR by layer",
        "record.json": "every number above",
    }.items():
        console.print(f"  {out / name}  [dim]{what}[/]", soft_wrap=True, highlight=False)
