"""What is said of recipes is what the records say, and training data chose them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from redunet_lab.methods import TITLES as NAMES
from tests.records import READOUTS, RECIPES, RESULTS, ROOT, last_of_recipe, record

RIVALS = ("lda", "ridge", "qda")
CLOSED_FORM = (*RIVALS, "pairwise")
"""With pairwise LDA, which has its default ridge and was not tuned."""
MARKS = {
    "images-best-cifar10": ("CIFAR-10", 0.83),
    "images-plain-fashion_mnist": ("Fashion-MNIST", 0.941),
    "images-written-mnist": ("MNIST", 0.9948),
    "images-fixed-mnist": ("MNIST", 0.9955),
}
SMALL = {
    "images-small-cifar10": "CIFAR-10",
    "images-small-fashion_mnist": "Fashion-MNIST",
}
WITHOUT_LAYERS = ("images-plain-fashion_mnist", "images-written-mnist")
"""Their other read-outs are their rivals, and are tuned as read-outs."""
CHOSEN = ("n_layers", "eps", "step", "sharpness", "readout", "ridge")
SPLITS = ("", "-1", "-2")
"""Of the training images of MNIST, on which the read-out of `images-fixed` was chosen."""


def first_run(whole: dict[str, Any]) -> Any:
    """The network's run with the first seed."""
    return whole["methods"][0]["runs"][0]


def chosen_for(name: str, rival: str) -> dict[str, Any]:
    """The settings of a rival that were best on held-out training data, and their accuracy."""
    if name not in WITHOUT_LAYERS:
        best: dict[str, Any] = record(f"tune/{name}-{rival}")["chosen"]["held_out"]
        return best
    candidates = record(f"tune/{name}-rivals")["candidates"]  # the best come first
    best = next(one for one in candidates if one["readout"] == READOUTS[rival])
    return {**best, "shrinkage": best["ridge"]}


def on_splits() -> dict[tuple[str, float], list[float]]:
    """Held-out accuracies of the read-outs that were tried on all splits, by name and ridge."""
    found: dict[tuple[str, float], list[float]] = {}
    for split in SPLITS:
        for one in record(f"tune/images-fixed-mnist-readouts{split}")["candidates"]:
            key = (one["readout"], one["ridge"])
            found.setdefault(key, []).append(one["held_out_accuracy"])
    return {key: each for key, each in found.items() if len(each) == len(SPLITS)}


def tuning(name: str) -> Any:
    """The record of held-out accuracies that has the recipe as it was run."""
    return record(f"tune/{name}-{'readouts' if name == 'images-fixed-mnist' else 'redunet'}")


def held_out(name: str) -> dict[str, float]:
    """Accuracies on held-out training data: of the recipe as it was run, and of its rivals."""
    methods = {one["method"]: one["settings"] for one in record(name)["methods"]}
    settings = methods["redunet"]
    held = {
        method: chosen_for(name, method)["held_out_accuracy"]
        for method in RIVALS
        if method in methods
    }
    tuned = tuning(name)
    (held["redunet"],) = (
        candidate["held_out_accuracy"]
        for candidate in tuned["candidates"]
        if all({**tuned["settings"], **candidate}[key] == settings[key] for key in CHOSEN)
    )
    return held


@pytest.mark.parametrize("name", MARKS)
def test_recipes_reach_their_marks(name: str) -> None:
    _, mark = MARKS[name]
    assert last_of_recipe(name)["redunet"] >= mark
    runs = next(one for one in record(name)["methods"] if one["method"] == "redunet")["runs"]
    assert len(runs) == (1 if name == "images-fixed-mnist" else 3)  # nothing is random there


@pytest.mark.parametrize("name", [*MARKS, *SMALL])
def test_the_network_is_ahead_of_its_rivals_by_what_the_table_says(name: str) -> None:
    title = SMALL[name] if name in SMALL else MARKS[name][0]
    cells = [f"{title}, {record(name)['recipe']}"]
    for accuracies in (held_out(name), last_of_recipe(name)):
        rivals = [method for method in CLOSED_FORM if method in accuracies]
        best = max(rivals, key=lambda method: accuracies[method])
        assert accuracies["redunet"] > accuracies[best] - 0.00015
        cells += [f"{accuracies['redunet']:.4f}", f"{accuracies[best]:.4f} ({NAMES[best]})"]
    assert f"| {' | '.join(cells)} |" in RECIPES


