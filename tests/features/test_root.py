"""Roots of features: the nearest on their grid, whatever a device makes of a root."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from redunet.errors import DataError
from redunet.features import FeatureMap, PatchFilters, Scattering, SquareRoot
from redunet.features.exact import rounded_root
from redunet_lab.experiment import Plan

IMAGES = np.random.default_rng(0).integers(0, 256, (40, 14, 14), dtype=np.uint8)
MAPS: dict[str, FeatureMap] = {
    "patches": PatchFilters.learn(IMAGES, seed=0, n_filters=6, patch_size=4),
    "scattering": Scattering((14, 14), 2),
}


@pytest.mark.parametrize("name", MAPS)
def test_roots_are_the_nearest_on_their_grid(name: str) -> None:
    features, images = MAPS[name], torch.from_numpy(IMAGES)
    plain = features(images)
    mine = SquareRoot(plain.shape[1])(plain)
    squares = [round(value * 2**32) for value in plain.flatten().tolist()]
    # √M to the nearest is half of √(4 M) to the next below, rounded up.
    expected = [(math.isqrt(4 * M) + 1) // 2 / 2**16 for M in squares]
    assert mine.flatten().tolist() == expected
    np.testing.assert_allclose(mine, plain.sqrt(), atol=2.0**-16)
    assert float(mine.max()) > 3


@pytest.mark.parametrize("bits", [1, 8, 16, 24, 25, 26])
def test_roots_next_to_halves_and_whole_numbers_are_rounded_rightly(bits: int) -> None:
    random = np.random.default_rng(bits)
    k = random.integers(2 ** (bits - 1), 2**bits, 2000)
    for number in (k * k + k, k * k + k + 1, k * k - 1, k * k, k * k + 1, 0 * k):
        expected = [(math.isqrt(4 * x) + 1) // 2 for x in number.tolist()]
        assert rounded_root(torch.from_numpy(number.astype(np.float64))).tolist() == expected


@pytest.mark.parametrize("features", ["patches", "scattering"])
@pytest.mark.parametrize("standardized", [False, True])
def test_a_plan_takes_roots_before_it_standardizes(features: str, standardized: bool) -> None:
    plan = Plan(
        features=features,
        n_filters=5,
        patch_size=4,
        n_scales=1,
        standardized=standardized,
        fit_features_on="first-task",
    )
    images = np.random.default_rng(1).integers(0, 256, (30, 8, 8), dtype=np.uint8)
    plain = plan.changed({"standardized": False}).features_from(images)
    rooted = plan.changed({"sqrt": True}).features_from(images)
    expected = SquareRoot(plain.n_features)(plain(torch.from_numpy(images)))
    if standardized:
        deviation = expected.std(dim=0, correction=0)
        expected = (expected - expected.mean(dim=0)) / deviation.where(deviation > 0, 1)
    np.testing.assert_allclose(rooted(torch.from_numpy(images)), expected, atol=1e-4)


def test_a_negative_feature_has_no_root() -> None:
    with pytest.raises(DataError, match="expected features of at least 0 to take roots of, got -1"):
        SquareRoot(2)(torch.tensor([[1.0, -1.0]]))
