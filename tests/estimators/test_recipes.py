"""Recipes: settings in one word, the same from Python and from every command."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import redunet
from redunet import ReduNetClassifier, ReduNetError, SettingsError
from redunet.estimators.model_settings import ModelSettings
from redunet.estimators.recipes import RECIPES, find, from_recipe, model_settings
from redunet.features import Flatten, PatchFilters, Standardize, Together, known_names
from redunet_lab.compare import compare
from redunet_lab.experiment import Experiment, Plan
from redunet_lab.paper import REPRODUCTIONS
from redunet_lab.streams import StreamSettings
from tests.own_data import done, refused
from tests.small_images import images_of
from tests.tiny_data import Tiny

pytestmark = pytest.mark.usefixtures("one_thread")

ROOT = Path(__file__).parents[2]
X, Y = images_of((14, 14), per_class=12)
FIRST = Y < 2
SMALL: dict[str, Any] = {"n_filters": 4}
SET = ("--set", "n_filters=4")


# What a recipe is


@pytest.mark.parametrize("name", RECIPES)
def test_a_recipe_is_a_plan_that_can_be_carried_out(name: str) -> None:
    plan = Experiment.of("mnist", recipe=name).plan
    assert plan.data == "mnist"
    families = {re.sub(r"^upright-|-\d+$", "", kind) for kind in plan.kinds}
    assert families <= set(known_names())
    assert plan == Plan(data="mnist", **RECIPES[name].settings)
    assert plan.network().to_dict().items() <= plan.to_dict().items()
    assert not RECIPES[name].settings.keys() & {*StreamSettings.names(), "seed"}
    assert RECIPES[name].purpose.endswith(".")
    with pytest.raises(TypeError):
        RECIPES["mine"] = RECIPES[name]  # type: ignore[index]
    with pytest.raises(TypeError):
        RECIPES[name].settings["eps"] = 1.0  # type: ignore[index]


def test_no_recipe_is_the_usual_plan() -> None:
    assert Experiment.of().plan == Plan()
    assert Experiment.of(recipe="features").plan == Plan(**RECIPES["features"].settings)


def test_the_papers_recipes_are_what_is_reproduced() -> None:
    published = REPRODUCTIONS["mnist"].experiment().plan
    assert published == Plan(data="mnist", n_layers=200, n_components=28)
    lifted = REPRODUCTIONS["cifar10"].experiment().plan
    assert lifted == Plan("cifar10", features="lift", centred=True, n_layers=50, n_components=50)


# What it reached

FIGURE = re.compile(r"(\d\.\d+)(?: ± (\d\.\d+))? \((results/[^)]+\.json)\)")


def network_of(record: dict[str, Any]) -> dict[str, Any]:
    """The first network of a record: its settings and runs."""
    return next(method for method in record["methods"] if method["method"] == "redunet")


@pytest.mark.parametrize("name", [name for name, recipe in RECIPES.items() if recipe.reached])
def test_what_is_said_to_be_reached_is_what_a_record_says(name: str) -> None:
    recipe = RECIPES[name]
    figures = FIGURE.findall(recipe.reached)
    assert figures
    assert not re.search(r"\d\.\d", FIGURE.sub("", recipe.reached)), "a figure without its record"
    for figure, deviation, file in figures:
        network = network_of(json.loads((ROOT / file).read_text()))
        last = [run["tasks"][-1]["accuracy"] for run in network["runs"]]
        places = len(figure.split(".")[1])
        assert figure == f"{np.mean(last):.{places}f}", file
        if deviation:
            assert deviation == f"{np.std(last, ddof=1):.{places}f}", file
        for key, value in recipe.settings.items():
            assert network["settings"][key] == value, (file, key)


# From Python


def test_a_classifier_from_a_recipe_has_its_settings() -> None:
    model = from_recipe("features")
    usual = ReduNetClassifier().get_params()
    wanted = {k: v for k, v in RECIPES["features"].settings.items() if k != "features"}
    assert model.get_params() == {**usual, **wanted}
    changed = from_recipe("features", eps=0.7, normalize="class", input_range=(0, 1), memory="1MB")
    assert (changed.eps, changed.input_range, changed.memory) == (0.7, (0, 1), "1MB")
    assert redunet.from_recipe is from_recipe
    assert all(f'"{name}"' in (from_recipe.__doc__ or "") for name in RECIPES)


def test_recipes_of_vectors_and_tables_make_their_maps_from_the_first_samples() -> None:
    vectors = X.reshape(len(X), -1).astype(float)
    first = vectors[FIRST]
    wide = from_recipe("embeddings-wide", first).features
    assert isinstance(wide, Together)
    assert [part.n_features for part in wide.parts] == [196, 3000]
    assert not wide.learnt_from_data
    tables = from_recipe("tables", first)
    assert isinstance(tables.features, Standardize)
    np.testing.assert_allclose(tables.features.mean, first.mean(axis=0), rtol=1e-12)
    assert tables.features.learnt_from_data
    features = from_recipe("features").get_params()
    assert features == {**tables.get_params(), "features": None}
    with pytest.raises(SettingsError, match="'standardize-columns' to be made from, got none"):
        from_recipe("tables")


def test_filters_come_from_the_images_given() -> None:
    how: dict[str, Any] = {**SMALL, "features": "patches", "standardized": False, "root": False}
    model = from_recipe("images-fast", X[FIRST], **how)
    settings = Experiment.of(recipe="images-fast").plan
    theirs = PatchFilters.learn(
        X[FIRST],
        settings.seed,
        4,
        settings.patch_size,
        cells=settings.cells,
        threshold=settings.threshold,
    )
    assert isinstance(model.features, PatchFilters)
    assert bool((model.features.filters == theirs.filters).all())
    assert not hasattr(model, "moments_")
    others = from_recipe("images-fast", X[~FIRST], **how).features
    assert isinstance(others, PatchFilters)
    assert not bool((others.filters == theirs.filters).all())


def test_pixels_of_images_and_vectors_as_they_are() -> None:
    assert from_recipe("paper-mnist", X).features == Flatten((14, 14))
    assert from_recipe("paper-mnist", X.reshape(len(X), -1)).features is None
    assert from_recipe("paper-mnist").features is None
    assert from_recipe("paper-cifar10", X, n_kernels=2).features.n_features == 392  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("name", "images", "changes", "message"),
    [
        ("imagez", None, {}, "expected a recipe among paper-mnist, .*directions, got 'imagez'"),
        (["features"], None, {}, r"expected a recipe among .*, got \['features'\]"),
        ("images-fast", None, {}, "expected samples for the features 'patches' to be made from"),
        ("paper-cifar10", None, {}, "expected samples for the features 'lift' to be made from"),
        ("features", None, {"order_seed": 1}, "expected settings among .*, got 'order_seed'"),
        ("features", None, {"eps": -1}, "expected eps to be a number above 1e-100"),
        ("images-fast", X[:0], {}, "0 sample"),
        ("images-fast", [[1, 2], [3]], {}, "inhomogeneous"),
        ("images-fast", X.reshape(len(X), -1), {}, "expected samples of shape"),
        ("images-fast", X / 255, {}, "whole"),
        (
            "paper-cifar10",
            X[:, 0],
            {"mean_per": "channel"},
            "expected samples of shape",
        ),
        ("paper-mnist", np.full((2, 3, 3), np.nan), {}, "NaN"),
    ],
)
def test_a_mistake_is_one_line(
    name: Any, images: Any, changes: dict[str, Any], message: str
) -> None:
    with pytest.raises(ReduNetError, match=message) as caught:
        from_recipe(name, images, **changes)
    assert "\n" not in str(caught.value)


def test_single_settings_replace_a_recipe_and_are_checked_before_the_work() -> None:
    own = {"n_layers": 3, "normalize": "class", "input_range": (0, 255)}
    settings = model_settings("images-fast", own)
    assert settings == ModelSettings(**{**find("images-fast").settings, **own})
    with pytest.raises(SettingsError, match="expected readout to be one of"):
        model_settings(None, {"readout": "x"})


# From the command line


def test_the_list_names_all_there_is_in_80_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    lines = done("recipes").stdout.splitlines()
    assert max(map(len, lines)) <= 80
    said = " ".join(" ".join(lines).split())
    for name, recipe in RECIPES.items():
        assert f" {name} {recipe.purpose}" in said
        assert recipe.reached in said
        assert recipe.cost in said
        closed = said.replace(" ", "")  # a word may be longer than a line
        assert all(f"{key}={value}" in closed for key, value in recipe.settings.items())


@pytest.mark.parametrize("command", ["run", "tune", "compare", "learn"])
def test_an_unknown_recipe_is_one_line(tmp_path: Path, command: str) -> None:
    np.savez(tmp_path / "d.npz", X=X, y=Y)
    where = [tmp_path / "m", tmp_path / "d.npz"] if command == "learn" else ["--out", tmp_path]
    said = refused(command, *where, "--recipe", "best")
    assert said == f"expected a recipe among {', '.join(RECIPES)}, got 'best'"
    assert not (tmp_path / "m").exists()


def test_learn_makes_the_file_that_python_makes(tmp_path: Path) -> None:
    np.savez(tmp_path / "first.npz", X=X[FIRST], y=Y[FIRST])
    np.savez(tmp_path / "rest.npz", X=X[~FIRST], y=Y[~FIRST])
    path = tmp_path / "model"
    done("learn", path, tmp_path / "first.npz", "--recipe", "images-fast", *SET)
    before = path.read_bytes()
    said = refused("learn", path, tmp_path / "rest.npz", "--recipe", "images-fast", *SET)
    assert "keeps the settings that it was made with: leave out recipe, n_filters, or" in said
    assert path.read_bytes() == before
    done("learn", path, tmp_path / "rest.npz")
    model = from_recipe("images-fast", X[FIRST], **SMALL)
    model.partial_fit(X[FIRST], Y[FIRST]).partial_fit(X[~FIRST], Y[~FIRST]).save(tmp_path / "p")
    assert path.read_bytes() == (tmp_path / "p").read_bytes()


FEW = ("--set", "train_per_class=20", "--set", "test_per_class=5")
DIGITS = ("--set", "n_filters=5", "--set", "patch_size=3")


def test_run_takes_a_recipe_then_a_file_then_settings(tmp_path: Path) -> None:
    (tmp_path / "c.toml").write_text("ridge = 0.5\nn_filters = 99\n")
    words = ("--recipe", "images-fast", "--config", tmp_path / "c.toml", *DIGITS, *FEW)
    done("run", "--data", "digits", "--out", tmp_path, *words)
    record = json.loads((tmp_path / "record.json").read_text())
    own = {"train_per_class": 20, "test_per_class": 5, "n_filters": 5, "patch_size": 3}
    plan = Experiment.of("digits", recipe="images-fast").plan.changed({**own, "ridge": 0.5})
    settings = {**record["methods"][0]["settings"], "n_components": plan.n_components, "seed": 0}
    assert settings == json.loads(json.dumps(plan.to_dict()))


def test_tune_searches_around_a_recipe(tmp_path: Path) -> None:
    words = ("--recipe", "images-fast", *DIGITS, *FEW, "--search", "ridge=0.01,1")
    done("tune", "--data", "digits", "--out", tmp_path, *words, "--no-paper-rule")
    record = json.loads((tmp_path / "tune.json").read_text())
    assert record["settings"]["features"] == "patches"
    assert record["settings"]["n_layers"] == RECIPES["images-fast"].settings["n_layers"]
    assert {c["ridge"] for c in record["candidates"]} == {0.01, 1}


def test_compare_gives_the_recipes_features_to_closed_form_methods(tmp_path: Path) -> None:
    words = ("--methods", "redunet,lda", "--recipe", "images-fast")
    small = ("--set", "redunet.n_filters=5", "--set", "redunet.patch_size=3")
    done("compare", "--data", "digits", "--out", tmp_path, *words, *small)
    record = json.loads((tmp_path / "record.json").read_text())
    network, lda = record["methods"]
    plan = Experiment.of("digits", recipe="images-fast").plan
    plan = plan.changed({"n_filters": 5, "patch_size": 3})
    assert network["settings"].items() <= json.loads(json.dumps(plan.to_dict())).items()
    run = json.loads((tmp_path / "lda" / "seed-0" / "record.json").read_text())
    assert (run["settings"]["features"], run["n_features"]) == ("patches", 2 * 5 * plan.cells**2)
    assert lda["settings"] == {"shrinkage": 0.01}
    assert network["changed"]["n_filters"]["here"] == 5


def test_a_recipe_replaces_what_is_usual_for_the_data(
    tmp_path: Path, tinies: dict[str, Tiny], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Experiment, "load", lambda self, folder: tinies[self.data].data)
    record = compare("mnist", tmp_path, methods=["redunet"], recipe="features")
    assert record["methods"][0]["settings"]["n_components"] is None  # 28 is usual for MNIST
    with pytest.raises(SettingsError, match="of a run with another"):
        compare("mnist", tmp_path, methods=["redunet"], recipe="paper-mnist")


def test_learn_takes_settings_from_a_file(tmp_path: Path) -> None:
    np.savez(tmp_path / "d.npz", X=X.reshape(len(X), -1), y=Y)
    (tmp_path / "c.toml").write_text('n_layers = 3\neps = 0.25\ndtype = "float64"\n')
    data, words = tmp_path / "d.npz", ("--config", tmp_path / "c.toml")
    done("learn", tmp_path / "a", data, *words, "--set", "eps=1", "--dtype", "float32")
    by_hand = ("n_layers=3", "eps=1", "dtype=float32")
    done("learn", tmp_path / "b", data, *(w for word in by_hand for w in ("--set", word)))
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()
    said = refused("learn", tmp_path / "a", data, *words)
    assert "keeps the settings that it was made with: leave out dtype, eps, n_layers" in said