def test_the_words_about_recipes_are_the_records() -> None:
    words = " ".join(RESULTS.split())
    ahead = {
        name: f"{last['redunet'] - max(last[key] for key in last if key in CLOSED_FORM):.4f}"
        for name in (*MARKS, *SMALL)
        for last in [last_of_recipe(name)]
    }
    cifar, fashion, _, mnist, small_cifar, small_fashion = ahead.values()
    assert (
        f"ahead by {cifar} on CIFAR-10, by {fashion} on Fashion-MNIST and by {mnist} on MNIST"
        in words
    )
    sizes = [f"{first_run(record(name))['n_features']:,}" for name in SMALL]
    assert f"with {sizes[0]} of them on CIFAR-10 and {sizes[1]} on Fashion-MNIST" in words
    assert f"it is ahead by {small_cifar} and {small_fashion}" in words
    spaced = " ".join(RECIPES.split())
    layered = [name for name in MARKS if name not in WITHOUT_LAYERS]
    leads = [abs(round(10_000 * float(ahead[name]))) for name in layered]
    assert f"the difference is at most {max(leads)} images in ten thousand" in spaced
    fast = last_of_recipe("images-fast-mnist")
    assert f"with `images-fast`, LDA is ahead by {fast['lda'] - fast['redunet']:.4f})" in spaced
    digits = last_of_recipe("directions-digits")
    alone = next(
        row["accuracy"]
        for row in record("directions-digits")["ablation"]
        if (row["n_layers"], row["readout"], row["whitening"]) == (0, "discriminant", None)
    )
    assert f"reaches {alone:.3f} alone and {digits['redunet']:.3f} after five layers" in spaced
    assert f"there QDA reaches {digits['qda']:.3f}, and nearest subspace" in spaced
    assert f"with 8 components {digits['subspace']:.3f}" in spaced


def test_the_words_about_coding_lengths_are_the_records() -> None:
    def best(name: str, **settings: Any) -> float:
        return max(
            float(candidate["held_out_accuracy"])
            for candidate in record(f"tune/{name}")["candidates"]
            if settings.items() <= candidate.items()
        )

    words = " ".join(RECIPES.split())
    coding = best("mnist-pixels-coding", readout="coding")
    subspace, discriminant = (
        best("mnist-pixels-readouts", readout=readout) for readout in ("subspace", "discriminant")
    )
    assert (
        f"it reaches {coding:.3f} without layers, nearest subspace {subspace:.3f} and the "
        f"discriminant {discriminant:.3f}" in words
    )
    alone = best("images-small-cifar10-coding", n_layers=0)
    assert f"on CIFAR-10's {alone:.3f} without layers, more than any rival" in words
    assert alone > max(held_out("images-small-cifar10")[method] for method in RIVALS)


@pytest.mark.parametrize("name", [*MARKS, "images-fast-mnist"])
def test_what_was_chosen_for_a_recipe_is_what_was_run(name: str) -> None:
    settings = record(name)["methods"][0]["settings"]
    tuned = record(f"tune/{name}-redunet")
    chosen = {**tuned["settings"], **tuned["chosen"]["held_out"]}
    if name == "images-fixed-mnist":  # its read-out was chosen later, on three splits
        tried = on_splits()
        chosen["readout"], chosen["ridge"] = max(tried, key=lambda key: sum(tried[key]))
    assert {key: settings[key] for key in CHOSEN} == {key: chosen[key] for key in CHOSEN}


@pytest.mark.parametrize("name", [*MARKS, *SMALL, "images-fast-mnist"])
def test_what_was_chosen_for_rivals_is_what_was_run(name: str) -> None:
    for method in record(name)["methods"]:
        if method["method"] in RIVALS:
            best = chosen_for(name, method["method"])
            assert method["settings"].items() <= best.items()


def test_the_small_recipe_saves_most_of_its_rivals_errors() -> None:
    """Of all settings tried on both data sets, added up over them."""
    saved: dict[tuple[Any, ...], float] = {}
    for name in SMALL:
        held = held_out(name)
        rival = max(held[method] for method in RIVALS)
        for candidate in record(f"tune/{name}-redunet")["candidates"]:
            key = tuple(candidate[setting] for setting in CHOSEN)
            share = (candidate["held_out_accuracy"] - rival) / (1 - rival)
            saved[key] = saved.get(key, 0.0) + share
    settings = record("images-small-cifar10")["methods"][0]["settings"]
    assert max(saved, key=lambda key: saved[key]) == tuple(settings[key] for key in CHOSEN)


