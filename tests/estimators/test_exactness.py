"""Incremental = joint, forgotten = never seen, merged = one model: to the last bit."""

from __future__ import annotations

import copy
import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from redunet import ReduNetClassifier
from redunet.features import (
    Chain,
    FeatureMap,
    GaussianLift,
    PatchFilters,
    Scattering,
    StackedPatches,
    Standardize,
)
from redunet_lab.equivalence import file_hash, network_hash
from tests.conftest import classes_on_subspaces

X, y = classes_on_subspaces(k=6, d=10, per_class=14, rank=3)
N = len(y)
NEW = np.random.default_rng(9).standard_normal((20, 10))


def fresh(**settings: Any) -> ReduNetClassifier:
    return ReduNetClassifier(**{"n_layers": 8, "n_components": 3, **settings})


def same_files(one: ReduNetClassifier, other: ReduNetClassifier) -> bool:
    """Whether moments, every layer and the saved files are equal, to the last bit."""
    return one.moments_ == other.moments_ and all(
        of(one) == of(other) for of in (network_hash, file_hash)
    )


def same(one: ReduNetClassifier, other: ReduNetClassifier, new: NDArray[Any] = NEW) -> bool:
    return same_files(one, other) and all(
        np.array_equal(getattr(one, ask)(new), getattr(other, ask)(new))
        for ask in ("predict", "predict_proba", "decision_function", "transform")
    )


@pytest.fixture(
    scope="module",
    params=[
        {"dtype": "float64"},
        {"dtype": "float32"},
        {"whitening": 0.1},
        {"readout": "discriminant"},
        {"readout": "regression"},
        {"readout": "coding"},
    ],
    ids=["float64", "float32", "whitened", "discriminant", "regression", "coding"],
)
def joint(request: pytest.FixtureRequest) -> ReduNetClassifier:
    return fresh(**request.param).fit(X, y)


def like(joint: ReduNetClassifier) -> ReduNetClassifier:
    return fresh(dtype=joint.dtype, whitening=joint.whitening, readout=joint.readout)


@settings(max_examples=8, deadline=None)
@given(st.permutations(range(6)), st.lists(st.integers(1, 5), max_size=4))
def test_class_after_class_in_any_order_and_unequal_tasks(
    joint: ReduNetClassifier, order: list[int], cuts: list[int]
) -> None:
    model = like(joint)
    edges = [0, *sorted(set(cuts)), 6]
    for start, stop in itertools.pairwise(edges):
        rows = np.isin(y, order[start:stop])
        model.partial_fit(X[rows], y[rows])
    assert same(model, joint)


@settings(max_examples=8, deadline=None)
@given(st.permutations(range(N)), st.sampled_from([1, 2, 5, 31, 83]))
def test_any_order_of_samples_in_batches_of_any_size(
    joint: ReduNetClassifier, order: list[int], size: int
) -> None:
    model = like(joint)
    for start in range(0, N, size):
        rows = order[start : start + size]
        model.partial_fit(X[rows], y[rows])
    assert same(model, joint)


def test_looking_between_tasks_changes_nothing(joint: ReduNetClassifier) -> None:
    model = like(joint)
    for label in range(6):
        model.partial_fit(X[y == label], y[y == label])
        model.predict(NEW)
    assert same(model, joint)


def test_memory_layout_and_dtype_of_the_input_change_nothing(joint: ReduNetClassifier) -> None:
    assert same(like(joint).fit(np.asfortranarray(X), y), joint)
    assert same(like(joint).fit(X[::-1], y[::-1]), joint)
    single = X.astype(np.float32)
    assert same(like(joint).fit(single, y), like(joint).fit(single.astype(np.float64), y))


@settings(max_examples=6, deadline=None)
@given(st.sets(st.integers(0, 5), min_size=1, max_size=5))
def test_a_class_forgotten_was_never_seen(joint: ReduNetClassifier, gone: set[int]) -> None:
    rows = ~np.isin(y, list(gone))
    assert same(copy.deepcopy(joint).forget(gone), like(joint).fit(X[rows], y[rows]))


@settings(max_examples=8, deadline=None)
@given(st.sets(st.integers(0, N - 1), min_size=1, max_size=N - 2))
def test_a_sample_unlearnt_was_never_seen(joint: ReduNetClassifier, gone: set[int]) -> None:
    out = sorted(gone)
    rows = np.setdiff1d(np.arange(N), out)
    assert same(copy.deepcopy(joint).unlearn(X[out], y[out]), like(joint).fit(X[rows], y[rows]))


