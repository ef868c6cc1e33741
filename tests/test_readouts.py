"""Nearest subspace against the paper, and its limits."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from redunet.construction import Schedule
from redunet.grid import unit_rows
from redunet.moments import ClassMoments
from redunet.network import build_network
from redunet.readouts import NearestSubspace
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
    assert alone.noise == pytest.approx(whole.noise, rel=1e-8)


def test_noise_is_the_mean_residual_of_the_training_samples_in_their_own_class() -> None:
    X, y = classes_on_subspaces(k=3, d=20, per_class=40, rank=4)
    moments = ClassMoments(20).update(torch.from_numpy(X), y)
    readout = NearestSubspace.from_moments(moments.Sigma(), 4)
    residuals = readout.residuals(unit_rows(torch.from_numpy(X))).numpy()
    assert readout.noise == pytest.approx(residuals[np.arange(len(y)), y].mean(), rel=1e-5)


def test_a_class_uses_no_more_than_its_numerical_rank() -> None:
    line = np.outer(np.linspace(1, 2, 8), np.ones(6))
    plane = np.random.default_rng(0).standard_normal((8, 2)) @ np.eye(2, 6)
    X = torch.from_numpy(np.concatenate([line, plane]))
    moments = ClassMoments(6).update(X, [0] * 8 + [1] * 8)
    readout = NearestSubspace.from_moments(moments.Sigma(), 4)
    used = (readout.U.square().sum(dim=1) > 0.5).sum(dim=1).tolist()
    assert used == [1, 2]


def test_probabilities_follow_the_residuals() -> None:
    readout = NearestSubspace(torch.zeros(2, 3, 1).double(), noise=0.1)
    shares = readout.probabilities(torch.tensor([[0.2, 0.4], [0.3, 0.3]], dtype=torch.float64))
    assert shares[0, 0].item() == pytest.approx(1 / (1 + np.exp(-1.0)), rel=1e-12)
    assert shares[1].tolist() == [0.5, 0.5]
