"""What the commands do beyond their calls, and the lines that they leave on the screen."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich import box
from rich.table import Table
from rich.text import Text

from redunet.datasets import load
from redunet.errors import SettingsError
from redunet.estimators import storage
from redunet.estimators.recipes import Recipe
from redunet.estimators.settings import resolve_device
from redunet.experiments import selection
from redunet.experiments.plan import Plan
from redunet.experiments.reproduce import Reproduction
from redunet.experiments.runner import environment, write_record
from redunet.experiments.streams import Task, pooled
from redunet.progress import Progress
from redunet.report.ablation import ingredients_grid, recipe_grid, recipe_notes
from redunet.report.methods import (
    accuracy_grid,
    accuracy_notes,
    cost_grid,
    cost_notes,
    honesty_notes,
)
from redunet.report.sections import joint_words
from redunet.report.tables import READOUT_NAMES, accuracy_table, terminal_table
from redunet.rivals import CLOSED_FORM
from redunet.validation import one_of

Lines = list[Any]


def recipe_table(recipes: Mapping[str, Recipe]) -> Table:
    """Each recipe: what it is for, what it takes, what it reached, what it is."""
    table = Table(box=box.HORIZONTALS, show_header=False, show_lines=True, padding=(0, 1))
    table.add_column(no_wrap=True, style="bold")
    table.add_column()
    for name, recipe in recipes.items():
        settings = ", ".join(f"{key}={value}" for key, value in recipe.settings.items())
        said = {"Takes": recipe.cost, "Reached": recipe.reached, "Settings": settings}
        lines = [Text(recipe.purpose)]
        for word, text in said.items():
            if text:
                lines.append(Text.assemble((f"{word}: ", "dim"), text))
        table.add_row(name, Text("\n").join(lines))
    return table


def own_experiment(plan: Plan, data_dir: Path | None) -> Reproduction:
    """A plan of one's own, read off as it says."""
    tasks = plan.stream(load(plan.data, data_dir))
    d = plan.changed({"standardized": False}).feature_map(tasks).n_features
    r = plan.network().components(d)
    name = f"{plan.data}, {plan.features}"
    reading = READOUT_NAMES.get(plan.readout, plan.readout)
    reading = f"{r} components" if plan.readout == "subspace" else reading
    return Reproduction(None, f"ReduNet on {name}", plan, {reading: r})


@dataclass(frozen=True)
class Search:
    """Which settings are tried, and on which training samples.

    Parameters
    ----------
    grid : mapping from setting to values
    per_class : int, default=200
        Samples of each class to evaluate on.
    most : int, default=None
        At most so many combinations, drawn at random; None tries all.
    first_task : bool, default=False
        Whether to look at the first task's samples alone.
    """

    grid: Mapping[str, Sequence[Any]]
    per_class: int = 200
    most: int | None = None
    first_task: bool = False

    def tasks(self, plan: Plan, data_dir: Path | None) -> tuple[Task, ...]:
        """The tasks whose training samples decide; features come from the first of them too."""
        if self.first_task and plan.statistics_from == "whole-training-set":
            raise SettingsError(
                "expected statistics_from=first-task where settings are chosen on the first task, "
                "got 'whole-training-set'"
            )
        tasks = plan.stream(load(plan.data, data_dir))
        return tasks[:1] if self.first_task else tasks


def tune_plan(
    plan: Plan,
    search: Search,
    n_components: Sequence[int],
    paper_rule: bool,
    out: Path,
    device: str,
    memory: str,
    data_dir: Path | None,
    progress: Progress,
) -> Lines:
    """Choose settings on a plan's training data; leave a record of all candidates."""
    tasks = search.tasks(plan, data_dir)
    model = plan.learner(plan.feature_map(tasks, resolve_device(device)), device, memory)
    found = selection.tune(
        model,
        *pooled(tasks, "train"),
        search.grid,
        n_components=n_components,
        per_class=search.per_class,
        seed=plan.seed,
        paper_rule=paper_rule,
        most=search.most,
        progress=progress,
    )
    record = {"plan": plan.to_dict(), **_searched(search, tasks), **environment(), **found}
    write_record(storage.make_folder(out) / "tune.json", record)
    names = [*search.grid, "n_components", "held_out_accuracy", "estimated_label_accuracy"]
    return _best(plan.data, found, names, out)


