"""Patch features: equal to what is computed patch by patch, learnt once, then frozen."""

from __future__ import annotations

import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from redunet import DataError, LearntFeaturesWarning, ReduNetClassifier, SettingsError
from redunet.features import FeatureMap, Mirrored, PatchFilters
from redunet.features.base import restore


def textures(n: int, side: int = 14, channels: int = 3, seed: int = 0) -> NDArray[np.uint8]:
    """Noise, made smooth along a direction of its own in each image."""
    random = np.random.default_rng(seed)
    images = random.standard_normal((n, side, side, channels))
    for index, image in enumerate(images):
        for step in range(1, 3):
            image += np.roll(image, step, axis=index % 2)
    return np.clip(128 + 40 * images, 0, 255).astype(np.uint8)


IMAGES = textures(60)
FEATURES = PatchFilters.learn(IMAGES, seed=0, n_filters=10, patch_size=4, threshold=0.5)


def responses(features: PatchFilters, images: NDArray[np.uint8]) -> NDArray[np.float64]:
    """Products with the filters, patch by patch: (n, rows, columns, filters)."""
    size = features.patch_size
    filters = features.filters.numpy() / 2**24
    rows, columns = (side - size + 1 for side in images.shape[1:3])
    out = np.empty((len(images), rows, columns, len(filters)))
    for n, i, j in np.ndindex(out.shape[:3]):
        patch = images[n, i : i + size, j : j + size].astype(np.float64)
        patch = (patch - patch.mean()) / np.sqrt(patch.var() + 10)
        values = patch.reshape(size, size, -1).transpose(2, 0, 1).ravel()
        out[n, i, j] = filters @ values - features.offsets.numpy()
    return out


