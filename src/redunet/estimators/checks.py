"""Checks of samples and labels before they are learnt or answered; errors are one line."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from redunet.core.labels import Label, check_labels
from redunet.errors import DataError, DataTypeError, ReduNetError
from redunet.features import FeatureMap


def column_names(X: ArrayLike) -> tuple[str, ...] | None:
    """The column names of samples, where they have some and all of them are str."""
    if hasattr(X, "iloc"):
        names = list(getattr(X, "columns", ()))
    elif hasattr(X, "__dataframe__"):
        names = list(X.__dataframe__().column_names())
    else:
        return None
    kinds = sorted({type(name).__name__ for name in names})
    if len(kinds) > 1 and "str" in kinds:
        raise DataTypeError(
            f"expected column names that are all str, got {' and '.join(kinds)}: "
            f"X.columns = X.columns.astype(str) makes them so"
        )
    return tuple(names) if kinds == ["str"] else None


def checked_samples(X: ArrayLike, features: FeatureMap | None, estimator: Any) -> NDArray[Any]:
    """Samples as an array of shape (n, values), finite, of their own dtype, not copied."""
    rows: NDArray[Any] = _unmasked(_array_of_tensor(X), "samples")
    if not _is_plain(rows, features):
        rows = _made_plain(rows, features, estimator)
    if features is None:
        return rows
    shape = rows.shape[1:]
    wanted = features.input_shape
    if (
        shape not in (wanted, (math.prod(wanted),)) and (*shape, 1) != wanted
    ):  # grey without channel
        raise DataError(
            f"expected samples of shape {features.input_shape}, got {shape}: "
            f"pass the images that the feature map was made for"
        )
    return rows.reshape(len(rows), -1)


def _is_plain(X: Any, features: FeatureMap | None) -> bool:
    """Whether samples are an array that scikit-learn would give back as it is."""
    if type(X) is not np.ndarray or X.dtype.kind not in "buif" or not X.size:
        return False
    if X.ndim != 2 and (features is None or X.ndim < 2):
        return False
    with np.errstate(all="ignore"):
        return X.dtype.kind != "f" or math.isfinite(X.sum(dtype=np.float64))


def _made_plain(X: Any, features: FeatureMap | None, estimator: Any) -> NDArray[Any]:
    """An array of numbers from whatever scikit-learn takes for one."""
    from sklearn.utils.validation import check_array

    with one_line_errors():
        check_types(X)
        rows: NDArray[Any] = check_array(
            X, dtype="numeric", allow_nd=features is not None, estimator=estimator
        )
        check_types(rows)
        # Objects: of lists, and of data frames with columns of several types.
        return rows.astype(np.float64) if rows.dtype.kind == "O" else rows


def checked_labels(y: ArrayLike, n_samples: int) -> list[Label]:
    """Labels as a list, all int or all str, each exactly as it was given or refused."""
    if y is None:
        raise DataError(
            "a classifier requires y to be passed, but the target y is None: pass labels"
        )
    y = _unmasked(_array_of_tensor(y), "labels")
    check_label_types(y)
    if isinstance(y, list | tuple):  # NumPy would make one type of them
        kinds = sorted({_kind(label) for label in y})
        if len(kinds) > 1:
            raise DataError(
                f"expected labels that are all int or all str, got {' and '.join(kinds)}: "
                f"use one type of label throughout"
            )
        if kinds == ["str"]:
            y = np.array(y, dtype=object)  # an array of str would drop NUL characters at the end
    if type(y) is not np.ndarray or y.ndim != 1 or y.dtype.kind not in "iuUO":
        y = _made_labels(y)
    _check_exact(y)
    if len(y) != n_samples:
        raise DataError(f"expected one label for each of {n_samples} samples, got {len(y)}")
    if y.dtype.kind == "f":
        y = y.astype(np.int64)  # whole numbers: others were refused before
    if y.dtype.kind not in "iuUOT":
        raise DataTypeError(
            f"expected labels of type int or str, got {y.dtype}: convert them first"
        )
    found: list[Label] = y.tolist()
    check_labels(set(found))
    return found


def _made_labels(y: Any) -> NDArray[Any]:
    """An array of labels from whatever scikit-learn takes for one."""
    from sklearn.utils.multiclass import check_classification_targets
    from sklearn.utils.validation import column_or_1d

    with one_line_errors():
        labels: NDArray[Any] = column_or_1d(y, warn=True)
        _check_exact(labels)
        check_classification_targets(labels)
        return labels


def check_among(labels: Sequence[Label], classes: ArrayLike) -> None:
    """Raise a DataError where a label is not among the classes that a caller expects."""
    given: Any = _array_of_tensor(classes)
    try:
        known = given.tolist() if hasattr(given, "tolist") else list(given)
        unknown = set(labels).difference(known)
    except TypeError:
        raise DataTypeError(f"expected classes= to be a list of labels, got {classes!r}") from None
    for label in known:
        if isinstance(label, bool | np.bool_) or not isinstance(label, str | Real):
            raise DataError(f"expected labels, int or str, in classes=, got {label!r}")
    if unknown:
        raise DataError(f"expected labels among classes=, got {min(unknown)!r}")


def _array_of_tensor(values: Any) -> Any:
    """A tensor as an array, wherever it is and whether or not it has a gradient."""
    if not isinstance(values, Tensor):
        return values
    try:
        return values.detach().cpu().numpy()
    except (RuntimeError, TypeError) as error:
        why = str(error).splitlines()[0]
        raise DataTypeError(f"expected a tensor that NumPy can hold: {why}") from error


def _unmasked(values: Any, what: str) -> Any:
    """Values of a masked array, none of which is masked."""
    if not np.ma.isMaskedArray(values):
        return values
    masked = int(np.ma.getmaskarray(values).sum())
    if masked:
        raise DataError(
            f"expected {what} without masked values, got {masked:,} masked: "
            f"remove or fill them first"
        )
    return values.data


def _check_exact(labels: NDArray[Any]) -> None:
    """Raise a DataError for values that several labels could have become, or no label could."""
    if labels.dtype.kind == "U":
        codes = np.ascontiguousarray(labels, labels.dtype.newbyteorder("=")).view(np.uint32)
        if codes.max(initial=0) > sys.maxunicode:
            raise DataError("expected labels of Unicode characters, got numbers beyond Unicode")
    if labels.dtype.kind == "f":
        largest = np.abs(labels).max(initial=0.0)
        exact_below = min(2.0 ** (np.finfo(labels.dtype).nmant + 1), 2.0**63)
        if np.isfinite(largest) and largest >= exact_below:
            raise DataError(
                f"expected labels of type int, got {largest:.0f} as {labels.dtype}, which may "
                f"stand for several whole numbers: pass labels as int or str"
            )


def _kind(label: Any) -> str:
    for kind, name in ((str, "str"), ((bool, np.bool_), "bool"), (Real, "int")):
        if isinstance(label, kind):
            return name
    return type(label).__name__


_REMEDIES = {
    "contains": "remove or impute these values first",
    "expecting": "pass the same features, or fit again",
    "got 1D array": "Reshape your data, with X.reshape(1, -1) if it is one sample",
    "got scalar array": "Reshape your data to (samples, features)",
}


@contextmanager
def one_line_errors() -> Iterator[None]:
    """Turn scikit-learn's complaints about data into this package's, in one line."""
    try:
        yield
    except ReduNetError:
        raise
    except (TypeError, ValueError, OverflowError) as error:
        first = str(error).strip().splitlines()[0].rstrip(".:")
        remedy = next((text for words, text in _REMEDIES.items() if words in first), None)
        kind = DataTypeError if isinstance(error, TypeError) else DataError
        raise kind(f"{first}: {remedy}." if remedy else first) from error


_COLUMN_REMEDIES = {
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
        raise DataTypeError(f"expected numbers as samples, got {what}: {_COLUMN_REMEDIES[kind]}")


def _check_column(name: Any, dtype: Any, column: Any) -> None:
    """Raise a DataTypeError where a column of a data frame is not one of numbers."""
    kind, got = dtype.kind, str(dtype)
    if kind not in _COLUMN_REMEDIES:
        if hasattr(dtype, "categories"):
            if dtype.categories.dtype.kind in "biuf" or not len(dtype.categories):
                return
            kind, got = "category", f"categories such as {repr(dtype.categories[0])[:_SHOWN]}"
        else:
            odd = _no_number(column.dropna())
            if odd is None:
                return
            got = odd
    remedy = _COLUMN_REMEDIES.get(kind, "turn it into numbers first")
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
