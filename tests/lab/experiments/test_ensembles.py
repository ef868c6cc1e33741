"""Experiments with several maps of features: rivals of the same maps, joint training, tuning."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from sklearn.metrics import log_loss
from typer.testing import CliRunner

from redunet.cli.app import main
from redunet.estimators.metrics import calibration_error
from redunet_lab.compare import compare
from redunet_lab.datasets import load
from redunet_lab.experiment import Experiment
from redunet_lab.orders import learn_in_orders
from redunet_lab.recipes import from_recipe
from redunet_lab.report.ablation_tables import ingredients_table
from redunet_lab.report.text import markdown_table
from redunet_lab.reproduce import run_network
from redunet_lab.tune_experiment import tune_experiment

pytestmark = pytest.mark.usefixtures("no_pictures", "one_thread")

MAPS: dict[str, Any] = {
    "n_filters": 6,
    "patch_size": 3,
    "n_maps": 3,
    "train_per_class": 40,
    "n_components": 20,
    "n_layers": 0,
    "readout": "regression",
    "ridge": 0.003,
}


def experiment(**changes: Any) -> Experiment:
    return Experiment.of("digits", recipe="images-fast", changes={**MAPS, **changes})


def last(record: dict[str, Any]) -> dict[str, float]:
    return {one["method"]: one["runs"][0]["tasks"][-1]["accuracy"] for one in record["methods"]}


@pytest.mark.parametrize("readout", ["discriminant", "regression", "pairwise"])
def test_probabilities_of_the_mean_are_better_than_those_of_each_map(readout: str) -> None:
    data = load("digits")
    settings = {**MAPS, "n_filters": 20, "readout": readout}
    settings.pop("train_per_class")
    model = from_recipe("images-fast", data.x_train[data.y_train < 2], **settings)
    model.fit(data.x_train, data.y_train)
    losses = []
    for one in (*(model.alone(group) for group in range(3)), model):
        probabilities = one.predict_proba(data.x_test)
        losses.append(log_loss(data.y_test, probabilities))
        right = probabilities.argmax(axis=1) == data.y_test
    assert losses[-1] < min(losses[:-1])
    assert calibration_error(probabilities, right) < 0.025


def test_rivals_have_the_same_maps_and_joint_training_is_the_same(tmp_path: Path) -> None:
    changes = {"redunet": MAPS, "ridge": {"ridge": 0.003}}
    methods = ("redunet", "subspace", "ncm", "lda", "ridge", "pairwise")
    record = compare(
        "digits", tmp_path, methods=methods, recipe="images-fast", changes=changes, joint=True
    )
    reached = last(record)
    assert reached["redunet"] == reached["ridge"] > reached["ncm"]  # the same closed form
    run = record["methods"][0]["runs"][0]
    assert run["n_features"] == 3 * 2 * 6 * 9
    found = run["joint"]["equivalence"]
    assert found == {"moments": True, "network": True, "file": True, "labels_that_differ": 0}
    columns = 40 * 108 - 40 * 39 // 2  # of the 40 samples of a class, in each map
    assert 3 * 10 * 8 * columns < run["tasks"][-1]["bytes"]["moments"] < 3 * 10 * 8 * columns * 1.1
    alone = experiment(n_maps=1)
    one = run_network(alone, tmp_path / "one", "", joint=False)["methods"][0]["runs"][0]
    assert reached["redunet"] >= one["tasks"][-1]["accuracy"]


@pytest.mark.parametrize("checkpoints", [True, False])
def test_without_checkpoints_finished_tasks_are_learnt_once_more(
    tmp_path: Path, checkpoints: bool
) -> None:
    words = ["compare", "--data", "digits", "--recipe", "images-fast", "--out", str(tmp_path)]
    words += [word for name, value in MAPS.items() for word in ("--set", f"{name}={value}")]
    words += ["--methods", "redunet,ncm", *([] if checkpoints else ["--no-checkpoints"])]
    assert CliRunner().invoke(main, words).exit_code == 0
    models = list(tmp_path.rglob("*.safetensors"))
    assert len(models) == checkpoints
    before = last(json.loads((tmp_path / "record.json").read_text()))
    own = tmp_path / "redunet" / "seed-0" / "record.json"
    record = json.loads(own.read_text())
    own.write_text(json.dumps({**record, "tasks": record["tasks"][:2]}))  # as after a kill
    assert CliRunner().invoke(main, words).exit_code == 0
    assert last(json.loads((tmp_path / "record.json").read_text())) == before


def test_every_order_of_the_classes_gives_one_file(tmp_path: Path) -> None:
    record = learn_in_orders(experiment(), tmp_path, "", seeds=[0, 1])
    assert record["orders"]["files"] == 1
    assert record["orders"]["n_features"] == 324


def test_networks_with_layers_run_task_after_task(tmp_path: Path) -> None:
    layered = experiment(n_layers=1, readout="discriminant", n_maps=2)
    record = run_network(layered, tmp_path, "", joint=True)
    run = record["methods"][0]["runs"][0]
    assert run["tasks"][-1]["accuracy"] > 0.9
    assert run["joint"]["equivalence"]["network"]
    assert "rates" not in run


def test_settings_of_networks_and_of_rivals_are_found(tmp_path: Path) -> None:
    grid: dict[str, list[Any]] = {
        "readout": ["regression", "pairwise"],
        "ridge": [0.001, 0.1],
        "n_maps": [1, 2],
    }
    found = tune_experiment(
        experiment(), tmp_path, "", grid, per_class=10, paper_rule=False, n_components=(20,)
    )
    assert len(found["candidates"]) == 8
    assert {one["n_ensemble"] for one in found["candidates"]} == {1, 2}
    assert min(one["held_out_accuracy"] for one in found["candidates"]) > 0.85
    lda = tune_experiment(
        experiment(), tmp_path, "", {"shrinkage": [0.001, 0.1]}, method="lda", per_class=10
    )
    assert [one["held_out_accuracy"] > 0.9 for one in lda["candidates"]] == [True, True]


def test_parts_of_an_ensemble_are_measured_alone(tmp_path: Path) -> None:
    changes = {"redunet": {**MAPS, "n_maps": 2}}
    record = compare(
        "digits",
        tmp_path,
        methods=("redunet",),
        recipe="images-fast",
        changes=changes,
        ablate=True,
        joint=False,
    )
    (whole,) = (row for row in record["ablation"] if row["recipe"])
    assert whole["accuracy"] == last(record)["redunet"]
    maps = {(row["features"], row["n_maps"], row["n_features"]) for row in record["ablation"]}
    assert maps == {("pixels", 1, 64), ("patches", 1, 108), ("patches", 2, 216)}
    table = markdown_table(ingredients_table(record))
    assert "| patches, 108 |" in table
    assert "| **patches, 216 in 2 maps** |" in table
