"""Features that are added to a fitted model, and models that none can be added to."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from redunet import (
    EnsembleClassifier,
    ReduNetClassifier,
    SettingsError,
    ShiftInvariantClassifier,
)
from redunet.estimators.widening import add_features
from tests.conftest import classes_on_subspaces

pytestmark = pytest.mark.usefixtures("one_thread")

X, y = classes_on_subspaces(k=3, d=6, per_class=10, rank=2)


@pytest.mark.parametrize(
    ("model", "has"),
    [
        (EnsembleClassifier(groups=(2, 4)), "moments of groups of features"),
        (EnsembleClassifier(), "moments of groups of features"),
        (ShiftInvariantClassifier(), "moments of shifts"),
    ],
    ids=["groups", "one group", "shifts"],
)
def test_moments_that_are_not_of_vectors_cannot_be_widened(model: Any, has: str) -> None:
    before = model.fit(X, y).to_bytes()
    with pytest.raises(SettingsError, match=f"got an? {type(model).__name__}, which has {has}"):
        add_features(model, 1)
    assert model.to_bytes() == before


@pytest.mark.parametrize("n_more", [0, -1, 1.5, True, "1"])
def test_the_number_of_features_to_add_is_a_whole_one(n_more: Any) -> None:
    """-1 took a feature away."""
    model = ReduNetClassifier(n_layers=1).fit(X, y)
    before = model.to_bytes()
    with pytest.raises(SettingsError, match="expected n_more to be a whole number from 1 on"):
        add_features(model, n_more)
    assert model.to_bytes() == before


def test_a_number_of_numpy_adds_as_many() -> None:
    two: Any = np.int64(2)
    wide = add_features(ReduNetClassifier(n_layers=1).fit(X, y), two)
    zeros = ReduNetClassifier(n_layers=1).fit(np.pad(X, ((0, 0), (0, 2))), y)
    assert wide.to_bytes() == zeros.to_bytes()
