"""Choosing the regularisation of closed-form rivals on training data."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from torch import Tensor
from typer.testing import CliRunner

from redunet import SettingsError
from redunet.cli.app import main
from redunet.features import Standardize
from redunet_lab.closed_forms import CLOSED_FORMS
from redunet_lab.datasets import load
from redunet_lab.experiment import Experiment, Plan
from redunet_lab.methods import CHOSEN
from redunet_lab.tune_experiment import tune_experiment
from redunet_lab.tuning import held_out_rows
from tests.lab.experiments.searches import tune_closed_form
from tests.lab.experiments.test_runner import Untouchable, digits_train

pytestmark = pytest.mark.usefixtures("one_thread")

VALUES = [1e-6, 0.1, 1.0]
PENALTIES = {"lda": "shrinkage", "ridge": "ridge", "qda": "shrinkage"}


@pytest.mark.parametrize(("method", "name"), PENALTIES.items())
def test_held_out_accuracy_is_that_of_a_model_that_never_saw_them(method: str, name: str) -> None:
    X, y = digits_train()
    mask = held_out_rows(y, 15, seed=3)
    model = CLOSED_FORMS[method](**{name: 0.5}, features=Standardize.learn(X))
    found = tune_closed_form(model, X, y, {name: VALUES}, per_class=15, seed=3)
    assert found["chosen_on"] == "150 training samples, at most 15 of each class"
    assert found["trained_on"] == "450 other training samples"
    assert found["chosen"]["held_out"] == found["candidates"][0]
    accuracies = {c[name]: c["held_out_accuracy"] for c in found["candidates"]}
    assert list(accuracies.values()) == sorted(accuracies.values(), reverse=True)
    for value in VALUES:
        never = CLOSED_FORMS[method](**{name: value}, features=model.features)
        never.fit(X[~mask], y[~mask])
        assert accuracies[value] == never.score(X[mask], y[mask])
    assert model.get_params()[name] == 0.5
    assert not hasattr(model, "moments_")


@pytest.mark.parametrize("method", ["lda", "redunet"])
def test_samples_go_through_the_features_once(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, method: str
) -> None:
    seen = []
    embed = Standardize.__call__

    def counted(features: Standardize, X: Tensor) -> Tensor:
        seen.append(len(X))
        return embed(features, X)

    monkeypatch.setattr(Standardize, "__call__", counted)
    settings = {"features": "standardize-all", "n_layers": 0, "readout": "discriminant"}
    grid = {"lda": "shrinkage", "redunet": "ridge"}
    found = tune_experiment(
        Experiment.of("digits", changes={**settings, "train_per_class": 40}),
        tmp_path,
        "redunet tune",
        {grid[method]: VALUES},
        method=method,
        n_components=(28,) if method == "redunet" else (),
        per_class=15,
        paper_rule=False,
    )
    assert len(found["candidates"]) == len(VALUES)
    assert sum(seen) == 400


def test_of_equals_the_first_in_the_grid_is_chosen() -> None:
    X, y = digits_train()
    for values in ([0.02, 0.020001], [0.020001, 0.02]):
        found = tune_closed_form(CLOSED_FORMS["lda"](), X, y, {"shrinkage": values}, per_class=9)
        first, second = found["candidates"]
        assert first["held_out_accuracy"] == second["held_out_accuracy"]
        assert found["chosen"]["held_out"]["shrinkage"] == values[0]


def test_the_distance_of_qda_can_be_searched_too() -> None:
    X, y = digits_train()
    grid: dict[str, list[Any]] = {
        "distance": ["gaussian", "correlation"],
        "shrinkage": [0.1, 0.9],
    }
    found = tune_closed_form(CLOSED_FORMS["qda"](), X, y, grid, per_class=15)
    tried = {(c["distance"], c["shrinkage"]) for c in found["candidates"]}
    assert tried == {(d, r) for d in grid["distance"] for r in grid["shrinkage"]}


@pytest.mark.parametrize(
    ("method", "grid", "message"),
    [
        ("ncm", {"shrinkage": [1]}, "expected a method with settings to choose, got 'ncm'"),
        ("lda", {"eps": [1]}, "expected settings among shrinkage to search, got 'eps'"),
        ("qda", {}, "expected settings among shrinkage, distance to search, got none"),
        ("ridge", {"ridge": [0.1, -1]}, "expected ridge to be a number above 0"),
    ],
)
def test_a_bad_search_is_refused(method: str, grid: dict[str, Any], message: str) -> None:
    with pytest.raises(SettingsError, match=message):
        tune_closed_form(CLOSED_FORMS[method](), *digits_train(), grid)


def test_the_command_leaves_a_record_and_never_touches_test_data(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = load("digits")
    blind = SimpleNamespace(
        name="digits",
        x_train=data.x_train,
        y_train=data.y_train,
        x_test=Untouchable(),
        y_test=data.y_test,
    )
    monkeypatch.setattr(Experiment, "load", lambda self, folder: blind)
    words = ["tune", "--method", "ridge", "--search", "regularization=1e-3,1"]
    words += ["--set", "train_per_class=30", "--per-class", "8", "--out", str(tmp_path)]
    done = CliRunner().invoke(main, words)
    assert done.exit_code == 0, done.output
    record = json.loads((tmp_path / "tune.json").read_text())
    assert record["method"] == "ridge"
    assert record["grid"] == {"ridge": [1e-3, 1]}
    assert record["settings"]["train_per_class"] == 30
    assert "n_layers" not in record["settings"]
    assert Plan().changed(record["settings"]) == Plan(train_per_class=30)
    assert record["chosen_on"] == "80 training samples, at most 8 of each class"
    assert f"{record['candidates'][0]['held_out_accuracy']:.4f}" in done.output


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            ["--method", "svm"],
            "expected method to be one of redunet, ncm, lda, ridge, qda, pairwise",
        ),
        (["--method", "lda"], "expected settings among shrinkage to search, got none"),
        (["--method", "lda", "--search", "regularization=2"], "above 0 and at most 1, got 2"),
    ],
)
def test_a_mistake_is_one_line_and_exit_code_2(
    tmp_path: Path, words: list[str], message: str
) -> None:
    done = CliRunner().invoke(main, ["tune", *words, "--out", str(tmp_path / "out")])
    assert done.exit_code == 2
    assert message in done.stderr
    assert done.stderr.count("\n") == 1


def test_the_words_about_the_records_are_the_records() -> None:
    results = Path(__file__).parents[3] / "results"
    words = " ".join((results / "README.md").read_text(encoding="utf-8").split())

    def candidates(data: str, method: str) -> Any:
        record = json.loads((results / "tune" / f"closed-form-{data}-{method}.json").read_text())
        assert (record["method"], record["settings"]["data"]) == (method, data)
        assert record["settings"]["features"] == "pixels"
        assert record["chosen"]["held_out"] == record["candidates"][0]
        return record["candidates"]

    for data in ("digits", "mnist"):
        for method, name in (("lda", "LDA"), ("ridge", "ridge")):
            best = candidates(data, method)[0]
            accuracy = f"{best['held_out_accuracy']:.3f}"
            assert f"{name} {best['regularization']:g} ({accuracy})" in words
    mnist, digits = candidates("mnist", "qda"), candidates("digits", "qda")[0]
    gaussian = next(c for c in mnist if c["distance"] == "gaussian")
    assert (mnist[0]["distance"], digits["distance"]) == ("correlation", "gaussian")
    said = f"QDA {mnist[0]['regularization']} by correlations ({mnist[0]['held_out_accuracy']:.3f};"
    assert said in words
    said = f"also at {gaussian['regularization']}, {gaussian['held_out_accuracy']:.3f})"
    assert said in words
    said = f"QDA {digits['regularization']}, Gaussian ({digits['held_out_accuracy']:.3f})"
    assert said in words


@pytest.mark.parametrize("data", [data for recipe, data in CHOSEN if recipe is None])
def test_comparisons_take_what_was_chosen(data: str) -> None:
    results = Path(__file__).parents[3] / "results" / "tune"
    for method, settings in CHOSEN[None, data].items():
        record = json.loads((results / f"closed-form-{data}-{method}.json").read_text())
        best = record["chosen"]["held_out"]
        chosen = {key: value for key, value in best.items() if key != "held_out_accuracy"}
        assert settings == CLOSED_FORMS[method].named_today(chosen)


def test_a_map_of_its_own_can_be_searched_and_is_learnt_through_once() -> None:
    X, y = digits_train()
    grid: dict[str, list[Any]] = {"n_projections": [20, 60], "ridge": [1e-3, 1.0]}
    found = tune_closed_form(CLOSED_FORMS["ranpac"](), X, y, grid, per_class=15)
    mask = held_out_rows(y, 15, seed=0)
    for candidate in found["candidates"]:
        own = {key: candidate[key] for key in grid}
        never = CLOSED_FORMS["ranpac"](**own).fit(X[~mask], y[~mask])
        assert candidate["held_out_accuracy"] == never.score(X[mask], y[mask])


def test_validation_data_of_a_data_set_is_what_settings_are_chosen_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    X, y = digits_train()
    data = SimpleNamespace(
        name="digits",
        x_train=X[::2],
        y_train=y[::2],
        x_val=X[1::2],
        y_val=y[1::2],
        x_test=Untouchable(),
        y_test=y,
    )
    monkeypatch.setattr(Experiment, "load", lambda self, folder: data)
    words = ["tune", "--method", "lda", "--search", "shrinkage=0.001,0.5", "--out", str(tmp_path)]
    assert CliRunner().invoke(main, words).exit_code == 0
    record = json.loads((tmp_path / "tune.json").read_text())
    assert record["chosen_on"] == f"{len(y) // 2} validation samples"
    assert record["trained_on"] == f"{len(y) - len(y) // 2} training samples"
    for one in record["candidates"]:
        model = CLOSED_FORMS["lda"](one["shrinkage"]).fit(X[::2].reshape(-1, 64), y[::2])
        assert one["held_out_accuracy"] == model.score(X[1::2].reshape(-1, 64), y[1::2])
