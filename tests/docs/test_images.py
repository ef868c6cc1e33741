"""What docs/images.md says is what its records say, and its pictures are there."""

from __future__ import annotations

import json
import re
from itertools import pairwise
from statistics import mean

import pytest
from PIL import Image

from benchmarks import inside, widths, widths_page
from redunet.estimators.recipes import RECIPES
from redunet.features import FeatureSettings
from redunet.report.look import AFTER, BEFORE
from redunet_lab.report.numbers import over_seeds
from redunet_lab.report.readme import filled
from tests.records import RECIPES as RECIPE_PAGE
from tests.records import record

PAGE = inside.PAGE.read_text(encoding="utf-8")
WORDS = " ".join(PAGE.split())
RECORD = json.loads(inside.RECORD.read_text(encoding="utf-8"))
MODELS = RECORD["models"]


def test_the_tables_are_those_of_the_records() -> None:
    assert filled(PAGE, inside.PAGE.parent) == PAGE
    assert inside.filled(PAGE, RECORD) == PAGE
    assert inside.MARK in PAGE


def test_every_recipe_for_images_is_there() -> None:
    named = set(re.findall(r"^\| ([\w-]+), ", PAGE, re.MULTILINE))
    assert named >= {name for name in RECIPES if name.startswith(("images-", "invariant"))}
    assert all(f"`{name}`" in PAGE for name in named & RECIPES.keys())


@pytest.mark.parametrize("data", inside.MODELS)
def test_layers_turn_classes_away_from_each_other(data: str) -> None:
    model = MODELS[data]
    before, after = (model["classes"][depth] for depth in (BEFORE, AFTER))
    assert after["mean_angle"] > before["mean_angle"]
    for key in ("median_margin", "margin_above_zero"):
        values = [one[key] for one in model["samples"].values()]
        assert all(low < high for low, high in pairwise(values))


def test_words_about_what_layers_do() -> None:
    before, after = (MODELS["cifar10"]["classes"][depth] for depth in (BEFORE, AFTER))
    share = before["energy_in_first_direction"]
    assert f"{share:.0%}".replace("%", " % of the energy of a class") in WORDS
    assert after["energy_in_first_direction"] == pytest.approx(share, abs=0.001)
    cosines = [one["cosine_between_classes"] for one in MODELS["cifar10"]["samples"].values()]
    assert cosines[-1] == pytest.approx(cosines[0], abs=0.002)
    pixels = MODELS["mnist"]
    assert (
        pixels["classes"][AFTER]["energy_in_first_ten"]
        < pixels["classes"][BEFORE]["energy_in_first_ten"]
    )
    cosines = [one["cosine_between_classes"] for one in pixels["samples"].values()]
    assert cosines == sorted(cosines, reverse=True)


def test_figures_of_other_records() -> None:
    (behind,) = [m for m in record("vectors-cifar10")["methods"] if m["method"] == "redunet"]
    accuracy = behind["runs"][0]["tasks"][-1]["accuracy"]
    assert f"reached {accuracy:.3f} on CIFAR-10" in WORDS
    ahead = {}
    for name in ("images-fast-mnist", "images-cpu-cifar10", "images-best-cifar10"):
        reached = {
            one["method"]: mean(run["tasks"][-1]["accuracy"] for run in one["runs"])
            for one in record(name)["methods"]
        }
        ahead[name] = reached["redunet"] - reached["lda"]
    assert abs(ahead["images-fast-mnist"]) < 0.0005
    assert f"layers are {ahead['images-cpu-cifar10']:.3f} ahead of LDA with the 4,000" in WORDS
    assert abs(ahead["images-best-cifar10"]) < 0.0005
    assert "one is level with it with the 16,000 of `images-best`" in WORDS


@pytest.mark.parametrize(
    ("name", "images", "title"),
    [
        ("images-cpu-cifar10-readouts", 5000, ""),
        ("images-plain-fashion_mnist-layers", 10000, "Fashion-MNIST"),
    ],
)
def test_layers_and_pairs(name: str, images: int, title: str) -> None:
    found = record(f"tune/{name}")
    assert found["chosen_on"].startswith(f"{images} training samples")
    rows = [f"| layers{', ' * bool(title)}{title} | ridge regression | pairwise discriminants |"]
    rows.append("| ---: | ---: | ---: |")
    for layers in (0, 1, 2):
        best = [
            max(
                one["held_out_accuracy"]
                for one in found["candidates"]
                if (one["n_layers"], one["readout"]) == (layers, readout)
            )
            for readout in ("regression", "pairwise")
        ]
        rows.append(f"| {layers} | {best[0]:.4f} | {best[1]:.4f} |")
    assert "\n".join(rows) in PAGE.replace("**", "")


