"""Recipes: settings in one word, the same from Python and from `redunet learn`."""

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
from redunet.estimators.recipes import RECIPES, SYNONYMS, find, from_recipe, model_settings
from redunet.features import Flatten, PatchFilters, Standardize, known_names
from tests.own_data import done, refused
from tests.small_images import images_of

pytestmark = pytest.mark.usefixtures("one_thread")

ROOT = Path(__file__).parents[2]
X, Y = images_of((20, 20), per_class=12)
FIRST = Y < 2
SMALL: dict[str, Any] = {"n_filters": 4}
SET = ("--set", "n_filters=4")


# What a recipe is


@pytest.mark.parametrize("name", RECIPES)
def test_a_recipe_is_settings_of_a_model(name: str) -> None:
    settings = model_settings(name)
    families = {re.sub(r"^upright-|-\d+$", "", kind) for kind in settings.kinds}
    assert families <= set(known_names())
    assert settings == ModelSettings(**RECIPES[name].settings)
    assert "seed" not in RECIPES[name].settings
    with pytest.raises(TypeError):
        RECIPES["mine"] = RECIPES[name]  # type: ignore[index]
    with pytest.raises(TypeError):
        RECIPES[name].settings["eps"] = 1.0  # type: ignore[index]


def test_names_of_earlier_versions() -> None:
    for before, now in SYNONYMS.items():
        assert find(before) is RECIPES[now]
    said = "got 'images-fast' of an earlier version: take images, or its settings in "
    with pytest.raises(SettingsError, match=said + "redunet_lab/recipes/images-fast.toml"):
        find("images-fast")


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
    for figure, deviation, file in figures:
        network = network_of(json.loads((ROOT / file).read_text()))
        last = [run["tasks"][-1]["accuracy"] for run in network["runs"]]
        places = len(figure.split(".")[1])
        assert figure == f"{np.mean(last):.{places}f}", file
        if deviation:
            assert deviation == f"{np.std(last, ddof=1):.{places}f}", file
        for key, value in recipe.settings.items():
            assert ModelSettings.renamed(network["settings"])[key] == value, (file, key)


# From Python


def test_a_classifier_from_a_recipe_has_its_settings() -> None:
    model = from_recipe("vectors")
    usual = ReduNetClassifier().get_params()
    wanted = {k: v for k, v in RECIPES["vectors"].settings.items() if k != "features"}
    assert model.get_params() == {**usual, **wanted}
    changed = from_recipe("vectors", eps=0.7, normalize="class", input_range=(0, 1), memory="1MB")
    assert (changed.eps, changed.input_range, changed.memory) == (0.7, (0, 1), "1MB")
    assert redunet.from_recipe is from_recipe
    assert all(f'"{name}"' in (from_recipe.__doc__ or "") for name in RECIPES)


def test_maps_come_from_the_samples_given() -> None:
    first = X[FIRST].reshape(FIRST.sum(), -1).astype(float)
    tables = from_recipe("tables", first)
    assert isinstance(tables.features, Standardize)
    np.testing.assert_allclose(tables.features.mean, first.mean(axis=0), rtol=1e-12)
    with pytest.raises(SettingsError, match="'standardize-columns' to be made from, got none"):
        from_recipe("tables")
    how: dict[str, Any] = {"features": "patches", "standardized": False, "sqrt": False}
    model = from_recipe("images", X[FIRST], **SMALL, **how, mirrored=False)
    others = from_recipe("images", X[~FIRST], **SMALL, **how, mirrored=False).features
    settings = model_settings("images")
    theirs = PatchFilters.learn(
        X[FIRST],
        settings.seed,
        4,
        settings.patch_size,
        cells=settings.pool_cells,
        threshold=settings.threshold,
        window=settings.window,
    )
    assert isinstance(model.features, PatchFilters)
    assert isinstance(others, PatchFilters)
    assert bool((model.features.filters == theirs.filters).all())
    assert not bool((others.filters == theirs.filters).all())
    assert not hasattr(model, "moments_")


def test_pixels_of_images_and_vectors_as_they_are() -> None:
    assert from_recipe("paper-mnist", X).features == Flatten((20, 20))
    assert from_recipe("paper-mnist", X.reshape(len(X), -1)).features is None
    assert from_recipe("paper-mnist").features is None
    lifted = from_recipe("paper-cifar10", X, n_kernels=2).features
    assert lifted is not None
    assert lifted.n_features == 800


@pytest.mark.parametrize(
    ("name", "images", "changes", "message"),
    [
        ("imagez", None, {}, "expected a recipe among vectors, .*, got 'imagez': did you mean"),
        (["tables"], None, {}, r"expected a recipe among .*, got \['tables'\]"),
        ("images", None, {}, "expected samples for the features 'patches.*' to be made from"),
        ("vectors", None, {"order_seed": 1}, "expected settings among .*, got 'order_seed'"),
        ("vectors", None, {"eps": -1}, "expected eps to be a number above 1e-100"),
        ("images", X[:0], {}, "0 sample"),
        ("images", [[1, 2], [3]], {}, "inhomogeneous"),
        ("images", X.reshape(len(X), -1), {}, "expected samples of shape"),
        ("images", X / 255, {}, "whole"),
        ("paper-mnist", np.full((2, 3, 3), np.nan), {}, "NaN"),
    ],
)
def test_a_mistake_is_one_line(
    name: Any, images: Any, changes: dict[str, Any], message: str
) -> None:
    with pytest.raises(ReduNetError, match=message) as caught:
        from_recipe(name, images, **changes)
    assert "\n" not in str(caught.value)


# From the command line


def test_the_list_names_all_there_is() -> None:
    said = " ".join(done("recipes").stdout.split())
    for name, recipe in RECIPES.items():
        assert f"{name} {recipe.purpose}" in said
        assert recipe.reached in said


def test_an_unknown_recipe_is_one_line(tmp_path: Path) -> None:
    np.savez(tmp_path / "d.npz", X=X, y=Y)
    said = refused("learn", tmp_path / "m", tmp_path / "d.npz", "--recipe", "best")
    assert said == f"expected a recipe among {', '.join(RECIPES)}, got 'best'"
    assert not (tmp_path / "m").exists()


def test_learn_makes_the_file_that_python_makes(tmp_path: Path) -> None:
    np.savez(tmp_path / "first.npz", X=X[FIRST], y=Y[FIRST])
    np.savez(tmp_path / "rest.npz", X=X[~FIRST], y=Y[~FIRST])
    path = tmp_path / "model"
    done("learn", path, tmp_path / "first.npz", "--recipe", "images-cpu", *SET)
    before = path.read_bytes()
    said = refused("learn", path, tmp_path / "rest.npz", "--recipe", "images", *SET)
    assert "keeps the settings that it was made with: leave out recipe, n_filters, or" in said
    assert path.read_bytes() == before
    done("learn", path, tmp_path / "rest.npz")
    model = from_recipe("images", X[FIRST], **SMALL)
    model.partial_fit(X[FIRST], Y[FIRST]).partial_fit(X[~FIRST], Y[~FIRST]).save(tmp_path / "p")
    assert path.read_bytes() == (tmp_path / "p").read_bytes()


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
