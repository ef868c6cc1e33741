"""The recipe invariant: runs, tuning and what it refuses; and what its records say."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from redunet import SettingsError, ShiftInvariantClassifier
from redunet.distributed.partial import Job
from redunet.export.exporting import export
from redunet_lab.compare import compare
from redunet_lab.datasets import load
from redunet_lab.experiment import Experiment
from redunet_lab.recipes import from_recipe
from redunet_lab.reproduce import run_network
from redunet_lab.tune_experiment import tune_experiment
from tests.own_data import done
from tests.records import ROOT, record

pytestmark = pytest.mark.usefixtures("one_thread", "no_pictures")

SMALL: dict[str, Any] = {"n_filters": 3, "patch_size": 4}
DIGITS = Experiment.of(recipe="invariant", changes={**SMALL, "train_per_class": 60})


def test_a_run_is_exact_and_hardly_minds_shifts(tmp_path: Path) -> None:
    record = run_network(DIGITS.changed({"test_shift": 1}), tmp_path, "", device="cpu")
    [row] = record["methods"]
    [one] = row["runs"]
    assert row["settings"]["shifts"] is True
    assert one["joint"]["equivalence"] == {
        "moments": True,
        "network": True,
        "file": True,
        "labels_that_differ": 0,
    }
    assert one["tasks"][-1]["accuracy"] > 0.55
    assert one["rates"]["delta_R"][0] > 0
    # 6 channels on 8 x 8 positions, and 10 classes: count, sums, correlations; the grid.
    kept = one["tasks"][-1]["bytes"]
    assert kept["moments"] == 8 * (10 * (1 + 6 + 15 * 64 + 6 * 34) + 2)


def test_settings_are_chosen_on_training_data(tmp_path: Path) -> None:
    grid = {"eps": [0.3, 1.0]}
    found = tune_experiment(
        DIGITS, tmp_path, "", grid, n_components=[40, 80], per_class=10, device="cpu"
    )
    assert found["tried"] == "all 4 combinations"
    assert {(one["eps"], one["n_components"]) for one in found["candidates"]} == {
        (0.3, 40),
        (0.3, 80),
        (1.0, 40),
        (1.0, 80),
    }
    best = found["chosen"]["held_out"]["held_out_accuracy"]
    assert best == max(one["held_out_accuracy"] for one in found["candidates"]) > 0.5


def test_from_recipe_makes_a_shift_invariant_classifier() -> None:
    digits = load("digits")
    model = from_recipe("invariant", digits.x_train[:50], **SMALL)
    assert isinstance(model, ShiftInvariantClassifier)
    assert (model.n_layers, model.eps, model.dtype) == (1, 1.0, "float32")
    with pytest.raises(SettingsError, match="for the features 'patch-planes' to be made from, got"):
        from_recipe("invariant")
    with pytest.raises(SettingsError, match="expected readout to be one of subspace, coding"):
        from_recipe("invariant", digits.x_train[:50], readout="quadratic")
    with pytest.raises(SettingsError, match="expected whitening=none with shifts=true"):
        from_recipe("invariant", digits.x_train[:50], whitening=0.1)


def test_what_is_not_there_is_refused_in_one_line(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="that can learn shifts with shifts=true, got lda"):
        compare("digits", tmp_path, recipe="invariant", methods=["redunet", "lda"])
    model = ShiftInvariantClassifier().fit(np.eye(4), [0, 1, 0, 1])
    with pytest.raises(SettingsError, match="got one of shift-invariant: learn it in one"):
        Job.of(model, None)
    with pytest.raises(SettingsError, match="expected a model that can be exported"):
        export(model, tmp_path / "model.onnx")


def test_commands_learn_and_forget_exactly(tmp_path: Path) -> None:
    digits = load("digits")
    X, y = digits.x_train[:200], digits.y_train[:200]
    model, other = tmp_path / "model", tmp_path / "other"
    np.savez(tmp_path / "all.npz", X=X, y=y)
    np.savez(tmp_path / "some.npz", X=X[y != 3], y=y[y != 3])
    words = ("--recipe", "invariant", "--set", "n_filters=3", "--set", "patch_size=4")
    done("learn", model, tmp_path / "all.npz", *words, "--set", "statistics_from=first-task")
    done("predict", model, tmp_path / "all.npz", "--out", tmp_path / "labels.csv")
    found = json.loads(done("inspect", model, "--json").stdout)
    assert found["estimator"] == "shift-invariant"
    taught = ShiftInvariantClassifier.load(model)
    with pytest.warns(UserWarning, match="feature map"):
        taught.forget([3])
    taught.save(other)
    done("forget", model, "3")
    assert model.read_bytes() == other.read_bytes()
    never = ShiftInvariantClassifier(**taught.get_params(deep=False))
    never.fit(X[y != 3], y[y != 3])
    assert never.to_bytes() == model.read_bytes()


SHIFTS = json.loads((ROOT / "benchmarks" / "results" / "shifts.json").read_text(encoding="utf-8"))


def test_no_circular_shift_changed_a_label_of_the_benchmark() -> None:
    around = SHIFTS["networks"]["invariant"]["around"]
    assert [one["changed"] for one in around] == [0] * 8
    assert SHIFTS["networks"]["paper-mnist"]["around"][7]["changed"] == 930


def test_the_page_says_what_the_benchmark_says() -> None:
    page = (ROOT / "results" / "shifts.md").read_text(encoding="utf-8")
    for name, said in (("invariant", "all shifts"), ("paper-mnist", "vectors")):
        cells = " | ".join(f"{value:.3f}" for value in SHIFTS["networks"][name]["cut"])
        assert f"| {said} | {cells} |" in page


def last(name: str) -> float:
    """The accuracy after the last task that a record states, of its first network."""
    found: float = record(name)["methods"][0]["runs"][0]["tasks"][-1]["accuracy"]
    return found


def test_the_page_says_what_the_records_say() -> None:
    still, moved = last("invariant-mnist"), last("invariant-mnist-shifted")
    page = (ROOT / "results" / "shifts.md").read_text(encoding="utf-8")
    assert f"| all shifts, `invariant` | {still:.4f} | {moved:.4f} |" in page
    assert moved > still - 0.02 > 0.95
    pixels, lost = last("pixels-mnist"), last("pixels-mnist-shifted")
    assert f"with 20 of its 200 layers | {pixels:.4f} | {lost:.4f} |" in page
    joint = record("invariant-mnist-shifted")["methods"][0]["runs"][0]["joint"]
    assert joint["equivalence"] == {
        "moments": True,
        "network": True,
        "file": True,
        "labels_that_differ": 0,
    }
    for name, most in (
        ("invariant-mnist", 0),
        ("invariant-mnist-shifted", 7),
        ("pixels-mnist", 0),
        ("pixels-mnist-shifted", 7),
    ):
        settings = record(name)["methods"][0]["settings"]
        assert (settings["test_shift"], settings["train_per_class"]) == (most, None)
