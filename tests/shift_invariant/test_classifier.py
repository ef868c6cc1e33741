"""ShiftInvariantClassifier: labels that no shift changes, exactly incremental as all others."""

from __future__ import annotations

import random
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from sklearn.datasets import load_digits

from redunet import (
    DataError,
    DataTypeError,
    ModelFileError,
    ReduNetClassifier,
    SettingsError,
    ShiftInvariantClassifier,
)
from redunet.estimators import NearestMean, load, storage
from redunet.estimators.moment_deltas import add, without_moments
from redunet.features import Chain, Scattering, SquareRoot
from redunet.shift_invariant.patch_planes import PatchPlanes

pytestmark = pytest.mark.usefixtures("one_thread")

DIGITS = load_digits()
IMAGES: NDArray[Any] = DIGITS.images.astype(np.uint8)
Y: NDArray[Any] = DIGITS.target
SMALL = {"n_layers": 2, "eps": 0.5, "n_components": 120}


def features() -> PatchPlanes:
    return PatchPlanes.learn(IMAGES[Y < 2], seed=0, n_filters=3, patch_size=4, root=True)


@pytest.fixture(scope="module")
def model() -> ShiftInvariantClassifier:
    made = ShiftInvariantClassifier(features=features(), **SMALL)  # type: ignore[arg-type]
    return made.fit(IMAGES[:400], Y[:400])


def new(model: ShiftInvariantClassifier) -> ShiftInvariantClassifier:
    return ShiftInvariantClassifier(**model.get_params(deep=False))


@pytest.mark.parametrize("readout", ["subspace", "coding"])
def test_labels_are_those_of_a_network_that_learns_all_shifts(readout: str) -> None:
    X = np.random.RandomState(0).standard_normal((30, 12)) + np.eye(12)[:30].sum(0)
    y = np.arange(30) % 3
    lifted = np.concatenate([np.roll(X.reshape(30, 2, 6), t, 2).reshape(30, 12) for t in range(6)])
    network: dict[str, Any] = {
        "n_layers": 3,
        "eps": 0.7,
        "step": 0.4,
        "step_kind": "relative",
        "sharpness": 20.0,
        "sharpness_kind": "relative",
    }
    mine = ShiftInvariantClassifier((6,), **network, n_components=6, readout=readout).fit(X, y)
    explicit = ReduNetClassifier(**network, exact=True).fit(lifted, np.tile(y, 6))
    N = np.random.RandomState(1).standard_normal((50, 12))
    assert np.abs(mine.transform(N) - explicit.transform(N)).max() < 1e-13
    assert np.abs(mine.memberships(N) - explicit.memberships(N)).max() < 1e-12
    if readout == "coding":
        return  # of all shifts of a sample at once: see tests/core/test_shifts.py
    Sigma = explicit.network_.last_moments().numpy()
    values, vectors = np.linalg.eigh(Sigma)
    cut = values[:, -6] > values[:, -7] * (1 + 1e-9)  # no wave is cut in two
    U = vectors[:, :, -6:]
    residuals = 1 - (np.einsum("nd,kdr->nkr", explicit.transform(N), U) ** 2).sum(2)
    assert np.abs(-mine.decision_function(N) - residuals)[:, cut].max(initial=0) < 1e-12


@given(st.integers(0, 7), st.integers(0, 7))
@settings(max_examples=10, deadline=None)
def test_any_circular_shift_has_the_same_label(
    model: ShiftInvariantClassifier, down: int, right: int
) -> None:
    X = IMAGES[400:440]
    shifted = np.roll(X, (down, right), (1, 2))
    assert (model.predict(shifted) == model.predict(X)).all()
    assert np.abs(model.decision_function(shifted) - model.decision_function(X)).max() < 1e-12
    planes, moved = (model.transform(images).reshape(40, 6, 8, 8) for images in (X, shifted))
    assert np.abs(moved - np.roll(planes, (down, right), (2, 3))).max() < 1e-12


@given(st.integers(0, 2**32))
@settings(max_examples=8, deadline=None)
def test_every_order_and_every_way_gives_the_same_bytes(
    model: ShiftInvariantClassifier, seed: int
) -> None:
    draw = random.Random(seed)
    rows = draw.sample(range(400), 400)
    cut = draw.randrange(1, 399)
    parts = rows[:cut], rows[cut:]
    one, other = (new(model).fit(IMAGES[part], Y[part]) for part in parts)
    apart = new(model)
    for part in parts:
        apart.partial_fit(
            IMAGES[part].astype(draw.choice(["uint8", "float32", "float64"])), Y[part]
        )
    whole = model.to_bytes()
    assert whole == apart.to_bytes()
    batches = ((IMAGES[part], Y[part]) for part in parts)
    assert whole == new(model).partial_fit_batches(batches).to_bytes()
    alone = one.to_bytes()
    assert whole == one.merge(other).to_bytes()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the feature map stays
        assert alone == one.unlearn(IMAGES[parts[1]], Y[parts[1]]).to_bytes()
        kept = Y[:400] != 3
        never = new(model).fit(IMAGES[:400][kept], Y[:400][kept])
        assert apart.forget([3]).to_bytes() == never.to_bytes()