@pytest.mark.parametrize(
    "names",
    [
        ["scattering-fashion_mnist"],
        ["images-fast-mnist"],
        ["directions-digits"],
        [*SMALL],
    ],
    ids=lambda n: n[0],
)
def test_nearest_subspace_has_the_components_that_serve_it_best(names: list[str]) -> None:
    accuracy: dict[int, float] = {}
    for name in names:
        for candidate in record(f"tune/{name}-subspace")["candidates"]:
            r = candidate["n_components"]
            accuracy[r] = accuracy.get(r, 0.0) + candidate["held_out_accuracy"]
    for name in names:
        earlier = "earlier/" if name.startswith("scattering") else ""
        settings = record(f"{earlier}{name}")["methods"][0]["settings"]
        assert settings["n_components"] == max(accuracy, key=lambda r: accuracy[r])


def test_the_small_recipe_reaches_the_same_on_processor_and_gpu() -> None:
    on_gpu, on_processor = (record(f"images-small-fashion_mnist{where}") for where in ("", "-cpu"))
    assert first_run(on_gpu)["machine"]["gpu"] == "NVIDIA H200"
    assert first_run(on_processor)["machine"]["gpu"] is None

    def accuracies(whole: dict[str, Any]) -> Any:
        return {
            one["method"]: [task["accuracy"] for task in one["runs"][0]["tasks"]]
            for one in whole["methods"]
        }

    assert accuracies(on_gpu) == accuracies(on_processor)


@pytest.mark.parametrize("name", ["earlier/regression-mnist", *SMALL, "directions-digits"])
def test_recipes_equal_joint_training_on_real_data(name: str) -> None:
    found = first_run(record(name))["joint"]["equivalence"]
    assert found == {"moments": True, "network": True, "file": True, "labels_that_differ": 0}


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("images-best-cifar10", "the model file has {:.1f} GB"),
        *((name, "the model file has {:.1f} GB") for name in WITHOUT_LAYERS),
        ("images-small-cifar10", "the model files have {:.1f} GB"),
    ],
)
def test_the_sizes_of_model_files_are_those_of_the_moments(name: str, words: str) -> None:
    size = first_run(record(name))["tasks"][-1]["bytes"]["moments"] / 1e9
    assert words.format(size) in " ".join(RECIPES.split())


def test_pairs_are_ahead_by_little_on_held_out_images_of_mnist() -> None:
    tried = on_splits()
    regression, pairs = tried["regression", 0.001], tried["pairwise", 0.01]
    shown = {
        name: "{:.4f}, {:.4f} and {:.4f}".format(*each)
        for name, each in (("regression", regression), ("pairs", pairs))
    }
    words = " ".join(RECIPES.split())
    assert (
        f"regression with the ridge 0.001 reached {shown['regression']} (mean "
        f"{np.mean(regression):.4f}), pairs with 0.01 {shown['pairs']} (mean {np.mean(pairs):.4f})"
        in words
    )
    assert round(10_000 * (sum(pairs) - sum(regression))) == 3
    assert "by three images of 30,000" in words
    before = record("earlier/regression-mnist")["methods"][0]
    assert (before["settings"]["readout"], before["settings"]["ridge"]) == ("regression", 0.001)
    (rival,) = (
        one for one in record("images-fixed-mnist")["methods"] if one["method"] == "pairwise"
    )
    assert f"Pairwise LDA has its default ridge, {rival['settings']['ridge']}." in words
    reached = last_of_recipe("earlier/regression-mnist")
    assert reached["lda"] == reached["ridge"]
    assert (
        f"With regression and the ridge 0.001, as the recipe had it before, the network reached "
        f"{reached['redunet']:.4f}, LDA and ridge {reached['lda']:.4f}" in words
    )


def test_more_maps_are_more_accurate_on_held_out_images() -> None:
    found: dict[int, float] = {}
    for one in record("tune/images-ensemble-cifar10-maps")["candidates"]:  # the best come first
        found.setdefault(one["n_maps"], one["held_out_accuracy"])
    assert found[1] < found[2] < found[4]
    words = " ".join((ROOT / "results" / "images.md").read_text(encoding="utf-8").split())
    assert f"reach {found[1]:.4f}, {found[2]:.4f} and {found[4]:.4f}" in words
