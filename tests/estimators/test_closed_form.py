"""Closed-form estimators: exactly incremental, safely saved, in scikit-learn's conventions."""

from __future__ import annotations

import copy
import math
import pickle
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.utils.estimator_checks import parametrize_with_checks

from redunet import (
    DataError,
    ModelFileError,
    ReduNetClassifier,
    SettingsError,
)
from redunet.estimators import storage
from redunet.estimators.closed_form import ClosedForm
from redunet.features import GaussianLift
from redunet_lab.closed_forms import CLOSED_FORMS
from tests.conftest import classes_on_subspaces

X, y = classes_on_subspaces(k=6, d=10, per_class=14, rank=3)
N = len(y)
NEW = np.random.default_rng(9).standard_normal((20, 10))
SMALL: dict[str, dict[str, Any]] = {
    "ranpac": {"n_projections": 20},
    "klda": {"n_projections": 20, "gamma": 0.5},
}
METHODS: list[tuple[str, dict[str, Any]]] = [("lda", {}), ("klda", SMALL["klda"])]
"""One without a feature map of its own, and one with."""

pytestmark = pytest.mark.usefixtures("one_thread")


@parametrize_with_checks([CLOSED_FORMS["qda"]()])  # type: ignore[untyped-decorator]
def test_scikit_learn_conventions(estimator: Any, check: Any) -> None:
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", category=RuntimeWarning, module="sklearn")
        check(estimator)


@pytest.fixture(
    scope="module",
    params=METHODS,
    ids=lambda method: "-".join([method[0], *map(str, method[1].values())]),
)
def joint(request: pytest.FixtureRequest) -> Any:
    method, params = request.param
    return CLOSED_FORMS[method](**params).fit(X, y)


def saved(model: ClosedForm, folder: Path) -> bytes:
    model.save(folder / "model")
    return (folder / "model").read_bytes()


def assert_same(one: Any, other: Any, folder: Path, new: NDArray[Any] = NEW) -> None:
    """Moments, files, learnt parameters and answers are equal, to the last bit."""
    assert one.moments_ == other.moments_
    assert saved(one, folder) == saved(other, folder)
    mine, theirs = vars(one.solution_), vars(other.solution_)
    assert mine.keys() == theirs.keys()
    assert all(torch.equal(mine[name], theirs[name]) for name in mine)
    assert np.array_equal(one.predict(new), other.predict(new))
    assert np.array_equal(one.decision_function(new), other.decision_function(new))
    assert np.array_equal(one.predict_proba(new), other.predict_proba(new))


def test_the_measure_of_sameness_notices_one_sample_more(joint: Any, tmp_path: Path) -> None:
    more = clone(joint).fit(np.vstack([X, NEW[:1]]), np.append(y, 0))
    with pytest.raises(AssertionError):
        assert_same(joint, more, tmp_path)
    assert saved(joint, tmp_path) != saved(more, tmp_path)
    assert not np.array_equal(joint.decision_function(NEW), more.decision_function(NEW))


@settings(max_examples=8, deadline=None)
@given(st.permutations(range(N)), st.sampled_from([1, 2, 5, 31, 83]))
def test_any_order_of_samples_in_batches_of_any_size(
    tmp_path_factory: pytest.TempPathFactory, joint: Any, order: list[int], size: int
) -> None:
    model = clone(joint)
    for start in range(0, N, size):
        rows = order[start : start + size]
        model.partial_fit(X[rows], y[rows])
    assert_same(model, joint, tmp_path_factory.getbasetemp())


@settings(max_examples=6, deadline=None)
@given(st.permutations(range(6)), st.integers(1, 5))
def test_class_after_class_with_looks_between_tasks(
    tmp_path_factory: pytest.TempPathFactory, joint: Any, order: list[int], cut: int
) -> None:
    model = clone(joint)
    for labels in (order[:cut], order[cut:]):
        rows = np.isin(y, labels)
        model.partial_fit(X[rows], y[rows])
        assert set(model.predict(NEW)) <= set(model.classes_)
    assert_same(model, joint, tmp_path_factory.getbasetemp())


@settings(max_examples=6, deadline=None)
@given(st.sets(st.integers(0, N - 1), min_size=1, max_size=N - 2))
def test_what_is_withdrawn_was_never_seen(
    tmp_path_factory: pytest.TempPathFactory, joint: Any, gone: set[int]
) -> None:
    folder, out = tmp_path_factory.getbasetemp(), sorted(gone)
    rows = np.setdiff1d(np.arange(N), out)
    model = copy.deepcopy(joint).unlearn(X[out], y[out])
    assert_same(model, clone(joint).fit(X[rows], y[rows]), folder)
    rest = y != 3
    assert_same(copy.deepcopy(joint).forget([3]), clone(joint).fit(X[rest], y[rest]), folder)


@settings(max_examples=6, deadline=None)
@given(st.lists(st.integers(0, 1), min_size=N, max_size=N).filter(lambda p: len(set(p)) == 2))
def test_merging_is_one_model(
    tmp_path_factory: pytest.TempPathFactory, joint: Any, parts: list[int]
) -> None:
    of = np.array(parts)
    one, other = (clone(joint).fit(X[of == part], y[of == part]) for part in (0, 1))
    assert_same(one.merge(other), joint, tmp_path_factory.getbasetemp())


def test_every_promise_holds_through_a_feature_map(joint: Any, tmp_path: Path) -> None:
    images = np.random.default_rng(5).integers(0, 256, (30, 4, 4, 3), dtype=np.uint8)
    labels = np.arange(30) % 3
    whole = clone(joint).set_params(features=GaussianLift(0, (4, 4, 3), 2)).fit(images, labels)
    model = clone(whole)
    for row in np.random.default_rng(2).permutation(30):
        model.partial_fit(images[[row]], labels[[row]])
    assert_same(model, whole, tmp_path, images)
    assert_same(type(whole).load(tmp_path / "model"), whole, tmp_path, images)


