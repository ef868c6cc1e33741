"""Nearest subspace against the paper, linear read-outs against the moved samples; limits."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from scipy.stats import multivariate_normal  # type: ignore[import-untyped]
from sklearn.linear_model import Ridge

from redunet import DataError, ReduNetClassifier, SettingsError
from redunet.core.construction import Schedule
from redunet.core.grid import unit_rows
from redunet.core.low_rank import LowRankLayer
from redunet.core.moments import ClassMoments
from redunet.core.network import build_network, extend_network
from redunet.core.readouts import (
    READOUTS,
    CodingLength,
    LeastSquares,
    LinearDiscriminant,
    NearestSubspace,
    register,
)
from tests import reference
from tests.conftest import classes_on_subspaces

SCHEDULE = Schedule(20, 0.5, 0.933)


@pytest.fixture(scope="module")
def built() -> tuple[Any, Any, Any, Any]:
    X, y = classes_on_subspaces(k=4, d=30, per_class=50, rank=5)
    network = build_network(ClassMoments(30).update(torch.from_numpy(X), y), 0.5, SCHEDULE)
    oracle = reference.train(reference.gridded(X), y, 20, 0.5, 0.5, 0.933)
    return X, y, network, oracle


@pytest.mark.parametrize("n_components", [1, 5, 29])
def test_residuals_are_the_papers(built: Any, n_components: int) -> None:
    X, _, network, oracle = built
    readout = NearestSubspace.from_moments(network.last_moments(), n_components)
    Z = network.transform(unit_rows(torch.from_numpy(X[:10])), 1.0)
    theirs = [reference.residuals(oracle, z.numpy(), n_components) for z in Z]
    np.testing.assert_allclose(readout.residuals(Z), theirs, rtol=0, atol=1e-9)


def test_the_last_layer_alone_is_enough(built: Any) -> None:
    X, _, network, _ = built
    *_, last = network.layers
    whole = NearestSubspace.from_moments(network.last_moments(), 5)
    alone = NearestSubspace.from_layer(last, network.counts, 0.5, 5)
    Z = network.transform(unit_rows(torch.from_numpy(X)), 1.0)
    np.testing.assert_allclose(alone.residuals(Z), whole.residuals(Z), rtol=0, atol=1e-9)


UNEQUAL = np.repeat(True, 200)
UNEQUAL[::3] = False


@pytest.fixture(scope="module")
def unequal() -> tuple[Any, Any, Any]:
    """Classes of different sizes, their network and the oracle's."""
    X, y = classes_on_subspaces(k=4, d=12, per_class=50, rank=5)
    kept = (y > 0) | UNEQUAL
    X, y = X[kept] + 0.3, y[kept]
    network = build_network(ClassMoments(12).update(torch.from_numpy(X), y), 0.5, SCHEDULE)
    return X, network, reference.train(reference.gridded(X), y, 20, 0.5, 0.5, 0.933)


def test_means_travel_with_the_classes(unequal: Any) -> None:
    _, network, oracle = unequal
    expected = [z.mean(axis=1) for z in oracle.Z]
    np.testing.assert_allclose(network.last_means(), expected, rtol=0, atol=1e-9)


def test_means_travel_where_moments_are_factors_and_features_empty() -> None:
    """Six samples of each of five classes, a dense class, and features that are always zero."""
    rng = np.random.RandomState(3)
    counts = [6, 6, 7, 6, 6, 60]
    y = np.repeat(np.arange(6), counts)
    X = rng.standard_normal((sum(counts), 40)) + rng.standard_normal((6, 40))[y]
    X[:, 30:] = 0
    moments = ClassMoments(40).update(torch.from_numpy(X), y)
    network = build_network(moments, 0.5, SCHEDULE, keep=False)
    oracle = reference.train(reference.gridded(X), y, 20, 0.5, 0.5, 0.933)
    expected = np.array([z.mean(axis=1) for z in oracle.Z])
    np.testing.assert_allclose(network.last_means(), expected, rtol=0, atol=1e-9)
    first = build_network(moments, 0.5, Schedule(0, 0.5, 0.9)).last_means()
    assert float((network.last_means() - first).abs().max()) > 0.01
    layer = next(iter(network.layers))
    assert isinstance(layer, LowRankLayer)
    assert network.layers.space is not None


@pytest.mark.parametrize("ridge", [0.001, 0.3])
def test_the_discriminant_is_bayes_rule_for_normal_classes(unequal: Any, ridge: float) -> None:
    X, network, oracle = unequal
    readout = LinearDiscriminant.from_moments(
        network.last_moments(), network.last_means(), network.counts, ridge
    )
    Z = network.transform(unit_rows(torch.from_numpy(X[:30])), 1.0)
    centred = np.concatenate([z - z.mean(axis=1, keepdims=True) for z in oracle.Z], axis=1)
    W = centred @ centred.T / centred.shape[1]
    covariance = W + ridge * np.trace(W) / 12 * np.eye(12)
    posterior = np.stack(
        [
            z.shape[1] * multivariate_normal(z.mean(axis=1), covariance).pdf(Z.numpy())
            for z in oracle.Z
        ],
        axis=1,
    )
    posterior /= posterior.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(readout.probabilities(readout.scores(Z)), posterior, atol=1e-8)


