"""What the commands on experiments print beside records."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from rich import box
from rich.console import Console, Group
from rich.live import Live
from rich.progress import BarColumn, Progress, TextColumn
from rich.table import Table
from rich.text import Text

from redunet.cli.terminal import say
from redunet.estimators.recipes import Recipe
from redunet.experiments.demo import MODEL, run_demo
from redunet.widths import FirstThatFits

Lines = list[Any]

N_TASKS = 5

_COMPARED = (
    "joint: a model that learnt all classes seen at once; its network and its file are compared "
    "with ours, bit by bit."
)

_MOST_COLUMNS = 6


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


def recipe_table(recipes: Mapping[str, Recipe]) -> Table:
    """Each recipe: what it is for, what it costs, what it reached, its settings."""
    table = Table(box=box.HORIZONTALS, show_header=False, show_lines=True, padding=(0, 1))
    table.add_column(no_wrap=True, style="bold")
    table.add_column(overflow="fold")
    for name, recipe in recipes.items():
        settings = ", ".join(f"{key}={value}" for key, value in recipe.settings.items())
        said = {"Costs": recipe.cost, "Reached": recipe.reached, "Settings": settings}
        lines = [Text(recipe.purpose)]
        for word, text in said.items():
            if text:
                lines.append(Text.assemble((f"{word}: ", "dim"), text))
        table.add_row(name, Text("\n").join(lines))
    return table


def best(record: Mapping[str, Any]) -> Lines:
    """A table of the best candidates of a search."""
    shown = record["candidates"][:10]
    names = dict.fromkeys(key for one in shown for key, value in one.items() if value is not None)
    same = [
        name for name in names if len(shown) > 1 and len({str(one.get(name)) for one in shown}) == 1
    ]
    if len(names) > _MOST_COLUMNS:  # a terminal has no room for what does not differ
        names = {name: None for name in names if name not in same or name.endswith("accuracy")}
    title = f"{record['what']}: best of {record['tried']} on {record['chosen_on']}"
    left = ", ".join(f"{name}={shown[0][name]}" for name in same if name not in names)
    tables = FirstThatFits(_by_columns(shown, list(names)), _by_words(shown, list(names)))
    return [title, tables, *([f"All of them: {left}."] if left else [])]


def _by_columns(shown: Sequence[Mapping[str, Any]], names: Sequence[str]) -> Table:
    """Candidates, with a column for each setting."""
    table = Table()
    for name in names:
        table.add_column(name.replace("_", " "), justify="right")
    for candidate in shown:
        table.add_row(*(_cell(name, candidate.get(name)) for name in names))
    return table


def _by_words(shown: Sequence[Mapping[str, Any]], names: Sequence[str]) -> Table:
    """Candidates, with their settings in one column, for a narrow terminal."""
    accuracies = [name for name in names if name.endswith("accuracy")]
    others = [name for name in names if name not in accuracies]
    table = Table(show_lines=True)
    for name in accuracies:
        table.add_column(name.replace("_", " "), justify="right")
    table.add_column("settings")
    for candidate in shown:
        words = [f"{name}={candidate[name]}" for name in others if candidate.get(name) is not None]
        cells = (_cell(name, candidate.get(name)) for name in accuracies)
        table.add_row(*cells, ", ".join(words))
    return table


def tuned(found: Mapping[str, Any]) -> Lines:
    """What tuning a model came to."""
    before, after, chosen = found["accuracy_before"], found["accuracy"], found["chosen"]
    said = f"Accuracy on {found['samples']:,} validation samples: {before:.4f} before"
    if chosen.keys() - {"temperature"}:
        said += f", {after:.4f} with the settings chosen; the difference is {after - before:.4f} "
        said += f"± {found['standard_error']:.4f}."
    else:
        said += "; no candidate is ahead by more than 1.5 standard errors, so the settings stay."
    errors = [found[key] for key in ("calibration_error_before", "calibration_error")]
    lines = [said, "Calibration error there: {:.4f} before, {:.4f} now.".format(*errors)]
    failed = Counter(one["failed"] for one in found["candidates"] if "failed" in one)
    lines += [f"Failed: {n} of the candidates, as {why}." for why, n in failed.items()]
    if chosen:
        lines.append(f"Chosen: {', '.join(f'{key}={value}' for key, value in chosen.items())}.")
        wrote = f"Wrote {found['model']}"
        asked = f"{found['model']} was not changed: add --write to change it"
        lines.append(wrote if found["written"] else asked)
    return lines


def _cell(name: str, value: Any) -> str:
    if value is None:
        return "–"
    return f"{value:.4f}" if name.endswith("accuracy") else str(value)
