"""Recipes taken apart: shared moments give what each method alone gives, and all is recorded."""

from __future__ import annotations

import copy
import json
import re
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from typer.testing import CliRunner

from redunet.cli.app import main
from redunet.errors import SettingsError
from redunet.estimators import MomentEstimator
from redunet_lab import methods as method_settings
from redunet_lab import run_methods
from redunet_lab.ablation import ablation
from redunet_lab.closed_forms import CLOSED_FORMS
from redunet_lab.compare import compare
from redunet_lab.datasets import load
from redunet_lab.experiment import Experiment
from redunet_lab.methods import FOR_VECTORS, NO_LAYERS, Method
from redunet_lab.paper import PAPER
from redunet_lab.recipes import settings
from redunet_lab.report.readme import filled
from redunet_lab.shared_moments import SharedMoments
from redunet_lab.streams import pooled

pytestmark = pytest.mark.usefixtures("one_thread", "no_pictures")

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
TYPED = "redunet compare --recipe images-fast --ablate"
EXPERIMENT = Experiment.of("digits", recipe="images-fast", changes=SMALL)
CLOSED = [key for key in CLOSED_FORMS if key not in FOR_VECTORS]
METHODS = ["redunet", "subspace", *CLOSED]


def run(out: Path, **how: Any) -> dict[str, Any]:
    how = {"changes": CHANGES, "seeds": (0, 1), "ablate": True, **how}
    return compare("digits", out, TYPED, recipe="images-fast", **how)


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    out = tmp_path_factory.mktemp("ablation")
    return out, run(out)


def alone(method: Method, features: Any) -> Any:
    """A method that shares nothing."""
    learner = method.estimator("cpu", "2GB")
    return learner.set_params(features=features)


@pytest.mark.parametrize("settings", [{}, {"whitening": 0.1, "dtype": "float32", "n_layers": 3}])
def test_methods_on_shared_moments_label_as_those_that_learnt_alone(
    settings: dict[str, Any], tmp_path: Path
) -> None:
    experiment = EXPERIMENT.changed(settings)
    tasks = experiment.tasks(load("digits"))
    shared = SharedMoments(experiment, tasks, "cpu", "2GB")
    methods = [Method.of(key, experiment, CHANGES.get(key)) for key in ["subspace", *CLOSED]]
    methods.insert(0, Method.of("redunet", experiment))
    evaluations = [shared.evaluation(method, tmp_path, {}) for method in methods]
    model = shared.learner()
    each = [alone(method, shared.features) for method in methods]
    for number, task in enumerate(tasks, 1):
        model.partial_fit(task.x_train, task.y_train)
        x_test, y_test = pooled(tasks[:number], "test")
        for evaluation, learner in zip(evaluations, each, strict=True):
            labels = evaluation.labels(model, x_test)["predict"]
            learner.partial_fit(task.x_train, task.y_train)
            assert np.array_equal(labels, learner.predict(x_test)), evaluation.name
    x_train, y_train = pooled(tasks, "train")
    rows = [row for row in ablation(shared, model) if row["features"] == "patches"]
    for row in (rows[2], rows[-1]):
        how = {key: row[key] for key in ("whitening", "n_layers", "readout", "step_kind")}
        how |= {"step": row["step"], "step_decay": row["step_decay"]}
        fitted = experiment.estimator(shared.features, "cpu", "2GB", **how).fit(x_train, y_train)
        assert fitted.score(x_test, y_test) == row["accuracy"]


