"""Bad input: one line of the project's own kind, and a model that is as it was."""

from __future__ import annotations

import copy
import functools
import math
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import scipy.sparse  # type: ignore[import-untyped]
import torch
from sklearn.exceptions import NotFittedError

from redunet import ReduNetClassifier, ReduNetError
from redunet.features import Flatten, Standardize
from tests.conftest import classes_on_subspaces

D = 6
X, y = classes_on_subspaces(k=3, d=D, per_class=8, rank=2)
N = len(X)
IMAGES = np.random.default_rng(2).integers(0, 256, (N, 2, 3)).astype(np.uint8)
NAMED = pd.DataFrame(X, columns=list("abcdef"))
ARRAY = np.arange(4.0).reshape(2, 2)
LEARN = ["fit", "partial_fit"]
ASK = ["predict", "predict_proba", "decision_function", "transform", "memberships"]


pytestmark = pytest.mark.usefixtures("one_thread")


def fresh(**params: Any) -> ReduNetClassifier:
    return ReduNetClassifier(**{"n_layers": 2, "n_components": 2, **params})


def state(model: ReduNetClassifier, new: Any = X) -> tuple[Any, ...]:
    """All that can be seen of a model: its file, its parameters, what it answers."""
    with tempfile.TemporaryDirectory() as folder:
        model.save(Path(folder, "model"))
        file = Path(folder, "model").read_bytes()
    params = {name: repr(value) for name, value in model.get_params().items()}
    return file, params, model.predict_proba(new).tobytes(), model.predict(new).tolist()


@functools.cache
def fitted_once() -> tuple[ReduNetClassifier, tuple[Any, ...]]:
    model = fresh().fit(X, y)
    return model, state(model)


def fitted() -> tuple[ReduNetClassifier, tuple[Any, ...]]:
    """A model that has learnt X, and its state."""
    model, before = fitted_once()
    return copy.deepcopy(model), before


@functools.cache
def state_with_five_more() -> tuple[Any, ...]:
    return state(fresh().fit(np.concatenate([X, X[:5]]), np.concatenate([y, y[:5]])))


@contextmanager
def refused(kind: type[Exception], pattern: str) -> Iterator[None]:
    """An error of the project's own and of a built-in kind, in one line."""
    with pytest.raises(ReduNetError, match=pattern) as caught:
        yield
    assert isinstance(caught.value, kind)
    assert len(str(caught.value).splitlines()) == 1


# Samples and labels


def with_value(value: float) -> Any:
    samples = X.copy()
    samples[3, 2] = value
    return samples


BAD_X: dict[str, tuple[Any, type[Exception], str]] = {
    "nan": (with_value(math.nan), ValueError, "contains NaN"),
    "infinity": (with_value(math.inf), ValueError, "contains infinity"),
    "none": (np.full((N, D), None), ValueError, "contains NaN"),
    "no-samples": (X[:0], ValueError, r"0 sample\(s\).*minimum of 1"),
    "no-features": (X[:, :0], ValueError, r"0 feature\(s\).*minimum of 1"),
    "nothing": (None, ValueError, "Expected 2D array"),
    "empty": ([], ValueError, "Expected 2D array"),
    "number": (3.0, ValueError, "Expected 2D array, got scalar"),
    "1-d": (X[:, 0], ValueError, "Expected 2D array, got 1D.*Reshape"),
    "3-d": (X[:, :, None], ValueError, "dim 3"),
    "ragged": ([[1.0], [1.0, 2.0]], ValueError, "inhomogeneous|sequence"),
    "words": (X.astype(str), ValueError, "strings"),
    "objects": (np.full((N, D), "a", dtype=object), ValueError, "could not convert.*'a'"),
    "large": (np.full((N, D), 10**400, dtype=object), ValueError, "too large"),
    "complex": (X * 1j, ValueError, "Complex data not supported"),
    "sparse": (scipy.sparse.csr_array(X), TypeError, "Sparse data.*toarray"),
    "mixed-names": (pd.DataFrame(X, columns=[*"abcde", 6]), TypeError, "all str, got int and str"),
}
TOO_MANY = np.repeat(X, 2, axis=1)

