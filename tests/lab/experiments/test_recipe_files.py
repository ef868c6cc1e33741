"""Recipes of experiments: the product's by all their names, and the lab's own files."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from redunet import SettingsError
from redunet.estimators.recipes import RECIPES, SYNONYMS
from redunet_lab import recipes
from redunet_lab.experiment import Experiment, Plan
from redunet_lab.paper import REPRODUCTIONS
from redunet_lab.streams import StreamSettings
from tests.own_data import done

ROOT = Path(__file__).parents[3]
FEW = ("--set", "train_per_class=20", "--set", "test_per_class=5")
DIGITS = ("--set", "n_filters=5", "--set", "patch_size=3")


@pytest.mark.parametrize("name", recipes.names())
def test_a_recipe_is_a_plan_that_can_be_carried_out(name: str) -> None:
    plan = Experiment.of("mnist", recipe=name).plan
    assert plan == Plan(data="mnist", **recipes.settings(name))
    assert not recipes.settings(name).keys() & {*StreamSettings.names(), "seed"}


def test_every_recipe_of_a_record_is_known() -> None:
    named = set()
    for path in (ROOT / "results").glob("**/*.json"):
        words = str(json.loads(path.read_text()).get("command", "")).split()
        named |= {words[at + 1] for at, word in enumerate(words) if word == "--recipe"}
    assert {"images-fast", "embeddings", "directions"} <= named
    for name in named:
        assert recipes.settings(name)


def test_names_of_earlier_versions_are_the_same_experiment() -> None:
    assert Experiment.of().plan == Plan()
    for before, now in SYNONYMS.items():
        assert Experiment.of("mnist", recipe=before) == Experiment.of("mnist", recipe=now)
    with pytest.raises(SettingsError, match=r"expected a recipe among .*images-fast.*, got 'best'"):
        recipes.settings("best")


def test_the_papers_recipes_are_what_is_reproduced() -> None:
    published = REPRODUCTIONS["mnist"].experiment().plan
    assert published == Plan(data="mnist", **RECIPES["paper-mnist"].settings)
    lifted = REPRODUCTIONS["cifar10"].experiment().plan
    assert lifted == Plan("cifar10", features="lift", centred=True, n_layers=50, n_components=50)


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
    assert record["settings"]["n_layers"] == recipes.settings("images-fast")["n_layers"]
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
    assert (run["settings"]["features"], run["n_features"]) == (
        "patches",
        2 * 5 * plan.pool_cells**2,
    )
    assert lda["settings"] == {"shrinkage": 0.01}
    assert network["changed"]["n_filters"]["here"] == 5
