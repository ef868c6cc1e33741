"""What the commands do beyond their calls, and the lines that they leave on the screen."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rich import box
from rich.table import Table
from rich.text import Text

from redunet import selection, storage
from redunet.datasets import load
from redunet.experiment import environment, write_record
from redunet.plan import Plan
from redunet.progress import Progress
from redunet.recipes import Recipe
from redunet.report.methods import (
    accuracy_grid,
    accuracy_notes,
    cost_grid,
    cost_notes,
    honesty_notes,
)
from redunet.report.tables import accuracy_table, terminal_table
from redunet.reproduce import Reproduction
from redunet.rivals import CLOSED_FORM
from redunet.settings import one_of, resolve_device
from redunet.streams import pooled

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
    r = plan.settings().components(d)
    name = f"{plan.data}, {plan.features}"
    reading = f"{r} components" if plan.readout == "subspace" else "linear discriminant"
    return Reproduction(None, f"ReduNet on {name}", plan, {reading: r})


def tune_plan(
    plan: Plan,
    grid: Mapping[str, Sequence[Any]],
    n_components: Sequence[int],
    per_class: int,
    paper_rule: bool,
    out: Path,
    device: str,
    memory: str,
    data_dir: Path | None,
    progress: Progress,
) -> Lines:
    """Choose settings on a plan's training data; leave a record of all candidates."""
    tasks = plan.stream(load(plan.data, data_dir))
    model = plan.learner(plan.feature_map(tasks, resolve_device(device)), device, memory)
    x_train, y_train = pooled(tasks, "train")
    found = selection.tune(
        model,
        x_train,
        y_train,
        grid,
        n_components=n_components,
        per_class=per_class,
        seed=plan.seed,
        paper_rule=paper_rule,
        progress=progress,
    )
    record = {"plan": plan.to_dict(), "grid": dict(grid), **environment(), **found}
    write_record(storage.make_folder(out) / "tune.json", record)
    names = [*grid, "n_components", "held_out_accuracy", "estimated_label_accuracy"]
    return _best(plan.data, found, names, out)


def tune_rival(
    method: str,
    plan: Plan,
    grid: Mapping[str, Sequence[Any]],
    per_class: int,
    out: Path,
    device: str,
    data_dir: Path | None,
    progress: Progress,
) -> Lines:
    """Choose a closed-form rival's settings on a plan's training data, and leave a record."""
    one_of("method", method, ("redunet", *CLOSED_FORM))
    tasks = plan.stream(load(plan.data, data_dir))
    model = CLOSED_FORM[method](features=plan.feature_map(tasks), device=device)
    x_train, y_train = pooled(tasks, "train")
    found = selection.tune_closed_form(
        model, x_train, y_train, grid, per_class=per_class, seed=plan.seed, progress=progress
    )
    of_network = plan.settings().to_dict()
    what = {name: value for name, value in plan.to_dict().items() if name not in of_network}
    record = {"method": method, "plan": what, "grid": dict(grid), **environment(), **found}
    write_record(storage.make_folder(out) / "tune.json", record)
    return _best(f"{method} on {plan.data}", found, [*grid, "held_out_accuracy"], out)


def _best(what: str, found: dict[str, Any], names: list[str], out: Path) -> Lines:
    """A table of the best candidates."""
    table = Table(title=f"{what}, best on {found['chosen_on']}", title_justify="left")
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
        *_joint_lines(joint),
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


def _metrics_line(summary: dict[str, float]) -> str:
    return (
        f"Over the stream: average {summary['average']:.4f}, decay {summary['decay']:.4f}, "
        f"forgetting {summary['forgetting']:.4f}, "
        f"backward transfer {summary['backward_transfer']:.4f}."
    )


def _joint_lines(joint: dict[str, Any] | None) -> Lines:
    if joint is None:
        return []
    same = joint["equivalence"]
    words = {True: "identical", False: "different"}
    return [
        f"Against joint training ({joint['accuracy']:.4f}): moments {words[same['moments']]}, "
        f"networks {words[same['network']]}, model files {words[same['file']]}, "
        f"{same['labels_that_differ']} test labels that differ."
    ]


def _cell(name: str, value: Any) -> str:
    return f"{value:.4f}" if name.endswith("accuracy") and value is not None else str(value)
