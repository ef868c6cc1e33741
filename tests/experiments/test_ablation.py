"""Recipes taken apart: shared moments give what each method alone gives, and all is recorded."""

from __future__ import annotations

import copy
import io
import json
import re
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from redunet.report.ablation import ingredients_grid, recipe_grid, recipe_notes
from redunet.report.chapters import record_chapter
from redunet.report.figures import recipe_over_tasks
from redunet.report.palette import METHODS as METHOD_STYLES
from typer.testing import CliRunner

from redunet.cli.app import main
from redunet.datasets import load
from redunet.errors import SettingsError
from redunet.estimators.recipes import find
from redunet.experiments import contest, entrants
from redunet.experiments.ablation import ablate
from redunet.experiments.contest import BARE, Contest, variants
from redunet.experiments.plan import Plan
from redunet.experiments.reproduce import PAPER
from redunet.experiments.streams import pooled
from redunet.report.readme import filled
from redunet.rivals import CLOSED_FORM

pytestmark = pytest.mark.usefixtures("one_thread")

SMALL = {
    "n_filters": 6,
    "patch_size": 3,
    "cells": 2,
    "n_components": 6,
    "train_per_class": 30,
    "test_per_class": 12,
    "n_tasks": 3,
}
CHANGES: dict[str, dict[str, Any]] = {"redunet": SMALL, "lda": {"regularization": 0.1}}
PLAN = Plan(data="digits").changed(find("images-fast").settings).changed(SMALL)
METHODS = ["redunet", "subspace", *CLOSED_FORM]
COMMAND = "redunet ablate --data digits"


def run(out: Path, **how: Any) -> dict[str, Any]:
    how = {"changes": CHANGES, "seeds": (0, 1), **how}
    return ablate("digits", "images-fast", out, COMMAND, **how)


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    out = tmp_path_factory.mktemp("ablation")
    return out, run(out)


def alone(method: str, plan: Plan, features: Any) -> Any:
    """A method that shares nothing."""
    if method == "redunet":
        return plan.learner(features, "cpu", "2GB")
    if method == "subspace":
        return plan.changed(BARE).learner(features, "cpu", "2GB")
    settings, _ = entrants.settings_for_recipe(
        method, "images-fast", "digits", CHANGES.get(method, {})
    )
    return CLOSED_FORM[method](**settings, features=features)


@pytest.mark.parametrize("settings", [{}, {"whitening": 0.1, "dtype": "float32", "n_layers": 3}])
def test_methods_on_shared_moments_label_as_those_that_learnt_alone(
    settings: dict[str, Any],
) -> None:
    plan = PLAN.changed(settings)
    tasks = plan.stream(load("digits"))
    features = plan.feature_map(tasks)
    rivals = {
        method: entrants.settings_for_recipe(
            method, "images-fast", "digits", CHANGES.get(method, {})
        )[0]
        for method in CLOSED_FORM
    }
    shared = Contest(plan, rivals, features, "cpu", "2GB")
    model = plan.learner(features, "cpu", "2GB")
    each = {method: alone(method, plan, features) for method in METHODS}
    for number, task in enumerate(tasks, 1):
        model.partial_fit(task.x_train, task.y_train)
        x_test, _ = pooled(tasks[:number], "test")
        labels = shared(model, x_test)
        assert list(labels) == METHODS
        assert list(shared.seconds) == ["features", *METHODS]
        for method, learner in each.items():
            learner.partial_fit(task.x_train, task.y_train)
            assert np.array_equal(labels[method], learner.predict(x_test)), method
    on_features = [one for one in variants(plan) if one.features == "patches"]
    x_train, y_train = pooled(tasks, "train")
    for one, given in shared.ablation(on_features):
        fitted = one.learner(features, "cpu", "2GB").fit(x_train, y_train)
        assert np.array_equal(given, fitted.predict(x_test))


