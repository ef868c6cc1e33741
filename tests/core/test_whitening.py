"""Whitening from moments: the map of the samples themselves, and a network on top of it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from redunet import ClassMoments, NumericalError, ReduNetClassifier
from redunet.core.covariance import class_means, covariance_of_sum, summed
from redunet.core.whitening import Whitening
from tests import reference
from tests.conftest import classes_on_subspaces

X, y = classes_on_subspaces(k=4, d=9, per_class=40, rank=3)
X = X * np.linspace(0.3, 3, 9) + 0.5
GRIDDED = reference.gridded(X)
MOMENTS = ClassMoments(9).update(torch.from_numpy(X), y)


def pooled(X: NDArray[Any], y: NDArray[Any]) -> NDArray[np.float64]:
    """The covariance of samples around the means of their classes."""
    centred = np.concatenate([X[y == label] - X[y == label].mean(axis=0) for label in set(y)])
    return np.asarray(centred.T @ centred / len(X))


def symmetric(X: NDArray[Any], y: NDArray[Any], ridge: float) -> NDArray[np.float64]:
    """(W + ρI)^(−½) of samples, by eigenvectors."""
    W = pooled(X, y)
    values, vectors = np.linalg.eigh(W + ridge * np.trace(W) / len(W) * np.eye(len(W)))
    return np.asarray(vectors / np.sqrt(values) @ vectors.T)


def test_the_covariance_is_that_of_the_samples() -> None:
    means, total = class_means(MOMENTS), summed(MOMENTS)
    W = covariance_of_sum(total, means, MOMENTS.counts).numpy()
    np.testing.assert_allclose(W, pooled(GRIDDED, y), atol=1e-13)


@pytest.mark.parametrize("ridge", [0.01, 1.0])
def test_the_map_is_the_inverse_root_up_to_a_rotation(ridge: float) -> None:
    A = Whitening.from_moments(MOMENTS, ridge).A.numpy()
    rotation = A @ np.linalg.inv(symmetric(GRIDDED, y, ridge))
    scale = np.sqrt(np.trace(rotation @ rotation.T) / 9)
    np.testing.assert_allclose(rotation @ rotation.T, scale**2 * np.eye(9), atol=1e-9)


@pytest.mark.parametrize("ridge", [0.03, 0.5])
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_the_network_is_the_papers_on_whitened_samples(ridge: float, dtype: str) -> None:
    whiten = symmetric(GRIDDED, y, ridge)
    oracle = reference.train(GRIDDED @ whiten, y, n_layers=6, eps=0.5, step=0.5, decay=0.9)
    model = ReduNetClassifier(
        n_layers=6, step_decay=0.9, n_components=3, whitening=ridge, dtype=dtype
    ).fit(X, y)
    residuals = np.array(
        [
            reference.residuals(oracle, reference.transform(oracle, x @ whiten, 1.0), 3)
            for x in X[:25] / np.linalg.norm(X[:25], axis=1, keepdims=True)
        ]
    )
    tolerance = 1e-9 if dtype == "float64" else 1e-4
    np.testing.assert_allclose(-model.decision_function(X[:25]), residuals, atol=tolerance)
    for layer, expected in zip(model.network_.layers, oracle.layers, strict=True):
        np.testing.assert_allclose(
            np.linalg.eigvalsh(layer.E.numpy()), np.linalg.eigvalsh(expected.E), atol=tolerance
        )
    Sigma = next(iter(model.network_.moments()))
    np.testing.assert_allclose(Sigma.diagonal(dim1=1, dim2=2).sum(dim=1), [40] * 4, rtol=1e-6)
    unwhitened = ReduNetClassifier(n_layers=6, step_decay=0.9, n_components=3).fit(X, y)
    assert np.abs(unwhitened.decision_function(X[:25]) + residuals).max() > 0.05


def test_means_are_whitened_too() -> None:
    whitening = Whitening.from_moments(MOMENTS, 0.1)
    Sigma, means = whitening.moments(MOMENTS)
    for label in range(4):
        z = GRIDDED[y == label] @ whitening.A.numpy().T
        z *= np.sqrt(len(z) / (z**2).sum())
        np.testing.assert_allclose(means[label], z.mean(axis=0), atol=1e-12)
        np.testing.assert_allclose(Sigma[label], z.T @ z, atol=1e-10)
    single, _ = whitening.moments(MOMENTS, torch.float32)
    np.testing.assert_allclose(single, Sigma, rtol=0, atol=1e-5)


def test_where_nothing_varies_within_classes_nothing_is_whitened() -> None:
    plain, whitened = (
        ReduNetClassifier(n_layers=2, whitening=how, exact=True).fit(X[:3], ["a", "b", "c"])
        for how in (None, 0.1)
    )
    np.testing.assert_allclose(whitened.transform(X), plain.transform(X), atol=1e-13)


def test_a_ridge_too_small_is_said_so() -> None:
    few = ClassMoments(9).update(torch.from_numpy(X[:4]), [0, 0, 1, 1])
    with pytest.raises(NumericalError, match="raise whitening"):
        Whitening.from_moments(few, 1e-300)
