"""What happens to samples and labels before they are learnt, and the checks they pass."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from numbers import Real
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_array, column_or_1d, validate_data
from torch import Tensor

from redunet.core.grid import OnGrid, range_on_grid, unit_grid, unit_rows, within_range
from redunet.core.labels import Label, check_labels
from redunet.core.moments import ClassMoments
from redunet.errors import DataError, DataTypeError, ReduNetError, SettingsError
from redunet.estimators.column_types import check_label_types, check_types
from redunet.estimators.settings import InputSettings
from redunet.features import FeatureMap, Flatten, restore

CONSTANT = 4.0
"""The constant that is appended, as a multiple of the length of a standardized sample."""

CHUNK_ROWS = 512
"""Rows put on the sphere at a time, few enough to stay in the processor's cache."""


@dataclass(frozen=True, eq=False)
class Embedding:
    """From raw samples to feature vectors; moments of two embeddings cannot be mixed.

    The parameters are those of `ReduNetClassifier`.
    """

    features: FeatureMap | None
    normalize: Literal["sample", "class", "constant"]
    input_range: tuple[float, float] | None

    @classmethod
    def checked(cls, features: Any, normalize: Any, input_range: Any) -> Embedding:
        """An embedding from what a user gave; a SettingsError says what is wrong with it."""
        if features is not None and (
            isinstance(features, type) or not isinstance(features, FeatureMap)
        ):
            raise SettingsError(
                f"expected features to be None or a feature map such as Standardize.learn(images), "
                f"got {features!r}"
            )
        scaling = InputSettings(normalize, input_range)
        return cls(features, scaling.normalize, scaling.input_range)

    def n_features(self, n_columns: int) -> int:
        """d, the length of the feature vectors of samples with so many values."""
        own = n_columns if self.features is None else self.features.n_features
        return own + (self.normalize == "constant")

    def n_columns(self, n_features: int) -> int:
        """The number of values of a raw sample whose feature vector has so many features."""
        if self.features is not None:
            return math.prod(self.features.input_shape)
        return n_features - (self.normalize == "constant")

    def check_moments(self, moments: ClassMoments) -> None:
        """Raise a DataError unless feature vectors of this embedding can have such moments."""
        moments.check_values(None if self.input_range is None else range_on_grid(*self.input_range))

    def learn(self, rows: NDArray[Any], device: str) -> Tensor | OnGrid:
        """Feature vectors to learn: `vectors`, or such on the grid where that is faster."""
        if self.input_range is None:
            return unit_grid(self._vectors(rows, device))
        return self.vectors(rows, device)

    def vectors(self, rows: NDArray[Any], device: str) -> Tensor:
        """Feature vectors within [-1, 1], (n, d): on the sphere, or scaled by a constant."""
        vectors = self._vectors(rows, device)
        if self.input_range is None:
            return unit_rows(vectors)
        return within_range(vectors, *self.input_range)

    def new(self, rows: NDArray[Any], dtype: torch.dtype, device: str) -> Tensor:
        """Feature vectors of new samples, on the sphere: Tensor of shape (n, d)."""
        Z = torch.empty(len(rows), self.n_features(rows.shape[1]), dtype=dtype, device=device)
        for start in range(0, len(rows), CHUNK_ROWS):
            chunk = slice(start, start + CHUNK_ROWS)
            Z[chunk] = unit_rows(self._vectors(rows[chunk], device))
        return Z

    def _vectors(self, rows: NDArray[Any], device: str) -> Tensor:
        if self.normalize != "constant":
            return self._of_rows(rows, device)
        vectors = self._of_rows(rows, device).to(torch.float64)
        return torch.nn.functional.pad(vectors, (0, 1), value=constant(vectors.shape[1]))

    def _of_rows(self, rows: NDArray[Any], device: str) -> Tensor:
        unchanged = self.features is None or isinstance(self.features, Flatten)
        if unchanged and rows.dtype == np.uint8:  # faster as they are
            return torch.from_numpy(np.array(rows, order="C")).to(device)
        tensor = torch.from_numpy(np.array(rows, dtype=np.float64, order="C")).to(device)
        if self.features is None:
            return tensor
        return self.features(tensor.reshape(len(rows), *self.features.input_shape))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Embedding):
            return NotImplemented
        scaling = (self.normalize, self.input_range)
        if self.features is other.features:  # quicker than a look at all their values
            return scaling == (other.normalize, other.input_range)
        (mine, my_tensors), (theirs, their_tensors) = self.to_state(), other.to_state()
        return (
            mine == theirs
            and my_tensors.keys() == their_tensors.keys()
            and all(torch.equal(tensor, their_tensors[name]) for name, tensor in my_tensors.items())
        )

    __hash__ = None  # type: ignore[assignment]

    def to_state(self) -> tuple[dict[str, Any], dict[str, Tensor]]:
        """Plain values and tensors, from which `from_state` makes the same embedding."""
        state: dict[str, Any] = {
            "normalize": self.normalize,
            "input_range": None if self.input_range is None else list(self.input_range),
            "features": None,
        }
        if self.features is None:
            return state, {}
        values, tensors = self.features.to_state()
        state["features"] = {"kind": self.features.kind, "values": values}
        return state, {f"features.{name}": tensor for name, tensor in tensors.items()}

    @classmethod
    def from_state(cls, state: dict[str, Any], tensors: dict[str, Tensor]) -> Embedding:
        """The embedding that `to_state` took apart."""
        features = None
        if state["features"] is not None:
            own = {
                name.removeprefix("features."): tensor
                for name, tensor in tensors.items()
                if name.startswith("features.")
            }
            features = restore(state["features"]["kind"], state["features"]["values"], own)
        return cls.checked(features, state["normalize"], state["input_range"])


def constant(d: int) -> float:
    """What ``normalize="constant"`` appends to vectors of d features.

    A vector of standardized features is about √d long; beside a constant that is longer, what
    scaling to the unit sphere does to its length hardly shows.
    """
    return CONSTANT * math.sqrt(d)


def column_names(X: ArrayLike) -> tuple[str, ...] | None:
    """The column names of samples, where they have some and all of them are str."""
    nobody = BaseEstimator()  # which is told the names
    with one_line_errors():
        validate_data(nobody, X, skip_check_array=True, ensure_2d=False)
    names = getattr(nobody, "feature_names_in_", None)
    return None if names is None else tuple(names)


def checked_samples(X: ArrayLike, features: FeatureMap | None, estimator: Any) -> NDArray[Any]:
    """Samples as an array of shape (n, values), finite, of their own dtype, not copied."""
    X = _unmasked(_array_of_tensor(X), "samples")
    with one_line_errors():
        check_types(X)
        rows: NDArray[Any] = check_array(
            X, dtype="numeric", allow_nd=features is not None, estimator=estimator
        )
        check_types(rows)
        if rows.dtype.kind == "O":  # of lists, and of data frames with columns of several types
            rows = rows.astype(np.float64)
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
    with one_line_errors():
        labels: NDArray[Any] = column_or_1d(y, warn=True)
        _check_exact(labels)
        check_classification_targets(labels)
        if len(labels) != n_samples:
            raise DataError(
                f"expected one label for each of {n_samples} samples, got {len(labels)}"
            )
        if labels.dtype.kind == "f":
            labels = labels.astype(np.int64)  # whole numbers: others were refused above
        if labels.dtype.kind not in "iuUOT":
            raise DataTypeError(
                f"expected labels of type int or str, got {labels.dtype}: convert them first"
            )
        found: list[Label] = labels.tolist()
        check_labels(set(found))
    return found


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