def test_the_record_is_complete(finished: tuple[Path, dict[str, Any]]) -> None:
    out, record = finished
    assert json.loads((out / "record.json").read_text()) == record
    assert record["what"] == "Recipe images-fast on digits, 3 tasks"
    assert record["command"] == COMMAND
    assert "Nothing here was chosen on test data" in record["chosen_on"]
    assert record["settings"]["n_filters"] == 6
    assert [method["method"] for method in record["methods"]] == METHODS
    for method in record["methods"]:
        assert [run["seed"] for run in method["runs"]] == [0, 1]
        for one in method["runs"]:
            assert [len(row["accuracy_by_task"]) for row in one["tasks"]] == [1, 2, 3]
            assert one["summary"]["last"] == one["tasks"][-1]["accuracy"] > 0.6
    lda = record["methods"][3]
    assert lda["settings"] == {"regularization": 0.1}
    assert [method["chosen"] for method in record["methods"]] == [
        f"the recipe, but for {', '.join(SMALL)}",
        f"the recipe, but for {', '.join(SMALL)}",
        "nothing to choose",
        "set for this run",
        "the defaults",
        "the defaults",
    ]
    for one in record["runs"]:
        assert one["n_features"] == 48
        # 10 classes, of which a count, a sum and one triangle are kept
        assert one["moments_bytes"] == 10 * (1 + 48 + 48 * 49 // 2) * 8
        assert one["peak_memory_bytes"] > 0
        assert one["peak_device_memory_bytes"] is None
        assert {"learn", "evaluate"} <= one["seconds"].keys()
        assert {"date", "machine", "versions"} <= one.keys()
    first, second = record["runs"]
    assert "ablation" in first["seconds"]
    assert "ablation" not in second["seconds"]
    assert "joint" not in second
    assert first["joint"]["equivalence"] == {
        "moments": True,
        "network": True,
        "file": True,
        "labels_that_differ": 0,
    }


def test_the_recipes_own_row_is_what_it_reached(finished: tuple[Path, dict[str, Any]]) -> None:
    _, record = finished
    (own,) = [row for row in record["ablation"] if row["recipe"]]
    bare = [
        row
        for row in record["ablation"]
        if row["features"] == "patches" and all(row[key] == BARE[key] for key in BARE)
    ]
    for row, method in zip([own, *bare], record["methods"], strict=False):
        assert row["accuracy"] == method["runs"][0]["tasks"][-1]["accuracy"]
    pixels = [row for row in record["ablation"] if row["features"] == "pixels"]
    assert [row["n_features"] for row in pixels] == [64, 64]
    data = load("digits")
    tasks = PLAN.stream(data)
    model = PLAN.changed({"features": "pixels", **BARE}).learner(None, "cpu", "2GB")
    flat = [(x.reshape(len(x), -1), y) for x, y in (pooled(tasks, p) for p in ("train", "test"))]
    assert model.fit(*flat[0]).score(*flat[1]) == pixels[0]["accuracy"]


@pytest.mark.parametrize("stop", range(4))
def test_what_is_finished_is_taken_up(
    finished: tuple[Path, dict[str, Any]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    stop: int,
) -> None:
    _, record = finished
    ran: list[tuple[int, str]] = []

    def counted(name: str) -> Any:
        step = getattr(contest.Stage, name)

        def run_step(stage: contest.Stage, *rest: Any) -> Any:
            ran.append((stage.plan.seed, name))
            if len(ran) == stop + 1:
                raise KeyboardInterrupt
            return step(stage, *rest)

        return run_step

    for name in ("evaluation", "ablation", "joint"):
        monkeypatch.setattr(contest.Stage, name, counted(name))
    with pytest.raises(KeyboardInterrupt):
        run(tmp_path)
    assert not (tmp_path / "record.json").exists()
    again = run(tmp_path)
    steps = [(0, "evaluation"), (1, "evaluation"), (0, "ablation"), (0, "joint")]
    assert ran == [*steps[: stop + 1], *steps[stop:]]
    assert run(tmp_path) == again
    assert len(ran) == 5
    assert without_costs(again) == without_costs(record)
    with pytest.raises(SettingsError, match="is the record of a run with another n_filters"):
        run(tmp_path, changes={"redunet": {**SMALL, "n_filters": 5}})


def test_a_recipe_need_not_be_taken_apart(tmp_path: Path) -> None:
    record = run(tmp_path, seeds=(0,), ingredients=False, joint=False)
    assert record["ablation"] == []
    assert "ablation" not in record["runs"][0]["seconds"]
    assert "each ingredient" not in (tmp_path / "report.md").read_text()
    assert len(filled("<!-- table: record.json -->\n<!-- end -->\n", tmp_path).splitlines()) == 10
    again = run(tmp_path, seeds=(0,), joint=False)
    assert again["methods"] == record["methods"]
    assert len(again["ablation"]) == 20


def without_costs(record: dict[str, Any]) -> dict[str, Any]:
    left = copy.deepcopy(record)
    for one in left["runs"]:
        for key in ("seconds", "peak_memory_bytes", "date", "machine", "versions"):
            del one[key]
    for method in left["methods"]:
        for one in method["runs"]:
            for row in one["tasks"]:
                del row["seconds"]
    return left


def test_what_is_not_random_runs_once(tmp_path: Path) -> None:
    own = {"n_tasks": 2, "n_components": 8}
    record = ablate(
        "digits", "features", tmp_path, "", seeds=(3, 4), changes={"redunet": own}, joint=False
    )
    assert [run["seed"] for run in record["runs"]] == [0]
    assert "joint" not in record["runs"][0]
    assert record["random"] is False
    assert "Nothing in it is random." in recipe_notes(record)
    assert {row["features"] for row in record["ablation"]} == {"pixels"}
    assert "Against joint training" not in (tmp_path / "report.md").read_text()


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"svm": {"C": 1}}, "expected settings of redunet, ncm, lda, ridge, qda, got some of"),
        ({"lda": {"C": 1}}, "expected settings of lda among regularization, got 'C'"),
        ({"lda": {"regularization": 2}}, "expected regularization to be a number above 0 and at"),
        ({"redunet": {"seed": 1}}, "expected settings of redunet among n_tasks, "),
        ({"redunet": {"n_layers": -1}}, "expected n_layers to be a whole number from 0 to 10,000"),
        (
            {"redunet": {**SMALL, "n_filters": 20, "n_components": 64}},
            "expected n_components below n_features = 64, got 64",  # by pixels
        ),
    ],
)
def test_a_mistake_shows_before_the_work(
    tmp_path: Path, changes: dict[str, Any], words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(contest, "run_task", lambda *_, **__: pytest.fail("learnt something"))
    with pytest.raises(SettingsError, match=re.escape(words)):
        run(tmp_path, changes=changes)


def test_settings_chosen_for_a_recipe_are_used(monkeypatch: pytest.MonkeyPatch) -> None:
    chosen = {("images-fast", "digits"): {"qda": {"regularization": 0.2}}}
    monkeypatch.setattr(entrants, "CHOSEN_FOR_RECIPES", chosen)
    settings = entrants.settings_for_recipe("qda", "images-fast", "digits", {})
    expected = {"regularization": 0.2, "distance": "gaussian"}
    assert settings == (expected, "chosen on training data")
    others = entrants.settings_for_recipe("qda", "images-fast", "mnist", {})
    assert others == ({"regularization": 0.5, "distance": "gaussian"}, "the defaults")


def a_record(record: dict[str, Any]) -> dict[str, Any]:
    """With figures that can be read off, and the paper's."""
    made = copy.deepcopy(record)
    made["paper"] = {"row": [0.999, 0.99, 0.984], "source": PAPER["mnist"]["source"]}
    for m, method in enumerate(made["methods"]):
        for seed, one in enumerate(method["runs"]):
            for t, row in enumerate(one["tasks"]):
                row["accuracy"] = 0.9 - m / 10 - t / 100 + seed / 50
    for v, row in enumerate(made["ablation"]):
        row["accuracy"] = v / 100
    return made


def test_the_tables_for_the_readme(finished: tuple[Path, dict[str, Any]], tmp_path: Path) -> None:
    record = a_record(finished[1])
    (tmp_path / "r.json").write_text(json.dumps(record))
    text = filled("<!-- table: r.json -->\n<!-- end -->\n", tmp_path).splitlines()
    assert text[1:5] == [
        "|  | task 1 | task 2 | task 3 |",
        "| --- | ---: | ---: | ---: |",
        "| **ReduNet, images-fast (ours)** | 0.9100 ± 0.0141 | 0.9000 ± 0.0141 | 0.8900 ± 0.0141 |",
        "| nearest subspace | 0.8100 ± 0.0141 | 0.8000 ± 0.0141 | 0.7900 ± 0.0141 |",
    ]
    assert text[9:15] == [
        "| ReduNet, paper (theirs) | 0.999 | 0.990 | 0.984 |",
        "",
        "Ingredients alone and together, after the last task, seed 0; in bold the recipe:",
        "",
        "| features | whitening | layers | read-out | accuracy |",
        "| --- | --- | --- | --- | ---: |",
    ]
    assert text[15] == "| pixels, 64 | – | – | nearest subspace, 6 | 0.0000 |"
    step = f"1, relative step {find('images-fast').settings['step']:g}"
    own = f"| **patches, 48** | – | {step} | linear discriminant | 0.0900 |"
    assert text[17].startswith(f"| patches without roots, 48 | – | {step} | linear disc")
    assert text[24] == own
    assert text[23] == f"| patches, 48 | – | {step} | coding length | 0.0800 |"
    assert text[32].startswith(f"| patches, 48 | ρ = 0.01 | {step} | linear disc")
    assert text[34].startswith("| patches, 48 | – | 1, absolute step 0.5 | linear disc")
    assert len(text) == 36


def test_the_reports_and_the_figure(finished: tuple[Path, dict[str, Any]], tmp_path: Path) -> None:
    out, record = finished
    names = {"record.json", "report.md", "report.html", "accuracy.png", "seed-0", "seed-1"}
    assert {path.name for path in out.iterdir()} == names
    said = (out / "report.md").read_text()
    for words in (
        "# Recipe images-fast on digits, 3 tasks",
        "Nothing here was chosen on test data",
        "of LDA set for this run; of ridge the defaults",
        "0 test labels that differ",
        "![Line chart of accuracy against the number of tasks seen: ReduNet, images-fast from",
        COMMAND,
    ):
        assert words in said
    grids = recipe_grid(record), ingredients_grid(record)
    for row in (row for grid in grids for row in grid.rows):
        assert row[-1] in said
    with Image.open(io.BytesIO(recipe_over_tasks(a_record(record)))) as image:
        assert (image.format, image.size) == ("PNG", (1600, 1000))
    for part in zip(*(METHOD_STYLES[method] for method in METHODS), strict=True):
        assert len(set(part)) == len(part)
    chapter = record_chapter(a_record(record), out / "record.json")
    assert [section.title for section in chapter.sections][:3] == [
        "Result",
        "What each ingredient adds",
        "Incremental against joint training",
    ]


def test_the_command(finished: tuple[Path, dict[str, Any]], tmp_path: Path) -> None:
    there, record = finished
    out = tmp_path / "copy"
    shutil.copytree(there, out)
    words = [f"--set={key}={value}" for key, value in SMALL.items()]
    words += ["--set=lda.regularization=0.1", "--seeds=0,1", f"--out={out}"]
    done = CliRunner().invoke(main, ["ablate", "--data=digits", *words])
    assert done.exit_code == 0, done.output
    assert "Recipe images-fast on digits, 3 tasks" in done.output
    assert "moments identical" in " ".join(done.output.split())
    again = json.loads((out / "record.json").read_text())
    assert again["command"].startswith(
        "redunet ablate --data digits --recipe images-fast --seeds 0,1 --set n_filters=6 "
    )
    assert again["methods"] == record["methods"]
    wrong = CliRunner().invoke(main, ["ablate", "--recipe=soup", f"--out={out}"])
    assert wrong.exit_code == 2
    assert "expected a recipe among paper-mnist, " in wrong.output