BAD_Y: dict[str, tuple[Any, type[Exception], str]] = {
    "none": (None, ValueError, "y.* None"),
    "short": (y[:-1], ValueError, f"each of {N} samples, got {N - 1}"),
    "long": ([*y, 0], ValueError, f"each of {N} samples, got {N + 1}"),
    "empty": ([], ValueError, f"each of {N} samples, got 0"),
    "2-d": (np.stack([y, y], axis=1), ValueError, r"1d array.*\(24, 2\)"),
    "number": (3, ValueError, r"1d array.*\(\)"),
    "bool": (y > 0, TypeError, "int or str, got bool"),
    "fractions": (y + 0.5, ValueError, "continuous"),
    "complex": (y * 1j, ValueError, "Complex"),
    "nones": ([None] * N, ValueError, "abel"),
    "mixed": ([1, "a"] * (N // 2), ValueError, "int and str"),
    "mixed-objects": (np.array([1, "a"] * (N // 2), dtype=object), ValueError, "abel"),
    "bool-and-int": ([True, 2] * (N // 2), ValueError, "bool and int"),
    "bytes": (np.array([b"a"] * N), TypeError, "bytes"),
    "dates": (np.array(["2020-01-01"] * N, dtype="M8[D]"), TypeError, "int or str, got datetime"),
    "missing": (pd.Series(["a", pd.NA] * (N // 2), dtype="string"), ValueError, "none for 12"),
}
BAD_Y |= {
    "uint64": (y.astype(np.uint64) + np.uint64(2**63), ValueError, "64 bits.*got 922337203685477"),
    "large-list": ([2**63, 1] * (N // 2), ValueError, "64 bits|abel"),
    "mixed-with-float": ([2**53 + 1, 1.0] * (N // 2), ValueError, "several whole numbers"),
    "large-floats": (y + 2.0**53, ValueError, "several whole numbers"),
    "large-float32": ((y + 2.0**24).astype(np.float32), ValueError, "several whole numbers"),
    "masked": (np.ma.array(y, mask=y == 1), ValueError, "labels without masked.*got 8 masked"),
    "nul": (["a", "a\0"] * (N // 2), ValueError, "end in a NUL"),
    "nul-series": (pd.Series(["a", "a\0"] * (N // 2)), ValueError, "end in a NUL"),
    "surrogate": (["a", "\ud800"] * (N // 2), ValueError, "half a surrogate"),
    "beyond-unicode": (
        np.full(4 * N, 0xFFFFFFF, np.uint32).view("U4"),
        ValueError,
        "beyond Unicode",
    ),
}
BAD_X["masked"] = (np.ma.array(X, mask=X > 0), ValueError, "samples without masked.*masked: remove")
OTHER_TYPE = {
    "words-after-numbers": (y, y.astype(str)),
    "numbers-after-words": (y.astype(str), y),
}


def check_learning(
    method: str, samples: Any, labels: Any, kind: type[Exception], pattern: str
) -> None:
    """Both a fitted model and an unfitted one refuse, and go on as if nothing had been."""
    model, before = fitted()
    with refused(kind, pattern):
        getattr(model, method)(samples, labels)
    assert state(model) == before
    assert state(model.partial_fit(X[:5], y[:5])) == state_with_five_more()

    unfitted = fresh()
    untouched = unfitted.__getstate__()
    with refused(kind, pattern):
        getattr(unfitted, method)(samples, labels)
    assert unfitted.__getstate__() == untouched
    with pytest.raises(NotFittedError):
        unfitted.predict(X)
    assert getattr(unfitted, method)(X[:, :4], y).n_features_in_ == 4


@pytest.mark.parametrize("case", BAD_X)
def test_samples_that_cannot_be_learnt(case: str) -> None:
    method = "partial_fit"
    samples, kind, pattern = BAD_X[case]
    check_learning(method, samples, y, kind, pattern)


@pytest.mark.parametrize("case", BAD_Y)
def test_labels_that_cannot_be_learnt(case: str) -> None:
    method = "partial_fit"
    labels, kind, pattern = BAD_Y[case]
    check_learning(method, X, labels, kind, pattern)


@pytest.mark.parametrize("method", ["predict", "unlearn"])
@pytest.mark.parametrize("case", ["nan", "1-d", "words"])
def test_samples_that_cannot_be_asked_about(method: str, case: str) -> None:
    samples, kind, pattern = BAD_X[case]
    model, before = fitted()
    with refused(kind, pattern):
        getattr(model, method)(*([samples, y] if method == "unlearn" else [samples]))
    assert state(model) == before


@pytest.mark.parametrize("method", ["predict", "partial_fit", "unlearn"])
@pytest.mark.parametrize("samples", [X[:, :-1], TOO_MANY], ids=["few", "many"])
def test_another_number_of_features(method: str, samples: Any) -> None:
    model, before = fitted()
    with refused(ValueError, f"X has {samples.shape[1]} features, .* expecting {D} features"):
        getattr(model, method)(*([samples] if method in ASK else [samples, y]))
    assert state(model) == before
    assert model.fit(samples, y).n_features_in_ == samples.shape[1]


@pytest.mark.parametrize("case", OTHER_TYPE)
def test_a_label_of_another_type_than_before(case: str) -> None:
    first, then = OTHER_TYPE[case]
    model = fresh().fit(X, first)
    before = state(model)
    with refused(ValueError, "all int or all str, got int and str"):
        model.partial_fit(X, then)
    with refused(ValueError, "expected a class that was learnt .*, got "):
        model.unlearn(X, then)
    with refused(ValueError, "expected a class that was learnt .*, got "):
        model.forget(then[:1])
    assert state(model) == before
    assert model.fit(X, then).classes_.tolist() == sorted(set(then))


def test_labels_outside_of_classes() -> None:
    model = fresh().partial_fit(X, y, classes=[2, 1, 0, 9])
    before = state(model)
    with refused(ValueError, "expected labels among classes=, got 2"):
        model.partial_fit(X, y, classes=[0, 1])
    wrong: list[Any] = [
        [0, 1, 2, None], [None], "ab", 3.5, [[0]], [0, "a"], [math.nan], [0, 1, True],
    ]  # fmt: skip
    for classes in wrong:
        with refused(ValueError, "classes="):
            model.partial_fit(X, y, classes=classes)
    with refused(ValueError, "expected labels among classes=, got 0"):
        model.partial_fit(X, y, classes=[])
    assert state(model) == before
    everything = np.array([0, 1, 2, 2**64 - 1], dtype=np.uint64)
    assert fresh().partial_fit(X, y, classes=everything).classes_.tolist() == [0, 1, 2]
    with refused(ValueError, "among classes=, got 9007199254740993"):
        model.partial_fit(X[:1], [2**53 + 1], classes=[2**53, 1.0])
    assert state(model) == before


def test_labels_keep_their_identity() -> None:
    for labels in (
        [2**63 - 1, 2**63 - 2, -(2**63)],
        [2**53 + 1, 2**53, 2**53 + 2],
        ["7", "007", " 7"],
        ["a", "\0a", "a\0b"],
        ["é", "e\u0301", "É"],
    ):
        for make in (list, np.array, pd.Series):
            found = fresh().fit(X, make([labels[label] for label in y])).classes_.tolist()
            assert found == sorted(labels)
    small = fresh().fit(X, y.astype(np.uint64) + np.uint64(2**63 - 3))
    assert small.classes_.tolist() == [2**63 - 3, 2**63 - 2, 2**63 - 1]
    assert fresh().fit(X, y + (2.0**53 - 3)).classes_.tolist() == [2**53 - 3, 2**53 - 2, 2**53 - 1]


def test_arrays_that_know_of_masks_and_tensors_of_gradients() -> None:
    expected = state(fresh().fit(X, y))
    assert state(fresh().fit(np.ma.array(X), np.ma.array(y))) == expected
    samples = torch.tensor(X, requires_grad=True)
    assert state(fresh().fit(samples, torch.from_numpy(y))) == expected
    assert state(fresh().fit(samples * 1, torch.tensor(y * 1.0, requires_grad=True))) == expected
    model = fresh().fit(X, y)
    assert np.array_equal(model.predict(samples), model.predict(X))
    with refused(TypeError, "tensor that NumPy can hold"):
        model.partial_fit(samples.detach().bfloat16(), y)


@pytest.mark.parametrize("value", [-0.001, 9.5])
def test_values_outside_the_input_range(value: float) -> None:
    positive = np.clip(np.abs(X), 0, 9)
    model = fresh(normalize="class", input_range=(0, 9)).fit(positive, y)
    before = state(model)
    outside = positive.copy()
    outside[-1, -1] = value
    with refused(ValueError, rf"input_range=\(0, 9\), got values from .*{value:g}"):
        model.partial_fit(outside, y)
    assert state(model) == before


@pytest.mark.parametrize("features", [Flatten((2, 3)), Standardize.learn(IMAGES)], ids=repr)
@pytest.mark.parametrize("shape", [(3, 2), (7,)])
def test_images_of_the_wrong_shape(features: Any, shape: tuple[int, ...]) -> None:
    model = fresh(features=features).fit(IMAGES, y)
    before = state(model, IMAGES)
    for method in [*ASK, *LEARN, "unlearn"]:
        with refused(ValueError, r"expected samples of shape \(2, 3\), got \(" + str(shape[0])):
            wrong = np.ones((N, *shape))
            getattr(model, method)(*([wrong] if method in ASK else [wrong, y]))
    assert state(model, IMAGES) == before


def test_a_class_of_zero_vectors_is_learnt_but_cannot_be_built() -> None:
    model, before = fitted()
    remedies: list[Callable[[], object]] = [
        lambda: model.forget([9]),
        lambda: model.unlearn(np.zeros((2, D)), [9, 9]),
        lambda: model.partial_fit(X[:3], [9] * 3).forget([9]),
    ]
    for remedy in remedies:
        model.partial_fit(np.zeros((2, D)), [9, 9])
        assert model.moments_[9].count == 2
        for method in ASK:
            with refused(ValueError, "class 9: .* zero vectors only"):
                getattr(model, method)(X)
        remedy()
        assert state(model) == before
    model.partial_fit(np.zeros((2, D)), [9, 9]).partial_fit(X[:3], [9] * 3)
    assert set(model.predict(X[:3])) <= {0, 1, 2, 9}
