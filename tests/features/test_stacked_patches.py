"""Patches of patches: what two maps of patches give one after another, with the bits of each."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from redunet import DataError, SettingsError
from redunet.features import FeatureMap, Flatten, Mirrored, PatchFilters, StackedPatches
from tests.features.test_patches import responses, textures

IMAGES = textures(60)
FEATURES = StackedPatches.learn(IMAGES, 0, 10, patch_size=4, cells=3, threshold=0.2, window=4.0)


def sums(features: PatchFilters, images: NDArray[Any]) -> NDArray[np.float64]:
    """Sums in Gaussian windows, patch by patch: (n, filters, signs, rows, columns)."""
    around = ((0, 0), (features.padding,) * 2, (features.padding,) * 2, (0, 0))
    t = responses(features, np.pad(images, around))
    places, cells = t.shape[1], features.cells
    far = np.arange(places)[:, None] + 0.5 - (np.arange(cells) + 0.5) * places / cells
    weights = np.round(32 * np.exp(-((far / features.window) ** 2) / 2)) / 32
    sides = np.maximum(np.stack([t, -t], axis=-1) - features.threshold, 0)
    found: NDArray[np.float64] = np.einsum("nijfs,ia,jb->nfsab", sides, weights, weights)
    return found


def test_the_features_are_what_two_stages_give_patch_after_patch() -> None:
    first, second = FEATURES.first, FEATURES.second
    assert (first.cells, first.window, first.padding, second.window) == (7, 1.0, 2, 2.0)
    made = np.minimum(np.round(32 * np.sqrt(sums(first, IMAGES[:3]))), 255)
    assert 20 < made.max() < 255
    assert made.std() > 5
    images = made.reshape(3, 64, 7, 7).transpose(0, 2, 3, 1)
    expected = sums(second, images).reshape(3, -1)
    mine = FEATURES(torch.from_numpy(IMAGES[:3])).numpy()
    assert mine.shape == (3, 2 * 10 * 3 * 3)
    # A few responses of the first stage lie where rounding may go either way.
    np.testing.assert_allclose(mine, expected, atol=0.02 * expected.max())
    assert np.median(np.abs(mine - expected)) < 2e-3 * expected.mean()
    assert expected.mean() > 0.1


def test_large_responses_are_cut_off_at_the_largest_pixel() -> None:
    strong = replace(FEATURES.first, filters=(FEATURES.first.filters * 100).round())
    stacked = replace(FEATURES, first=strong)
    vectors = stacked(torch.from_numpy(IMAGES[:5]))
    assert bool(vectors.isfinite().all())
    assert not torch.equal(vectors, FEATURES(torch.from_numpy(IMAGES[:5])))


@pytest.mark.parametrize("wrapped", [lambda map_: map_, Mirrored], ids=["plain", "mirrored"])
def test_bits_do_not_depend_on_the_batch(wrapped: Any) -> None:
    many = torch.from_numpy(textures(600, seed=3))  # more than are treated at a time
    features: FeatureMap = wrapped(FEATURES)
    whole = features(many)
    order = torch.randperm(600, generator=torch.Generator().manual_seed(0))
    assert torch.equal(features(many[order]), whole[order])
    for size in (1, 7, 255):
        parts = torch.split(many[:300], size)
        assert torch.equal(torch.cat([features(part) for part in parts]), whole[:300])


def test_what_it_cannot_be_made_of_is_refused() -> None:
    with pytest.raises(SettingsError, match=r"images of shape \(7, 7, 64\), .* \(14, 14, 3\)"):
        StackedPatches(FEATURES.first, FEATURES.first)
    with pytest.raises(SettingsError, match="two maps of patches, got 'flatten'"):
        StackedPatches(FEATURES.first, Flatten((7, 7, 64)))  # type: ignore[arg-type]
    with pytest.raises(DataError, match="whole pixel values"):
        FEATURES(torch.from_numpy(IMAGES / 255))
    with pytest.raises(DataError, match="got none"):
        StackedPatches.learn(IMAGES[:0], 0, 4)