def tune_rival(
    method: str,
    plan: Plan,
    search: Search,
    out: Path,
    device: str,
    data_dir: Path | None,
    progress: Progress,
) -> Lines:
    """Choose a closed-form rival's settings on a plan's training data, and leave a record."""
    one_of("method", method, ("redunet", *CLOSED_FORM))
    tasks = search.tasks(plan, data_dir)
    features = plan.feature_map(tasks, resolve_device(device))
    found = selection.tune_closed_form(
        CLOSED_FORM[method](features=features, device=device),
        *pooled(tasks, "train"),
        search.grid,
        per_class=search.per_class,
        seed=plan.seed,
        most=search.most,
        progress=progress,
    )
    of_network = plan.network().to_dict()
    what = {name: value for name, value in plan.to_dict().items() if name not in of_network}
    record = {"method": method, "plan": what, **_searched(search, tasks), **environment(), **found}
    write_record(storage.make_folder(out) / "tune.json", record)
    return _best(f"{method} on {plan.data}", found, [*search.grid, "held_out_accuracy"], out)


def _searched(search: Search, tasks: Sequence[Task]) -> dict[str, Any]:
    """What was searched, and the classes of the tasks whose samples decided."""
    return {"grid": dict(search.grid), "tasks_seen": [list(task.classes) for task in tasks]}


def _best(what: str, found: dict[str, Any], names: list[str], out: Path) -> Lines:
    """A table of the best candidates."""
    title = f"{what}, best of {found['tried']} on {found['chosen_on']}"
    table = Table(title=title, title_justify="left")
    for name in names:
        table.add_column(name.replace("_", " "), justify="right")
    for candidate in found["candidates"][:10]:
        table.add_row(*(_cell(name, candidate[name]) for name in names))
    return [table, f"Left behind: {out / 'tune.json'}"]


def forecast(name: str, cost: dict[str, Any], out: Path) -> Lines:
    """What a reproduction would do."""
    return [
        f"redunet reproduce {name} would build five networks of {cost['layers']} layers in "
        f"{cost['features']} dimensions, after each of five tasks of two classes, and label the "
        f"test samples of all classes seen.",
        f"About {cost['seconds'] / 60:.0f} minutes and {cost['memory_bytes'] / 1e9:.1f} GB here, "
        f"at {cost['products_per_second'] / 1e9:.0f} GFLOP/s in a matrix product.",
        f"It would leave record.json, report.md, report.html and two figures in {out}.",
    ]


def verdict(record: dict[str, Any], out: Path) -> Lines:
    """What a reproduction found."""
    joint = record["variants"][0]["runs"][0].get("joint")
    return [
        accuracy_table(record),
        *([joint_words(joint)] if joint else []),
        _metrics_line(record["variants"][0]["runs"][0]["summary"]),
        f"Left behind: {out / 'report.html'}, report.md, record.json and figures",
    ]


def standings(record: dict[str, Any], out: Path) -> Lines:
    """What a comparison found."""
    return [
        record["what"],
        terminal_table(accuracy_grid(record)),
        *accuracy_notes(record),
        "",
        terminal_table(cost_grid(record)),
        *cost_notes(record),
        *honesty_notes(record),
        f"Left behind: {out / 'report.html'}, report.md, record.json and accuracy.png",
    ]


def findings(record: dict[str, Any], out: Path) -> Lines:
    """What a recipe reached, and what its ingredients add."""
    return [
        record["what"],
        terminal_table(recipe_grid(record, ())),
        *([terminal_table(ingredients_grid(record))] if record["ablation"] else []),
        *recipe_notes(record),
        *(joint_words(run["joint"]) for run in record["runs"] if run.get("joint")),
        f"Left behind: {out / 'report.html'}, report.md, record.json and accuracy.png",
    ]


def orders_verdict(record: dict[str, Any], out: Path) -> Lines:
    """What came of learning in several orders."""
    table = Table(title=record["what"], title_justify="left", box=box.SIMPLE_HEAD)
    for name in ("seed", "tasks", "model file, sha256"):
        table.add_column(name)
    for order in record["orders"]:
        tasks = " | ".join(" ".join(map(str, task)) for task in order["tasks"])
        table.add_row(str(order["seed"]), tasks, order["sha256"][:16])
    files, every = record["files"], len(record["orders"])
    said = (
        f"All {every} orders, and all classes at once, gave one file: {record['joint_sha256']}"
        if files == 1
        else f"{files} different files came of {every} orders and of all classes at once."
    )
    return [table, said, f"Left behind: {out / 'record.json'}"]


def _metrics_line(summary: dict[str, float]) -> str:
    return (
        f"Over the stream: average {summary['average']:.4f}, decay {summary['decay']:.4f}, "
        f"forgetting {summary['forgetting']:.4f}, "
        f"backward transfer {summary['backward_transfer']:.4f}."
    )


def _cell(name: str, value: Any) -> str:
    return f"{value:.4f}" if name.endswith("accuracy") and value is not None else str(value)
