"""Plans: features as they say, statistics of the first task alone, mistakes in one line."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from redunet import FileAccessError, SettingsError
from redunet.features import (
    Chain,
    Concatenate,
    FeatureMap,
    Mirrored,
    PatchFilters,
    Scattering,
    SquareRoot,
    StackedPatches,
    known_names,
)
from redunet_lab.datasets import load
from redunet_lab.experiment import Plan


@pytest.mark.parametrize("features", [name for name in known_names() if name != "pixels"])
def test_a_feature_map_sees_no_later_task(features: str) -> None:
    data = load("digits")
    plan = Plan(features=features, n_filters=5, patch_size=3, width=20, centred=True)
    later = np.isin(data.y_train, range(2, 10))
    x_train = np.where(later[:, None, None], 16 - data.x_train, data.x_train)
    changed = replace(data, x_train=x_train, x_test=data.x_test * 0)
    one, other = (plan.feature_map(plan.stream(d)) for d in (data, changed))
    assert states_equal(one, other)
    leaky = plan.changed({"fit_features_on": "whole-training-set"})
    assert not states_equal(*(leaky.feature_map(leaky.stream(d)) for d in (data, changed)))


def test_earlier_names_of_feature_maps_still_mean_the_same() -> None:
    assert Plan(features="standardize") == Plan(features="standardize-all")
    assert Plan(features="pixels+standardize-pixel").kinds == ["pixels", "standardize-columns"]
    assert not {"standardize", "standardize-pixel"} & {*known_names()}


def test_features_of_a_plan_have_its_settings() -> None:
    data = load("digits")
    plan = Plan(n_scales=1, pool=2, n_filters=6, patch_size=4, pool_cells=1, threshold=0.2, seed=3)
    plan = plan.changed({"mirrored": True, "sqrt": True})
    tasks = plan.stream(data)
    plain = Scattering((8, 8), J=1, pool=2)
    scattering = Chain(Mirrored(plain), SquareRoot(plain.n_features))
    assert (
        plan.changed(
            {"features": "scattering", "standardized": False, "fit_features_on": "nowhere"}
        ).feature_map(tasks)
        == scattering
    )
    chain = plan.changed({"features": "scattering"}).feature_map(tasks)
    vectors = chain(torch.from_numpy(tasks[0].x_train))
    np.testing.assert_allclose(vectors.mean(dim=0), 0, atol=1e-9)
    assert ((vectors.std(dim=0, correction=0) - 1).abs() < 1e-9).sum() > vectors.shape[1] / 2
    sources: dict[str, Any] = {"patches": "random", "patches-kmeans": "kmeans"}
    for features, source in sources.items():
        mine = plan.changed({"features": features, "standardized": False}).feature_map(tasks)
        expected = PatchFilters.learn(
            tasks[0].x_train,
            3,
            6,
            4,
            cells=1,
            threshold=0.2,
            source=source,
        )
        assert states_equal(mine, Chain(Mirrored(expected), SquareRoot(12)))


def test_features_side_by_side_are_each_as_the_plan_says() -> None:
    settings = {"n_scales": 2, "n_filters": 6, "patch_size": 4, "sqrt": True, "seed": 3}
    plan = Plan(standardized=False).changed(settings)
    tasks = plan.stream(load("digits"))
    several = plan.changed({"features": "patches+scattering+finer-scattering"})
    expected = [
        Chain(PatchFilters.learn(tasks[0].x_train, 3, 6, 4), SquareRoot(48)),
        *(
            Chain(plain, SquareRoot(plain.n_features))
            for J in (2, 1)
            for plain in [Scattering((8, 8), J)]
        ),
    ]
    assert states_equal(several.feature_map(tasks), Concatenate(tuple(expected)))
    assert several.random_features
    assert not plan.changed({"features": "pixels+scattering"}).random_features
    with pytest.raises(SettingsError, match="needs some to learn"):
        several.changed({"fit_features_on": "nowhere"})


def test_patches_of_several_sizes_have_draws_of_their_own() -> None:
    plan = Plan(features="patches-3+patches-5", n_filters=6, standardized=False, seed=3)
    tasks = plan.stream(load("digits"))
    images = tasks[0].x_train
    expected = [PatchFilters.learn(images, (3, size), 6, size) for size in (3, 5)]
    assert states_equal(plan.feature_map(tasks), Concatenate(tuple(expected)))
    assert plan.needs_images
    assert plan.random_features
    alone = plan.changed({"features": "patches", "patch_size": 3}).feature_map(tasks)
    assert not states_equal(alone, expected[0])


def test_stacked_patches_are_as_the_plan_says() -> None:
    how = {"n_filters": 6, "pool_cells": 3, "threshold": 0.2, "window": 3.0, "seed": 3}
    plan = Plan(features="stacked-patches-3", standardized=False, sqrt=True).changed(how)
    tasks = plan.stream(load("digits"))

    def learnt(seed: Any, size: int) -> Chain:
        images = tasks[0].x_train
        features = StackedPatches.learn(images, seed, 6, size, cells=3, threshold=0.2, window=3.0)
        return Chain(features, SquareRoot(108))

    assert states_equal(plan.feature_map(tasks), learnt((3, 3), 3))
    plain = plan.changed({"features": "stacked-patches", "patch_size": 4})
    assert states_equal(plain.feature_map(tasks), learnt(3, 4))
    assert plan.needs_images
    assert plan.random_features


@pytest.mark.parametrize(
    "features", ["patches-", "stacked-patches-", "patches-x", "patches-1.5", "pixels-3"]
)
def test_a_size_of_patches_is_a_whole_number(features: str) -> None:
    with pytest.raises(SettingsError, match="patches-N or stacked-patches-N with N the"):
        Plan(features=features)
    plan = Plan(features="patches-9", n_filters=2)
    with pytest.raises(SettingsError, match="got patch_size=9 in images of"):
        plan.feature_map(plan.stream(load("digits")))


def states_equal(one: FeatureMap, other: FeatureMap) -> bool:
    (values, tensors), (others, other_tensors) = one.to_state(), other.to_state()
    return values == others and all((other_tensors[k] == v).all() for k, v in tensors.items())


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("n_layer = 3", "got 'n_layer'"),
        ("features = 'wavelets'", "one of pixels, standardize"),
        ("fit_features_on = 'everything'", "one of first-task, whole-training-set, nowhere"),
        ("features = 'standardize'\nfit_features_on = 'nowhere'", "needs some to learn from"),
        ("features = 'patches'\nfit_features_on = 'nowhere'", "patches needs some to learn from"),
        ("features = 'scattering'\nfit_features_on = 'nowhere'", "scattering needs some"),
        ("standardized = 1", "expected standardized to be true or false, got 1"),
        ("mirrored = 1", "expected mirrored to be true or false, got 1"),
        ("root = 'yes'", "expected sqrt to be true or false, got 'yes'"),
        ("threshold = 'low'", "expected threshold to be a number, got 'low'"),
        ("n_scales = 0", "expected n_scales to be a whole number from 1 to 32, got 0"),
        ("n_layers = ", "is not a TOML file"),
    ],
)
def test_a_bad_plan_is_refused(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "plan.toml").write_text(text)
    with pytest.raises(SettingsError, match=message) as caught:
        Plan().changed_by_file(tmp_path / "plan.toml")
    assert "\n" not in str(caught.value)


def test_a_plan_from_a_file(tmp_path: Path) -> None:
    (tmp_path / "plan.toml").write_text("tasks = [[3, 1], [0]]\neps = 0.25\n")
    assert Plan().changed_by_file(tmp_path / "plan.toml") == Plan(tasks=((3, 1), (0,)), eps=0.25)
    with pytest.raises(FileAccessError, match=r"cannot read .*missing\.toml"):
        Plan().changed_by_file(tmp_path / "missing.toml")
