"""The tables that the demonstration prints."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich.table import Table

Lines = list[Any]

N_TASKS = 5

_COMPARED = (
    "joint: a model that learnt all classes seen at once; its network and its file are compared "
    "with ours, bit by bit."
)


def demo_tables(record: Mapping[str, Any]) -> list[Any]:
    """Accuracy and equality to joint training after each task, then the forgotten class."""
    (run,) = record["methods"][0]["runs"]
    return [_task_table(record["stream"], run["tasks"]), *_forgetting(record)]


def _task_table(stream: list[Any], rows: list[Any]) -> Table:
    table = Table(
        title="Digits, two classes at a time: accuracy on all classes seen",
        title_justify="left",
        caption=_COMPARED,
        caption_justify="left",
    )
    table.add_column("task", justify="right")
    table.add_column("classes")
    for heading in ("accuracy", "joint", "networks", "files", "seconds"):
        table.add_column(heading, justify="right")
    for number, (task, row) in enumerate(zip(stream, rows, strict=True), 1):
        same = row["joint"]["equivalence"]
        table.add_row(
            str(number),
            ", ".join(map(str, task["classes"])),
            f"{row['accuracy']:.4f}",
            f"{row['joint']['accuracy']:.4f}",
            _verdict(same["network"]),
            _verdict(same["file"]),
            f"{row['seconds']['learn'] + row['seconds']['evaluate']:.2f}",
        )
    return table


def _verdict(identical: bool) -> str:
    return "[green]identical[/]" if identical else "[red]different[/]"


def _forgetting(record: Mapping[str, Any]) -> list[Any]:
    hashes = record["forget"]
    label = hashes["class"]
    table = Table(title=f"Then class {label} is forgotten", title_justify="left")
    table.add_column("model file")
    table.add_column("sha256")
    table.add_row("with all ten classes", hashes["before"][:32] + "…")
    table.add_row(f"after forgetting {label}", hashes["after"][:32] + "…")
    table.add_row(f"of a model that never saw {label}", hashes["never_seen"][:32] + "…")
    error = record["methods"][0]["runs"][0]["calibration_error"]
    lines: list[Any] = [
        table,
        f"The last two files are {_verdict(hashes['after'] == hashes['never_seen'])}.",
        f"Calibration error of predict_proba on the test images: {error:.4f} (0 is best).",
    ]
    if (others := record.get("workers")) is not None:
        same = all(others[key] == hashes[key] for key in ("before", "after"))
        lines.append(f"The files that {others['number']} workers end in are {_verdict(same)}.")
    return lines
