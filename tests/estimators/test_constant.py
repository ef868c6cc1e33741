"""A constant beside the samples: their length and sign count, and all else is as before."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.datasets import load_iris
from sklearn.preprocessing import StandardScaler

from redunet import DataError, ReduNetClassifier, SettingsError
from redunet.estimators.inputs import CONSTANT, constant

X, Y = load_iris(return_X_y=True)
Z = StandardScaler().fit_transform(X)
QUICK: dict[str, Any] = {"n_layers": 2, "readout": "quadratic", "device": "cpu"}


def test_it_is_as_if_the_constant_were_a_column() -> None:
    model = ReduNetClassifier(normalize="constant", **QUICK).fit(Z, Y)
    column = np.full((len(Z), 1), constant(4))
    assert constant(4) == 2 * CONSTANT
    other = ReduNetClassifier(**QUICK).fit(np.hstack([Z, column]), Y)
    assert model.moments_ == other.moments_
    assert (model.n_features_in_, other.n_features_in_) == (4, 5)
    assert model.transform(Z).shape == (150, 5)
    assert len(model.get_feature_names_out()) == 5
    assert np.array_equal(model.predict_proba(Z), other.predict_proba(np.hstack([Z, column])))


@settings(max_examples=10, deadline=None)
@given(seed=st.integers(0, 2**16), size=st.integers(1, 60))
def test_any_order_and_batches_give_the_same_file(
    tmp_path_factory: pytest.TempPathFactory, seed: int, size: int
) -> None:
    folder = tmp_path_factory.mktemp("models")
    order = np.random.default_rng(seed).permutation(len(Z))
    grown = ReduNetClassifier(normalize="constant", **QUICK)
    for start in range(0, len(Z), size):
        rows = order[start : start + size]
        grown.partial_fit(Z[rows], Y[rows])
    grown.save(folder / "grown")
    ReduNetClassifier(normalize="constant", **QUICK).fit(Z, Y).save(folder / "whole")
    assert (folder / "grown").read_bytes() == (folder / "whole").read_bytes()


def test_what_is_saved_is_what_is_loaded(tmp_path: Path) -> None:
    model = ReduNetClassifier(normalize="constant", **QUICK).fit(Z, Y)
    model.save(tmp_path / "model")
    loaded = ReduNetClassifier.load(tmp_path / "model")
    assert (loaded.normalize, loaded.n_features_in_) == ("constant", 4)
    assert np.array_equal(loaded.predict_proba(Z), model.predict_proba(Z))
    loaded.partial_fit(Z, Y).unlearn(Z, Y)
    assert loaded.moments_ == model.moments_
    with pytest.raises(DataError, match="X has 5 features, but ReduNetClassifier is expecting 4"):
        loaded.predict(np.ones((1, 5)))
    again = ReduNetClassifier(normalize="constant", **QUICK).remember(model.moments_)
    assert again.n_features_in_ == 4
    with pytest.raises(SettingsError, match="merge models with the same settings"):
        loaded.merge(ReduNetClassifier(**QUICK).fit(Z, Y))


def test_a_range_is_of_classes_alone() -> None:
    with pytest.raises(SettingsError, match="got normalize='constant' and input_range"):
        ReduNetClassifier(normalize="constant", input_range=(0, 1)).fit(Z, Y)
