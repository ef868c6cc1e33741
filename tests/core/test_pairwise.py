"""Discriminants of pairs of classes, against scikit-learn's on the samples of each pair."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
import torch
from scipy.special import log_expit  # type: ignore[import-untyped]
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis

from redunet import ReduNetClassifier
from redunet.core.construction import Schedule
from redunet.core.grid import unit_rows
from redunet.core.moments import ClassMoments
from redunet.core.network import build_network
from redunet.core.pairwise import MOST_CLASSES, PairwiseDiscriminant
from redunet.errors import SettingsError
from redunet.estimators import PairwiseDiscriminant as Estimator
from tests import reference
from tests.conftest import classes_on_subspaces

pytestmark = pytest.mark.usefixtures("one_thread")

SCHEDULE = Schedule(3, 0.5, 0.933)


def plain(Z: list[Any], ridge: float, new: Any) -> Any:
    """Scores of new samples, (n, k), by scikit-learn, from the samples of each class, (d, n_j)."""
    scores = np.zeros((len(new), len(Z)))
    for i, j in itertools.combinations(range(len(Z)), 2):
        X = np.concatenate([Z[i].T, Z[j].T])
        y = np.repeat([0, 1], [Z[i].shape[1], Z[j].shape[1]])
        # (1 − ρ') W + ρ' w I is W + ρ w I times 1 − ρ', which the odds are divided by.
        rest = 1 / (1 + ridge)
        lda = LinearDiscriminantAnalysis(solver="lsqr", shrinkage=1 - rest).fit(X, y)
        prior = np.log(y.mean() / (1 - y.mean()))
        odds = (lda.decision_function(new) - prior) * rest + prior
        scores[:, j] += log_expit(odds)
        scores[:, i] += log_expit(-odds)
    return scores


@pytest.mark.parametrize(("k", "d"), [(4, 12), (2, 6), (7, 3)])
@pytest.mark.parametrize("ridge", [0.001, 0.3])
def test_it_is_scikit_learns_discriminant_of_each_pair(k: int, d: int, ridge: float) -> None:
    rng = np.random.default_rng(k)
    y = np.repeat(np.arange(k), rng.integers(20, 60, k))
    X = rng.standard_normal((len(y), d)) * rng.uniform(0.5, 2, (k, d))[y]
    X += rng.standard_normal((k, d))[y] + 1.0
    network = build_network(ClassMoments(d).update(torch.from_numpy(X), y), 0.5, SCHEDULE)
    moved = reference.train(reference.gridded(X), y, 3, 0.5, 0.5, 0.933).Z
    readout = PairwiseDiscriminant.from_network(network, ridge)
    Z = network.transform(unit_rows(torch.from_numpy(X[::3])), 1.0)
    expected = plain(moved, ridge, Z.numpy())
    np.testing.assert_allclose(readout.scores(Z), expected, rtol=1e-6, atol=1e-6)


def test_classes_of_few_samples_and_features_that_are_always_zero_are_the_same() -> None:
    rng = np.random.default_rng(3)
    y = np.repeat(np.arange(6), [6, 6, 7, 6, 6, 60])
    X = rng.standard_normal((len(y), 40)) + rng.standard_normal((6, 40))[y]
    X[:, 30:] = 0
    moments = ClassMoments(40).update(torch.from_numpy(X), y)
    network = build_network(moments, 0.5, SCHEDULE)
    assert network.layers.last.stacks
    moved = reference.train(reference.gridded(X), y, 3, 0.5, 0.5, 0.933).Z
    Z = network.transform(unit_rows(torch.from_numpy(X[::5])), 1.0)
    readout = PairwiseDiscriminant.from_network(network, 0.1)
    np.testing.assert_allclose(readout.scores(Z), plain(moved, 0.1, Z.numpy()), atol=1e-6)


def test_without_layers_the_network_is_the_estimator() -> None:
    X, y = classes_on_subspaces(k=5, d=20, per_class=30, rank=4, noise=0.3)
    closed = Estimator(ridge=0.05).fit(X, y)
    network = ReduNetClassifier(n_layers=0, readout="pairwise", ridge=0.05).fit(X, y)
    np.testing.assert_allclose(
        network.decision_function(X), closed.decision_function(X), rtol=1e-5, atol=1e-5
    )


def test_one_class_is_always_the_answer() -> None:
    model = Estimator().fit(np.eye(3), ["only"] * 3)
    assert model.predict([[1.0, 2.0, 3.0]]).tolist() == ["only"]
    assert model.predict_proba([[1.0, 2.0, 3.0]]).tolist() == [[1.0]]


def test_too_many_classes_are_refused_in_one_line() -> None:
    k = MOST_CLASSES + 1
    X = np.random.default_rng(0).standard_normal((3 * k, 2))
    model = Estimator().fit(X, np.tile(np.arange(k), 3))
    with pytest.raises(SettingsError, match=f"at most {MOST_CLASSES} classes .* got {k}: choose"):
        model.predict(X)
