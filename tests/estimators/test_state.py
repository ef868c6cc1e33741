"""A model is one state that is replaced as a whole: by threads, interruptions, pickles, names."""

from __future__ import annotations

import copy
import itertools
import pickle
import tempfile
import threading
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

from redunet import DataError, ReduNetClassifier, StreamingWarning
from tests.estimators.test_bad_input import X, fresh, refused, y
from tests.fuzz.interruptions import interrupt, interrupt_loading

pytestmark = pytest.mark.usefixtures("one_thread")

COLUMNS = list("abcdef")
FRAME = pd.DataFrame(X, columns=COLUMNS)


def file_of(model: ReduNetClassifier) -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        model.save(Path(folder, "model"))
        return Path(folder, "model").read_bytes()


# Interruptions and threads


def test_an_interruption_at_any_bytecode_leaves_the_model_whole() -> None:
    assert interrupt(160) == []
    assert interrupt_loading(20) == []


def test_predict_in_threads_while_classes_come_and_go() -> None:
    """Each answer is that of one of the models that there were, never of a mixture."""
    words = np.array(["b", "c", "d"])[y]
    model = fresh(n_layers=1).fit(X, words)
    expected = {tuple(model.predict(X))}
    grown = copy.copy(model).partial_fit(-3 * X[:8], ["a"] * 8)
    expected.add(tuple(grown.predict(X)))
    answers: list[tuple[str, ...]] = []
    failures: list[BaseException] = []
    done = threading.Event()

    def ask() -> None:
        try:
            while not done.is_set():
                answers.append(tuple(model.predict(X)))
        except BaseException as error:  # noqa: BLE001 - whatever it is, the test names it
            failures.append(error)

    threads = [threading.Thread(target=ask) for _ in range(3)]
    for thread in threads:
        thread.start()
    for _ in range(40):
        model.partial_fit(-3 * X[:8], ["a"] * 8)
        model.forget(["a"])
    done.set()
    for thread in threads:
        thread.join()
    assert not failures
    assert len(answers) >= 3
    assert set(answers) <= expected


def test_pickles_and_copies_hold_no_network() -> None:
    model = fresh(n_layers=9).fit(X, y)
    small = len(pickle.dumps(model))
    labels = model.predict(X)
    assert len(pickle.dumps(model)) < small + 100  # no more than what is checked once
    for other in (pickle.loads(pickle.dumps(model)), copy.deepcopy(model), copy.copy(model)):
        assert np.array_equal(other.predict(X), labels)
        other.forget([1])
        assert model.classes_.tolist() == [0, 1, 2]


# Batches


def test_batches_are_learnt_and_withdrawn_like_single_calls() -> None:
    batches = [(X[:5], y[:5]), (X[5:6], y[5:6]), (X[6:], y[6:])]
    whole = fresh().fit(X, y)
    assert file_of(fresh().partial_fit_batches(iter(batches))) == file_of(whole)
    half = fresh().fit(X[:5], y[:5])
    assert file_of(half.partial_fit_batches(batches[1:])) == file_of(whole)
    assert file_of(half.unlearn_batches(batches[1:])) == file_of(fresh().fit(X[:5], y[:5]))
    named = fresh().partial_fit_batches(batches, COLUMNS)
    assert file_of(named) == file_of(fresh().fit(FRAME, y))


@pytest.mark.parametrize("method", ["partial_fit_batches", "unlearn_batches"])
@pytest.mark.parametrize(
    ("last", "message"),
    [
        ((X[:2], [0]), "one label for each of 2 samples, got 1"),
        ((X[:2, :3], [0, 0]), "X has 3 features"),
        ((X[:2] * np.nan, [0, 0]), "contains NaN"),
        ((X[:2], ["a", "b"]), "all int or all str"),
    ],
)
def test_a_bad_batch_leaves_the_model(method: str, last: Any, message: str) -> None:
    model = fresh().fit(X, y)
    before = model.moments_
    with refused(DataError, message):
        getattr(model, method)([(X[:4], y[:4]), last])
    assert model.moments_ is before