def test_several_maps_of_written_signs() -> None:
    four, one = (
        record(f"tune/images-written-mnist-{name}")["chosen"]["held_out"]["held_out_accuracy"]
        for name in ("maps", "redunet")
    )
    assert f"reach {four:.4f} with the features of `images-written`, and one" in WORDS
    assert f"of 8,000 reaches {one:.4f}" in WORDS
    assert round(10_000 * (four - one)) == 1
    settings = [
        record(f"tune/images-written-mnist-{name}")["settings"] for name in ("maps", "redunet")
    ]
    differ = {"n_maps", "n_filters", "ridge"}
    assert [settings[0][key] for key in ("n_maps", "n_filters")] == [4, 20]
    assert all(settings[0][key] == settings[1][key] for key in settings[1].keys() - differ)


def test_layers_and_pairs_on_mnist() -> None:
    reached = {
        one["method"]: one["runs"][0]["tasks"][-1]["accuracy"]
        for one in record("images-fixed-mnist")["methods"]
    }
    assert reached["lda"] == reached["ridge"]
    assert (
        f"ridge regression and LDA reach {reached['lda']:.4f}, pairs {reached['pairwise']:.4f}, "
        f"one layer and pairs {reached['redunet']:.4f}" in WORDS
    )


def test_pairs_on_fashion_mnist() -> None:
    whole = record("images-plain-fashion_mnist")
    reached = {
        one["method"]: over_seeds([[run["tasks"][-1]["accuracy"]] for run in one["runs"]])[0]
        for one in whole["methods"]
    }
    pairs, ridge = (f"{reached[name].mean:.4f}" for name in ("redunet", "ridge"))
    assert f"ridge regression reaches {ridge} and pairs {pairs}" in WORDS
    (network,) = (one for one in whole["methods"] if one["method"] == "redunet")
    assert (network["settings"]["n_layers"], network["settings"]["readout"]) == (0, "pairwise")


def test_widths_of_pairs_on_fashion_mnist() -> None:
    found = widths_page.read("widths-fashion_mnist-images-plain")["summary"]
    pairs = [row["accuracy"][widths.SAME] for row in found]
    linear = [max(row["accuracy"][name] for name in ("LDA", "ridge")) for row in found]
    features = [row["features"] for row in found]
    assert features == [600, 1200, 2400]
    needed = widths.width_reaching(features, linear, pairs[0])
    assert f"regression reaches with about {round(needed, -1):,.0f}, and" in WORDS
    assert linear == [row["accuracy"]["ridge"] for row in found]
    assert pairs[1] > linear[-1]
    for row, alone in zip(found, pairs, strict=True):
        assert row["accuracy"][widths.NETWORK] == pytest.approx(alone, abs=0.0005)


def test_pairs_on_mnist() -> None:
    reached = {
        one["method"]: over_seeds([[run["tasks"][-1]["accuracy"]] for run in one["runs"]])[0]
        for one in record("images-written-mnist")["methods"]
    }
    pairs, lda = (f"{reached[name].mean:.4f}" for name in ("redunet", "lda"))
    assert f"with the features of `images-written`, LDA reaches {lda} and pairs {pairs}" in WORDS
    best: dict[str, float] = {}
    for name in ("redunet", "rivals"):
        for one in record(f"tune/images-written-mnist-{name}")["candidates"]:
            accuracy = max(best.get(one["readout"], 0.0), one["held_out_accuracy"])
            best[one["readout"]] = accuracy
    assert best["regression"] == best["discriminant"]
    assert (
        f"pairs reach {best['pairwise']:.4f} on these features, ridge regression and a linear "
        f"discriminant {best['discriminant']:.4f}" in " ".join(RECIPE_PAGE.split())
    )


def test_what_a_second_stage_is_worth_on_held_out_images() -> None:
    words = " ".join(RECIPE_PAGE.split())
    stacked, patches = (
        record(f"tune/{name}-fashion_mnist-redunet") for name in ("images-plain", "patch-sizes")
    )
    rivals = record("tune/images-plain-fashion_mnist-rivals")
    best: dict[str, float] = {}
    for one in (*stacked["candidates"], *rivals["candidates"]):
        accuracy = max(best.get(one["readout"], 0.0), one["held_out_accuracy"])
        best[one["readout"]] = accuracy
    assert (
        f"pairs reach {best['pairwise']:.4f} on these features, ridge regression "
        f"{best['regression']:.4f} and a linear discriminant {best['discriminant']:.4f}" in words
    )
    alone = patches["chosen"]["held_out"]
    assert alone["readout"] == "pairwise"
    assert f"pairs reach {alone['held_out_accuracy']:.4f} there" in words
    kinds = [one["settings"]["features"] for one in (stacked, patches)]
    assert kinds == [
        "patches-5+patches-8+stacked-patches-3+stacked-patches-5",
        "patches-5+patches-6+patches-8+patches-9",
    ]
    same = [name for name in FeatureSettings.names() if name != "features"]
    assert all(stacked["settings"].get(name) == patches["settings"].get(name) for name in same)


@pytest.mark.parametrize(
    "name", [f"{data}-{name}" for data, names in inside.DRAWN.items() for name in names]
)
def test_the_pictures_are_small(name: str) -> None:
    path = inside.FIGURES / f"{name}.png"
    assert f"](figures/{name}.png)" in PAGE
    assert path.stat().st_size < 150_000
    with Image.open(path) as picture:
        assert picture.size[0] == 1600
