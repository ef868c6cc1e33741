"""Estimators over the same moments: shared, and as if each had learnt them itself."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from redunet import DataError, ReduNetClassifier, SettingsError
from redunet.core.moments import ClassMoments
from redunet.features import GaussianLift
from redunet_lab.closed_forms import CLOSED_FORMS

pytestmark = pytest.mark.usefixtures("one_thread")

IMAGES = np.random.RandomState(3).randint(0, 256, (90, 6, 6, 1)).astype(np.uint8)
LABELS = np.arange(90) % 3
LIFT = GaussianLift(0, (6, 6, 1), 2, True, False)
OWN_MAP = ("ranpac", "klda")
KINDS: list[Any] = [
    ReduNetClassifier,
    *(kind for name, kind in CLOSED_FORMS.items() if name not in OWN_MAP),
]


def vectors(images: NDArray[Any]) -> NDArray[np.float64]:
    return LIFT(torch.from_numpy(images.astype(np.float64))).numpy()


@pytest.mark.parametrize("kind", OWN_MAP)
def test_moments_do_not_say_what_a_map_was_applied_to(kind: str) -> None:
    moments = ReduNetClassifier().fit(vectors(IMAGES), LABELS).moments_
    with pytest.raises(SettingsError, match="expected an estimator that has no feature map"):
        CLOSED_FORMS[kind](20).remember(moments)


@pytest.mark.parametrize("kind", KINDS)
def test_moments_taken_over_are_as_good_as_learnt(kind: Any, tmp_path: Path) -> None:
    teacher = ReduNetClassifier(features=LIFT).fit(IMAGES[:60], LABELS[:60])
    fitted = kind(features=LIFT).fit(IMAGES[:60], LABELS[:60])
    given = kind(features=LIFT).remember(teacher.moments_)
    assert given.moments_ is teacher.moments_
    wanted = fitted.decision_function(IMAGES)
    assert np.array_equal(given.decision_function(IMAGES), wanted)
    # The map may also have been applied already.
    bare = kind().remember(teacher.moments_)
    assert np.array_equal(bare.decision_function(vectors(IMAGES)), wanted)
    given.save(tmp_path / "given")
    fitted.save(tmp_path / "fitted")
    assert (tmp_path / "given").read_bytes() == (tmp_path / "fitted").read_bytes()


def test_what_was_taken_over_can_be_learnt_on_and_stays_with_its_teacher() -> None:
    teacher = ReduNetClassifier(features=LIFT).fit(IMAGES[:60], LABELS[:60])
    before = teacher.moments_
    pupil = CLOSED_FORMS["lda"](features=LIFT).fit(IMAGES[60:], LABELS[60:])
    pupil.remember(before).partial_fit(IMAGES[60:], LABELS[60:])
    assert pupil.moments_ == ReduNetClassifier(features=LIFT).fit(IMAGES, LABELS).moments_
    assert teacher.moments_ is before


def test_moments_that_cannot_be_taken_over_change_nothing() -> None:
    pupil = ReduNetClassifier(features=LIFT).fit(IMAGES, LABELS)
    before = pupil.moments_
    with pytest.raises(DataError, match=r"expected moments of 72 features, got 5: pass moments"):
        pupil.remember(ClassMoments(5).update(torch.eye(5), [0, 0, 1, 1, 1]))
    with pytest.raises(DataError, match="expected at least one class to remain"):
        pupil.remember(ClassMoments(72))
    with pytest.raises(SettingsError, match="expected n_components below n_features = 72, got 99"):
        pupil.set_params(n_components=99).remember(before)
    assert pupil.moments_ is before


def test_a_read_out_goes_with_its_network() -> None:
    """One kept beyond its network could be taken for that of another in the same place."""
    model = ReduNetClassifier(features=LIFT, n_layers=2, n_components=4).fit(IMAGES, LABELS)
    model.predict(IMAGES[:1])
    for n_layers in (3, 2, 4, 2):
        model.set_params(n_layers=n_layers)
        assert len(model.network_.layers) == n_layers
        assert not model._predictor().built().cache._results
    fresh = ReduNetClassifier(features=LIFT, n_layers=2, n_components=4).fit(IMAGES, LABELS)
    assert np.array_equal(
        model.set_params(n_layers=2).decision_function(IMAGES), fresh.decision_function(IMAGES)
    )


@pytest.mark.parametrize("readout", ["coding", "discriminant", "regression"])
def test_subspaces_that_are_not_asked_for_may_be_too_large(readout: str) -> None:
    """So that a recipe, with the components that serve its subspaces, holds for few features."""
    usual = ReduNetClassifier(features=LIFT, n_layers=2, readout=readout).fit(IMAGES, LABELS)
    large = ReduNetClassifier(features=LIFT, n_layers=2, readout=readout, n_components=72)
    assert np.array_equal(
        large.fit(IMAGES, LABELS).predict_proba(IMAGES), usual.predict_proba(IMAGES)
    )
    with pytest.raises(SettingsError, match="expected n_components below n_features = 72, got 72"):
        large.set_params(readout="subspace").predict(IMAGES)


@pytest.mark.parametrize(
    ("n_components", "d", "used"), [(None, 100, 28), (None, 28, 27), (None, 1, 1), (5, 6, 5)]
)
def test_as_many_components_as_leave_something_out(
    n_components: int | None, d: int, used: int
) -> None:
    model = ReduNetClassifier(n_components=n_components)
    assert model._settings().components(d) == used
