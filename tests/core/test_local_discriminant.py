"""Normal classes with covariances averaged over similar classes, against a plain computation."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.linalg import eigh  # type: ignore[import-untyped]
from scipy.spatial.distance import cdist  # type: ignore[import-untyped]
from scipy.stats import multivariate_normal  # type: ignore[import-untyped]

from redunet import ReduNetClassifier
from redunet.core.construction import Schedule
from redunet.core.grid import unit_rows
from redunet.core.local_discriminant import LOCALITY, MARGIN, LocalDiscriminant
from redunet.core.low_rank import LowRankLayer
from redunet.core.moments import ClassMoments
from redunet.core.network import ReduNet, build_network
from redunet.core.second_moments import SecondMoments
from tests import reference

SCHEDULE = Schedule(3, 0.5, 0.933)


def plain(Z: list[Any], ridge: float, new: Any) -> Any:
    """Posteriors of new samples, (n, k), from the samples of each class, (d, n_j)."""
    n = np.array([z.shape[1] for z in Z])
    means = np.array([z.mean(axis=1) for z in Z])
    covariances = [np.cov(z, bias=True) for z in Z]
    W = sum(share * C for share, C in zip(n / n.sum(), covariances, strict=True))
    W = W + ridge * np.trace(W) / len(W) * np.eye(len(W))
    apart = means - (n / n.sum()) @ means
    q = min(len(Z) - 1, len(W))
    P = eigh(apart.T @ apart, W)[1][:, -q:]  # PᵀWP = I
    D = cdist(means @ P, means @ P, "sqeuclidean")
    w = n * np.exp(-LOCALITY * D / D[D > 0].mean())
    w /= w.sum(axis=1, keepdims=True)
    densities = []
    for n_j, mean, weights in zip(n, means, w, strict=True):
        C = sum(share * P.T @ C_i @ P for share, C_i in zip(weights, covariances, strict=True))
        Q = 0.5 * C + 0.5 * np.eye(q)
        densities.append(n_j * multivariate_normal(mean @ P, Q).pdf(new @ P))
    posterior = np.stack(densities, axis=1)
    return posterior / posterior.sum(axis=1, keepdims=True)


@pytest.mark.parametrize(("k", "d"), [(4, 12), (2, 6), (7, 3)])
@pytest.mark.parametrize("ridge", [0.001, 0.3])
def test_it_is_bayes_rule_with_the_covariances_of_similar_classes(
    k: int, d: int, ridge: float
) -> None:
    rng = np.random.default_rng(k)
    counts = rng.integers(20, 60, k)
    y = np.repeat(np.arange(k), counts)
    X = rng.standard_normal((len(y), d)) * rng.uniform(0.5, 2, (k, d))[y]
    X += rng.standard_normal((k, d))[y] + 1.0
    network = build_network(ClassMoments(d).update(torch.from_numpy(X), y), 0.5, SCHEDULE)
    moved = reference.train(reference.gridded(X), y, 3, 0.5, 0.5, 0.933).Z
    readout = LocalDiscriminant.from_network(network, ridge)
    assert readout.directions.shape == (d, min(k - 1, d))
    Z = network.transform(unit_rows(torch.from_numpy(X[::3])), 1.0)
    found = readout.probabilities(readout.scores(Z))
    np.testing.assert_allclose(found, plain(moved, ridge, Z.numpy()), atol=1e-7)


def few_samples(keep: bool = True) -> tuple[Any, ReduNet]:
    """Six samples of each of five classes, a dense class, and features that are always zero."""
    rng = np.random.default_rng(3)
    y = np.repeat(np.arange(6), [6, 6, 7, 6, 6, 60])
    X = rng.standard_normal((len(y), 40)) + rng.standard_normal((6, 40))[y]
    X[:, 30:] = 0
    moments = ClassMoments(40).update(torch.from_numpy(X), y)
    return X, build_network(moments, 0.5, SCHEDULE, keep=keep)


def test_factors_and_reduced_spaces_give_what_matrices_give() -> None:
    X, network = few_samples()
    layer = next(iter(network.layers))
    assert isinstance(layer, LowRankLayer)
    assert network.layers.space is not None
    found = LocalDiscriminant.from_network(network, 0.1)
    whole = SecondMoments.of_matrices(network.last_moments())
    other = LocalDiscriminant.from_moments(whole, network.last_means(), network.counts, 0.1)
    Z = unit_rows(torch.from_numpy(X))
    np.testing.assert_allclose(found.scores(Z), other.scores(Z), rtol=1e-9, atol=1e-7)


def test_classes_of_one_sample_or_of_equal_means_and_a_single_class() -> None:
    X = np.random.default_rng(0).standard_normal((3, 6))
    network = build_network(
        ClassMoments(6).update(torch.from_numpy(X), [0, 1, 2]), 0.5, Schedule(0, 0.5, 0.9)
    )
    near = unit_rows(torch.from_numpy(X + 0.05))
    scores = LocalDiscriminant.from_network(network, 0.01).scores(near)
    assert scores.argmax(dim=1).tolist() == [0, 1, 2]
    model = ReduNetClassifier(n_layers=1, readout="quadratic")
    single = model.fit(X, ["a"] * 3)
    assert single.predict_proba(X).tolist() == [[1.0]] * 3
    both = np.concatenate([X, -X])
    equal = model.fit(np.tile(both, (2, 1)), np.repeat(["a", "b"], 6))
    np.testing.assert_allclose(equal.predict_proba(both), 0.5)


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 10**6), st.integers(16, 40), st.integers(2, 30))
def test_likely_classes_have_their_scores_and_others_lose(seed: int, k: int, d: int) -> None:
    draw = torch.Generator().manual_seed(seed)
    centres = 2 * torch.randn(k, d, generator=draw, dtype=torch.float64)
    stretch = torch.rand(k, 1, d, generator=draw, dtype=torch.float64) * 3
    X = centres[:, None] + stretch * torch.randn(k, 12, d, generator=draw, dtype=torch.float64)
    moments = ClassMoments(d).update(X.flatten(0, 1), [j for j in range(k) for _ in range(12)])
    network = build_network(moments, 1.0, Schedule(1, 0.3, 1.0, "relative"))
    readout = LocalDiscriminant.from_network(network, 0.03)
    Z = torch.nn.functional.normalize(X.flatten(0, 1), dim=1)
    inside, expected = Z @ readout.directions, readout.scores(Z)
    likely = readout.scores_of_likely(Z)
    best = expected.amax(dim=1, keepdim=True)
    near = expected > best - MARGIN + 1e-6
    assert float((likely - expected)[near].abs().max()) < 1e-8
    assert bool((likely <= torch.where(near, torch.inf, best - 1e-6)).all())
    assert torch.equal(likely.argmax(dim=1), expected.argmax(dim=1))
    assert bool((readout._bounds(inside) >= expected - 1e-3).all())
