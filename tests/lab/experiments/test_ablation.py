"""Recipes taken apart: shared moments give what each method alone gives, and all is recorded."""

from __future__ import annotations

import copy
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from redunet.errors import SettingsError
from redunet.estimators import MomentEstimator
from redunet_lab import comparison
from redunet_lab.ablation import ablation, variants
from redunet_lab.closed_forms import CLOSED_FORMS
from redunet_lab.compare import compare
from redunet_lab.datasets import load
from redunet_lab.experiment import Experiment
from redunet_lab.methods import FOR_VECTORS, NO_LAYERS, Method
from redunet_lab.runner import Entry
from redunet_lab.streams import pooled
from redunet_lab.vectors import Vectors

pytestmark = pytest.mark.usefixtures("one_thread", "no_pictures")

SMALL = {
    "n_filters": 6,
    "patch_size": 3,
    "pool_cells": 2,
    "n_components": 6,
    "train_per_class": 30,
    "test_per_class": 12,
    "n_tasks": 3,
}
CHANGES: dict[str, dict[str, Any]] = {"redunet": SMALL, "lda": {"regularization": 0.1}}
EXPERIMENT = Experiment.of("digits", recipe="images-fast", changes=SMALL)
CLOSED = [key for key in CLOSED_FORMS if key not in FOR_VECTORS]
METHODS = ["redunet", "subspace", *CLOSED]
SAME = {"moments": True, "network": True, "file": True, "labels_that_differ": 0}


def run(out: Path, **how: Any) -> dict[str, Any]:
    how = {"changes": CHANGES, "seeds": (0, 1), "ablate": True, **how}
    return compare("digits", out, "redunet compare", recipe="images-fast", **how)


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    return run(tmp_path_factory.mktemp("ablation"))


def test_every_part_alone_and_all_combinations_are_tried_once() -> None:
    found = variants(EXPERIMENT, n_pixels=64)
    assert len(set(found)) == len(found) == 24
    assert EXPERIMENT in found
    plans = [one.plan for one in found]
    assert [plan.features for plan in plans[:3]] == ["pixels", "pixels", "patches"]
    assert [plan.sqrt for plan in plans[:4]] == [True, True, False, True]
    assert plans[-1].step_kind == "absolute"
    networks = {(p.whitening, p.n_layers > 0, p.readout) for p in plans if p.features == "patches"}
    assert len(networks) == 2 * 2 * 5
    too_many = EXPERIMENT.changed({"n_components": 64})
    assert variants(too_many, n_pixels=64)[0].plan.n_components is None
    both = variants(EXPERIMENT.changed({"features": "lift+patches"}))
    assert [one.plan.features for one in both[2:4]] == ["lift", "patches"]


@pytest.mark.parametrize("settings", [{}, {"whitening": 0.1, "dtype": "float32", "n_layers": 3}])
def test_methods_on_shared_moments_label_as_those_that_learnt_alone(
    settings: dict[str, Any], tmp_path: Path
) -> None:
    experiment = EXPERIMENT.changed(settings)
    tasks = experiment.tasks(load("digits"))
    vectors = Vectors(experiment, tasks, "cpu", "2GB")
    methods = [Method.of(key, experiment, CHANGES.get(key)) for key in ["subspace", *CLOSED]]
    methods.insert(0, Method.of("redunet", experiment))
    entries = [
        Entry(tmp_path, {}, estimator=lambda method=method: method.estimator("cpu", "2GB"))  # type: ignore[misc]
        for method in methods
    ]
    model = vectors.learner()
    each = [m.estimator("cpu", "2GB").set_params(features=vectors.features) for m in methods]
    for number, task in enumerate(tasks, 1):
        model.partial_fit(task.x_train, task.y_train)
        x_test, y_test = pooled(tasks[:number], "test")
        for entry, learner in zip(entries, each, strict=True):
            labels = entry.answering(model).predict(vectors.of(x_test))
            learner.partial_fit(task.x_train, task.y_train)
            assert np.array_equal(labels, learner.predict(x_test))
    x_train, y_train = pooled(tasks, "train")
    rows = [row for row in ablation(vectors, model) if row["features"] == "patches"]
    for row in (rows[2], rows[-1]):
        how = {key: row[key] for key in ("whitening", "n_layers", "readout", "step_kind")}
        how |= {"step": row["step"], "step_decay": row["step_decay"]}
        fitted = experiment.estimator(vectors.features, "cpu", "2GB", **how).fit(x_train, y_train)
        assert fitted.score(x_test, y_test) == row["accuracy"]