def test_moments_are_learnt_once_for_all_methods(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    taught: list[str] = []
    learn = MomentEstimator._moments_of

    def counted(self: Any, *rest: Any) -> Any:
        taught.append(type(self).__name__)
        return learn(self, *rest)

    monkeypatch.setattr(MomentEstimator, "_moments_of", counted)
    run(tmp_path, seeds=(0,), ablate=False, methods=METHODS)
    assert taught == ["ReduNetClassifier"] * 3  # tasks; not once for each of six methods


def test_the_record_is_complete(finished: tuple[Path, dict[str, Any]]) -> None:
    out, record = finished
    assert json.loads((out / "record.json").read_text()) == record
    assert record["what"] == "Recipe images-fast on digits, 3 tasks"
    assert record["command"] == TYPED
    assert "Nothing here was chosen on test data" in record["chosen_on"]
    assert record["methods"][0]["settings"]["n_filters"] == 6
    assert [method["method"] for method in record["methods"]] == METHODS
    for method in record["methods"]:
        assert [run["seed"] for run in method["runs"]] == [0, 1]
        for one in method["runs"]:
            assert [len(row["accuracy_by_task"]) for row in one["tasks"]] == [1, 2, 3]
            assert one["summary"]["last"] == one["tasks"][-1]["accuracy"] > 0.6
    lda = record["methods"][3]
    assert lda["settings"] == {"shrinkage": 0.1}
    assert [method["chosen"] for method in record["methods"]] == [
        f"the recipe, but for {', '.join(EXPERIMENT.changes())}",
        f"the recipe, but for {', '.join(EXPERIMENT.changes())}",
        "nothing to choose",
        "set for this run",
        "the defaults",
        "the defaults",
        "the defaults",
    ]
    runs = record["methods"][0]["runs"]
    for one in runs:
        assert one["n_features"] == 48
        # 10 classes, of which a count, a sum and one triangle are kept
        assert one["tasks"][-1]["bytes"]["moments"] == 10 * (1 + 48 + 48 * 49 // 2) * 8
        assert one["peak_memory_bytes"] > 0
        assert one["peak_device_memory_bytes"] is None
        assert all({"learn", "evaluate"} <= task["seconds"].keys() for task in one["tasks"])
        assert {"date", "machine", "versions"} <= one.keys()
    first, second = runs
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
        if row["features"] == "patches" and NO_LAYERS.items() <= row.items()
    ]
    for row, method in zip([own, *bare], record["methods"], strict=False):
        assert row["accuracy"] == method["runs"][0]["tasks"][-1]["accuracy"]
    pixels = [row for row in record["ablation"] if row["features"] == "pixels"]
    assert [row["n_features"] for row in pixels] == [64, 64]
    tasks = EXPERIMENT.tasks(load("digits"))
    model = EXPERIMENT.estimator(None, "cpu", "2GB", **NO_LAYERS)
    flat = [(x.reshape(len(x), -1), y) for x, y in (pooled(tasks, p) for p in ("train", "test"))]
    assert model.fit(*flat[0]).score(*flat[1]) == pixels[0]["accuracy"]


@pytest.mark.parametrize(
    "words",
    [
        "seed 0, task 2 of 3, LDA",
        "seed 0, joint",
        "seed 0, ablation",
        "seed 1, task 1 of 3, nearest subspace",
    ],
)
def test_what_is_finished_is_taken_up(
    finished: tuple[Path, dict[str, Any]], tmp_path: Path, words: str
) -> None:
    _, record = finished
    told: list[str] = []
    shares = [0.0]

    def stop(what: str, share: float) -> None:
        told.append(what)
        shares.append(share)
        if what.endswith(words):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(tmp_path, progress=stop)
    assert not (tmp_path / "record.json").exists()
    assert shares == sorted(shares)
    before, told = told, []
    again = run(tmp_path, progress=lambda what, share: told.append(what))
    assert not {one for one in before[:-1] if one[-3:] in ("LDA", "int", "ion")} & {*told}
    assert without_costs(again) == without_costs(record)
    with pytest.raises(SettingsError, match="is the record of a run with another n_filters"):
        run(tmp_path, changes={"redunet": {**SMALL, "n_filters": 5}})


def test_a_recipe_need_not_be_taken_apart(tmp_path: Path) -> None:
    record = run(tmp_path, seeds=(0,), ablate=False, methods=METHODS)
    assert "ablation" not in record
    assert "each ingredient" not in (tmp_path / "report.md").read_text()
    table = filled("<!-- recipe table: record.json -->\n<!-- end -->\n", tmp_path)
    assert len(table.splitlines()) == 11
    again = run(tmp_path, seeds=(0,), joint=False)
    for one, other in zip(record["methods"], again["methods"], strict=True):
        assert one["runs"][0]["tasks"] == other["runs"][0]["tasks"]  # none ran again
    assert len(again["ablation"]) == 24


def without_costs(record: dict[str, Any]) -> dict[str, Any]:
    left = copy.deepcopy(record)
    left.pop("seconds", None)
    for method in left["methods"]:
        for one in method["runs"]:
            for key in ("peak_memory_bytes", "date", "machine", "versions"):
                one.pop(key, None)
            for row in one["tasks"]:
                del row["seconds"]
    return left


def test_what_is_not_random_runs_once(tmp_path: Path) -> None:
    own = {"n_tasks": 2, "n_components": 8}
    record = compare(
        "digits",
        tmp_path,
        recipe="directions",
        seeds=(3, 4),
        changes={"redunet": own},
        ablate=True,
        joint=False,
    )
    for method in record["methods"]:
        assert [run["seed"] for run in method["runs"]] == [0]
        assert not method["random"]
    assert "joint" not in record["methods"][0]["runs"][0]
    assert {row["features"] for row in record["ablation"]} == {"pixels"}
    assert "joint training" not in (tmp_path / "report.md").read_text()


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"svm": {"C": 1}}, "expected methods among redunet, subspace, finetune"),
        ({"lda": {"C": 1}}, "expected settings of lda among shrinkage, got 'C'"),
        ({"subspace": {"eps": 1}}, "expected settings of subspace among none, got 'eps'"),
        ({"lda": {"shrinkage": 2}}, "expected shrinkage to be a number above 0 and at"),
        ({"redunet": {"seeds": 1}}, "expected settings among "),
        ({"redunet": {"n_layers": -1}}, "expected n_layers to be a whole number from 0 "),
        (
            {"redunet": {**SMALL, "n_filters": 20, "n_components": 9999}},
            "expected n_components below n_features = ",
        ),
    ],
)
def test_a_mistake_shows_before_the_work(
    tmp_path: Path, changes: dict[str, Any], words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_methods, "run", lambda *_, **__: pytest.fail("learnt something"))
    with pytest.raises(SettingsError, match=re.escape(words)):
        run(tmp_path, changes=changes)


