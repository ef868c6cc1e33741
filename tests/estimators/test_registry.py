"""One place for all estimators: reading any file, and adding an estimator from outside."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from redunet import ModelFileError, ReduNetClassifier, SettingsError, estimators
from redunet.core.covariance import class_means
from redunet.core.discriminants import LinearScores
from redunet.core.moments import ClassMoments
from redunet.estimators import (
    CLOSED_FORM,
    ClosedForm,
)
from redunet_lab.closed_forms import CLOSED_FORMS
from tests.conftest import classes_on_subspaces

FIXTURES = Path(__file__).parents[1] / "fixtures" / "models"
X, y = classes_on_subspaces(k=3, d=8, per_class=20, rank=3)
KINDS = [ReduNetClassifier, *CLOSED_FORMS.values()]


@pytest.mark.parametrize("kind", KINDS)
def test_a_file_is_read_by_the_estimator_that_wrote_it(kind: Any, tmp_path: Path) -> None:
    model = kind().fit(X, y)
    model.save(tmp_path / "model")
    again = estimators.load(tmp_path / "model")
    assert type(again) is kind
    assert np.array_equal(again.predict_proba(X), model.predict_proba(X))
    again.save(tmp_path / "again")
    assert (tmp_path / "again").read_bytes() == (tmp_path / "model").read_bytes()


def test_names_that_people_use_and_short_ones() -> None:
    assert list(estimators.names()) == [
        "redunet",
        "nearest-mean",
        "linear-discriminant",
        "ridge",
        "quadratic-discriminant",
        "pairwise-discriminant",
        "air",
        "fecam",
        "klda",
        "ranpac",
        "slda",
        "shift-invariant",
    ]
    for name, kind in {"linear-discriminant": "lda", "nearest-mean": "ncm"}.items():
        assert estimators.estimator_named(name) is estimators.estimator_named(kind)
    with pytest.raises(SettingsError, match="expected an estimator among redunet, nearest-mean"):
        estimators.estimator_named("perceptron")


class Largest(LinearScores):
    """Scores by the direction of the class means."""

    def probabilities(self, scores: torch.Tensor) -> torch.Tensor:
        return torch.softmax(scores, dim=1)


class MeanDirection(ClosedForm):
    """An estimator from outside."""

    kind = "mean-direction"

    def _solve(self, moments: ClassMoments, device: str, **settings: Any) -> Largest:
        means = class_means(moments, device)
        return Largest((means / means.norm(dim=1, keepdim=True)).mT, means.new_zeros(len(means)))


@pytest.fixture
def registered() -> Iterator[None]:
    estimators.register(MeanDirection)
    yield
    del CLOSED_FORM["mean-direction"]


@pytest.mark.usefixtures("registered")
def test_an_estimator_can_be_added_from_outside(tmp_path: Path) -> None:
    model = MeanDirection().fit(X[y < 2], y[y < 2]).partial_fit(X[y == 2], y[y == 2])
    model.save(tmp_path / "model")
    again = estimators.load(tmp_path / "model")
    assert type(again) is MeanDirection
    assert np.array_equal(again.forget([1]).predict(X), model.forget([1]).predict(X))
    assert estimators.estimator_named("mean-direction") is MeanDirection

    class Other(MeanDirection):
        pass

    with pytest.raises(SettingsError, match="but 'mean-direction' is taken"):
        estimators.register(Other)


def test_a_file_of_an_estimator_that_is_not_known_is_refused(tmp_path: Path) -> None:
    MeanDirection().fit(X, y).save(tmp_path / "model")
    with pytest.raises(ModelFileError, match="got 'mean-direction': register it") as caught:
        estimators.load(tmp_path / "model")
    assert "\n" not in str(caught.value)
