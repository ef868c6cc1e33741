"""Columns that hold no numbers are refused by name, in one line; those that do are learnt."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from redunet.errors import DataError, DataTypeError
from redunet.estimators import NearestMean

N = 12
Y = np.arange(N) % 3
A = np.random.RandomState(0).standard_normal(N)
DATES = pd.date_range("2020-01-01", periods=N)
DURATIONS = DATES - DATES[0]


def refused(X: Any, y: Any = Y) -> str:
    """The line with which samples are refused, for learning and for predicting."""
    model = NearestMean().fit(np.stack([A, A], axis=1), Y)
    said = []
    for use in (lambda: NearestMean().fit(X, y), lambda: model.predict(X)):
        with pytest.raises(DataTypeError) as caught:
            use()
        said.append(str(caught.value))
        assert "\n" not in said[-1]
    assert said[0] == said[1]
    return said[0]


COLUMNS: dict[str, tuple[Any, str]] = {
    "dates": (DATES, "got datetime64[us]: turn dates into numbers first, such as days since"),
    "dates of a zone": (DATES.tz_localize("UTC"), "UTC]: turn dates into numbers first"),
    "dates of Arrow": (DATES.astype("timestamp[ns][pyarrow]"), "turn dates into numbers"),
    "dates of Python": ([date.date() for date in DATES], "got datetime.date(2020, 1, 1): turn it"),
    "months": (DATES.to_period("M"), "got Period('2020-01', 'M'): turn it into numbers first"),
    "durations": (DURATIONS, "timedelta64[us]: turn durations into numbers first, such as sec"),
    "categories": (pd.Categorical(["a", "b"] * 6), "got categories such as 'a': turn categories"),
    "numbers as text": (pd.Categorical(["1", "2"] * 6), "got categories such as '1': turn"),
    "texts": (["a\nb"] * N, r"got 'a\nb': turn it into numbers first, or leave the column out"),
    "complex numbers": (A * 1j, "got complex128: make two columns of it"),
    "ranges": (pd.interval_range(0, N), "got Interval(0, 1, closed='right'): turn it"),
    "lists": ([[1, 2]] * N, "got [1, 2]: turn it into numbers first"),
}


@pytest.mark.parametrize("name", COLUMNS)
def test_a_column_that_holds_no_numbers_is_named(name: str) -> None:
    column, wanted = COLUMNS[name]
    said = refused(pd.DataFrame({"a": A, "when": column}))
    assert said.startswith("expected numbers in column 'when', got ")
    assert wanted in said
    assert said.endswith(", or leave the column out")


@pytest.mark.parametrize(
    ("times", "what"), [(DATES.to_numpy(), "dates"), (DURATIONS.to_numpy(), "durations")]
)
def test_arrays_of_times_are_refused(times: Any, what: str) -> None:
    pair = np.stack([times, times], axis=1)
    assert refused(pair).startswith(f"expected numbers as samples, got {what}: turn {what} into")
    objects = np.empty(pair.shape, dtype=object)
    for place in np.ndindex(pair.shape):
        objects[place] = pair[place]  # which NumPy would make numbers of
    assert what in refused(objects)
    assert what in refused(pa.table({"a": times, "b": times}))


@pytest.mark.parametrize(
    "column",
    [
        pd.array([1, 2] * 6, dtype="Int64"),
        pd.Categorical([1, 2] * 6),
        np.array([True, False] * 6),
        pd.array([True, False] * 6, dtype="boolean"),
        [Decimal(1), Decimal(2)] * 6,
        [Fraction(1), Fraction(2)] * 6,
        pd.array([1.0, 2.0] * 6, dtype="double[pyarrow]"),
    ],
)
def test_numbers_of_other_types_are_learnt(column: Any) -> None:
    numbers = [float(value) for value in column]
    model = NearestMean().fit(pd.DataFrame({"a": A, "b": column}), Y)
    assert model.moments_ == NearestMean().fit(pd.DataFrame({"a": A, "b": numbers}), Y).moments_


@pytest.mark.parametrize("dtype", ["Int64", "Float64", "boolean", "int64[pyarrow]", "object"])
def test_missing_numbers_are_refused(dtype: str) -> None:
    X = pd.DataFrame({"a": A, "b": pd.array([1, None] * 6, dtype=dtype)})
    with pytest.raises(DataError, match="contains NaN: remove or impute these values first"):
        NearestMean().fit(X, Y)


@pytest.mark.parametrize(
    "labels",
    [
        pd.Series(["a", None] * 6),
        pd.Series(["a", None] * 6, dtype="string"),
        pd.Series([1, None] * 6, dtype="Int64"),
        pd.Categorical(["a", None] * 6),
    ],
)
def test_missing_labels_are_counted(labels: Any) -> None:
    with pytest.raises(DataError, match="expected a label for each sample, got none for 6: remo"):
        NearestMean().fit(A[:, None], labels)


def test_truth_values_are_no_labels() -> None:
    for dtype in ("bool", "boolean"):
        labels = pd.Series([True, False] * 6, dtype=dtype)
        with pytest.raises(DataTypeError, match="expected labels of type int or str, got bool"):
            NearestMean().fit(A[:, None], labels)
