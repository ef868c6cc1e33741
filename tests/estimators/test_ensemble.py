"""EnsembleClassifier: the mean of its members' scores, exactly incremental as all others."""

from __future__ import annotations

import random
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.datasets import load_digits
from sklearn.utils.estimator_checks import parametrize_with_checks

from redunet import (
    DataTypeError,
    EnsembleClassifier,
    ModelFileError,
    ReduNetClassifier,
    SettingsError,
)
from redunet.distributed.task import Task
from redunet.estimators import LinearDiscriminant, PairwiseDiscriminant, Ridge, load, storage
from redunet.features import Concatenate, RandomReLU
from redunet.report.model_view import ModelView
from redunet_lab.closed_forms import KLDA
from tests.conftest import classes_on_subspaces

pytestmark = pytest.mark.usefixtures("one_thread")

X, y = classes_on_subspaces(k=4, d=12, per_class=20, rank=3)
NEW = np.random.default_rng(9).standard_normal((25, 12))
MAPS = Concatenate(tuple(RandomReLU(seed, (12,), width) for seed, width in enumerate((30, 20, 25))))
LAYERS: dict[str, Any] = {
    "n_layers": 2,
    "step": 0.3,
    "step_kind": "relative",
    "sharpness": 20.0,
    "sharpness_kind": "relative",
}
MEMBERS: dict[str, Any] = {
    "ridge": Ridge(0.01),
    "discriminant": LinearDiscriminant(0.1),
    "pairwise": PairwiseDiscriminant(0.1),
    "subspace": ReduNetClassifier(n_layers=0, n_components=3),
    "layers": ReduNetClassifier(**LAYERS, readout="regression"),
    "whitened": ReduNetClassifier(n_layers=0, whitening=0.1, readout="discriminant"),
}


def new(estimator: Any = None) -> EnsembleClassifier:
    return EnsembleClassifier(MEMBERS["ridge"] if estimator is None else estimator, features=MAPS)


@parametrize_with_checks(  # type: ignore[untyped-decorator]
    [EnsembleClassifier(), EnsembleClassifier(Ridge())],
    expected_failed_checks=lambda _: {},
)
def test_scikit_learn_conventions(estimator: Any, check: Any) -> None:
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", category=RuntimeWarning, module="sklearn")
        check(estimator)


@pytest.mark.parametrize("name", MEMBERS)
@pytest.mark.parametrize("k", [2, 4])
def test_scores_are_the_mean_of_those_of_models_of_each_map(name: str, k: int) -> None:
    some = y < k
    model = new(MEMBERS[name]).fit(X[some], y[some])
    parameters = MEMBERS[name].get_params(deep=False)
    alone = [
        type(MEMBERS[name])(**{**parameters, "features": part}).fit(X[some], y[some])
        for part in MAPS.parts
    ]
    mean = np.mean([one.decision_function(NEW) for one in alone], axis=0)
    assert np.abs(model.decision_function(NEW) - mean).max() < 1e-5 * np.abs(mean).max()
    labels = model.predict(NEW)
    assert (labels == (mean.argmax(axis=1) if k > 2 else mean > 0)).all()
    shares = model.predict_proba(NEW)
    assert np.abs(shares.sum(axis=1) - 1).max() < 1e-12
    assert (model.classes_[shares.argmax(axis=1)] == labels).all()


@pytest.mark.parametrize("readout", ["regression", "pairwise"])
def test_a_network_without_layers_is_the_closed_form_of_its_read_out(readout: str) -> None:
    network = ReduNetClassifier(n_layers=0, readout=readout, ridge=0.05)
    closed = {"regression": Ridge, "pairwise": PairwiseDiscriminant}[readout](0.05)
    one, other = (new(made).fit(X, y).decision_function(NEW) for made in (network, closed))
    assert np.abs(one - other).max() < 1e-12


@pytest.mark.parametrize("name", ["ridge", "layers"])
@given(st.integers(0, 2**32))
@settings(max_examples=6, deadline=None)
def test_every_order_and_every_way_gives_the_same_bytes(name: str, seed: int) -> None:
    draw = random.Random(seed)
    rows = draw.sample(range(80), 80)
    cut = draw.randrange(1, 79)
    parts = rows[:cut], rows[cut:]
    whole = new(MEMBERS[name]).fit(X, y)
    apart = new(MEMBERS[name])
    for part in parts:
        apart.partial_fit(X[part], y[part])
    assert whole.to_bytes() == apart.to_bytes()
    assert np.array_equal(whole.decision_function(NEW), apart.decision_function(NEW))
    batches = ((X[part], y[part]) for part in parts)
    assert whole.to_bytes() == new(MEMBERS[name]).partial_fit_batches(batches).to_bytes()
    one, other = (new(MEMBERS[name]).fit(X[part], y[part]) for part in parts)
    alone = one.to_bytes()
    assert whole.to_bytes() == one.merge(other).to_bytes()
    assert alone == one.unlearn(X[parts[1]], y[parts[1]]).to_bytes()
    never = new(MEMBERS[name]).fit(X[y != 2], y[y != 2])
    assert apart.forget([2]).to_bytes() == never.to_bytes()
    assert np.array_equal(apart.decision_function(NEW), never.decision_function(NEW))