def test_moments_are_learnt_once_for_all_methods(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    taught: list[str] = []
    learn = MomentEstimator.partial_fit

    def counted(self: Any, *data: Any) -> Any:
        taught.append(type(self).__name__)
        return learn(self, *data)

    monkeypatch.setattr(MomentEstimator, "partial_fit", counted)
    run(tmp_path, seeds=(0,), ablate=False, methods=METHODS)
    assert taught == ["ReduNetClassifier"] * 3  # tasks; not once for each of six methods


def test_the_record_is_complete(finished: dict[str, Any]) -> None:
    assert finished["what"] == "Recipe images-fast on digits, 3 tasks"
    assert "Nothing here was chosen on test data" in finished["chosen_on"]
    assert finished["methods"][0]["settings"]["n_filters"] == 6
    assert [method["method"] for method in finished["methods"]] == METHODS
    for method in finished["methods"]:
        assert [one["seed"] for one in method["runs"]] == [0, 1]
        for one in method["runs"]:
            assert [len(row["accuracy_by_task"]) for row in one["tasks"]] == [1, 2, 3]
            assert one["summary"]["last"] == one["tasks"][-1]["accuracy"] > 0.6
            assert all({"learn", "evaluate"} <= task["seconds"].keys() for task in one["tasks"])
            assert {"date", "machine", "versions"} <= one.keys()
    assert finished["methods"][3]["settings"] == {"shrinkage": 0.1}
    changed = f"the recipe, but for {', '.join(EXPERIMENT.changes())}"
    chosen = [changed, changed, "nothing to choose", "set for this run", *["the defaults"] * 3]
    assert [method["chosen"] for method in finished["methods"]] == chosen
    first, second = finished["methods"][0]["runs"]
    assert first["n_features"] == 48
    # 10 classes, of which a count, a sum and one triangle are kept
    assert first["tasks"][-1]["bytes"]["moments"] == 10 * (1 + 48 + 48 * 49 // 2) * 8
    assert first["joint"]["equivalence"] == SAME
    assert "joint" not in second
    (own,) = [row for row in finished["ablation"] if row["recipe"]]
    bare = [
        row
        for row in finished["ablation"]
        if row["features"] == "patches" and NO_LAYERS.items() <= row.items()
    ]
    for row, method in zip([own, *bare], finished["methods"], strict=False):
        assert row["accuracy"] == method["runs"][0]["tasks"][-1]["accuracy"]


@pytest.mark.parametrize("words", ["seed 0, task 2 of 3, LDA", "seed 0, ablation"])
def test_finished_work_is_taken_up(finished: dict[str, Any], tmp_path: Path, words: str) -> None:
    shares = [0.0]

    def stop(what: str, share: float) -> None:
        shares.append(share)
        if what.endswith(words):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(tmp_path, progress=stop)
    assert not (tmp_path / "record.json").exists()
    assert shares == sorted(shares)
    assert without_costs(run(tmp_path)) == without_costs(finished)
    with pytest.raises(SettingsError, match="is the record of a run with another n_filters"):
        run(tmp_path, changes={"redunet": {**SMALL, "n_filters": 5}})


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


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"svm": {"C": 1}}, "expected methods among redunet, subspace, finetune"),
        ({"subspace": {"eps": 1}}, "expected settings of subspace among none, got 'eps'"),
        ({"lda": {"shrinkage": 2}}, "expected shrinkage to be a number above 0 and at"),
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
    monkeypatch.setattr(comparison, "run", lambda *_, **__: pytest.fail("learnt something"))
    with pytest.raises(SettingsError, match=re.escape(words)):
        run(tmp_path, changes=changes)


def test_an_ensemble_has_baselines_of_the_same_maps(tmp_path: Path) -> None:
    network = {"n_layers": 0, "readout": "regression", "ridge": 0.003, "n_ensemble": 2}
    changes = {"redunet": {**SMALL, **network}, "ridge": {"ridge": 0.003}}
    methods = ("redunet", "ncm", "ridge")
    record = run(tmp_path, seeds=(0,), methods=methods, changes=changes)
    last = {m["method"]: m["runs"][0]["tasks"][-1]["accuracy"] for m in record["methods"]}
    assert last["redunet"] == last["ridge"] > last["ncm"]  # the same closed form
    one = record["methods"][0]["runs"][0]
    assert (one["n_features"], one["joint"]["equivalence"]) == (2 * 48, SAME)
    (whole,) = (row for row in record["ablation"] if row["recipe"])
    assert whole["accuracy"] == last["redunet"]
    assert json.loads((tmp_path / "record.json").read_text()) == record
