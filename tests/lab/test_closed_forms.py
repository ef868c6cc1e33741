"""AIR, Deep SLDA, FeCAM, RanPAC and KLDA: the published formulas in plain NumPy, and their maps."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.datasets import load_digits

from redunet import ModelFileError, SettingsError
from redunet.core.covariance import summed
from redunet.core.grid import unit_rows
from redunet.core.moments import ClassMoments
from redunet.estimators import LinearDiscriminant, Ridge, load, storage
from redunet.features import Chain, Flatten, Fourier, RandomReLU, SquareRoot
from redunet_lab.closed_forms import AIR, KLDA, SLDA, FeCAM, RanPAC
from tests.estimators.test_closed_form_solutions import DATA, Data, new_vectors, on_grid

pytestmark = pytest.mark.usefixtures("one_thread")

DIGITS, LABELS = load_digits(return_X_y=True)
FEW = slice(0, 300)


def sums(vectors: NDArray[Any], y: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
    """Σ x xᵀ, (k, d, d), and Σ x, (k, d), of each class."""
    of = [vectors[y == label] for label in np.unique(y)]
    return np.stack([x.T @ x for x in of]), np.stack([x.sum(axis=0) for x in of])


@DATA
def test_air_is_a_regression_in_which_classes_weigh_the_same(data: Data) -> None:
    X, y, new = data
    S, s = sums(on_grid(X), y)
    weights = 1 / np.bincount(y)
    weights /= weights.mean()
    A = np.einsum("j,jab->ab", weights, S)
    A += 0.03 * np.trace(A) / len(A) * np.eye(len(A))
    expected = new_vectors(new) @ np.linalg.solve(A, (weights[:, None] * s).T)
    model = AIR(0.03).fit(X, y)
    np.testing.assert_allclose(model.decision_function(new), expected, rtol=0, atol=1e-9)
    shares = model.predict_proba(new)
    np.testing.assert_allclose(shares.sum(axis=1), 1)


def test_air_does_not_depend_on_how_often_a_class_is_seen_twice() -> None:
    """Learning a whole class once more changes nothing; of a plain ridge it does."""
    X, y = DIGITS[FEW], LABELS[FEW]
    again = y == 3
    for kind, same in ((AIR, True), (Ridge, False)):
        once, twice = kind().fit(X, y), kind().fit(X, y).partial_fit(X[again], y[again])
        # All weights are scaled alike, as their mean is 1, and ρ is relative to the trace.
        first, second = once.decision_function(X), twice.decision_function(X)
        assert np.allclose(first, second, atol=1e-8) is same


@DATA
def test_slda_shrinks_to_the_identity_and_has_no_priors(data: Data) -> None:
    X, y, new = data
    vectors = on_grid(X)
    means = np.stack([vectors[y == label].mean(axis=0) for label in np.unique(y)])
    away = vectors - means[y]
    P = np.linalg.inv((1 - 1e-3) * away.T @ away / len(y) + 1e-3 * np.eye(X.shape[1]))
    expected = new_vectors(new) @ P @ means.T - 0.5 * np.einsum("ja,ab,jb->j", means, P, means)
    scores = SLDA(1e-3).fit(X, y).decision_function(new)
    equal = np.log(len(means))  # the same prior for each class
    np.testing.assert_allclose(scores + equal, expected, rtol=0, atol=1e-7)


@DATA
@pytest.mark.parametrize("alpha", [1, 10])
def test_fecam_is_the_published_formula(data: Data, alpha: float) -> None:
    X, y, new = data
    vectors, samples, expected = on_grid(X), new_vectors(new), []
    for label in np.unique(y):
        of_class = vectors[y == label]
        C = np.cov(of_class.T)
        identity = np.eye(len(C))
        for _ in range(2):
            off = C[identity == 0].mean()
            C = C + alpha * np.diag(C).mean() * identity + alpha * off * (1 - identity)
        R = C / np.sqrt(np.outer(np.diag(C), np.diag(C)))
        away = samples - of_class.mean(axis=0)
        expected.append(-0.5 * np.einsum("na,ab,nb->n", away, np.linalg.inv(R), away))
    model = FeCAM(alpha).fit(X, y)
    scores = model.decision_function(new)
    np.testing.assert_allclose(scores, np.stack(expected, axis=1), rtol=0, atol=1e-8)


def test_tukey_takes_roots_before_anything_is_summed() -> None:
    X, y = DIGITS[FEW], LABELS[FEW]
    with_roots = FeCAM(tukey=True).fit(X, y)
    by_hand = FeCAM(features=SquareRoot(64)).fit(X, y)
    assert with_roots.moments_ == by_hand.moments_ != FeCAM().fit(X, y).moments_
    assert np.array_equal(with_roots.predict(DIGITS), by_hand.predict(DIGITS))
    with pytest.raises(ValueError, match="expected features of at least 0 to take roots of"):
        with_roots.partial_fit(-X, y)


def test_ranpac_is_a_regression_on_rectified_projections() -> None:
    X, y = DIGITS[FEW], LABELS[FEW]
    lifted = RandomReLU(3, (64,), 50)(torch.from_numpy(X)).numpy()
    S, s = sums(on_grid(lifted), y)
    G = S.sum(axis=0)
    G += 0.1 * np.trace(G) / len(G) * np.eye(len(G))
    expected = new_vectors(lifted) @ np.linalg.solve(G, s.T)
    model = RanPAC(50, 0.1, seed=3).fit(X, y)
    np.testing.assert_allclose(model.decision_function(X), expected, rtol=0, atol=1e-8)


def test_klda_is_a_discriminant_on_fourier_features_of_variance_two_gamma() -> None:
    X, y = DIGITS[FEW], LABELS[FEW]
    model = KLDA(40, gamma=2.0, shrinkage=0.1, seed=5).fit(X, y)
    fourier = model.own_map(64)
    assert isinstance(fourier, Fourier)
    assert fourier.bandwidth == 0.5
    omega = fourier.weights.numpy() * 2 * np.pi / 2**20
    assert omega.var() == pytest.approx(2 * 2.0, rel=0.1)
    fourier = Fourier(5, (64,), 40, bandwidth=0.5)
    same = LinearDiscriminant(0.1, features=fourier).fit(X, y)
    assert model.moments_ == same.moments_
    assert np.array_equal(model.decision_function(DIGITS), same.decision_function(DIGITS))


@pytest.mark.parametrize(
    "model", [RanPAC(30), KLDA(30), FeCAM(tukey=True)], ids=lambda model: model.kind
)
def test_a_map_of_its_own_comes_after_the_features_that_are_given(
    model: Any, tmp_path: Path
) -> None:
    images, y = DIGITS[FEW].reshape(-1, 8, 8), LABELS[FEW]
    model = clone(model).set_params(features=Flatten((8, 8))).fit(images, y)
    model.save(tmp_path / "model")
    again: Any = load(tmp_path / "model")
    assert again.get_params().keys() == model.get_params().keys()
    assert isinstance(again.features, Flatten)
    assert isinstance(again._state.pipeline.features, Chain)
    assert np.array_equal(again.decision_function(images), model.decision_function(images))
    again.partial_fit(images[:5], y[:5]).unlearn(images[:5], y[:5])
    again.save(tmp_path / "again")
    assert (tmp_path / "again").read_bytes() == (tmp_path / "model").read_bytes()


def test_a_map_cannot_change_once_something_is_learnt(tmp_path: Path) -> None:
    X, y = DIGITS[FEW], LABELS[FEW]
    for untaught, name, value in (
        (RanPAC(30), "n_projections", 31),
        (RanPAC(30), "seed", 1),
        (KLDA(30), "gamma", 3.0),
        (FeCAM(), "tukey", True),
    ):
        model: Any = clone(untaught)
        model.fit(X, y).set_params(**{name: value})
        with pytest.raises(SettingsError, match=f"{name}.* changed since the model was fitted"):
            model.predict(X)
        assert model.fit(X, y).predict(X).shape == (300,)


def test_a_file_whose_map_is_not_that_of_its_settings_is_refused(tmp_path: Path) -> None:
    RanPAC(30, seed=1).fit(DIGITS[FEW], LABELS[FEW]).save(tmp_path / "model")
    tensors, content = storage.load(tmp_path / "model")
    content["settings"]["seed"] = 2
    storage.save(tmp_path / "model", tensors, content)
    for read in (RanPAC.load, load):
        with pytest.raises(ModelFileError, match="expected the feature map of a RanPAC"):
            read(tmp_path / "model")


def test_of_scores_that_are_all_negative_the_highest_has_all_probability() -> None:
    model = AIR().fit([[1.0, 0.0], [0.0, 1.0]], [0, 1])
    shares = model.predict_proba([[-1.0, -1.0], [0.0, 0.0], [3.0, 0.0], [-2.0, -1.0]])
    np.testing.assert_allclose(shares, [[0.5, 0.5], [0.5, 0.5], [1.0, 0.0], [0.0, 1.0]])


@pytest.mark.parametrize("d", [8, 60, 700])
def test_the_sum_of_second_moments_by_factors_is_that_of_the_matrices(d: int) -> None:
    rng = np.random.default_rng(d)
    X, y = rng.standard_normal((120, d)), rng.integers(0, 4, 120)
    y[:60] = 5
    moments = ClassMoments(d).update(torch.from_numpy(X), y)
    grid = unit_rows(torch.from_numpy(X)).mul(2**20).round().div(2**20).numpy()
    weights = [1.0, 2.0, 0.5, 0.0, 3.0]
    by_sample = np.array([weights[moments.labels.index(label)] for label in y.tolist()])
    for w, of in ((None, np.ones(120)), (weights, by_sample)):
        expected = (of[:, None] * grid).T @ grid
        found = summed(moments, weights=w)
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-12)
        assert torch.equal(found, found.mT)


def test_rows_of_few_samples_have_the_moment_of_the_whole_matrix() -> None:
    """Whether a class comes at once, by its rows alone, or in two ways: equal, and held alike."""
    rng = np.random.default_rng(1)
    X = torch.from_numpy(rng.standard_normal((90, 200)))
    X[40:60] = X[:20]  # dependent rows
    y = np.repeat([0, 1, 2], 30)
    at_once = ClassMoments(200).update(X, y)
    in_batches = ClassMoments(200).update_from([(X[:45], y[:45]), (X[45:], y[45:])])
    assert at_once == in_batches
    grid = unit_rows(X).mul(2**20).round()
    for label in (0, 1, 2):
        rows = grid[y == label]
        assert torch.equal(at_once[label].second_moment, (rows.mT @ rows).to(torch.int64))
        assert at_once[label].columns is not None
