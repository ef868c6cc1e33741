"""Bad settings, bad withdrawals and bad merges: one line, and a model that is as it was."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

from redunet import (
    ReduNetClassifier,
    SettingsError,
)
from redunet.core.grid import unit_grid
from redunet.features import Flatten, Standardize
from tests.estimators.test_bad_input import (
    ARRAY,
    ASK,
    NAMED,
    D,
    X,
    fitted,
    fresh,
    refused,
    state,
    y,
)

pytestmark = pytest.mark.usefixtures("one_thread")

# Settings

BAD_SETTINGS: dict[str, list[Any]] = {
    "n_layers": [-1, 10**9, True, ARRAY],
    "eps": [0, math.nan, 10**400],
    "step": [0, "1"],
    "step_decay": [1.01],
    "step_kind": ["abs", ARRAY],
    "sharpness": [1e308],
    "n_components": [2.0, D],
    "whitening": [1e7],
    "readout": ["lda"],
    "ridge": [None],
    "normalize": ["class"],
    "input_range": [(0, 1)],
    "features": [Flatten, 3],
    "tol": [math.inf],
    "dtype": [torch.float32],
    "device": ["nowhere", "meta"],
    "memory": ["2XB", -1],
}


@pytest.mark.parametrize(
    ("name", "value"),
    [(name, value) for name, values in BAD_SETTINGS.items() for value in values],
    ids=lambda value: str(value)[:9],
)
def test_settings_out_of_range(name: str, value: Any) -> None:
    method = "partial_fit"
    model, before = fitted()
    good = model.get_params()[name]
    model.set_params(**{name: value})
    with refused(ValueError, name):
        getattr(model, method)(X, y)
    assert model.get_params()[name] is value
    assert state(model.set_params(**{name: good})) == before

    unfitted = fresh(**{name: value})
    with refused(ValueError, name):
        getattr(unfitted, method)(X, y)
    assert not [attribute for attribute in vars(unfitted) if attribute.endswith("_")]
    unfitted.set_params(**{name: good})
    assert getattr(unfitted, method)(X[:, :4], y).n_features_in_ == 4


@pytest.mark.parametrize(
    "value",
    [(1, 0), (0, math.nan), (0,), 3, "01", ARRAY],
    ids=repr,
)
def test_ranges_that_are_none(value: Any) -> None:
    model = fresh(normalize="class", input_range=value)
    with refused(ValueError, r"expected input_range=\(low, high\)"):
        model.fit(X, y)
    assert model.set_params(input_range=(-99, 99)).fit(X, y).n_features_in_ == D


class Odd:
    """A value that cannot be compared, as some libraries have."""

    def __eq__(self, other: object) -> bool:
        raise ValueError("compared")

    __hash__ = None  # type: ignore[assignment]


@pytest.mark.parametrize("value", [np.array([0, 1.0]), [0, 1], (np.float32(0), np.int8(1))])
def test_a_range_of_any_plain_type_answers_as_the_tuple_does(value: Any) -> None:
    """Parameters that NumPy compares value by value are set before, between and after answers."""
    model = fresh(normalize="class", input_range=(0.0, 1.0)).fit(np.abs(X) % 1, y)
    expected = model.decision_function(np.abs(X) % 1)
    for same in (value, np.array([0, 1.0]), value, (0.0, 1.0)):
        model.set_params(input_range=same)
        assert (model.decision_function(np.abs(X) % 1) == expected).all()
    assert model.set_params(input_range=value).network_ is model.network_


@pytest.mark.parametrize(
    "value", [np.array([1, 2.0]), math.nan, [1, 2], Odd()], ids=["array", "nan", "list", "odd"]
)
@pytest.mark.parametrize("name", ["eps", "input_range", "features", "memory"])
def test_a_setting_that_cannot_be_compared_after_an_answer(name: str, value: Any) -> None:
    model, _ = fitted()
    good, labels = model.get_params()[name], model.predict(X)
    model.set_params(**{name: value})
    for _ in range(2):
        with refused(SettingsError, name):
            model.predict(X)
    assert (model.set_params(**{name: good}).predict(X) == labels).all()


@pytest.mark.parametrize("eps", [1e-200, 1e-160, 1e160, 1e200])
def test_a_precision_beyond_the_numbers(eps: float) -> None:
    model = fresh(eps=eps)
    with refused(Exception, "eps"):
        model.fit(X, y).predict(X)
    assert state(model.set_params(eps=0.5).fit(X, y)) == state(fresh(eps=0.5).fit(X, y))


@pytest.mark.parametrize(
    "change",
    [
        {"features": Flatten((D,))},
        {"features": Standardize.learn(X)},
        {"normalize": "class", "input_range": (-99, 99)},
    ],
    ids=["flatten", "standardize", "class"],
)
def test_another_input_asks_for_a_new_fit(change: dict[str, Any]) -> None:
    model = fresh().fit(X, y)
    before, good = state(model), model.get_params()
    model.set_params(**change)
    acts: list[Callable[[], object]] = [
        partial(model.partial_fit, X, y),
        partial(model.unlearn, X[:1], y[:1]),
        partial(model.merge, fresh().fit(X, y)),
        partial(model.save, "/nowhere"),
        *(partial(getattr(model, ask), X) for ask in ASK),
    ]
    for act in acts:
        with refused(SettingsError, "features, normalize or input_range changed.*fit again"):
            act()
    assert state(model.set_params(**good)) == before
    assert state(model.set_params(**change).fit(X, y)) == state(fresh(**change).fit(X, y)) != before


# Forgetting, unlearning, merging


@pytest.mark.parametrize(
    ("classes", "kind", "pattern"),
    [
        ([3], ValueError, r"learnt \(0, 1, 2\), got 3"),
        (["0"], ValueError, "got '0'"),
        ([1, "a"], ValueError, "got 'a'"),
        ([0, 1, 2], ValueError, "at least one class to remain"),
        (1, TypeError, "got 1"),
        ([True], ValueError, "got True"),
    ],
    ids=str,
)
def test_classes_that_cannot_be_forgotten(
    classes: Any, kind: type[Exception], pattern: str
) -> None:
    model, before = fitted()
    with refused(kind, pattern):
        model.forget(classes)
    assert state(model) == before


def test_the_last_class_stays() -> None:
    model = fresh().fit(X, y).forget([0, 2])
    before = state(model)
    with refused(ValueError, "at least one class to remain"):
        model.forget([1])
    with refused(ValueError, "at least one class to remain"):
        model.unlearn(X[y == 1], y[y == 1])
    assert state(model) == before


@pytest.mark.parametrize(
    ("rows", "labels"),
    [
        (np.concatenate([X[y == 0], X[y == 0][:1]]), [0] * 9),
        (X[y == 0][[0, 0]], [0, 0]),
        (X[y == 0][:1], [1]),
        (-X[y == 0][:1], [0]),
        (X[y == 0][:1] + 1e-3, [0]),
        (np.zeros((1, D)), [0]),
    ],
    ids=["too-many", "twice", "other-label", "negative", "nearly", "zero"],
)
def test_samples_that_were_never_learnt(rows: Any, labels: list[int]) -> None:
    few = np.concatenate([np.flatnonzero(y == label)[:4] for label in range(3)])
    model = fresh().fit(X[few] if len(rows) < 3 else X, y[few] if len(rows) < 3 else y)
    before = state(model)
    with refused(ValueError, f"withdrawing these {len(rows)} from a class of"):
        model.unlearn(rows, labels)
    assert state(model) == before


@given(st.data(), st.integers(2, 12), st.integers(0, 99))
@settings(max_examples=60, deadline=None)
def test_what_was_learnt_can_be_withdrawn(data: st.DataObject, n: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    samples = rng.integers(-2, 3, (n, D)) * 10.0 ** rng.integers(-9, 9, (n, 1))
    labels = rng.integers(0, 3, n)
    gone = data.draw(st.sets(st.integers(0, n - 1), min_size=1, max_size=n - 1))
    left = [row for row in range(n) if row not in gone]
    model = fresh().fit(samples, labels).unlearn(samples[list(gone)], labels[list(gone)])
    assert model.moments_ == fresh().fit(samples[left], labels[left]).moments_


def made(**params: Any) -> ReduNetClassifier:
    return fresh(**params).fit(X, y)


MERGES: dict[str, tuple[Callable[[], Any], type[Exception], str]] = {
    **{
        name: (partial(made, **{name: value}), ValueError, name)
        for name, value in {
            "eps": 0.4, "n_components": None, "dtype": "float32", "features": Flatten((D,)),
        }.items()
    },
    "pixels": (partial(made, features=Standardize.learn(X, per="pixel")), ValueError, "features"),
    "range": (partial(made, normalize="class", input_range=(-9, 9)), ValueError, "input_range"),
    "fewer": (lambda: fresh().fit(X[:, :4], y), ValueError, "number of features"),
    "words": (lambda: fresh().fit(X, y.astype(str)), ValueError, "all int or all str"),
    "names": (lambda: fresh().fit(NAMED, y), ValueError, "feature names"),
    "unfitted": (fresh, NotFittedError, "learnt nothing yet"),
    "number": (lambda: 3, ValueError, "ReduNetClassifier to merge, got int"),
    "moments": (lambda: fresh().fit(X, y).moments_, ValueError, "got ClassMoments"),
}  # fmt: skip


@pytest.mark.parametrize("case", MERGES)
def test_models_that_cannot_be_merged(case: str) -> None:
    make, kind, pattern = MERGES[case]
    model, other = fresh().fit(X, y), make()
    before = state(model)
    with refused(kind, pattern):
        model.merge(other)
    assert state(model) == before
    if isinstance(other, ReduNetClassifier) and hasattr(other, "moments_"):
        moments = other.moments_
        with refused(kind, pattern):
            other.merge(model)
        assert other.moments_ is moments


# Before fit, and interrupted


@pytest.mark.parametrize("method", ["predict", "forget", "unlearn", "merge", "save", "score"])
def test_nothing_can_be_asked_before_fit(method: str) -> None:
    model = fresh()
    arguments: dict[str, list[Any]] = {
        "forget": [[0]], "unlearn": [X, y], "merge": [fresh().fit(X, y)], "save": ["/nowhere"],
        "score": [X, y],
    }  # fmt: skip
    with refused(NotFittedError, "learnt nothing yet: call fit"):
        getattr(model, method)(*arguments.get(method, [X]))
    for attribute in ("classes_", "network_"):
        with refused(ValueError, "learnt nothing yet"):
            getattr(model, attribute)
    assert model.__getstate__() == clone(model).__getstate__()


@pytest.mark.parametrize("method", ["partial_fit", "unlearn"])
@pytest.mark.parametrize("error", [KeyboardInterrupt])
def test_an_interruption_in_the_middle_leaves_the_model(
    monkeypatch: pytest.MonkeyPatch, method: str, error: type[BaseException]
) -> None:
    many = np.random.default_rng(0).standard_normal((9000, D))  # more than one chunk a class
    labels = np.repeat([0, 5], [8500, 500])
    model = fresh().fit(np.concatenate([X, many]), np.concatenate([y, labels]))
    before = state(model)
    calls: list[int] = []

    def interrupted(rows: torch.Tensor) -> torch.Tensor:
        calls.append(len(rows))
        if len(calls) == 2:
            raise error
        return unit_grid(rows)

    with monkeypatch.context() as patch:
        patch.setattr("redunet.estimators.inputs.unit_grid", interrupted)
        with pytest.raises(error):
            getattr(model, method)(many, labels)
    assert calls == [8192, 308]
    assert state(model) == before