@pytest.mark.parametrize("name", MEMBERS)
def test_a_file_leads_back_to_the_model(name: str, tmp_path: Path) -> None:
    model, path = new(MEMBERS[name]).fit(X, y), tmp_path / "model"
    model.save(path)
    again = load(path, memory="1GB")
    assert type(again) is EnsembleClassifier
    assert again.to_bytes() == model.to_bytes()
    assert again.memory == "1GB"
    assert np.array_equal(again.decision_function(NEW), model.decision_function(NEW))
    assert again.partial_fit(NEW[:4], [0, 1, 2, 3]).class_counts_[0] == 21
    assert type(EnsembleClassifier.load(path).estimator) is type(MEMBERS[name])
    with pytest.raises(ModelFileError, match="expected a model of Ridge"):
        Ridge.load(path)


def test_parameters_of_the_estimator_can_be_set_by_their_own_names() -> None:
    model = new(Ridge(0.01)).fit(X, y)
    before = model.decision_function(NEW)
    changed = model.set_params(ridge=0.5).decision_function(NEW)
    assert np.array_equal(changed, new(Ridge(0.5)).fit(X, y).decision_function(NEW))
    assert not np.array_equal(before, changed)
    plain = EnsembleClassifier().set_params(n_layers=3, estimator__eps=0.25)
    member: Any = plain.estimator
    assert (member.n_layers, member.eps) == (3, 0.25)
    assert plain.own_settings()["n_layers"] == 3


def test_groups_can_be_given_in_place_of_maps() -> None:
    model = EnsembleClassifier(Ridge(), groups=(5, 7)).fit(X, y)
    assert [one.n_features for one in model.moments_.groups] == [5, 7]
    alone = EnsembleClassifier(Ridge()).fit(X, y).moments_
    assert alone.groups == (Ridge().fit(X, y).moments_,)
    vectors = np.random.RandomState(0).randn(30, 12)
    other = EnsembleClassifier(Ridge(), groups=(5, 7)).remember(model.moments_)
    assert np.array_equal(model.predict(vectors), other.predict(vectors))
    members = list(model.members())
    assert [one.n_features_in_ for one in members] == [5, 7]
    mean = (
        members[0].decision_function(vectors[:, :5]) + members[1].decision_function(vectors[:, 5:])
    ) / 2
    assert np.abs(model.decision_function(vectors) - mean).max() < 1e-12
    with pytest.raises(SettingsError, match=r"expected groups of 12 features in all, got \[5, 5\]"):
        EnsembleClassifier(groups=(5, 5)).fit(X, y)
    with pytest.raises(SettingsError, match="expected groups as numbers of features"):
        EnsembleClassifier(groups=(5, -1)).fit(X, y)
    with pytest.raises(SettingsError, match="groups changed since the model was fitted"):
        model.set_params(groups=(7, 5)).predict(NEW)


def test_a_file_with_moments_of_other_groups_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "model"
    EnsembleClassifier(Ridge(), groups=(5, 7)).fit(X, y).save(path)
    tensors, content = storage.load(path)
    for groups in ([7, 5], [5, 8], ["a"], "ab", [[5], 7]):
        content["settings"]["groups"] = groups
        storage.save(path, tensors, content)
        with pytest.raises(ModelFileError, match=r"(?i)groups|model of this version"):
            load(path)
    content["settings"] = Ridge()._plain_settings()
    storage.save(path, tensors, content)
    with pytest.raises(ModelFileError, match="of vectors in the file of a Ridge, got moments of"):
        load(path)
    content["settings"] = {"kind": "ensemble", "groups": [5, 7], "estimator": 3}
    storage.save(path, tensors, content)
    with pytest.raises(ModelFileError, match="is not a model of this version"):
        load(path)


def test_what_cannot_be_is_one_line() -> None:
    with pytest.raises(SettingsError, match="a ReduNetClassifier or an estimator in closed form"):
        EnsembleClassifier(EnsembleClassifier()).fit(X, y)
    with pytest.raises(SettingsError, match="without a feature map of its own, got klda"):
        EnsembleClassifier(KLDA()).fit(X, y)
    with pytest.raises(SettingsError, match="expected normalize='sample' for an Ensemble"):
        EnsembleClassifier(normalize="class", input_range=(-9, 9)).fit(X, y)
    model = new().fit(X, y)
    with pytest.raises(SettingsError, match="they differ in ridge"):
        model.merge(new(Ridge(0.2)).fit(X, y))
    with pytest.raises(DataTypeError, match="expected moments of vectors for a Ridge"):
        Ridge().remember(model.moments_)
    with pytest.raises(DataTypeError, match="expected moments of groups of features for a"):
        new().remember(Ridge(features=MAPS).fit(X, y).moments_)
    with pytest.raises(SettingsError, match="to learn in parts, got one of ensemble"):
        Task.of(new())
    with pytest.raises(SettingsError, match=r"of several feature maps, got one of groups of vec"):
        ModelView(EnsembleClassifier(Ridge(), groups=(5, 7)).fit(X, y)).network  # noqa: B018
    with pytest.raises(SettingsError, match="memory"):
        new().set_params(memory="lots").fit(X, y)
    before = model.to_bytes()
    for bad in ([[np.nan] * 12], [[1.0] * 11]):
        with pytest.raises(ValueError, match=r"NaN|expected samples of shape"):
            model.partial_fit(bad, [0])
    assert model.to_bytes() == before


DIGITS = load_digits()
IMAGES, LABELS = DIGITS.images.astype(np.uint8), DIGITS.target
PATCHES: dict[str, Any] = {"features": "patches", "n_filters": 6, "patch_size": 3}


def new_like(model: EnsembleClassifier) -> EnsembleClassifier:
    return EnsembleClassifier(**model.get_params(deep=False))
