"""Choosing settings: how much of a grid is tried, on whose samples, and never on test data."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from redunet import ReduNetClassifier, SettingsError
from redunet.estimators.base import MomentEstimator
from redunet.features import Standardize
from redunet_lab.closed_forms import CLOSED_FORMS
from redunet_lab.datasets import load
from redunet_lab.experiment import Experiment
from redunet_lab.runner import labels_by_reading
from redunet_lab.tuning import Split, candidates, check_own_settings, combinations_of
from tests.own_data import done, refused

pytestmark = pytest.mark.usefixtures("one_thread")

Grid = dict[str, list[Any]]


def digits_train(n: int = 60) -> tuple[NDArray[Any], NDArray[Any]]:
    data = load("digits")
    rows = np.concatenate([np.flatnonzero(data.y_train == c)[:n] for c in range(10)])
    return data.x_train[rows].reshape(len(rows), -1), data.y_train[rows]


SPLIT = Split.of(*digits_train(), per_class=15, seed=3)


def tried(model: Any, grid: Grid, *more: Any) -> list[dict[str, Any]]:
    return candidates(model, SPLIT, combinations_of(grid, None, 3)[0], *more)


def test_networks_are_compared_by_samples_that_they_never_saw() -> None:
    grid: Grid = {"eps": [0.4, 30.0], "readout": ["subspace", "discriminant"]}
    found = tried(ReduNetClassifier(n_layers=4), grid, (1, 8, 64), True)
    assert len(found) == 6  # 64 components are not below 64 features; one read-out has none
    for one in found:
        never = ReduNetClassifier(4, **{key: one[key] for key in (*grid, "n_components")})
        never.fit(*SPLIT.train)
        assert one["held_out_accuracy"] == never.score(*SPLIT.held_out)
    X, y = SPLIT.held_out
    whole = ReduNetClassifier(n_layers=4, eps=0.4).fit(*digits_train())
    estimated = whole.classes_[whole.memberships(X)[-1].argmax(axis=1)]
    assert found[0]["estimated_label_accuracy"] == np.mean(estimated == y)


@pytest.mark.parametrize(
    ("method", "grid"),
    [
        ("ridge", {"ridge": [1e-6, 0.1, 1.0]}),
        ("qda", {"distance": ["gaussian", "correlation"], "shrinkage": [0.1, 0.9]}),
        ("ranpac", {"n_projections": [20, 60], "ridge": [1e-3, 1.0]}),
    ],
)
def test_so_are_methods_in_closed_form(method: str, grid: Grid) -> None:
    features = Standardize.learn(SPLIT.train[0])
    model = CLOSED_FORMS[method](features=features)
    for one in tried(model, grid):
        own = {key: one[key] for key in grid}
        never = CLOSED_FORMS[method](**own, features=features).fit(*SPLIT.train)
        assert one["held_out_accuracy"] == never.score(*SPLIT.held_out)
    assert not hasattr(model, "moments_")


def test_several_readings_of_one_network_are_those_of_predict() -> None:
    X, y = digits_train()
    model = ReduNetClassifier(n_layers=4).fit(X, y)
    for r, labels in labels_by_reading(model, X, {"3": 3, "12": 12}).items():
        assert np.array_equal(labels, model.set_params(n_components=int(r)).predict(X))


@pytest.mark.parametrize("paper_rule", [True, False])
def test_nothing_is_withdrawn_or_learnt_twice(
    paper_rule: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    learnt: list[tuple[str, int]] = []

    def counted(name: str) -> Any:
        learn = getattr(MomentEstimator, name)

        def counting(self: Any, X: Any, *more: Any, **how: Any) -> Any:
            learnt.append((name, len(X)))
            return learn(self, X, *more, **how)

        return counting

    for name in ("fit", "partial_fit"):
        monkeypatch.setattr(MomentEstimator, name, counted(name))
    monkeypatch.setattr(MomentEstimator, "unlearn", lambda *_: pytest.fail("withdrew samples"))
    model = ReduNetClassifier(n_layers=2, features=Standardize.learn(SPLIT.train[0]))
    tried(model, {"eps": [0.5, 1.0]}, (8,), paper_rule)
    assert learnt[0] == ("fit", 450)
    added = [("partial_fit", 150)] if paper_rule else []
    assert [one for one in learnt if one[1] != 450] == added


def test_a_large_grid_is_drawn_from() -> None:
    grid: Grid = {"eps": [0.3, 0.5, 1.0], "step": [0.3, 0.5], "sharpness": [1, 4]}
    every, words = combinations_of(grid, None, 0)
    assert (words, len(every)) == ("all 12 combinations", 12)
    assert combinations_of(grid, 12, 0) == (every, words)
    some, words = combinations_of(grid, 5, 0)
    assert (words, len(some)) == ("5 of 12 combinations, drawn at random", 5)
    assert all(one in every for one in some)
    assert combinations_of(grid, 5, 0)[0] == some != combinations_of(grid, 5, 1)[0]
    with pytest.raises(SettingsError, match="expected most to be a whole number from 1 on, got 0"):
        combinations_of(grid, 0, 0)


@pytest.mark.parametrize(
    ("method", "grid", "message"),
    [
        ("ncm", {"shrinkage": [1]}, "expected a method with settings to choose, got 'ncm'"),
        ("lda", {"eps": [1]}, "expected settings among shrinkage to search, got 'eps'"),
        ("qda", {}, "expected settings among shrinkage, distance to search, got none"),
    ],
)
def test_a_bad_search_is_refused(method: str, grid: Grid, message: str) -> None:
    with pytest.raises(SettingsError, match=message):
        check_own_settings(CLOSED_FORMS[method](), grid)


class Untouchable:
    """Test data that must not be looked at."""

    def __getattr__(self, name: str) -> Any:
        raise AssertionError("test data was touched")

    def __getitem__(self, rows: Any) -> Any:
        raise AssertionError("test data was touched")


def record_of(out: Path) -> Any:
    return json.loads((out / "tune.json").read_text())


@pytest.mark.parametrize("method", ["redunet", "ridge"])
def test_the_command_leaves_a_record_and_never_touches_test_data(
    tmp_path: Path, method: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = load("digits")
    blind = {"x_train": data.x_train, "y_train": data.y_train, "y_test": data.y_test}
    found = SimpleNamespace(name="digits", x_test=Untouchable(), **blind)
    monkeypatch.setattr(Experiment, "load", lambda self, folder: found)
    words = ["--method", method, "--set", "train_per_class=30", "--per-class", "8"]
    search = "eps=0.5,1" if method == "redunet" else "regularization=1e-3,1"
    words += ["--search", search, "--components", "3,9", "--set", "n_layers=2"]
    said = done("tune", *words, "--out", tmp_path).output
    record = record_of(tmp_path)
    assert (record["kind"], record["version"], record["seed"]) == ("tune", 2, 0)
    assert record["chosen_on"] == "80 training samples, at most 8 of each class"
    assert record["settings"]["train_per_class"] == 30
    assert record["tasks_seen"] == [[0, 1], [2, 3], [4, 5], [6, 7], [8, 9]]
    accuracies = [one["held_out_accuracy"] for one in record["candidates"]]
    assert accuracies == sorted(accuracies, reverse=True)
    assert f"{accuracies[0]:.4f}" in said
    assert record["chosen"]["held_out"] == record["candidates"][0]
    if method == "redunet":
        assert len(accuracies) == 4
        best = max(one["estimated_label_accuracy"] for one in record["candidates"])
        assert record["chosen"]["paper"]["estimated_label_accuracy"] == best
        assert record["trained_on"] == "220 other training samples (held_out), all (paper)"
    else:
        assert (record["method"], record["grid"]) == ("ridge", {"ridge": [1e-3, 1]})
        assert "n_layers" not in record["settings"]


def test_the_first_task_alone_may_choose(tmp_path: Path) -> None:
    words = ["--method", "lda", "--search", "shrinkage=0.01,0.1,0.5", "--most", "2", "--first-task"]
    words += ["--per-class", "20"]
    done("tune", "--out", tmp_path, *words)
    record = record_of(tmp_path)
    assert record["tasks_seen"] == [[0, 1]]
    assert record["tried"] == "2 of 3 combinations, drawn at random"
    assert record["chosen_on"] == "40 training samples, at most 20 of each class"
    said = refused("tune", *words, "--set", "fit_features_on=whole-training-set")
    assert "expected fit_features_on=first-task where settings are chosen on the first" in said


IMAGES = ["--recipe", "images-fast", "--set", "patch_size=3", "--set", "n_filters=10"]


def test_features_are_searched_too_and_each_is_learnt_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every candidate has the accuracy that it has where its features are set, not searched."""
    fitted: list[Any] = []
    fit = MomentEstimator.fit

    def counted(model: Any, *data: Any) -> Any:
        fitted.append(model)
        return fit(model, *data)

    monkeypatch.setattr(MomentEstimator, "fit", counted)
    words = ["--per-class", "20", "--no-paper-rule", "--components", "8"]
    words += [*IMAGES, "--search", "ridge=0.001,0.1"]
    done("tune", "--out", tmp_path, *words, "--search", "cells=2,3", "--search", "threshold=0.1,1")
    found = record_of(tmp_path)
    assert (found["tried"], len(fitted)) == ("all 8 combinations", 4)
    assert found["grid"] == {"ridge": [0.001, 0.1], "pool_cells": [2, 3], "threshold": [0.1, 1]}
    done("tune", "--out", tmp_path, *words, "--set", "pool_cells=3", "--set", "threshold=1")
    alone = record_of(tmp_path)["candidates"]
    here = [one for one in found["candidates"] if (one["pool_cells"], one["threshold"]) == (3, 1)]
    assert {one["ridge"]: one["held_out_accuracy"] for one in here} == {
        one["ridge"]: one["held_out_accuracy"] for one in alone
    }


def test_validation_data_of_a_data_set_is_what_settings_are_chosen_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    X, y = digits_train()
    parts = {"x_train": X[::2], "y_train": y[::2], "x_val": X[1::2], "y_val": y[1::2]}
    data = SimpleNamespace(name="digits", x_test=Untouchable(), y_test=y, **parts)
    monkeypatch.setattr(Experiment, "load", lambda self, folder: data)
    done("tune", "--method", "lda", "--search", "shrinkage=0.001,0.5", "--out", tmp_path)
    record = record_of(tmp_path)
    assert record["chosen_on"] == f"{len(y) // 2} validation samples"
    for one in record["candidates"]:
        model = CLOSED_FORMS["lda"](one["shrinkage"]).fit(X[::2], y[::2])
        assert one["held_out_accuracy"] == model.score(X[1::2], y[1::2])