def test_a_file_leads_back_to_the_model(model: ShiftInvariantClassifier, tmp_path: Path) -> None:
    path = tmp_path / "model"
    model.save(path)
    again = load(path)
    assert type(again) is ShiftInvariantClassifier
    assert again.moments_ == model.moments_
    assert again.to_bytes() == model.to_bytes()
    assert (again.predict(IMAGES[400:500]) == model.predict(IMAGES[400:500])).all()
    # 6 channels on 8 x 8 positions: 15 pairs of 64 shifts and 6 of 34, of 10 classes.
    tensors, content = storage.load(path)
    assert tensors["correlations"].shape == (10, 15 * 64 + 6 * 34)
    assert content["settings"]["kind"] == "shift-invariant"
    tensors["correlations"][0, -1] += 1
    forged = {**tensors, "sums": tensors["sums"][:, :5]}
    storage.save(tmp_path / "forged", forged, content)
    with pytest.raises(ModelFileError, match="not a model of this version: expected"):
        load(tmp_path / "forged")


def test_moments_learnt_elsewhere_are_added(model: ShiftInvariantClassifier) -> None:
    here = new(model).fit(IMAGES[:200], Y[:200])
    part = without_moments(here).partial_fit(IMAGES[200:400], Y[200:400])
    add(here, part.moments_, 64, None)
    assert here.moments_ == model.moments_


def test_probabilities_are_those_of_labels(model: ShiftInvariantClassifier) -> None:
    p = model.predict_proba(IMAGES[400:600])
    assert p.shape == (200, 10)
    assert np.allclose(p.sum(axis=1), 1)
    assert (model.classes_[p.argmax(axis=1)] == model.predict(IMAGES[400:600])).all()
    sure = p.max(axis=1) > np.median(p.max(axis=1))
    right = model.predict(IMAGES[400:600]) == Y[400:600]
    assert right[sure].mean() > right[~sure].mean()
    softer = new(model).set_params(temperature=100.0).remember(model.moments_)
    assert softer.predict_proba(IMAGES[400:410]).max() < 0.15


def test_what_does_not_fit_is_refused_in_one_line(model: ShiftInvariantClassifier) -> None:
    X, y = np.ones((4, 10)), [0, 1, 0, 1]
    with pytest.raises(DataError, match="a grid of 4 x 4 positions, a multiple of 16 features"):
        ShiftInvariantClassifier((4, 4)).fit(X, y)
    for wrong in (5, "ab", (0, 3), (2.5,), ()):
        with pytest.raises(SettingsError, match="expected positions as"):
            ShiftInvariantClassifier(wrong).fit(X, y)  # type: ignore[arg-type]
    with pytest.raises(SettingsError, match="expected readout to be one of subspace, coding"):
        ShiftInvariantClassifier(readout="quadratic").fit(X, y)
    for scaling in ({"normalize": "constant"}, {"normalize": "class", "input_range": (0, 1)}):
        with pytest.raises(SettingsError, match="expected normalize='sample'"):
            ShiftInvariantClassifier(**scaling).fit(X, y)
    scattering = Scattering((8, 8), 1)
    for no_grid in (scattering, Chain(features(), SquareRoot(features().n_features))):
        with pytest.raises(SettingsError, match="features lie on a grid, such as patch-planes"):
            ShiftInvariantClassifier(features=no_grid).fit(IMAGES[:4], y)
    with pytest.raises(DataError, match="expected samples of shape"):
        model.predict(np.ones((2, 7, 7)))
    with pytest.raises(SettingsError, match="expected n_components below n_features = 10, got 10"):
        ShiftInvariantClassifier(n_components=10).fit(X, y).predict(X)
    with pytest.raises(DataTypeError, match="expected moments of shifts for a"):
        ShiftInvariantClassifier().remember(NearestMean().fit(X, y).moments_)
    for other in (ReduNetClassifier(), NearestMean()):
        with pytest.raises(DataTypeError, match="got moments of shifts: fit"):
            other.remember(model.moments_)
    with pytest.raises(DataTypeError, match="expected a ShiftInvariantClassifier to merge"):
        new(model).remember(model.moments_).merge(NearestMean().fit(X, y))
