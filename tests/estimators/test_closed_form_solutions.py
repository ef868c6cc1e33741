"""Closed-form estimators equal scikit-learn's solutions, or plain NumPy's, on the same vectors.

The vectors are those that the moments are made of: on the unit sphere and the
grid. Tolerances are for rounding in float64 with condition numbers up to 1e6.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from scipy.special import softmax  # type: ignore[import-untyped]
from sklearn import linear_model
from sklearn.datasets import load_digits
from sklearn.discriminant_analysis import (
    LinearDiscriminantAnalysis,
    QuadraticDiscriminantAnalysis,
)
from sklearn.neighbors import NearestCentroid

from redunet import ReduNetClassifier
from redunet.core.covariance import LEAST_VARIANCE
from redunet.core.grid import GRID, unit_rows
from redunet.estimators import LinearDiscriminant, NearestMean, QuadraticDiscriminant, Ridge
from redunet.estimators.inputs import InputPipeline
from tests.conftest import classes_on_subspaces

pytestmark = pytest.mark.usefixtures("one_thread")

Data = tuple[NDArray[Any], NDArray[Any], NDArray[Any]]


def on_grid(X: NDArray[Any]) -> NDArray[Any]:
    """The vectors whose moments are remembered."""
    vectors = InputPipeline(None, "sample", None).vectors(X, "cpu")
    grid: NDArray[Any] = vectors.mul(GRID).round().div(GRID).numpy()
    return grid


def digits() -> Data:
    X, y = load_digits(return_X_y=True)
    return X[::2], y[::2], X[1::2]


def unequal() -> Data:
    """Classes of very different sizes, from more samples than features to fewer."""
    X, y = classes_on_subspaces(k=4, d=9, per_class=200, rank=4, noise=0.3)
    rows = [
        row for label, n in enumerate((200, 60, 12, 3)) for row in np.flatnonzero(y == label)[:n]
    ]
    return X[rows] + 0.2, y[rows], np.random.default_rng(1).standard_normal((50, 9))


DATA = pytest.mark.parametrize("data", [digits(), unequal()], ids=["digits", "unequal"])
SHARES = pytest.mark.parametrize("shrinkage", [1e-4, 0.03, 0.5, 1.0])


def new_vectors(X: NDArray[Any]) -> NDArray[Any]:
    vectors: NDArray[Any] = unit_rows(torch.from_numpy(X)).numpy()
    return vectors


def assert_close(model: Any, X: NDArray[Any], scores: NDArray[Any], rtol: float) -> None:
    """Scores up to rounding, and the labels that follow from them."""
    np.testing.assert_allclose(
        model.decision_function(X), scores, rtol=rtol, atol=rtol * np.abs(scores).max()
    )
    assert np.array_equal(model.predict(X), model.classes_[scores.argmax(axis=1)])


@DATA
@pytest.mark.filterwarnings("ignore:.*zero standard deviation")
def test_nearest_class_mean(data: Data) -> None:
    X, y, new = data
    model: Any = NearestMean().fit(X, y)
    theirs = NearestCentroid().fit(on_grid(X), y)
    np.testing.assert_allclose(model.solution_.weights.mT, theirs.centroids_, rtol=0, atol=1e-15)
    vectors = new_vectors(new)
    assert np.array_equal(model.predict(new), theirs.predict(vectors))
    squares = ((vectors[:, None] - theirs.centroids_) ** 2).sum(axis=2)
    energy = (vectors**2).sum(axis=1, keepdims=True)
    assert_close(model, new, -0.5 * (squares - energy), rtol=1e-13)


@DATA
@SHARES
@pytest.mark.parametrize("solver", ["lsqr", "eigen"])
def test_linear_discriminant(data: Data, shrinkage: float, solver: str) -> None:
    X, y, new = data
    model: Any = LinearDiscriminant(shrinkage=shrinkage).fit(X, y)
    theirs = LinearDiscriminantAnalysis(solver=solver, shrinkage=shrinkage)
    theirs.fit(on_grid(X), y)
    scores = theirs.decision_function(new_vectors(new))
    if solver == "eigen":  # their scores leave out what all classes share
        mine = model.decision_function(new)
        centred = mine - mine.mean(axis=1, keepdims=True)
        theirs_centred = scores - scores.mean(axis=1, keepdims=True)
        np.testing.assert_allclose(centred, theirs_centred, atol=1e-8 * np.abs(scores).max())
    else:
        assert_close(model, new, scores, rtol=1e-8)
        np.testing.assert_allclose(
            model.solution_.weights.mT, theirs.coef_, atol=1e-8 * np.abs(theirs.coef_).max()
        )
    assert np.array_equal(model.predict(new), theirs.predict(new_vectors(new)))


@DATA
@pytest.mark.parametrize("ridge", [1e-4, 0.03, 1.0, 50.0])
def test_ridge_to_one_hot(data: Data, ridge: float) -> None:
    X, y, new = data
    vectors, one_hot = on_grid(X), (y[:, None] == np.unique(y)).astype(float)
    alpha = ridge * len(X) * vectors.var(axis=0).mean()
    theirs = linear_model.Ridge(alpha=alpha, solver="cholesky").fit(vectors, one_hot)
    model: Any = Ridge(ridge=ridge).fit(X, y)
    np.testing.assert_allclose(model.solution_.weights.mT, theirs.coef_, rtol=0, atol=1e-9)
    np.testing.assert_allclose(model.solution_.offsets, theirs.intercept_, rtol=0, atol=1e-9)
    assert_close(model, new, theirs.predict(new_vectors(new)), rtol=1e-9)


def gaussian_scores(
    X: NDArray[Any], y: NDArray[Any], new: NDArray[Any], rho: float
) -> NDArray[Any]:
    """log π_j + log N(z; μ_j, (1 − ρ) C_j + ρ w I), written down plainly."""
    d = X.shape[1]
    within = [np.cov(X[y == label].T, bias=True) for label in np.unique(y)]
    shares = [np.mean(y == label) for label in np.unique(y)]
    w = sum(share * np.trace(C) for share, C in zip(shares, within, strict=True)) / d
    scores = []
    for label, share, C in zip(np.unique(y), shares, within, strict=True):
        shrunk = (1 - rho) * C + rho * w * np.eye(d)
        away = new - X[y == label].mean(axis=0)
        distance = (away * np.linalg.solve(shrunk, away.T).T).sum(axis=1)
        scores.append(np.log(share) - 0.5 * np.linalg.slogdet(shrunk)[1] - 0.5 * distance)
    return np.stack(scores, axis=1)


@DATA
@SHARES
def test_quadratic_discriminant(data: Data, shrinkage: float) -> None:
    X, y, new = data
    model: Any = QuadraticDiscriminant(shrinkage=shrinkage).fit(X, y)
    expected = gaussian_scores(on_grid(X), y, new_vectors(new), shrinkage)
    assert_close(model, new, expected, rtol=1e-8)


@SHARES
def test_quadratic_discriminant_is_scikit_learns_on_vectors_of_unit_variance(
    shrinkage: float,
) -> None:
    """Their target is the identity: the shared one, where the mean variance within classes is 1."""
    X, y, new = digits()
    vectors = on_grid(X)
    w = np.average(
        [vectors[y == label].var(axis=0).mean() for label in range(10)], weights=np.bincount(y)
    )
    theirs = QuadraticDiscriminantAnalysis(reg_param=shrinkage, tol=0)
    theirs.fit(vectors / np.sqrt(w), y)
    expected = theirs.decision_function(new_vectors(new) / np.sqrt(w))
    model: Any = QuadraticDiscriminant(shrinkage=shrinkage).fit(X, y)
    assert_close(model, new, expected - 0.5 * X.shape[1] * np.log(w), rtol=1e-8)


@DATA
def test_the_distance_by_correlations(data: Data) -> None:
    X, y, new = data
    vectors, samples, rho = on_grid(X), new_vectors(new), 0.3
    within = [np.cov(vectors[y == label].T, bias=True) for label in np.unique(y)]
    w = np.average([np.trace(C) for C in within], weights=np.bincount(y)) / X.shape[1]
    expected = []
    for label, C in enumerate(within):
        shrunk = (1 - rho) * C + rho * w * np.eye(len(C))
        correlations = shrunk / np.sqrt(np.outer(np.diag(shrunk), np.diag(shrunk)))
        away = samples - vectors[y == label].mean(axis=0)
        expected.append(-0.5 * np.einsum("ni,ij,nj->n", away, np.linalg.inv(correlations), away))
    model: Any = QuadraticDiscriminant(shrinkage=rho, distance="correlation").fit(X, y)
    assert_close(model, new, np.stack(expected, axis=1), rtol=1e-10)


def test_the_smallest_regularisation_stays_above_the_grid() -> None:
    X, y, new = digits()  # with pixels that never vary
    model: Any = LinearDiscriminant(shrinkage=1e-300).fit(X, y)
    assert np.isfinite(model.decision_function(new)).all()
    quadratic: Any = QuadraticDiscriminant(shrinkage=1e-300).fit(X, y)
    L = quadratic.solution_.factors
    smallest = min(float(torch.linalg.eigvalsh(A)[0]) for A in L @ L.mT)
    assert smallest == pytest.approx(LEAST_VARIANCE, rel=1e-3)


# Probabilities


@DATA
def test_probabilities_are_those_of_normal_classes(data: Data) -> None:
    X, y, new = data
    vectors, samples, labels = on_grid(X), new_vectors(new), np.unique(y)
    theirs = LinearDiscriminantAnalysis(solver="lsqr", shrinkage=0.1).fit(vectors, y)
    linear = LinearDiscriminant(0.1).fit(X, y).predict_proba(new)
    np.testing.assert_allclose(linear, theirs.predict_proba(samples), rtol=0, atol=1e-7)
    scores = gaussian_scores(vectors, y, samples, 0.2)
    quadratic = QuadraticDiscriminant(0.2).fit(X, y).predict_proba(new)
    np.testing.assert_allclose(quadratic, softmax(scores, axis=1), rtol=0, atol=1e-7)
    means = np.stack([vectors[y == label].mean(axis=0) for label in labels])
    variance = np.mean((vectors - means[np.searchsorted(labels, y)]) ** 2)
    squares = ((samples[:, None] - means) ** 2).sum(axis=2)
    nearest = NearestMean().fit(X, y).predict_proba(new)
    np.testing.assert_allclose(
        nearest, softmax(-squares / (2 * variance), axis=1), rtol=0, atol=1e-9
    )


@DATA
def test_regression_scores_become_probabilities(data: Data) -> None:
    X, y, new = data
    model = Ridge(0.01).fit(X, y)
    scores, shares = model.decision_function(new), model.predict_proba(new)
    np.testing.assert_allclose(scores.sum(axis=1), 1.0)
    clipped = np.clip(scores, 0, None)
    np.testing.assert_allclose(shares, clipped / clipped.sum(axis=1, keepdims=True))


def test_a_closed_form_estimator_is_a_network_without_layers() -> None:
    X, y, new = digits()
    for ridge in (1e-3, 0.1):
        network = ReduNetClassifier(n_layers=0, readout="regression", ridge=ridge).fit(X, y)
        alone = Ridge(ridge).fit(X, y)
        np.testing.assert_allclose(
            network.decision_function(new), alone.decision_function(new), atol=1e-5
        )
        # (1 − ρ) W + ρ w I is a multiple of W + ρ / (1 − ρ) w I.
        share = ridge / (1 + ridge)
        discriminant = ReduNetClassifier(n_layers=0, readout="discriminant", ridge=ridge)
        same = discriminant.fit(X, y).predict(new) == LinearDiscriminant(share).fit(X, y).predict(
            new
        )
        assert same.mean() > 0.99
