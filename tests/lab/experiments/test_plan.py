"""Plans: features as they say, statistics of the first task alone, mistakes in one line."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from redunet import FileAccessError, SettingsError
from redunet.features import (
    Chain,
    Concatenate,
    FeatureMap,
    PatchFilters,
    Scattering,
    SquareRoot,
    known_names,
)
from redunet_lab.datasets import load
from redunet_lab.experiment import Plan


@pytest.mark.parametrize("features", ["standardize-all", "lift", "patches"])
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


def test_a_size_of_patches_is_a_whole_number() -> None:
    with pytest.raises(SettingsError, match="patches-N or stacked-patches-N with N the"):
        Plan(features="patches-1.5")
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
        ("features = 'patches'\nfit_features_on = 'nowhere'", "patches needs some to learn from"),
        ("root = 'yes'", "expected sqrt to be true or false, got 'yes'"),
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
