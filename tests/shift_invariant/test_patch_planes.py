"""Correlations with patches at every position."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from redunet.errors import DataError, SettingsError
from redunet.features import restore
from redunet.shift_invariant.patch_planes import PatchPlanes
from tests.small_images import images_of

GREY = images_of((10, 12), classes=2, per_class=8, seed=0)[0]
COLOUR = images_of((9, 8, 3), classes=2, per_class=8, seed=0)[0]


@pytest.mark.parametrize("images", [GREY, COLOUR], ids=["grey", "colour"])
@pytest.mark.parametrize("root", [False, True])
def test_values_are_correlations_with_patches(images: np.ndarray, root: bool) -> None:
    features = PatchPlanes.learn(images, 1, 3, 5, threshold=0.1, root=root)
    height, width = images.shape[1:3]
    planes = features(torch.from_numpy(images[:4])).reshape(4, 3, 2, height, width).numpy()
    filters = features.filters.numpy()
    for index in range(4):
        around = np.pad(
            images[index].astype(float), [(2, 2), (2, 2), (0, 0)][: images.ndim - 1], "wrap"
        )
        for row, column in ((0, 0), (4, 5), (height - 1, width - 1)):
            patch = around[row : row + 5, column : column + 5].reshape(25, -1).T.ravel()
            deviation = np.sqrt(patch.var() + 10)
            for f in range(3):
                unit = filters[f] / np.linalg.norm(filters[f])
                t = unit @ (patch - patch.mean()) / deviation / np.sqrt(len(patch))
                for sign, got in ((1, planes[index, f, 0]), (-1, planes[index, f, 1])):
                    wanted = max(sign * t - 0.1, 0.0)
                    found = got[row, column] ** (2 if root else 1)
                    assert found == pytest.approx(wanted, abs=2e-3)


@given(st.integers(-12, 12), st.integers(-12, 12))
@settings(max_examples=10, deadline=None)
def test_a_shifted_image_has_shifted_features_to_the_last_bit(down: int, right: int) -> None:
    features = PatchPlanes.learn(GREY, 0, 4, 6, root=True)
    X = torch.from_numpy(GREY)
    planes = features(X).reshape(len(X), 8, 10, 12)
    moved = features(X.roll((down, right), (1, 2))).reshape(len(X), 8, 10, 12)
    assert torch.equal(moved, planes.roll((down, right), (2, 3)))


def test_state_makes_the_same_map() -> None:
    features = PatchPlanes.learn(GREY, 3, 4, 5, threshold=0.2, root=True)
    again = restore(features.kind, *features.to_state())
    assert torch.equal(again(torch.from_numpy(GREY)), features(torch.from_numpy(GREY)))
    assert features.positions == (10, 12)
    assert features.n_features == 2 * 4 * 120
    assert features.learnt_from_data


def test_what_cannot_be_is_refused() -> None:
    with pytest.raises(DataError, match="expected at least 4 patches that are not flat"):
        PatchPlanes.learn(np.zeros((3, 9, 9), dtype=np.uint8), 0, 4, 5)
    with pytest.raises(SettingsError, match="expected patches of 2 to 1024 values that fit"):
        PatchPlanes.learn(GREY, 0, 4, 11)
    with pytest.raises(DataError, match="whole pixel values"):
        PatchPlanes.learn(GREY, 0, 4, 5)(torch.full((1, 10, 12), 0.5))
    with pytest.raises(SettingsError, match="expected root to be true or false"):
        PatchPlanes((10, 12), torch.ones(1, 25, dtype=torch.float64), 5, 0.0, 1)  # type: ignore[arg-type]
