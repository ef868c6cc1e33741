"""The estimator keeps scikit-learn's conventions and its own decisions."""

from __future__ import annotations

import pickle
import warnings
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from redunet import (
    LearntFeaturesWarning,
    ReduNetClassifier,
    StreamingWarning,
)
from redunet.features import PatchFilters, Standardize


@parametrize_with_checks([ReduNetClassifier(n_layers=6)])  # type: ignore[untyped-decorator]
def test_scikit_learn_conventions(estimator: Any, check: Any) -> None:
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", category=RuntimeWarning, module="sklearn")
        check(estimator)


@pytest.fixture(scope="module")
def digits() -> tuple[Any, Any]:
    X, y = load_digits(return_X_y=True)
    return X, y


@pytest.fixture(scope="module")
def model(digits: Any) -> ReduNetClassifier:
    X, y = digits
    return ReduNetClassifier(n_layers=20).fit(X[::2], y[::2])


def test_digits_are_recognised(model: ReduNetClassifier, digits: Any) -> None:
    X, y = digits
    assert model.score(X[1::2], y[1::2]) > 0.97


def test_clone_pickle_and_pipeline(model: ReduNetClassifier, digits: Any) -> None:
    X, y = digits
    copy = clone(model)
    assert copy.get_params() == model.get_params()
    assert not hasattr(copy, "moments_")
    again = pickle.loads(pickle.dumps(model))
    assert np.array_equal(again.predict_proba(X[:50]), model.predict_proba(X[:50]))
    pipeline = make_pipeline(StandardScaler(with_std=False), ReduNetClassifier(n_layers=10))
    assert pipeline.fit(X[::2], y[::2]).score(X[1::2], y[1::2]) > 0.95


def test_cross_validation_and_grid_search(digits: Any) -> None:
    X, y = digits
    X, y = X[:600], y[:600]
    assert cross_val_score(ReduNetClassifier(n_layers=5), X, y, cv=3).min() > 0.85
    grid = {"n_components": [2, 12], "n_layers": [0]}
    search = GridSearchCV(ReduNetClassifier(), grid, cv=3).fit(X, y)
    assert search.best_params_ == {"n_components": 12, "n_layers": 0}


def test_the_most_probable_class_is_the_prediction(model: ReduNetClassifier, digits: Any) -> None:
    X, _ = digits
    probabilities = model.predict_proba(X)
    predicted = model.predict(X)
    assert np.array_equal(model.classes_[probabilities.argmax(axis=1)], predicted)
    np.testing.assert_allclose(probabilities.sum(axis=1), 1, rtol=1e-12)
    scores = model.decision_function(X)
    assert scores.shape == (len(X), 10)
    assert np.array_equal(model.classes_[scores.argmax(axis=1)], predicted)


def test_two_classes_have_one_score(digits: Any) -> None:
    X, y = digits
    rows = y < 2
    model = ReduNetClassifier(n_layers=5).fit(X[rows], np.array(["one", "nought"])[y[rows]])
    scores = model.decision_function(X[rows])
    assert scores.shape == (rows.sum(),)
    assert model.classes_.tolist() == ["nought", "one"]
    assert np.array_equal(model.classes_[(scores > 0).astype(int)], model.predict(X[rows]))


def test_one_class_is_allowed(digits: Any) -> None:
    X, y = digits
    model = ReduNetClassifier(n_layers=5).fit(X[y == 4], y[y == 4])
    assert set(model.predict(X)) == {4}
    assert model.predict_proba(X[:3]).tolist() == [[1.0]] * 3
    assert model.decision_function(X[:3]).shape == (3, 1)


def test_a_zero_vector_counts_and_gets_the_first_class(digits: Any) -> None:
    X, y = digits
    X = np.vstack([X, np.zeros((1, 64))])
    model = ReduNetClassifier(n_layers=5).fit(X, np.append(y, 7))
    assert model.moments_[7].count == (y == 7).sum() + 1
    blank = np.zeros((1, 64))
    assert model.predict(blank).tolist() == [0]
    assert set(model.predict_proba(blank)[0]) == {0.1}
    assert not model.transform(blank).any()


def test_settings_take_effect_at_the_next_use(digits: Any) -> None:
    X, y = digits
    model = ReduNetClassifier(n_layers=3, n_components=3).fit(X, y)
    first = model.predict_proba(X[:20])
    for change in (
        {"n_layers": 9},
        {"eps": 0.9},
        {"step": 0.1},
        {"step_decay": 0.5},
        {"step_kind": "relative"},
        {"sharpness": 5.0},
        {"n_components": 7},
        {"whitening": 0.1},
        {"readout": "discriminant"},
        {"readout": "discriminant", "ridge": 0.5},
        {"dtype": "float32"},
        {"tol": 1e3},
    ):
        before = model.get_params()
        changed = model.set_params(**change).predict_proba(X[:20])
        fresh = ReduNetClassifier(**model.get_params()).fit(X, y).predict_proba(X[:20])
        assert np.array_equal(changed, fresh)
        assert not np.array_equal(changed, first)
        model.set_params(**before)
    assert np.array_equal(model.predict_proba(X[:20]), first)


def test_layers_that_do_not_fit_are_streamed_with_one_warning(digits: Any) -> None:
    X, y = digits
    kept = ReduNetClassifier(n_layers=12, exact=True).fit(X, y)
    streamed = ReduNetClassifier(n_layers=12, exact=True, memory="1MB").fit(X, y)
    with pytest.warns(StreamingWarning, match=r"12 layers take 0.00433 GB, .* 1e\+08 operations"):
        first = streamed.predict_proba(X)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert np.array_equal(streamed.predict_proba(X), first)
        assert np.array_equal(first, kept.predict_proba(X))
        assert np.array_equal(streamed.transform(X), kept.transform(X))
        assert np.array_equal(streamed.memberships(X), kept.memberships(X))


def test_memberships_are_those_of_each_layer(model: ReduNetClassifier, digits: Any) -> None:
    X, _ = digits
    shares = model.memberships(X[:7])
    assert shares.shape == (20, 7, 10)
    np.testing.assert_allclose(shares.sum(axis=2), 1, rtol=1e-12)


def test_a_map_learnt_from_data_is_said_to_stay(digits: Any) -> None:
    X, y = digits
    images = X.reshape(-1, 8, 8)
    maps: dict[str, Any] = {
        "means and deviations": Standardize.learn(images),
        "filters made of patches of images": PatchFilters.learn(images, 0, 4, 3),
    }
    for held, features in maps.items():
        model = ReduNetClassifier(n_layers=2, features=features).fit(X, y)
        said = rf"learnt from data and stays as it is: .* \({held}\) is not withdrawn"
        with pytest.warns(LearntFeaturesWarning, match=said):
            model.forget([3])
        with pytest.warns(LearntFeaturesWarning, match=said):
            model.unlearn(X[:1], y[:1])
