"""Random features of vectors: what they compute, exactly, whatever a sample comes with."""

from __future__ import annotations

import math
from typing import Any

import mpmath  # type: ignore[import-untyped]
import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from redunet import DataError, SettingsError
from redunet.estimators.model_settings import ModelSettings
from redunet.features import Concatenate, FeatureMap, Fourier, RandomReLU, held_of_data
from redunet.features.exact import cosine
from redunet.features.random_features import GRID

pytestmark = pytest.mark.usefixtures("one_thread")

X = np.random.default_rng(0).normal(0.3, 1.0, (60, 24))
BATCH = torch.from_numpy(X)
MAPS: dict[str, FeatureMap] = {
    "relu": RandomReLU(1, (24,), 37),
    "relu, centred": RandomReLU.learn(X, 1, 37),
    "fourier": Fourier(1, (24,), 37, bandwidth=0.5),
    "fourier, centred": Fourier.learn(X, 1, 37, bandwidth=0.5),
    "of small images": Fourier(1, (2, 3, 4), 37),
}


@pytest.mark.parametrize("name", MAPS)
@given(seed=st.integers(0, 10**6))
def test_the_bits_of_a_sample_are_its_own(name: str, seed: int) -> None:
    features, rng = MAPS[name], np.random.default_rng(seed)
    shaped = BATCH.reshape(60, *features.input_shape)
    whole = features(shaped)
    assert whole.shape == (60, 37)
    assert whole.dtype == torch.float64
    order = rng.permutation(60)
    cuts = np.sort(rng.choice(np.arange(1, 60), size=rng.integers(1, 9), replace=False))
    parts = [features(shaped[part]) for part in np.split(order, cuts)]
    assert torch.equal(torch.cat(parts), whole[order])
    fortran = torch.from_numpy(np.asfortranarray(X)).reshape(shaped.shape)
    assert torch.equal(features(fortran), whole)
    assert torch.equal(features(shaped * 2.0**7), whole)


def by_hand(centre: bool) -> Any:
    unit = X / np.linalg.norm(X, axis=1, keepdims=True)
    if centre:
        unit = unit - unit.mean(axis=0)
        unit /= np.linalg.norm(unit, axis=1, keepdims=True)
    return unit


@pytest.mark.parametrize("centred", [False, True])
def test_the_features_are_those_of_the_formulas(centred: bool) -> None:
    relu: Any = MAPS["relu, centred" if centred else "relu"]
    expected = np.maximum(by_hand(centred) @ relu.weights.numpy().T / GRID, 0)
    np.testing.assert_allclose(relu(BATCH), expected, atol=2e-5)
    assert 0.3 < float((relu(BATCH) > 0).double().mean()) < 0.7
    fourier: Any = MAPS["fourier, centred" if centred else "fourier"]
    angles = by_hand(centred) @ fourier.weights.numpy().T / GRID
    angles += fourier.phases.numpy() / GRID**2
    expected = math.sqrt(2 / 37) * np.cos(2 * math.pi * angles)
    np.testing.assert_allclose(fourier(BATCH), expected, atol=2e-5)


def test_products_are_exact_as_integers() -> None:
    relu: Any = RandomReLU(3, (24,), 50)
    unit = (torch.nn.functional.normalize(BATCH) * GRID).round().to(torch.int64).numpy()
    wanted = unit.astype(object) @ relu.weights.to(torch.int64).numpy().T.astype(object)
    got = (relu(BATCH) * float(GRID) ** 2).to(torch.int64).numpy()
    assert np.array_equal(got, np.maximum(wanted, 0).astype(np.int64))


def test_weights_are_gaussian_seeded_and_longer_ones_begin_alike() -> None:
    weights = RandomReLU(7, (24,), 3000).weights
    assert float(weights.mean() / GRID) == pytest.approx(0, abs=0.02)
    assert float(weights.std() / GRID) == pytest.approx(1, abs=0.02)
    assert torch.equal(weights, weights.round())
    assert torch.equal(weights[:37], RandomReLU(7, (24,), 37).weights)
    assert not torch.equal(weights[:37], RandomReLU(8, (24,), 37).weights)
    assert RandomReLU(0, (3,), 1).weights.tolist() == [[1849743.0, 419595.0, 1026281.0]]
    one, more = Fourier(7, (24,), 37), Fourier(7, (24,), 3000)
    assert torch.equal(more.weights[:37], one.weights)
    assert torch.equal(more.phases[:37], one.phases)
    assert 0 <= float(more.phases.min()) < float(more.phases.max()) <= GRID**2
    assert float(more.phases.mean() / GRID**2) == pytest.approx(0.5, abs=0.02)


