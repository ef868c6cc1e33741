"""Accuracy over the number of features: what is measured, what is interpolated, what is told."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from benchmarks import widths, widths_page
from benchmarks.widest_features import WidestFeatures, vectors_of
from redunet.core.grid import unit_rows
from redunet.errors import SettingsError
from redunet.features import PatchFilters, Together
from redunet_lab.experiment import Experiment

pytestmark = pytest.mark.usefixtures("one_thread")
IMAGES = np.random.default_rng(0).integers(0, 256, (40, 10, 9, 3)).astype(np.uint8)


def two_sizes(n_filters: int, seed: int = 0) -> Together:
    return Together(
        tuple(PatchFilters.learn(IMAGES[:20], seed, n_filters, size, cells=1) for size in (3, 4))
    )


@pytest.mark.parametrize("seed", [0, 1])
def test_the_features_of_fewer_filters_are_the_first_ones(seed: int) -> None:
    narrow = two_sizes(5, seed)
    parts = WidestFeatures(two_sizes(12, seed), IMAGES, "cpu").narrowed(narrow)
    assert [part.shape for part in parts] == [(40, 10), (40, 10)]
    assert all(part.base is not None for part in parts)  # views: nothing was computed again
    rows = np.array([3, 0, 39])
    expected = narrow(torch.from_numpy(IMAGES[rows]))
    assert vectors_of(parts, rows) == pytest.approx(expected.numpy(), abs=1e-6)


def test_other_filters_are_computed_again() -> None:
    other = two_sizes(5, seed=1)
    parts = WidestFeatures(two_sizes(12), IMAGES, "cpu").narrowed(other)
    expected = other(torch.from_numpy(IMAGES))
    assert vectors_of(parts, np.arange(40)) == pytest.approx(expected.numpy(), abs=1e-6)
    alone = WidestFeatures(other.parts[0], IMAGES, "cpu").narrowed(other.parts[0])
    found = torch.from_numpy(vectors_of(alone, np.arange(40)))
    assert unit_rows(found).numpy() == pytest.approx(expected[:, :10].numpy(), abs=1e-6)


@given(st.lists(st.floats(0.1, 0.99), min_size=2, max_size=6), st.floats(0.1, 0.99))
def test_the_width_is_where_the_line_reaches_the_accuracy(values: list[float], at: float) -> None:
    features = [100 * 2**i for i in range(len(values))]
    found = widths.width_reaching(features, values, at)
    if math.isinf(found):
        assert max(values) < at
    elif found == features[0]:
        assert values[0] >= at or math.isclose(values[0], at)
    else:
        there = np.interp(math.log(found), np.log(features), values)
        assert there == pytest.approx(at)
        assert all(v < at for f, v in zip(features, values, strict=True) if f < found * 0.999)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The record of a small run on digits."""
    out = tmp_path_factory.mktemp("widths") / "record.json"
    words = "digits images-fast --filters 6,3 --wider 9 --per-class 60 --held-out 20 --seeds 0,1"
    words += " --set patch_size=3 --set cells=2 --device cpu"
    widths.main([*words.split(), "--out", str(out)])
    found: dict[str, Any] = json.loads(out.read_text())
    return found


def test_a_record_of_digits(made: dict[str, Any]) -> None:
    assert [row["features"] for row in made["summary"]] == [24, 48, 72]
    assert len(made["rows"]) == 6
    assert made["seeds"] == [0, 1]
    assert made["settings"]["train_per_class"] == 60
    assert {"date", "machine", "versions", "command"} <= made.keys()
    for row in made["rows"]:
        methods = {widths.NETWORK, *widths.CLOSED} if row["filters"] < 9 else set(widths.CLOSED)
        assert row["accuracy"].keys() == methods
        for method, values in row["tried"].items():
            assert len(values) == len(widths.RIDGES)
            assert row["accuracy"][method] == max(values.values())  # a maximum, for each alike
    first = made["summary"][0]
    of_seeds = [row["accuracy"]["LDA"] for row in made["rows"] if row["filters"] == 3]
    assert first["accuracy"]["LDA"] == pytest.approx(np.mean(of_seeds))
    assert first["deviation"]["LDA"] == pytest.approx(np.std(of_seeds, ddof=1))
    assert "closed_form_features" not in made["summary"][-1]


def test_the_network_is_that_of_the_recipe(made: dict[str, Any]) -> None:
    """On the features of the map itself, and the same held-out images."""
    from redunet_lab.streams import pooled
    from redunet_lab.tuning import held_out_rows

    changes = {"train_per_class": 60, "patch_size": 3, "cells": 2, "n_filters": 6}
    experiment = Experiment.of("digits", recipe="images-fast", changes=changes)
    tasks = experiment.tasks(experiment.load())
    x, y = pooled(tasks, "train")
    out = held_out_rows(y, 20, 0)
    features = experiment.plan.features_from(x[~out & np.isin(y, tasks[0].classes)])
    model = experiment.plan.learner(features, "cpu").fit(x[~out], y[~out])
    row = next(row for row in made["rows"] if (row["filters"], row["seed"]) == (6, 0))
    tried = row["tried"][widths.NETWORK]["1e-05"]  # the recipe's own ridge
    assert model.score(x[out], y[out]) == pytest.approx(tried, abs=1.5 / out.sum())


def test_a_recipe_without_filters_is_refused() -> None:
    experiment = Experiment.of("digits", recipe="images-small", changes={"n_scales": 1})
    with pytest.raises(SettingsError, match="features grow with n_filters, got images-small"):
        widths.measured(experiment, [2, 3], 20, device="cpu")


def row(features: int, network: float | None, closed: float) -> dict[str, Any]:
    accuracy = dict.fromkeys(widths.CLOSED, closed) | {"LDA": closed + 0.01}
    accuracy |= {} if network is None else {widths.NETWORK: network}
    return {"filters": features // 10, "features": features, "accuracy": accuracy, "seed": 0}


def test_what_is_said_of_widths() -> None:
    found = widths.summary([row(100, 0.65, 0.6), row(400, 0.8, 0.69), row(1600, None, 0.74)])
    assert [one.get("closed_form_features") for one in found] == [185, None, None]
    said = widths.sentence(found, "it")
    assert "the network of 400 features labels 0.8000 of the held-out images correctly" in said
    assert "(LDA) 0.7000" in said
    assert "0.6500, a closed form reaches with about 185, 1.85 times as many." in said
    assert said.endswith("with 400 features no closed form reaches with up to 1,600.")
    table = widths_page.table({"summary": found, "sentence": said, "command": "it"})
    assert "| 10 | 100 | **0.6500** | 0.6100 | 0.6000 | 0.6000 | 185 features |" in table
    assert "| more than 1,600 |" in table
    assert "| 160 | 1,600 | – | 0.7500 | 0.7400 | 0.7400 | – |" in table


def test_the_page_says_what_was_measured(tmp_path: Path) -> None:
    page = widths_page.PAGE.read_text(encoding="utf-8")
    names = widths_page.records(page)
    assert names
    assert widths_page.filled(page) == page
    for name in names.values():
        record = widths_page.read(name)
        assert f"{record['sentence']} (`{record['command']}`)" in page
        assert record["sentence"] == widths.sentence(
            record["summary"], record["what"].split(", ")[1]
        )
        assert f"](figures/{name}.png)" in page
        assert widths_page.picture(name).stat().st_size < 100_000
        widths_page.figure(record).savefig(tmp_path / "drawn.png")
