"""Subspaces of classes: shares, angles and what is taken for a picture."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.linalg import subspace_angles  # type: ignore[import-untyped]

from redunet import ReduNetClassifier
from redunet.core.readouts import NearestSubspace
from redunet.core.second_moments import SecondMoments
from redunet.core.subspaces import Subspaces
from redunet.estimators.inspection import (
    after_layers,
    before_layers,
    diagnostics,
    picture_shape,
)
from redunet.features import Flatten, GaussianLift, Standardize

Arrays = tuple[NDArray[Any], NDArray[Any]]


@given(st.integers(0, 2**31), st.integers(1, 4), st.integers(1, 4))
def test_angles_are_scipys(seed: int, one: int, other: int) -> None:
    rng = np.random.default_rng(seed)
    bases = [np.linalg.qr(rng.standard_normal((9, r)))[0] for r in (one, other)]
    spaces = Subspaces(torch.zeros(2, 1), [torch.from_numpy(basis) for basis in bases])
    expected = np.sort(np.rad2deg(subspace_angles(*bases)))
    assert spaces.angles(0, 1).numpy() == pytest.approx(expected, abs=1e-4)
    mean = math.sqrt(np.mean(np.cos(np.deg2rad(expected)) ** 2))
    assert float(spaces.closeness()[0, 1]) == pytest.approx(math.degrees(math.acos(mean)), abs=1e-4)


def test_subspaces_of_known_moments() -> None:
    Sigma = torch.diag(torch.tensor([1.0, 4.0, 0.0, 3.0], dtype=torch.float64))[None]
    spaces = Subspaces.of(SecondMoments.of_matrices(Sigma), n_components=4, n_values=4)
    assert spaces.spectra.tolist() == [[0.5, 0.375, 0.125, 0.0]]
    assert spaces.bases[0].abs().argmax(dim=0).tolist() == [1, 3, 0]  # rank three, no noise


def test_the_last_subspaces_are_those_of_the_read_out(small: Arrays) -> None:
    model = ReduNetClassifier(n_layers=5, n_components=4).fit(*small)
    readout = NearestSubspace.from_moments(model.network_.last_moments(), 4)
    before, after = (stage(model, 100, range(5)) for stage in (before_layers, after_layers))
    assert after.spectra.shape == (5, 12)
    for U, basis in zip(readout.U, after.bases, strict=True):
        assert (U @ U.mT - basis @ basis.mT).abs().max() < 1e-9
    assert before.spectra.sum(dim=1).tolist() == pytest.approx([1.0] * 5)
    # What the layers are for: classes further apart than they were.
    assert float(after.closeness().sum()) > float(before.closeness().sum())


@pytest.mark.parametrize("whitening", [None, 0.1])
def test_some_classes_are_as_they_are_among_all(small: Arrays, whitening: float | None) -> None:
    model = ReduNetClassifier(n_layers=3, n_components=4, whitening=whitening).fit(*small)
    for stage in (before_layers, after_layers):
        every, some = stage(model, 6, range(5)), stage(model, 6, [1, 4])
        assert torch.equal(some.spectra, every.spectra[[1, 4]])
        for basis, j in zip(some.bases, (1, 4), strict=True):
            assert torch.equal(basis, every.bases[j])


def test_pixels_are_known_from_the_feature_map() -> None:
    images = np.random.default_rng(0).integers(0, 256, (12, 6, 7)).astype(np.uint8)
    y = np.arange(12) % 2
    for features in (Flatten((6, 7)), Standardize.learn(images)):
        assert picture_shape(ReduNetClassifier(features=features).fit(images, y)) == ((6, 7), False)
    color = images[..., None].repeat(3, axis=3)
    assert picture_shape(ReduNetClassifier(features=Flatten((6, 7, 3))).fit(color, y)) == (
        (6, 7, 3),
        False,
    )
    one = images[..., None]
    shape, _ = picture_shape(ReduNetClassifier(features=Flatten((6, 7, 1))).fit(one, y))
    assert shape == (6, 7)
    lift = GaussianLift(0, (6, 7, 3), n_kernels=1)
    assert picture_shape(ReduNetClassifier(features=lift).fit(color, y)) == (None, False)


def test_diagnostics_build_no_network() -> None:
    model = ReduNetClassifier().fit(np.zeros((4, 6)), [0, 0, 0, 0])  # of which none can be built
    assert diagnostics(model) == []