def test_no_batch_is_refused() -> None:
    with refused(DataError, "at least one batch"):
        fresh().partial_fit_batches([])
    with refused(DataError, "expected 6 feature names, got 2"):
        fresh().partial_fit_batches([(X, y)], ["a", "b"])


# Column names

ARRAY = {"array": lambda rows: X[rows], "list": lambda rows: X[rows].tolist()}
NAMED: dict[str, Any] = {
    "frame": lambda rows: FRAME.iloc[rows],
    "renumbered": lambda rows: FRAME.iloc[rows].reset_index(drop=True),
}
PLAIN: dict[str, Any] = {
    **ARRAY,
    "tensor": lambda rows: torch.from_numpy(X[rows]),
    "numbered": lambda rows: pd.DataFrame(X[rows]),  # columns 0, 1, ... are no names
}


@pytest.mark.parametrize("kinds", [NAMED, PLAIN], ids=["named", "plain"])
def test_order_and_forgetting_leave_no_trace_of_the_kind_of_data(kinds: dict[str, Any]) -> None:
    of = {label: np.flatnonzero(y == label) for label in range(3)}
    first = next(iter(kinds.values()))
    whole = file_of(fresh().fit(first(np.arange(len(X))), y))
    without = file_of(fresh().fit(first(np.flatnonzero(y != 1)), y[y != 1]))
    orders = itertools.cycle(itertools.permutations(range(3)))  # each some times
    for order, choice in zip(orders, itertools.product(kinds.values(), repeat=3), strict=False):
        model = fresh()
        for label, make in zip(order, choice, strict=True):
            model.partial_fit(make(of[label]), y[of[label]])
        assert file_of(model) == whole
        assert file_of(copy.copy(model).forget([1])) == without
        assert file_of(model.unlearn(choice[0](of[1]), y[of[1]])) == without
    one, other = (fresh().fit(make(of[0]), y[of[0]]) for make in list(kinds.values())[:2])
    assert file_of(one) == file_of(other)
    assert file_of(one.merge(fresh().fit(first(of[2]), y[of[2]]))) == file_of(
        fresh().fit(first(np.flatnonzero(y != 1)), y[y != 1])
    )


def test_data_with_names_and_without_is_not_mixed() -> None:
    named, plain = fresh().fit(FRAME, y), fresh().fit(X, y)
    before = file_of(named), file_of(plain)
    for change in ("partial_fit", "unlearn"):
        with refused(ValueError, r"with the column names of the model \('a', 'b', 'c', …\), got"):
            getattr(named, change)(X, y)
        with refused(ValueError, "without column names, like .* 'a', 'b', 'c', …: pass an array"):
            getattr(plain, change)(FRAME, y)
    for one, other in ((named, plain), (plain, named)):
        with refused(ValueError, "differ in the list of feature names"):
            one.merge(other)
    assert (file_of(named), file_of(plain)) == before
    assert named.forget([0, 1]).feature_names_in_.tolist() == COLUMNS
    assert not hasattr(plain, "feature_names_in_")
    assert not hasattr(named.fit(X, y), "feature_names_in_")
    assert file_of(named) == before[1]


def test_samples_to_predict_may_lack_names() -> None:
    named, plain = fresh().fit(FRAME, y), fresh().fit(X, y)
    labels = named.predict(FRAME)
    with pytest.warns(UserWarning, match="X does not have valid feature names") as caught:
        assert np.array_equal(named.predict(X), labels)
    assert caught[0].filename == __file__
    with pytest.warns(UserWarning, match="X has feature names, but ReduNetClassifier was fitted"):
        assert np.array_equal(plain.predict(FRAME), labels)
    with refused(ValueError, "feature names should match.*expected 'a', got 'f': put the columns"):
        named.predict(FRAME[COLUMNS[::-1]])


# Warnings


def test_streaming_is_told_once_at_the_line_of_the_caller() -> None:
    model = fresh(n_layers=5, memory=1).fit(X, y)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for _ in range(3):
            model.predict(X)
            model.score(X, y)
            model.transform(X)
            model.partial_fit(X[:3], y[:3])
    assert [one.category for one in caught] == [StreamingWarning]
    assert caught[0].filename == __file__