def test_settings_chosen_for_a_recipe_are_used(monkeypatch: pytest.MonkeyPatch) -> None:
    chosen = {("images-fast", "digits"): {"qda": {"shrinkage": 0.2}}}
    monkeypatch.setattr(method_settings, "CHOSEN", chosen)
    here, elsewhere = (
        Method.of("qda", Experiment.of(data, recipe="images-fast")) for data in ("digits", "mnist")
    )
    assert here.settings == {"shrinkage": 0.2, "distance": "gaussian"}
    assert here.chosen == "chosen on training or validation data"
    assert elsewhere.settings == {"shrinkage": 0.5, "distance": "gaussian"}
    assert elsewhere.chosen == "the defaults"


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
    text = filled("<!-- recipe table: r.json -->\n<!-- end -->\n", tmp_path).splitlines()
    assert text[1:5] == [
        "|  | task 1 | task 2 | task 3 |",
        "| --- | ---: | ---: | ---: |",
        "| **ReduNet, images-fast (ours)** | 0.9100 ± 0.0141 | 0.9000 ± 0.0141 | 0.8900 ± 0.0141 |",
        "| nearest subspace | 0.8100 ± 0.0141 | 0.8000 ± 0.0141 | 0.7900 ± 0.0141 |",
    ]
    assert text[10:16] == [
        "| ReduNet, paper (theirs) | 0.999 | 0.990 | 0.984 |",
        "",
        "Ingredients alone and together, after the last task, seed 0; in bold the recipe:",
        "",
        "| features | whitening | layers | read-out | accuracy |",
        "| --- | --- | --- | --- | ---: |",
    ]
    assert text[16] == "| pixels, 64 | – | – | nearest subspace, 6 | 0.0000 |"
    step = f"1, relative step {settings('images-fast')['step']:g}"
    own = f"| **patches, 48** | – | {step} | linear discriminant | 0.1000 |"
    assert text[18].startswith(f"| patches without roots, 48 | – | {step} | linear disc")
    assert text[26] == own
    assert text[25] == f"| patches, 48 | – | {step} | coding length | 0.0900 |"
    assert text[36].startswith(f"| patches, 48 | ρ = 0.01 | {step} | linear disc")
    assert text[39].startswith("| patches, 48 | – | 1, absolute step 0.5 | linear disc")
    assert len(text) == 41


def test_the_reports_and_the_figures(finished: tuple[Path, dict[str, Any]]) -> None:
    out, record = finished
    names = {path.name for path in out.iterdir()}
    assert {"record.json", "report.md", "report.html", "accuracy.png", "moments"} <= names
    assert {*METHODS} <= names
    said = (out / "report.md").read_text()
    for words in (
        "# Recipe images-fast on digits, 3 tasks",
        "Nothing here was chosen on test data",
        "set for this run",
        "the defaults",
        record["command"],
    ):
        assert words in said
    for row in record["ablation"]:
        assert f"{row['accuracy']:.4f}" in said
    with Image.open(out / "accuracy.png") as image:
        assert image.format == "PNG"


def test_the_command(finished: tuple[Path, dict[str, Any]], tmp_path: Path) -> None:
    there, record = finished
    out = tmp_path / "copy"
    shutil.copytree(there, out)
    words = [f"--set={key}={value}" for key, value in SMALL.items()]
    words += ["--set=lda.regularization=0.1", "--seeds=0,1", f"--out={out}", "--ablate"]
    done = CliRunner().invoke(main, ["compare", "--recipe=images-fast", "--data=digits", *words])
    assert done.exit_code == 0, done.output
    assert "Recipe images-fast on digits, 3 tasks" in done.output
    again = json.loads((out / "record.json").read_text())
    assert again["command"].startswith(f"{TYPED}\nredunet compare --recipe=images-fast --data=")
    assert again["methods"] == record["methods"]
    wrong = CliRunner().invoke(main, ["compare", "--recipe=soup", f"--out={out}"])
    assert wrong.exit_code == 2
    assert "expected a recipe among paper-mnist, " in wrong.output