# Files


def test_a_loaded_model_goes_on_as_if_it_had_not_been_away(joint: Any, tmp_path: Path) -> None:
    rows = y < 3
    clone(joint).fit(X[rows], y[rows]).save(tmp_path / "midway")
    model = type(joint).load(tmp_path / "midway")
    assert model.get_params() == joint.get_params()
    assert_same(model.partial_fit(X[~rows], y[~rows]), joint, tmp_path)


def test_a_file_of_another_method_is_refused(joint: Any, tmp_path: Path) -> None:
    joint.save(tmp_path / "rival")
    ReduNetClassifier(n_layers=1).fit(X, y).save(tmp_path / "network")
    with pytest.raises(ModelFileError, match="expected a model of Ridge"):
        CLOSED_FORMS["ridge"].load(tmp_path / "rival")
    with pytest.raises(ModelFileError, match=f"expected a model of {type(joint).__name__}"):
        type(joint).load(tmp_path / "network")
    with pytest.raises(ModelFileError, match="expected the settings n_layers, eps"):
        ReduNetClassifier.load(tmp_path / "rival")


def test_pickle_keeps_moments_and_no_solution(joint: Any, tmp_path: Path) -> None:
    assert_same(pickle.loads(pickle.dumps(joint)), joint, tmp_path)
    empty = clone(joint).fit(X, y)
    assert len(pickle.dumps(joint)) < len(pickle.dumps(empty)) + 100


# Settings

PENALTIES = {"lda": "shrinkage", "ridge": "ridge", "qda": "shrinkage"}
"""Of methods whose files call it by an earlier name."""

ALL_PENALTIES = PENALTIES | {
    "slda": "shrinkage",
    "air": "ridge",
    "ranpac": "ridge",
    "klda": "shrinkage",
    "fecam": "alpha",
}

BAD_SETTINGS = [
    *(("lda", "shrinkage", value) for value in (0, 1.5, math.nan, "much", True)),
    ("qda", "distance", "euclid"),
    ("klda", "n_projections", 2.5),
    ("lda", "normalize", "l2"),
    ("lda", "features", "lift"),
    ("lda", "device", "abacus"),
]


@pytest.mark.parametrize(("method", "name", "value"), BAD_SETTINGS, ids=str)
def test_a_bad_setting_is_one_line_and_changes_nothing(
    method: str, name: str, value: Any, tmp_path: Path
) -> None:
    model: Any = CLOSED_FORMS[method](**SMALL.get(method, {})).fit(X, y)
    before, good = saved(model, tmp_path), model.get_params()[name]
    model.set_params(**{name: value})
    for act, data in (("fit", (X, y)), ("partial_fit", (X, y)), ("predict", (X,))):
        with pytest.raises(SettingsError, match=name) as caught:
            getattr(model, act)(*data)
        assert "\n" not in str(caught.value)
    assert saved(model.set_params(**{name: good}), tmp_path) == before


def test_settings_take_effect_at_the_next_use() -> None:
    for method, name in ALL_PENALTIES.items():
        small = SMALL.get(method, {})
        model = CLOSED_FORMS[method](**{name: 0.01, **small}).fit(X, y)
        first = model.decision_function(NEW)
        changed = model.set_params(**{name: 0.7}).decision_function(NEW)
        fresh = CLOSED_FORMS[method](**{name: 0.7, **small}).fit(X, y)
        assert np.array_equal(changed, fresh.decision_function(NEW))
        assert not np.allclose(changed, first)


def test_files_keep_the_earlier_name_of_a_setting(tmp_path: Path) -> None:
    for method, name in PENALTIES.items():
        CLOSED_FORMS[method](**{name: 0.25}).fit(X, y).save(tmp_path / method)
        _, content = storage.load(tmp_path / method)
        assert content["settings"]["regularization"] == 0.25
        assert CLOSED_FORMS[method].load(tmp_path / method).get_params()[name] == 0.25


def test_models_made_otherwise_are_not_merged() -> None:
    one, other = (CLOSED_FORMS["lda"](shrinkage=r).fit(X, y) for r in (0.1, 0.2))
    with pytest.raises(SettingsError, match="they differ in shrinkage"):
        one.merge(other)
    with pytest.raises(DataError, match="expected a LinearDiscriminant to merge, got Ridge"):
        one.merge(CLOSED_FORMS["ridge"]().fit(X, y))


# Shapes and edges


def test_two_classes_have_one_score_and_one_class_one_column(joint: Any) -> None:
    two = clone(joint).fit(X[y < 2], np.array(["one", "nought"])[y[y < 2]])
    scores = two.decision_function(NEW)
    assert scores.shape == (20,)
    assert np.array_equal(two.classes_[(scores > 0).astype(int)], two.predict(NEW))
    one = clone(joint).fit(X[y == 4], y[y == 4])
    assert one.decision_function(NEW).shape == (20, 1)
    assert set(one.predict(NEW)) == {4}


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_on_a_gpu_files_are_equal_and_scores_nearly(joint: Any, tmp_path: Path) -> None:
    there = clone(joint).set_params(device="cuda").fit(X, y)
    here = clone(joint).set_params(device="cpu").fit(X, y)
    assert saved(there, tmp_path) == saved(here, tmp_path)
    np.testing.assert_allclose(
        there.decision_function(NEW), here.decision_function(NEW), rtol=1e-9, atol=1e-9
    )
