"""What the commands on experiments print beside records."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from rich.console import Console, Group
from rich.live import Live
from rich.progress import BarColumn, Progress, TextColumn
from rich.table import Table

from redunet.cli.terminal import say
from redunet_lab.demo import MODEL, run_demo

Lines = list[Any]

N_TASKS = 5

_COMPARED = (
    "joint: a model that learnt all classes seen at once; its network and its file are compared "
    "with ours, bit by bit."
)


def show_demo(out: Path, console: Console, workers: int | None = None) -> dict[str, Any]:
    """Run the demonstration; on a terminal its table grows task by task."""
    bar = Progress(
        TextColumn("[progress.description]{task.description}"),
        BarColumn(),
        TextColumn("{task.completed} of {task.total} tasks"),
        console=console,
    )
    learning = bar.add_task("Learning digits", total=N_TASKS)
    rows: list[dict[str, Any]] = []
    with ExitStack() as stack:
        live = None
        if console.is_terminal:
            live = stack.enter_context(Live(console=console, transient=True))

        def on_task(done: Sequence[dict[str, Any]]) -> None:
            rows[:] = done
            bar.update(learning, completed=len(rows))
            if live is not None:
                live.update(Group(_task_table(rows), bar), refresh=True)

        record = run_demo(out, on_task, workers)
    console.print(_task_table(rows), *_forgetting(record), sep="\n")
    say(f"Wrote {out / MODEL}, the model, for ReduNetClassifier.load and redunet predict")
    say(f"Wrote {out / 'report.html'}, report.md, record.json and figures")
    say("Next: open that page in a browser; for data of your own, see redunet learn --help")
    return record


def _task_table(rows: Sequence[Mapping[str, Any]]) -> Table:
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
    for number, row in enumerate(rows, 1):
        same = row["joint"]["equivalence"]
        table.add_row(
            str(number),
            ", ".join(map(str, row["classes"])),
            f"{row['accuracy']:.4f}",
            f"{row['joint']['accuracy']:.4f}",
            _verdict(same["network"]),
            _verdict(same["file"]),
            f"{row['seconds']:.2f}",
        )
    return table


def _verdict(identical: bool) -> str:
    return "[green]identical[/]" if identical else "[red]different[/]"


def _forgetting(record: Mapping[str, Any]) -> Lines:
    hashes = record["forget"]
    label = hashes["class"]
    table = Table(title=f"Then class {label} is forgotten", title_justify="left")
    table.add_column("model file")
    table.add_column("sha256")
    table.add_row("with all ten classes", hashes["before"][:32] + "…")
    table.add_row(f"after forgetting {label}", hashes["after"][:32] + "…")
    table.add_row(f"of a model that never saw {label}", hashes["never_seen"][:32] + "…")
    error = record["methods"][0]["runs"][0]["calibration_error"]
    lines = [
        table,
        f"The last two files are {_verdict(hashes['after'] == hashes['never_seen'])}.",
        f"Calibration error of predict_proba on the test images: {error:.4f} (0 is best).",
    ]
    if (others := record.get("workers")) is not None:
        same = all(others[key] == hashes[key] for key in ("before", "after"))
        lines.append(f"The files that {others['number']} workers end in are {_verdict(same)}.")
    return lines
