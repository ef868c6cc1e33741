"""What is said of recipes of several maps is what their records say."""

from __future__ import annotations

import numpy as np

from redunet_lab import recipes as lab_recipes
from redunet_lab.methods import CHOSEN as RIVALS_CHOSEN
from tests.records import READOUTS, RECIPES, RESULTS, last_of_recipe, record


def test_the_mean_of_four_networks_is_what_its_record_says() -> None:
    whole = record("images-ensemble-cifar10")
    network = next(one for one in whole["methods"] if one["method"] == "redunet")
    last = last_of_recipe("images-ensemble-cifar10")
    assert last["redunet"] >= 0.86
    assert [run["seed"] for run in network["runs"]] == [0, 1, 2]
    settings = lab_recipes.settings("images-ensemble")
    assert settings.items() <= network["settings"].items()
    assert settings["n_layers"] == 0
    behind = last["lda"] - last["redunet"]
    words = " ".join(RECIPES.split())
    assert f"is ahead of it by {behind:.4f}, less than one seed differs from another" in words
    finals = [run["tasks"][-1]["accuracy"] for run in network["runs"]]
    assert behind < np.ptp(finals)
    assert f"LDA is ahead of it by {behind:.4f} on test images" in words
    assert f"LDA averaged over the same maps is ahead of it by {behind:.4f} (" in " ".join(
        RESULTS.split()
    )
    run = network["runs"][0]
    assert f"of which it takes {run['peak_device_memory_bytes'] / 1e9:.1f} GB;" in words
    assert f"{run['peak_memory_bytes'] / 1e9:.0f} GB of main memory and five minutes" in words


def test_the_mean_of_four_networks_and_its_rival_have_the_settings_that_tuning_found() -> None:
    settings = lab_recipes.settings("images-ensemble")
    networks, lda = (record(f"tune/images-ensemble-cifar10-{name}") for name in ("redunet", "lda"))
    words = " ".join(RECIPES.split())
    for tuned in (networks, lda):
        of_features = settings.keys() - {"n_layers", "readout", "ridge"}
        assert all(tuned["settings"][name] == settings[name] for name in of_features)
        assert tuned["chosen_on"].startswith("5000 training samples")
    held = {one["ridge"]: one["held_out_accuracy"] for one in networks["candidates"]}
    assert {one["readout"] for one in networks["candidates"]} == {settings["readout"]}
    assert max(held, key=lambda ridge: held[ridge]) == settings["ridge"]
    assert (
        f"{held[0.001]:.4f} with the ridge 0.001, {held[0.003]:.4f} with 0.003 and "
        f"{held[0.01]:.4f} with 0.01" in words
    )
    shrunk = {one["shrinkage"]: one["held_out_accuracy"] for one in lda["candidates"]}
    best = max(shrunk, key=lambda shrinkage: shrunk[shrinkage])
    assert RIVALS_CHOSEN["images-gpu", "cifar10"]["lda"] == {"shrinkage": best}
    assert (
        f"LDA {shrunk[0.001]:.4f} with the shrinkage 0.001 and {shrunk[0.003]:.4f} with 0.003"
        in words
    )
    first = last_of_recipe("earlier/images-ensemble-cifar10")
    assert f"reached {first['redunet']:.4f}, LDA {first['lda']:.4f} (" in words


def test_the_mean_of_four_small_networks_is_what_its_records_say() -> None:
    whole = record("images-ensemble-cpu-cifar10")
    methods = {one["method"]: one for one in whole["methods"]}
    settings, network = lab_recipes.settings("images-ensemble-cpu"), methods["redunet"]
    assert settings.items() <= network["settings"].items()
    assert [run["seed"] for run in network["runs"]] == [0, 2]
    assert all(run["machine"]["gpu"] is None for run in network["runs"])
    last = last_of_recipe("images-ensemble-cpu-cifar10")
    assert last["redunet"] >= 0.84 > last["lda"] > last["ridge"]
    ahead = f"{last['redunet'] - last['lda']:.4f}"
    words = " ".join(RECIPES.split())
    assert f"pairs are ahead of LDA on the same maps by {ahead}" in words
    assert f"two by two, is ahead of LDA by {ahead}." in " ".join(RESULTS.split())
    memory = max(run["peak_memory_bytes"] for run in network["runs"])
    assert f"(an hour of processor time a seed, {memory / 1e9:.1f} GB of memory" in words


def test_settings_of_small_networks_and_their_rivals_were_chosen_on_training_images() -> None:
    settings = lab_recipes.settings("images-ensemble-cpu")
    of_features = settings.keys() - {"n_layers", "readout", "ridge", "n_ensemble"}
    tuned = {
        name: record(f"tune/images-ensemble-cpu-cifar10-{name}")
        for name in ("redunet", "rivals", "layers")
    }
    for name, found in tuned.items():
        assert all(found["settings"][key] == settings[key] for key in of_features)
        assert found["settings"]["n_ensemble"] == (2 if name == "layers" else 3)
        assert found["chosen_on"].startswith("5000 training samples")
    best = tuned["redunet"]["chosen"]["held_out"]
    assert (best["readout"], best["ridge"]) == (settings["readout"], settings["ridge"])
    words = " ".join(RECIPES.split())
    rivals = {}
    for name, readout in READOUTS.items():
        ones = [one for one in tuned["rivals"]["candidates"] if one["readout"] == readout]
        rivals[name] = ones[0]["held_out_accuracy"]  # the best come first
        (chosen,) = RIVALS_CHOSEN["images-ensemble-cpu", "cifar10"][name].values()
        assert chosen == ones[0]["ridge"] == 0.00003
        small = [one["held_out_accuracy"] for one in ones if one["ridge"] <= 0.0003]
        assert round(max(small) - min(small), 4) <= 0.0012
    assert (
        f"pairs reach {best['held_out_accuracy']:.4f} there, LDA {rivals['lda']:.4f} and ridge "
        f"regression {rivals['ridge']:.4f}" in words
    )
    layers = {one["n_layers"]: one["held_out_accuracy"] for one in tuned["layers"]["candidates"]}
    assert f"one layer makes {layers[1]:.4f} of {layers[0]:.4f}" in words
    assert round(5000 * (layers[1] - layers[0])) == 7
