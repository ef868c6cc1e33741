"""Choosing settings: what is learnt for it, how much of a grid is tried, on whose samples."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from redunet import ReduNetClassifier, SettingsError
from redunet.estimators.base import MomentEstimator
from redunet.features import Standardize
from redunet_lab.closed_forms import CLOSED_FORMS
from redunet_lab.datasets import load
from redunet_lab.tuning import held_out_rows
from tests.lab.experiments.searches import tune, tune_closed_form
from tests.lab.experiments.test_runner import digits_train
from tests.own_data import done, refused

pytestmark = pytest.mark.usefixtures("one_thread")

X, Y = digits_train()
MASK = held_out_rows(Y, 15, seed=3)
GRID: dict[str, list[Any]] = {"eps": [0.3, 0.5, 1.0], "step": [0.3, 0.5], "sharpness": [1, 4]}


def test_learning_the_others_is_withdrawing_what_is_held_out() -> None:
    whole = ReduNetClassifier().fit(X, Y)
    others = ReduNetClassifier().fit(X[~MASK], Y[~MASK])
    assert copy.deepcopy(whole).unlearn(X[MASK], Y[MASK]).moments_ == others.moments_
    assert copy.copy(others).partial_fit(X[MASK], Y[MASK]).moments_ == whole.moments_
    assert sum(others.moments_.counts) == 450  # a copy that learns leaves its model alone


@pytest.mark.parametrize("paper_rule", [True, False])
def test_tuning_withdraws_nothing_and_holds_one_model(
    paper_rule: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    learnt: list[int] = []
    learn = MomentEstimator._learn

    def counting(self: Any, state: Any, X: Any, *rest: Any, **how: Any) -> Any:
        learnt.append(len(X))
        return learn(self, state, X, *rest, **how)

    def refuse(self: Any, *given: Any) -> Any:
        raise AssertionError("samples were withdrawn")

    monkeypatch.setattr(MomentEstimator, "_learn", counting)
    monkeypatch.setattr(MomentEstimator, "unlearn", refuse)
    model = ReduNetClassifier(n_layers=2, features=Standardize.learn(X))
    how: dict[str, Any] = {"per_class": 15, "seed": 3}
    found = tune(model, X, Y, {"eps": [0.5]}, n_components=[8], paper_rule=paper_rule, **how)
    assert learnt == [450, 150][: 1 + paper_rule]
    assert found["trained_on"].startswith("450 other training samples")
    assert ("paper" in found["chosen"]) == paper_rule == ("all (paper)" in found["trained_on"])
    tune_closed_form(CLOSED_FORMS["lda"](), X, Y, {"shrinkage": [0.1]}, **how)
    assert learnt[1 + paper_rule :] == [450]


def tried(most: int | None, seed: int = 0) -> tuple[str, set[tuple[Any, ...]]]:
    how: dict[str, Any] = {"n_components": [4], "per_class": 15, "paper_rule": False}
    model = ReduNetClassifier(n_layers=1)
    found = tune(model, X, Y, GRID, most=most, seed=seed, **how)
    return found["tried"], {tuple(one[key] for key in GRID) for one in found["candidates"]}


def test_a_large_grid_is_drawn_from_and_the_draw_is_recorded() -> None:
    words, everything = tried(None)
    assert (words, len(everything)) == ("all 12 combinations", 12)
    assert tried(12) == (words, everything)
    words, some = tried(5)
    assert (words, len(some)) == ("5 of 12 combinations, drawn at random", 5)
    assert some < everything
    assert tried(5)[1] == some
    assert tried(5, seed=1)[1] != some
    with pytest.raises(SettingsError, match="expected most to be a whole number from 1 on, got 0"):
        tried(0)


def test_rivals_are_drawn_for_too() -> None:
    grid = {"ridge": [1e-4, 1e-3, 1e-2, 0.1]}
    found = tune_closed_form(CLOSED_FORMS["ridge"](), X, Y, grid, per_class=15, most=2)
    assert found["tried"] == "2 of 4 combinations, drawn at random"
    assert len(found["candidates"]) == 2


@pytest.mark.parametrize("method", ["redunet", "lda"])
def test_the_first_task_alone_may_choose(tmp_path: Path, method: str) -> None:
    key = "eps" if method == "redunet" else "regularization"
    words = ["--method", method, "--search", f"{key}=0.01,0.1,0.5", "--most", "2", "--first-task"]
    words += ["--set", "n_layers=1", "--set", "n_tasks=5", "--per-class", "20"]
    done("tune", "--out", tmp_path, *words)
    record = json.loads((tmp_path / "tune.json").read_text())
    assert record["tasks_seen"] == [[0, 1]]
    assert record["tried"] == "2 of 3 combinations, drawn at random"
    assert record["chosen_on"] == "40 training samples, at most 20 of each class"
    of_task = int(np.isin(load("digits").y_train, [0, 1]).sum())
    assert record["trained_on"].startswith(f"{of_task - 40} other training samples")
    said = refused("tune", *words, "--set", "fit_features_on=whole-training-set")
    assert "expected fit_features_on=first-task where settings are chosen on the first" in said


def test_all_tasks_choose_unless_asked_otherwise(tmp_path: Path) -> None:
    done("tune", "--out", tmp_path, "--search", "eps=0.5", "--set", "n_layers=1")
    record = json.loads((tmp_path / "tune.json").read_text())
    assert record["tasks_seen"] == [[0, 1], [2, 3], [4, 5], [6, 7], [8, 9]]
    assert record["tried"] == "all 1 combinations"


IMAGES = ["--recipe", "images-fast", "--set", "patch_size=3", "--set", "n_filters=10"]


@pytest.mark.parametrize("method", ["redunet", "lda"])
def test_features_are_searched_too_and_each_is_learnt_once(
    tmp_path: Path, method: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every candidate has the accuracy that it has where its features are set, and searched not."""
    fitted: list[Any] = []
    fit = MomentEstimator.fit

    def counted(model: Any, *data: Any) -> Any:
        fitted.append(model)
        return fit(model, *data)

    monkeypatch.setattr(MomentEstimator, "fit", counted)
    key = "ridge" if method == "redunet" else "shrinkage"
    words = ["--method", method, "--per-class", "20", "--no-paper-rule", "--components", "8"]
    words += [*IMAGES, "--search", f"{key}=0.001,0.1"]
    done("tune", "--out", tmp_path, *words, "--search", "cells=2,3", "--search", "threshold=0.1,1")
    found = json.loads((tmp_path / "tune.json").read_text())
    assert found["tried"] == "all 8 combinations"
    assert len(fitted) == 4
    assert found["grid"] == {key: [0.001, 0.1], "pool_cells": [2, 3], "threshold": [0.1, 1]}
    candidates = found["candidates"]
    assert found["chosen"]["held_out"] == candidates[0]
    accuracies = [one["held_out_accuracy"] for one in candidates]
    assert accuracies == sorted(accuracies, reverse=True)
    assert len(set(accuracies)) > 2
    done("tune", "--out", tmp_path, *words, "--set", "cells=3", "--set", "threshold=1")
    alone = json.loads((tmp_path / "tune.json").read_text())["candidates"]
    here = [one for one in candidates if (one["pool_cells"], one["threshold"]) == (3, 1)]
    assert {one[key]: one["held_out_accuracy"] for one in here} == {
        one[key]: one["held_out_accuracy"] for one in alone
    }


def test_features_alone_may_be_searched_and_drawn_from(tmp_path: Path) -> None:
    words = [*IMAGES, "--per-class", "20", "--no-paper-rule", "--search", "cells=1,2,3"]
    for method in ("redunet", "ridge"):
        done("tune", "--out", tmp_path, *words, "--method", method, "--most", "2")
        found = json.loads((tmp_path / "tune.json").read_text())
        assert found["tried"] == "2 of 3 combinations, drawn at random"
        assert len(found["candidates"]) == 2
    assert "expected pool_cells" in refused("tune", *IMAGES, "--search", "cells=2,0")
    assert "did you mean 'pool_cells'" in refused("tune", *IMAGES, "--search", "pool_cell=2")
