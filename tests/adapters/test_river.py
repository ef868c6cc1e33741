"""River's interface over estimators, against River itself."""

from __future__ import annotations

import pickle
import re
from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("river", reason="River is not installed: pip install 'redunet[river]'")

import river.checks
from river import datasets

from redunet import DataError, ReduNetClassifier, SettingsError
from redunet.adapters.river import RiverClassifier
from redunet.estimators import LinearDiscriminant, NearestMean, Ridge
from redunet.features import Flatten
from redunet_lab.closed_forms import KLDA

pytestmark = pytest.mark.usefixtures("one_thread")


def short_streams(model: Any, scale: int = 1) -> Iterator[Any]:
    """River's own data sets for classifiers, shorter: what is checked is no matter of length."""
    yield datasets.Phishing().take(8 * scale)
    yield ((x, np.bool_(y)) for x, y in datasets.Phishing().take(8 * scale))
    yield datasets.ImageSegments().take(8 * scale)


def test_all_checks_of_river_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(river.checks, "_yield_datasets", short_streams)
    model = RiverClassifier(NearestMean())
    names = {check.__name__ for check in river.checks.yield_checks(model)}
    assert {"check_emerging_features", "check_learn_many_matches_learn_one"} <= names
    assert not model._unit_test_skips()
    river.checks.check_estimator(model)


samples = st.dictionaries(
    st.sampled_from(["a", "b", "c", "d"]),
    st.integers(-20, 20).filter(bool),
    min_size=1,
)


@given(
    stream=st.lists(st.tuples(samples, st.sampled_from("xyz")), min_size=1, max_size=8),
    cut=st.integers(0, 8),
)
@settings(max_examples=40)
def test_features_that_appear_later_are_as_if_they_had_been_zero(
    stream: list[tuple[dict[str, int], str]], cut: int
) -> None:
    model = RiverClassifier(NearestMean())
    for x, y in stream[:cut]:
        model.learn_one(x, y)
    if rest := stream[cut:]:
        frame = pd.DataFrame([x for x, _ in rest]).fillna(0.0)
        model.learn_many(frame, pd.Series([y for _, y in rest]))
    names = model.estimator.feature_names_in_.tolist()
    rows = np.array([[float(x.get(name, 0)) for name in names] for x, _ in stream])
    whole = NearestMean().fit(pd.DataFrame(rows, columns=names), [y for _, y in stream])
    assert model.estimator.to_bytes() == whole.to_bytes()
    for x, _ in stream:
        shares = model.predict_proba_one(x)
        assert list(shares) == whole.classes_.tolist()
        assert sum(shares.values()) == pytest.approx(1)


def test_a_network_learns_one_by_one_what_it_learns_at_once() -> None:
    stream = [(x, y) for x, y in datasets.ImageSegments().take(60)]
    one_by_one = RiverClassifier(ReduNetClassifier(n_layers=2))
    for x, y in stream:
        one_by_one.learn_one(x, y)
    X = pd.DataFrame([x for x, _ in stream])
    X = X[sorted(X.columns)].astype(float)
    at_once = ReduNetClassifier(n_layers=2).fit(X, [y for _, y in stream])
    assert one_by_one.estimator.to_bytes() == at_once.to_bytes()
    assert one_by_one.predict_many(X).tolist() == at_once.predict(X).tolist()
    np.testing.assert_allclose(one_by_one.predict_proba_many(X), at_once.predict_proba(X))
    assert one_by_one.predict_one(stream[0][0]) == at_once.predict(X[:1])[0]


def test_samples_are_withdrawn_and_models_continued() -> None:
    stream = [(x, y) for x, y in datasets.Phishing().take(30)]
    model, without = RiverClassifier(Ridge()), RiverClassifier(Ridge())
    for index, (x, y) in enumerate(stream):
        model.learn_one(x, y)
        if index != 7:
            without.learn_one(x, y)
    model.unlearn_one(*stream[7])
    assert model.estimator.to_bytes() == without.estimator.to_bytes()
    assert set(model.predict_proba_one(stream[0][0])) == {False, True}
    again = RiverClassifier(model.estimator)
    again.learn_one({**stream[7][0], "new": 1}, 1)
    assert model.estimator.n_features_in_ + 1 == again.estimator.n_features_in_
    assert model.clone().predict_one(stream[0][0]) is None
    assert pickle.loads(pickle.dumps(model)).predict_one(stream[0][0]) == model.predict_one(
        stream[0][0]
    )


def test_features_of_a_model_without_names_are_numbers() -> None:
    fitted = NearestMean().fit([[1.0, 0.0], [0.0, 1.0]], [0, 1])
    model = RiverClassifier(fitted)
    assert model.predict_one({0: 3}) == 0
    assert model.predict_one({1: 3, "unknown": 99}) == 1
    model.learn_one({5: 1.0}, 2)
    assert model.predict_one({5: 1}) == 2
    assert fitted.n_features_in_ == 2  # a copy learns


@pytest.mark.parametrize(
    ("x", "y", "message"),
    [
        ({"a": "red"}, 1, "expected a finite number for the feature 'a', got 'red': encode texts"),
        ({"a": float("nan")}, 1, "expected a finite number for the feature 'a', got nan"),
        ({"a": 1}, True, "expected labels that are all bool or none of them, got True"),
        ({"a": 1}, "one", "expected labels that are all int or all str, got int and str"),
        ({3: 1}, 1, "expected names of features that are str, like those of the model, got 3"),
    ],
)
def test_what_cannot_be_learnt_changes_nothing(x: Any, y: Any, message: str) -> None:
    model = RiverClassifier(NearestMean())
    model.learn_one({"a": 1, "b": 2}, 1)
    before = model.estimator.to_bytes()
    with pytest.raises(DataError, match=re.escape(message)):
        model.learn_one(x, y)
    assert model.estimator.to_bytes() == before
    assert model.predict_one({"a": 1}) == 1


@pytest.mark.parametrize(
    ("estimator", "why"),
    [
        (NearestMean(features=Flatten((2,))), "a NearestMean whose input is transformed"),
        (LinearDiscriminant(normalize="constant"), "whose input is transformed"),
        (KLDA(), "a KLDA whose input is transformed"),
    ],
)
def test_a_fixed_input_takes_no_more_features(estimator: Any, why: str) -> None:
    model = RiverClassifier(estimator)
    model.learn_one({"a": 1, "b": 2}, 1)
    with pytest.raises(SettingsError, match=f"{why}.*give all features with the first sample"):
        model.learn_one({"c": 1}, 2)
    model.learn_one({"a": 1}, 2)
    assert model.predict_one({"b": 1}) == 1