@settings(max_examples=5, deadline=None)
@given(st.lists(st.integers(0, 2), min_size=N, max_size=N).filter(lambda p: len(set(p)) == 3))
def test_merging_is_one_model_in_any_order(joint: ReduNetClassifier, parts: list[int]) -> None:
    of = np.array(parts)
    a, b, c = (like(joint).fit(X[of == p], y[of == p]) for p in range(3))
    left = copy.deepcopy(a).merge(b).merge(c)
    right = copy.deepcopy(c).merge(copy.deepcopy(b).merge(a))
    assert same(left, joint)
    assert same(right, joint)


def test_a_model_saved_midway_goes_on_as_if_it_had_not_been(
    joint: ReduNetClassifier, tmp_path: Path
) -> None:
    rows = y < 3
    like(joint).fit(X[rows], y[rows]).save(tmp_path / "midway")
    model = ReduNetClassifier.load(tmp_path / "midway").partial_fit(X[~rows], y[~rows])
    assert same(model, joint)


def test_class_scaling_is_exact_too() -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (40, 6), dtype=np.uint8)
    labels = np.arange(40) % 4
    how = {"normalize": "class", "input_range": (0, 255)}
    joint = fresh(**how).fit(pixels, labels)
    model = fresh(**how)
    for row in np.random.default_rng(1).permutation(40):
        model.partial_fit(pixels[[row]], labels[[row]])
    assert same(model, joint, pixels)
    assert (
        joint.moments_[0].sum.tolist()
        == (pixels[labels == 0].sum(axis=0, dtype=np.int64) * 2**12).tolist()
    )


IMAGES = np.random.default_rng(5).integers(0, 256, (60, 6, 5, 3), dtype=np.uint8)
LABELS = np.arange(60) % 5
SCATTERING = Scattering((6, 5, 3), J=1, L=2)
SCATTERED = SCATTERING(torch.from_numpy(IMAGES[LABELS < 2]))


@pytest.mark.parametrize(
    "features",
    [
        Standardize.learn(IMAGES[LABELS < 2]),
        Standardize.learn(IMAGES[LABELS < 2], per="pixel"),
        GaussianLift(0, (6, 5, 3), 2),
        GaussianLift.learn(IMAGES[LABELS < 2], seed=3, n_kernels=2),
        GaussianLift.learn(IMAGES[LABELS < 2], seed=3, n_kernels=2, relu=False),
        SCATTERING,
        Chain(SCATTERING, Standardize.learn(SCATTERED, per="pixel")),
        PatchFilters.learn(IMAGES[LABELS < 2], 3, 4, patch_size=3),
        PatchFilters.learn(IMAGES[LABELS < 2], 3, 4, patch_size=3, source="kmeans"),
        StackedPatches.learn(IMAGES[LABELS < 2], 3, 4, patch_size=3),
    ],
    ids=[
        "standardize",
        "per-pixel",
        "lift",
        "lift-mean",
        "lift-linear",
        "scattering",
        "scattering-standardized",
        "patches",
        "patches-kmeans",
        "stacked-patches",
    ],
)
@pytest.mark.filterwarnings("ignore::redunet.LearntFeaturesWarning")
def test_every_promise_holds_through_a_feature_map(features: FeatureMap) -> None:
    how = {"features": features, "n_layers": 2}  # deeper ones are above
    joint = fresh(**how).fit(IMAGES, LABELS)
    model = fresh(**how)
    for part in np.array_split(np.random.default_rng(2).permutation(60), 13):
        model.partial_fit(IMAGES[part], LABELS[part])
    assert same(model, joint, IMAGES)
    rows = LABELS != 3
    never = fresh(**how).fit(IMAGES[rows], LABELS[rows])
    assert same(copy.deepcopy(model).forget([3]), never, IMAGES)
    assert same(copy.deepcopy(model).unlearn(IMAGES[~rows], LABELS[~rows]), never, IMAGES)
    three = fresh(**how).fit(IMAGES[~rows], LABELS[~rows])
    assert same(three.merge(never), joint, IMAGES)


def test_one_and_two_threads_learn_the_same_moments() -> None:
    wide = np.random.default_rng(0).standard_normal((3000, 300))
    labels = np.arange(3000) % 3
    before = torch.get_num_threads()
    hashes = set()
    for threads in (1, 2):
        torch.set_num_threads(threads)
        try:
            hashes.add(file_hash(fresh().fit(wide, labels)))
        finally:
            torch.set_num_threads(before)
    assert len(hashes) == 1