@pytest.mark.parametrize("ridge", [1e-4, 0.01, 3.0])
def test_the_regression_is_that_of_the_samples_that_moved(unequal: Any, ridge: float) -> None:
    X, network, oracle = unequal
    readout = LeastSquares.from_moments(
        network.last_moments(), network.last_means(), network.counts, ridge
    )
    Z = np.concatenate([z.T for z in oracle.Z])
    targets = np.repeat(np.eye(4), [z.shape[1] for z in oracle.Z], axis=0)
    alpha = len(Z) * ridge * np.cov(Z.T, bias=True).trace() / Z.shape[1]
    theirs = Ridge(alpha=alpha).fit(Z, targets)
    new = network.transform(unit_rows(torch.from_numpy(X[:30])), 1.0)
    scores = readout.scores(new)
    np.testing.assert_allclose(scores, theirs.predict(new.numpy()), atol=1e-7)
    probabilities = readout.probabilities(scores)
    np.testing.assert_allclose(probabilities.sum(dim=1), 1.0)
    assert float(probabilities.min()) >= 0
    assert torch.equal(probabilities.argmax(dim=1), scores.argmax(dim=1))


def coding_length(Z: Any, eps: float) -> float:
    """Nats to code the columns of Z, (d, n), up to eps."""
    d, n = Z.shape
    return float((n + d) / 2 * np.linalg.slogdet(np.eye(d) + d / (n * eps**2) * Z @ Z.T)[1])


@pytest.mark.parametrize("eps", [0.1, 0.5, 2.0])
def test_coding_lengths_are_those_with_and_without_the_sample(unequal: Any, eps: float) -> None:
    X, network, oracle = unequal
    readout = CodingLength.from_moments(network.last_moments(), network.counts, eps)
    Z = network.transform(unit_rows(torch.from_numpy(X[:30])), 1.0)
    m = sum(network.counts)
    added = [
        [
            coding_length(np.column_stack([of_class, z]), eps)
            - coding_length(of_class, eps)
            - np.log(of_class.shape[1] / m)
            for of_class in oracle.Z
        ]
        for z in Z.numpy()
    ]
    scores = readout.scores(Z)
    np.testing.assert_allclose(-scores, added, rtol=0, atol=1e-6)
    single = CodingLength.from_moments(network.last_moments().float(), network.counts, eps)
    assert single.C.dtype == torch.float32
    np.testing.assert_allclose(single.scores(Z.float()), scores, rtol=0, atol=1e-3)


def test_layers_alone_do_not_tell_the_means() -> None:
    X, y = classes_on_subspaces(k=4, d=8, per_class=20, rank=3)
    old = build_network(
        ClassMoments(8).update(torch.from_numpy(X[y < 2]), y[y < 2]), 0.5, Schedule(2, 0.5, 0.9)
    )
    grown = extend_network(old, torch.from_numpy(X[y > 1]), y[y > 1])
    with pytest.raises(DataError, match="do not tell the means"):
        grown.last_means()


class Centroid:
    """A read-out from outside: the class whose mean is nearest, after the layers."""

    def __init__(self, means: torch.Tensor) -> None:
        self.means = means

    def scores(self, Z: torch.Tensor) -> torch.Tensor:
        return -torch.cdist(Z, self.means).double()

    def probabilities(self, scores: torch.Tensor) -> torch.Tensor:
        return torch.softmax(scores, dim=1)


@pytest.fixture
def registered() -> Iterator[None]:
    register("centroid", lambda network, n_components, ridge: Centroid(network.last_means()))
    yield
    del READOUTS["centroid"]


@pytest.mark.usefixtures("registered")
def test_a_read_out_can_be_added_from_outside(tmp_path: Path) -> None:
    X, y = classes_on_subspaces(k=3, d=10, per_class=20, rank=4)
    X += np.eye(3, 10)[y]
    model = ReduNetClassifier(n_layers=2, readout="centroid", device="cpu").fit(X, y)
    distances = np.linalg.norm(
        model.transform(X)[:, None] - model.network_.last_means().numpy(), axis=2
    )
    assert np.array_equal(model.predict(X), distances.argmin(axis=1))
    np.testing.assert_allclose(model.decision_function(X), -distances, atol=1e-9)
    np.testing.assert_allclose(model.predict_proba(X).sum(axis=1), 1.0)
    model.save(tmp_path / "model")
    again = ReduNetClassifier.load(tmp_path / "model")
    assert again.readout == "centroid"
    assert np.array_equal(again.predict(X), model.predict(X))
    with pytest.raises(SettingsError, match="but 'centroid' is taken"):
        register("centroid", READOUTS["coding"])


def test_a_read_out_that_is_not_there_is_named() -> None:
    X, y = classes_on_subspaces(k=3, d=10, per_class=20, rank=4)
    with pytest.raises(SettingsError, match="expected readout to be one of subspace, coding, disc"):
        ReduNetClassifier(readout="centroid").fit(X, y)
