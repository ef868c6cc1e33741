"""Samples that are no numbers, such as dates, and labels that are missing: refused by name."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from redunet.errors import DataError, DataTypeError

_REMEDIES = {
    "M": "turn dates into numbers first, such as days since one of them",
    "m": "turn durations into numbers first, such as seconds",
    "c": "make two columns of it, such as of its real and imaginary part",
    "category": "turn categories into numbers first, such as by pandas.get_dummies",
}
"""By the kind of a dtype; pandas has no letter for categories."""

_SHOWN = 40
"""Letters of a value in a message, which stays one line."""


def check_types(X: Any) -> None:
    """Raise a DataTypeError where samples are no numbers; of a data frame it names the column."""
    if isinstance(X, np.ndarray):
        _check_array(X)
    elif hasattr(X, "iloc") and X.ndim == 2:  # a data frame of pandas
        for place, (name, dtype) in enumerate(zip(X.columns, X.dtypes, strict=True)):
            if dtype.kind not in "biuf":
                _check_column(name, dtype, X.iloc[:, place])


def check_label_types(y: Any) -> None:
    """Raise an error where labels of pandas are missing, or are truth values."""
    if not hasattr(y, "isna"):
        return
    missing = int(np.asarray(y.isna()).sum())
    if missing:
        raise DataError(
            f"expected a label for each sample, got none for {missing:,}: remove these samples, or "
            f"name their class"
        )
    if getattr(getattr(y, "dtype", None), "kind", None) == "b":  # its own type may become 0 and 1
        raise DataTypeError(
            f"expected labels of type int or str, got {y.dtype}: convert them first"
        )


def _check_array(X: np.ndarray[Any, Any]) -> None:
    kind = X.dtype.kind
    if kind == "O":  # NumPy makes numbers of its dates, but not of Python's
        times = (np.datetime64, np.timedelta64)
        kind = next((value.dtype.kind for value in X.flat if isinstance(value, times)), "")
    if kind in ("M", "m"):
        what = "dates" if kind == "M" else "durations"
        raise DataTypeError(f"expected numbers as samples, got {what}: {_REMEDIES[kind]}")


def _check_column(name: Any, dtype: Any, column: Any) -> None:
    """Raise a DataTypeError where a column of a data frame is not one of numbers."""
    kind, got = dtype.kind, str(dtype)
    if kind not in _REMEDIES:
        if hasattr(dtype, "categories"):
            if dtype.categories.dtype.kind in "biuf" or not len(dtype.categories):
                return
            kind, got = "category", f"categories such as {repr(dtype.categories[0])[:_SHOWN]}"
        else:
            odd = _no_number(column.dropna())
            if odd is None:
                return
            got = odd
    remedy = _REMEDIES.get(kind, "turn it into numbers first")
    raise DataTypeError(
        f"expected numbers in column {name!r}, got {got}: {remedy}, or leave the column out"
    )


def _no_number(values: Iterable[Any]) -> str | None:
    """The first value that is no number, in short; None where all are."""
    for value in values:
        try:
            float(value)
        except (TypeError, ValueError, OverflowError):
            return repr(value)[:_SHOWN]
    return None
