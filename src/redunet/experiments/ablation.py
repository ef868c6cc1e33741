"""What a recipe reaches, what each of its ingredients adds, and rivals on the same features."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from functools import partial
from pathlib import Path
from typing import Any

from redunet.datasets import load
from redunet.errors import SettingsError
from redunet.estimators import storage
from redunet.estimators.metrics import summed_confusion
from redunet.estimators.recipes import find
from redunet.experiments.compare import TITLES
from redunet.experiments.contest import Stage
from redunet.experiments.entrants import NAMES, known_settings, settings_for_recipe
from redunet.experiments.plan import Plan
from redunet.experiments.reproduce import PAPER
from redunet.experiments.runner import record_so_far, summary, write_record
from redunet.progress import Progress, silent
from redunet.report.ablation import ablation_sections
from redunet.report.blocks import Chapter
from redunet.report.document import to_markdown
from redunet.report.figures import recipe_over_tasks
from redunet.report.page import page
from redunet.rivals import CLOSED_FORM

CHOSEN_ON = (
    "Nothing here was chosen on test data: the recipe was frozen before, and the variants follow "
    "from it by rule."
)

_USUAL = Plan().to_dict()
_OF_A_RUN = (
    "n_features",
    "moments_bytes",
    "peak_memory_bytes",
    "peak_device_memory_bytes",
    "joint",
    "date",
    "machine",
    "versions",
)


def ablate(
    data: str,
    recipe: str,
    out: Path,
    command: str,
    *,
    seeds: Sequence[int] = (0,),
    changes: Mapping[str, Mapping[str, Any]] | None = None,
    device: str = "auto",
    memory: str = "2GB",
    ingredients: bool = True,
    joint: bool = True,
    data_dir: Path | None = None,
    progress: Progress = silent,
) -> dict[str, Any]:
    """Run a recipe over a data set's stream; leave record, figure and reports in a folder.

    One model a seed learns task after task, and rivals are made from its
    moments; so are, for the first seed, variants on the same features.

    Parameters
    ----------
    data : str
        A data set of `redunet.datasets`.
    recipe : str
        A key of `redunet.estimators.recipes.RECIPES`.
    out : Path
        What is finished there is taken up as it is.
    command : str
        What a reader would type, for the record.
    seeds : sequence of int, default=(0,)
        Where nothing is random it runs once, with seed 0.
    changes : mapping from "redunet" or a closed-form method to settings, default=None
        Settings other than the recipe's, or than those chosen for its features.
    device, memory
        As for `ReduNetClassifier`.
    ingredients : bool, default=True
        Whether to take the recipe apart, for the first seed.
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
    changes = changes or {}
    for method in changes:
        if method not in ("redunet", *CLOSED_FORM):
            known = ", ".join(("redunet", *CLOSED_FORM))
            raise SettingsError(f"expected settings of {known}, got some of {method!r}")
    own = known_settings("redunet", changes.get("redunet", {}), _settable())
    plan = Plan(data=data).changed(find(recipe).settings).changed(own)
    plan.network()
    recipe_says = f"the recipe, but for {', '.join(own)}" if own else "the recipe"
    rivals, chosen = {}, {"redunet": recipe_says, "subspace": recipe_says}
    for method in CLOSED_FORM:
        rivals[method], chosen[method] = settings_for_recipe(
            method, recipe, data, changes.get(method, {})
        )
    random = plan.random_features or bool(plan.train_per_class or plan.test_per_class)
    plans = {seed: plan.changed({"seed": seed}) for seed in (seeds if random else (0,))}
    # Whatever speaks against this is told before anything runs.
    records = {
        seed: record_so_far(_path(out, seed), {"recipe": recipe, **one.to_dict(), "rivals": rivals})
        for seed, one in plans.items()
    }
    of_first = [step for step, asked in (("ablation", ingredients), ("joint", joint)) if asked]
    steps = _steps(records, of_first)
    for number, (seed, step) in enumerate(steps):
        storage.make_folder(out / f"seed-{seed}")
        stage = Stage(plans[seed], rivals, load(data, data_dir), device, memory)

        def tell(what: str, share: float, number: int = number, seed: int = seed) -> None:
            progress(f"seed {seed}, {what}", (number + share) / len(steps))

        tell(step, 0.0)
        made: dict[str, Callable[[], dict[str, Any]]] = {
            "tasks": partial(stage.evaluation, tell),
            "ablation": stage.ablation,
            "joint": stage.joint,
        }
        records[seed] |= made[step]()
        write_record(_path(out, seed), records[seed])
    record = assembled(recipe, plan, list(records.items()), command, chosen, random)
    leave(record, out)
    return record


