"""A line where subspaces cover nearly all features, also in Python."""

from __future__ import annotations

import warnings

import pytest
from sklearn.datasets import load_wine

from redunet import CoverageWarning, ReduNetClassifier, from_recipe

X, Y = load_wine(return_X_y=True, as_frame=True)


def test_a_model_that_cannot_work_says_so_once() -> None:
    model = ReduNetClassifier(n_layers=1).fit(X, Y)
    with pytest.warns(CoverageWarning, match="12 dimensions cover nearly all of 13 features"):
        assert model.score(X, Y) < 0.7
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.predict(X)


def test_one_that_can_is_silent_and_frames_are_taken_as_they_are() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert from_recipe("tables", X).fit(X, Y).score(X, Y) > 0.98
        assert ReduNetClassifier(n_layers=1, n_components=3).fit(X, Y).score(X, Y) > 0.6