@pytest.mark.parametrize(
    ("shape", "cells"), [((14, 14, 3), 2), ((14, 14, 3), 3), ((14, 11), 1), ((9, 14), 2)]
)
def test_the_features_are_what_patch_after_patch_gives(shape: Any, cells: int) -> None:
    images = IMAGES[:, : shape[0], : shape[1]]
    images = np.ascontiguousarray(images if len(shape) == 3 else images[..., 0])
    features = PatchFilters.learn(images, 1, 6, 4, cells=cells, threshold=0.3)
    assert features.n_features == 2 * 6 * cells**2
    t = responses(features, images[:4])
    of_row, of_column = (np.arange(s - 3) * cells // (s - 3) for s in shape[:2])
    expected = np.zeros((4, 6, 2, cells, cells))
    for i, j in np.ndindex(t.shape[1:3]):
        expected[:, :, 0, of_row[i], of_column[j]] += np.maximum(t[:, i, j] - 0.3, 0)
        expected[:, :, 1, of_row[i], of_column[j]] += np.maximum(-t[:, i, j] - 0.3, 0)
    mine = features(torch.from_numpy(images[:4]))
    np.testing.assert_allclose(mine, expected.reshape(4, -1), atol=2e-2)
    assert expected.mean() > 1


def test_windows_weigh_the_responses_of_all_patches() -> None:
    features = PatchFilters.learn(IMAGES, 1, 6, 4, cells=2, threshold=0.3, window=2.5)
    t = responses(features, IMAGES[:4])
    far = np.arange(11)[:, None] + 0.5 - (np.arange(2) + 0.5) * 5.5
    weights = np.round(32 * np.exp(-((far / 2.5) ** 2) / 2)) / 32
    sides = np.stack([np.maximum(t - 0.3, 0), np.maximum(-t - 0.3, 0)], axis=-1)
    expected = np.einsum("nijfs,ia,jb->nfsab", sides, weights, weights).reshape(4, -1)
    mine = features(torch.from_numpy(IMAGES[:4]))
    np.testing.assert_allclose(mine, expected, atol=2e-2)
    assert torch.equal(
        mine, torch.cat([features(torch.from_numpy(IMAGES[i : i + 1])) for i in range(4)])
    )


def test_maps_without_a_window_are_saved_as_before() -> None:
    values, _ = FEATURES.to_state()
    assert "window" not in values
    windows = PatchFilters.learn(IMAGES, 0, 4, 4, window=3.0)
    again = restore("patch-filters", *windows.to_state())
    assert isinstance(again, PatchFilters)
    assert again.window == 3.0


@pytest.mark.parametrize("window", [0.0, 2.5])
@pytest.mark.parametrize("images", [IMAGES, IMAGES[..., 0]], ids=["colour", "grey"])
def test_padding_is_zeros_around_the_image(images: Any, window: float) -> None:
    features = PatchFilters.learn(images, 1, 6, 4, cells=3, window=window, padding=3)
    around = np.pad(images, [(0, 0), (3, 3), (3, 3), (0, 0)][: images.ndim])
    wide = replace(features, input_shape=around.shape[1:], padding=0)
    assert torch.equal(features(torch.from_numpy(images)), wide(torch.from_numpy(around)))
    from_wide = PatchFilters.learn(around, 1, 6, 4, cells=3, window=window)
    assert torch.equal(features.filters, from_wide.filters)
    again = restore("patch-filters", *features.to_state())
    assert isinstance(again, PatchFilters)
    assert again.padding == 3
    assert "padding" not in wide.to_state()[0]


def test_a_filter_answers_most_to_the_patch_it_was() -> None:
    patches = np.random.default_rng(1).integers(0, 256, (8, 5, 5), dtype=np.uint8)
    features = PatchFilters.learn(patches, 0, 80, 5, cells=1, n_patches=100_000)
    t = responses(features, patches).reshape(8, 80)
    assert len(set(t.round(4).argmax(axis=1))) == len(torch.unique(features.filters, dim=0)) == 8
    # Its length once whitened, by the definition.
    flat = patches.reshape(8, 25) - patches.mean(axis=(1, 2))[:, None]
    flat /= np.sqrt(flat.var(axis=1, keepdims=True) + 10)
    centred = flat - flat.mean(axis=0)
    precision = np.linalg.inv(np.cov(flat.T, bias=True) + 0.1 * np.eye(25))
    lengths = np.sqrt(np.einsum("ni,ij,nj->n", centred, precision, centred))
    np.testing.assert_allclose(t.max(axis=1), lengths, rtol=0.02)


@pytest.mark.parametrize("features", [FEATURES, Mirrored(FEATURES)], ids=["plain", "mirrored"])
def test_the_bits_of_an_image_are_its_own(features: FeatureMap) -> None:
    batch = torch.from_numpy(IMAGES)
    whole = features(batch)
    for size in (1, 7, 59):
        parts = [features(part) for part in torch.split(batch, size)]
        assert torch.equal(torch.cat(parts), whole)
    order = torch.from_numpy(np.random.default_rng(3).permutation(60))
    assert torch.equal(features(batch[order]), whole[order])
    assert torch.equal(features(batch.to(torch.float32)), whole)
    assert torch.equal(features(torch.from_numpy(np.asfortranarray(IMAGES))), whole)
    threads = torch.get_num_threads()
    try:
        for number in (1, 2, 3):
            torch.set_num_threads(number)
            assert torch.equal(features(batch), whole)
    finally:
        torch.set_num_threads(threads)


def test_a_model_holds_its_filters_and_says_that_they_stay(tmp_path: Path) -> None:
    labels = np.arange(60) % 3
    model = ReduNetClassifier(n_layers=2, features=FEATURES).fit(IMAGES, labels)
    model.save(tmp_path / "model")
    again = ReduNetClassifier.load(tmp_path / "model")
    assert isinstance(again.features, PatchFilters)
    assert torch.equal(again.features.filters, FEATURES.filters)
    assert np.array_equal(again.predict_proba(IMAGES), model.predict_proba(IMAGES))
    with pytest.warns(LearntFeaturesWarning, match="stays as it is"):
        again.forget([2])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.partial_fit(IMAGES, labels)


def test_what_cannot_be_meant_is_refused() -> None:
    with pytest.raises(DataError, match="expected whole pixel values"):
        FEATURES(torch.rand(1, 14, 14, 3))
    with pytest.raises(DataError, match="expected whole pixel values"):
        PatchFilters.learn(IMAGES / 255, 0, 4)
    with pytest.raises(SettingsError, match="expected filters in whole numbers"):
        PatchFilters((14, 14, 3), FEATURES.filters + 0.5, FEATURES.offsets, 4, 2, 1.0)
    with pytest.raises(DataError, match="got none"):
        PatchFilters.learn(IMAGES[:0], 0, 4)
    with pytest.raises(DataError, match="expected at least 4 patches that are not flat"):
        PatchFilters.learn(np.full_like(IMAGES, 7), 0, 4)
    with pytest.raises(SettingsError, match="n_filters, patch_size and cells of at least 1"):
        PatchFilters.learn(IMAGES, 0, 0)
    with pytest.raises(SettingsError, match="expected samples of shape such as"):
        PatchFilters.learn(IMAGES.reshape(60, -1), 0, 4)
    for wrong in (13, 15, 1000):
        with pytest.raises(SettingsError, match=f"got patch_size={wrong} in images"):
            PatchFilters.learn(IMAGES, 0, 4, wrong, cells=3)
    with pytest.raises(SettingsError, match="expected source to be random or kmeans, got 'pca'"):
        PatchFilters.learn(IMAGES, 0, 4, source="pca")  # type: ignore[arg-type]
    with pytest.raises(SettingsError, match="expected threshold to be a number from 0 on"):
        PatchFilters.learn(IMAGES, 0, 4, threshold=-1.0)
    with pytest.raises(SettingsError, match="expected padding to be a whole number from 0 on"):
        PatchFilters.learn(IMAGES, 0, 4, padding=6)
    with pytest.raises(SettingsError, match="expected window to be a number from 0 on, got -1"):
        PatchFilters.learn(IMAGES, 0, 4, window=-1.0)
    with pytest.raises(SettingsError, match=r"expected filters .* of shape \(10, 48\), got"):
        PatchFilters((14, 14, 3), FEATURES.filters[:, :9], FEATURES.offsets, 4, 2, 1.0)