def _steps(
    records: Mapping[int, Mapping[str, Any]], of_first: Sequence[str]
) -> list[tuple[int, str]]:
    """What is yet to be done: all seeds' tasks, then what is asked of the first one."""
    first, *_ = records
    wanted = [(seed, "tasks") for seed in records] + [(first, step) for step in of_first]
    return [(seed, step) for seed, step in wanted if not records[seed].get(step)]


def assembled(
    recipe: str,
    plan: Plan,
    records: Sequence[tuple[int, dict[str, Any]]],
    command: str,
    chosen: Mapping[str, str],
    random: bool,
) -> dict[str, Any]:
    """One record of all seeds.

    Parameters
    ----------
    recipe : str
    plan : Plan
        With the recipe's settings, whatever the seed.
    records : sequence of pairs of a seed and its finished record
    command : str
    chosen : mapping from a method to words
        How its settings came about.
    random : bool
        Whether a seed makes a difference.
    """
    first = records[0][1]
    names = {
        "redunet": f"ReduNet, {recipe}",
        "subspace": "nearest subspace",
        **{method: NAMES[method] for method in CLOSED_FORM},
    }
    network = {key: value for key, value in plan.to_dict().items() if key not in ("data", "seed")}
    settings = {
        "redunet": {key: value for key, value in network.items() if value != _USUAL[key]},
        "subspace": {"n_components": plan.network().components(first["n_features"])},
        **first["settings"]["rivals"],
    }
    title = TITLES.get(plan.data, plan.data)
    return {
        "what": f"Recipe {recipe} on {title}, {len(first['tasks'])} tasks",
        "command": command,
        "data": plan.data,
        "recipe": recipe,
        "settings": network,
        "chosen_on": CHOSEN_ON,
        "random": random,
        "paper": _paper(plan.data),
        "stream": [
            {key: task[key] for key in ("classes", "train_samples", "test_samples")}
            for task in first["tasks"]
        ],
        "methods": [
            {"method": method, "name": name, "settings": settings[method]}
            | {"chosen": chosen[method], "raw_data_kept": False}
            | _accuracies(method, records)
            for method, name in names.items()
        ],
        "ablation": first.get("ablation", []),
        "runs": [
            {
                "seed": seed,
                "seconds": _seconds(record),
                **{key: record[key] for key in _OF_A_RUN if key in record},
            }
            for seed, record in records
        ],
    }


def leave(record: dict[str, Any], out: Path) -> None:
    """Save record, figure and reports."""
    write_record(out / "record.json", record)
    storage.write_bytes(out / "accuracy.png", recipe_over_tasks(record))
    markdown = to_markdown(record, {"accuracy": "accuracy.png"}, ablation_sections)
    storage.write_bytes(out / "report.md", markdown.encode())
    chapter = Chapter(record["what"], ablation_sections(record))
    storage.write_bytes(out / "report.html", page([chapter]).encode())


def _paper(data: str) -> dict[str, Any] | None:
    """The paper's network alone: its rivals stand in the records of comparisons."""
    paper = PAPER.get(data)
    return paper and {key: paper[key] for key in ("row", "source")}


def _accuracies(method: str, records: Sequence[tuple[int, Mapping[str, Any]]]) -> dict[str, Any]:
    """A method's accuracies for each seed, in the form that a comparison has."""
    runs = []
    for seed, record in records:
        rows = [
            {
                "accuracy": row["readings"][method]["accuracy"],
                "accuracy_by_task": row["readings"][method]["accuracy_by_task"],
                "seconds": row["seconds_by_method"][method],
            }
            for row in record["tasks"]
        ]
        runs.append({"seed": seed, "tasks": rows, "summary": summary(rows)})
    last = [record["tasks"][-1]["readings"][method]["confusion"] for _, record in records]
    return {"confusion": summed_confusion(last), "runs": runs}


def _seconds(record: Mapping[str, Any]) -> dict[str, float]:
    """Of a seed: learning all tasks, labelling after each by all methods, any variants."""
    parts = {
        part: round(sum(row["seconds"][part] for row in record["tasks"]), 3)
        for part in ("learn", "evaluate")
    }
    return parts | ({"ablation": record["ablation_seconds"]} if "ablation" in record else {})


def _settable() -> list[str]:
    return [field.name for field in fields(Plan) if field.name not in ("data", "seed")]


def _path(out: Path, seed: int) -> Path:
    return out / f"seed-{seed}" / "record.json"
