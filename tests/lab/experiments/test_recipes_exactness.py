"""Every promise of exactness, for every recipe: files, layers and labels to the last bit.

Recipes are made smaller in the number of filters, kernels, windows, maps and patches
that are drawn only; all else is as they have it. What is learnt for the features comes
from the first task.
"""

from __future__ import annotations

import copy
import warnings
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from redunet import LearntFeaturesWarning, ReduNetClassifier
from redunet_lab.equivalence import file_hash
from redunet_lab.experiment import Experiment
from redunet_lab.recipes import from_recipe, names
from tests.estimators.test_exactness import same_files
from tests.small_images import images_of

pytestmark = pytest.mark.usefixtures("one_thread")

SHAPES = {"grey": (9, 9), "colour": (8, 8, 3)}
WIDER = {"grey": (16, 15), "colour": (15, 16, 3)}
"""For recipes with scattering or large patches, which take more room."""
SMALLER: dict[str, Any] = {"n_filters": 4, "n_kernels": 2, "n_scales": 2, "pool": 4, "width": 40}


@dataclass(frozen=True)
class Case:
    """A recipe, images to learn, others to label, and the model that learnt all at once."""

    name: str
    X: NDArray[Any]
    y: NDArray[Any]
    new: NDArray[Any]
    joint: ReduNetClassifier

    def fresh(self) -> ReduNetClassifier:
        """One that has learnt nothing, with features of the same first task."""
        return type(self.joint)(**self.joint.get_params(deep=False))

    def taught(self, *parts: NDArray[Any]) -> ReduNetClassifier:
        """One that has learnt parts of the images, one after another."""
        model = self.fresh()
        for rows in parts:
            model.partial_fit(self.X[rows], self.y[rows])
        return model

    def answers(self, model: ReduNetClassifier) -> tuple[NDArray[Any], NDArray[Any]]:
        """Labels and scores of the other images."""
        return model.predict(self.new), model.decision_function(self.new)

    @cached_property
    def answers_of_joint(self) -> tuple[NDArray[Any], NDArray[Any]]:
        return self.answers(self.joint)

    def same(self, one: ReduNetClassifier, other: ReduNetClassifier) -> bool:
        """Whether files, layers, labels and scores are equal, to the last bit."""
        (mine, my_scores), (theirs, their_scores) = (
            self.answers_of_joint if model is self.joint else self.answers(model)
            for model in (one, other)
        )
        equal = np.array_equal(mine, theirs) and np.array_equal(my_scores, their_scores)
        return equal and same_files(one, other)


def made(name: str, first_task: NDArray[Any]) -> ReduNetClassifier:
    maps = min(2, Experiment.of(recipe=name).plan.n_ensemble)
    model: ReduNetClassifier = from_recipe(
        name, first_task, device="cpu", **SMALLER, n_ensemble=maps
    )
    return model


CASES = [
    (name, kind)
    for name in names()
    for kind in SHAPES
    if kind == "grey"
    or Experiment.of(recipe=name).plan.features != "pixels"  # to pixels a colour is one more
]


@pytest.fixture(scope="module", params=CASES, ids="-".join)
def case(request: pytest.FixtureRequest) -> Case:
    name, kind = request.param
    X: NDArray[Any]
    new: NDArray[Any]
    plan = Experiment.of(recipe=name).plan
    wide = any(part in plan.features for part in ("scattering", "planes", "larger"))
    wide |= "patches-8" in plan.features and not plan.padding
    shape = (WIDER if wide else SHAPES)[kind]
    X, y = images_of(shape, classes=3, per_class=14, seed=1)
    new, _ = images_of(shape, classes=3, per_class=6, seed=2)
    if name == "features":  # vectors, such as an encoder gives, neither whole nor of one sign
        shift = np.random.RandomState(3).standard_normal((int(np.prod(shape)), 40))
        X, new = (images.reshape(len(images), -1) / 255 @ shift for images in (X, new))
    joint = made(name, X[y < 2]).fit(X, y)
    return Case(name, X, y, new, joint)


def of(case: Case, *classes: int) -> NDArray[Any]:
    return np.flatnonzero(np.isin(case.y, classes))


def test_the_recipe_is_as_it_is_but_for_its_size(case: Case) -> None:
    plan, params = Experiment.of(recipe=case.name).plan, case.joint.get_params()
    wanted = plan.network().to_dict()
    if plan.shifts:  # has neither
        del wanted["whitening"], wanted["ridge"]
    if plan.n_ensemble > 1:  # they are those of each network
        params |= params["estimator"].get_params()
    assert wanted.items() <= params.items()
    # A measure that finds everything equal would prove nothing.
    assert not case.same(case.joint, case.taught(np.arange(len(case.y) - 1)))


def test_task_after_task_is_joint(case: Case) -> None:
    assert case.same(case.taught(of(case, 0, 1), of(case, 2)), case.joint)
    batches = np.array_split(np.random.RandomState(4).permutation(len(case.y)), 7)
    assert file_hash(case.taught(*batches)) == file_hash(case.joint)


def test_filters_of_the_same_first_task_are_the_same(case: Case) -> None:
    again = made(case.name, case.X[case.y < 2]).fit(case.X, case.y)
    assert file_hash(again) == file_hash(case.joint)


def test_forgotten_is_never_seen(case: Case) -> None:
    model, never = copy.deepcopy(case.joint), case.taught(of(case, 0, 2))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", LearntFeaturesWarning)
        model.forget([1])
    assert case.same(model, never)
    model.partial_fit(case.X[of(case, 1)], case.y[of(case, 1)])
    assert file_hash(model) == file_hash(case.joint)


def test_unlearnt_is_never_seen(case: Case) -> None:
    gone = np.random.RandomState(5).permutation(len(case.y))[:9]
    rest = np.setdiff1d(np.arange(len(case.y)), gone)
    model = copy.deepcopy(case.joint)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", LearntFeaturesWarning)
        model.unlearn(case.X[gone], case.y[gone])
    assert case.same(model, case.taught(rest))


def test_merged_is_one_model_that_saw_both(case: Case) -> None:
    halves = np.array_split(np.random.RandomState(6).permutation(len(case.y)), 2)
    one, other = (case.taught(half) for half in halves)
    assert case.same(one.merge(other), case.joint)


def test_a_saved_model_goes_on_as_if_it_had_never_stopped(case: Case, tmp_path: Any) -> None:
    case.taught(of(case, 0, 1)).save(tmp_path / "model")
    model = type(case.joint).load(tmp_path / "model")
    model.partial_fit(case.X[of(case, 2)], case.y[of(case, 2)])
    assert file_hash(model) == file_hash(case.joint)