@pytest.mark.parametrize("bandwidth", [0.4, 1.0, 2.0])
def test_products_of_fourier_features_come_close_to_the_kernel(bandwidth: float) -> None:
    features = Fourier(0, (24,), 20_000, bandwidth=bandwidth)(BATCH)
    unit = torch.nn.functional.normalize(BATCH)
    kernel = torch.exp(-torch.cdist(unit, unit).square() / (2 * bandwidth**2))
    assert float((features @ features.T - kernel).abs().max()) < 0.04


def test_the_cosine_is_one() -> None:
    turns = torch.cat([torch.linspace(-3, 3, 2000, dtype=torch.float64), torch.arange(-8, 9) / 4.0])
    got = cosine(turns.clone()[:, None])[:, 0]
    for turn, value in zip(turns.tolist(), got.tolist(), strict=True):
        assert value == pytest.approx(float(mpmath.cospi(2 * mpmath.mpf(turn))), abs=1e-12)
    assert float(got.abs().max()) <= 1.0 + 1e-12


def test_settings_name_them() -> None:
    plain = ModelSettings(features="random-relu", width=9, seed=4, fit_features_on="nowhere")
    relu: Any = plain.features_for(X)
    assert (relu.kind, relu.width, relu.seed, relu.centre) == ("random-relu", 9, 4, None)
    centred = ModelSettings(features="fourier", width=9, bandwidth=0.7, centred=True)
    fourier: Any = centred.features_for(X)
    assert (fourier.kind, fourier.width, fourier.bandwidth) == ("fourier", 9, 0.7)
    learnt: Any = Fourier.learn(X, 0, 9, bandwidth=0.7)
    assert torch.equal(fourier.centre, learnt.centre)
    assert held_of_data(fourier) == "a mean vector"
    assert centred.needs_images
    assert not plain.needs_images
    assert plain.random_features
    both = ModelSettings(features="random-relu+fourier", width=9).features_for(X)
    assert isinstance(both, Concatenate)
    assert both.n_features == 18
    with pytest.raises(SettingsError, match="as fourier needs some to learn from, got 'nowhere'"):
        ModelSettings(features="fourier", centred=True, fit_features_on="nowhere")


def test_the_centre_does_not_depend_on_the_order_of_samples() -> None:
    order = np.random.default_rng(5).permutation(60)
    lift: Any = RandomReLU.learn(X, 0, 4)
    centre = lift.centre
    shuffled: Any = RandomReLU.learn(np.asfortranarray(X[order]), 0, 4)
    assert torch.equal(centre, shuffled.centre)
    np.testing.assert_allclose(centre, (X / np.linalg.norm(X, axis=1)[:, None]).mean(0), atol=1e-6)


def test_what_they_cannot_use_is_refused() -> None:
    with pytest.raises(DataError, match="expected samples to learn a centre from, got none"):
        RandomReLU.learn(X[:0], 0)
    with pytest.raises(SettingsError, match="expected at most 16,777,216 weights, got width=99999"):
        RandomReLU(0, (384,), 99999)
    with pytest.raises(SettingsError, match="expected bandwidth to be a number above 0, got 0"):
        Fourier(0, (24,), 5, bandwidth=0)
    with pytest.raises(SettingsError, match="whose frequencies fit the grid, got 1e-06: take a la"):
        Fourier(0, (24,), 5, bandwidth=1e-6)
    with pytest.raises(SettingsError, match=r"expected centre as a finite Tensor .* \(24,\), got"):
        RandomReLU(0, (24,), 5, torch.zeros(23, dtype=torch.float64))
    with pytest.raises(SettingsError, match="expected width to be a whole number from 1"):
        Fourier(0, (24,), 0)
    with pytest.raises(SettingsError, match="expected seed to be a whole number from 0"):
        Fourier(-1, (24,), 5)
