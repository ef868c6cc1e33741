"""All that a model has learnt, as one value that is never changed, only replaced."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, TypeVar

from redunet.core.moments import ClassMoments, Label
from redunet.encoders import EncoderId
from redunet.errors import DataError
from redunet.estimators.inputs import InputPipeline
from redunet.estimators.rejection import Calibration

T = TypeVar("T")

_NOT_CALLERS = ("redunet.", "sklearn.")


class Cache:
    """Results that are computed when first needed and kept while their key stays the same.

    They are left out of pickles and copies. Threads that ask at the same time may
    compute the same result twice; each gets one that belongs to its own key.
    """

    def __init__(self) -> None:
        self._results: dict[str, tuple[Any, Any]] = {}

    def get(self, name: str, key: Any, compute: Callable[[], T]) -> T:
        """The result of a name for a key; the result for another key is dropped first.

        A key is made of settings that were checked, never of parameters as a user gave them:
        arrays cannot be compared by ``==``, and NaN is not itself.
        """
        found = self._results.get(name)
        if found is None or found[0] != key:
            found = None
            self._results.pop(name, None)  # both may not fit in memory
            found = self._results[name] = (key, compute())
        result: T = found[1]
        return result

    def __reduce__(self) -> tuple[type[Cache], tuple[()]]:
        return Cache, ()


@dataclass(frozen=True, eq=False)
class State:
    """The input that was agreed on, and the moments of all samples.

    A model holds one state and replaces it by a single assignment, so that neither
    an interruption nor another thread finds a model that is half changed.

    Parameters
    ----------
    pipeline : InputPipeline
    feature_names : tuple of str, or None
        Names of the columns; None where the samples have none. All samples of a
        model have the same names, or none of them has any.
    moments : ClassMoments
        Of the samples that people labelled.
    resize : bool, default=False
        Whether image files are scaled and cropped to the feature map's input shape.
    encoder : EncoderId, default=None
        Whose vectors the samples are; None where that is not known.
    self_labelled : ClassMoments, default=None
        Of the samples that the model labelled itself; None where there are none. Their
        classes are among those of ``moments``.
    calibration : Calibration, default=None
        How novel validation samples were to these very moments.
    cache : Cache
        What was computed from the moments.
    warned : set of type
        Warnings that are issued once for a model, however often its moments change.
    """

    pipeline: InputPipeline
    feature_names: tuple[str, ...] | None
    moments: ClassMoments
    resize: bool = False
    encoder: EncoderId | None = None
    self_labelled: ClassMoments | None = None
    calibration: Calibration | None = None
    cache: Cache = field(default_factory=Cache)
    warned: set[type[Warning]] = field(default_factory=set)

    @cached_property
    def n_features_in(self) -> int:
        """The number of values of a raw sample."""
        return self.pipeline.n_columns(self.moments.n_features)

    @property
    def counts(self) -> dict[Label, int]:
        """Samples that people labelled, by class, in the order of the labels."""
        return dict(zip(self.moments.labels, self.moments.counts, strict=True))

    @cached_property
    def labels(self) -> tuple[Label, ...]:
        """The classes, sorted."""
        return self.moments.labels

    @property
    def total(self) -> ClassMoments:
        """The moments of all samples, whoever labelled them: what answers are made of."""
        own = self.self_labelled
        return (
            self.moments if own is None else self.cache.get("total", 0, lambda: self.moments + own)
        )

    def with_moments(
        self, moments: ClassMoments, self_labelled: ClassMoments | None = None
    ) -> State:
        """The state with other moments of the same input, and no calibration any more."""
        if not len(moments):
            raise DataError(
                "expected at least one class to remain, but this would withdraw the last one: "
                "discard the model instead"
            )
        own = self_labelled if self_labelled is not None and len(self_labelled) else None
        return replace(self, moments=moments, self_labelled=own, calibration=None, cache=Cache())

    def warn_once(self, message: str, category: type[Warning]) -> None:
        """Warn of something that stays true of the model."""
        if category not in self.warned:
            self.warned.add(category)
            warn_caller(message, category)

    def check_changing(self, owner: str, n_columns: int, names: tuple[str, ...] | None) -> None:
        """Raise a DataError where samples to learn or withdraw differ from the agreed input."""
        self._check_columns(owner, n_columns, names)
        if names is None and self.feature_names is not None:
            raise DataError(
                f"expected samples with the column names of the model ({shown(self.feature_names)})"
                f", got samples without names: pass a DataFrame with these columns"
            )
        if names is not None and self.feature_names is None:
            raise DataError(
                f"expected samples without column names, like those of the model, got the columns "
                f"{shown(names)}: pass an array, such as X.to_numpy()"
            )

    def check_new(self, owner: str, n_columns: int, names: tuple[str, ...] | None) -> None:
        """Raise a DataError for new samples of other columns; warn of names on one side only."""
        self._check_columns(owner, n_columns, names)
        if names is None and self.feature_names is not None:
            found = f"X does not have valid feature names, but {owner} was fitted with"
        elif names is not None and self.feature_names is None:
            found = f"X has feature names, but {owner} was fitted without"
        else:
            return
        warn_caller(f"{found} feature names", UserWarning)

    def _check_columns(self, owner: str, n_columns: int, names: tuple[str, ...] | None) -> None:
        if n_columns != self.n_features_in:
            raise DataError(
                f"X has {n_columns} features, but {owner} is expecting {self.n_features_in} "
                f"features as input: pass the same features, or fit again."
            )
        if names is not None and len(names) != n_columns:
            raise DataError(f"expected {n_columns} feature names, got {len(names)}")
        known = self.feature_names
        if names is None or known is None or names == known:
            return
        for ours, theirs in zip(known, names, strict=True):
            if ours != theirs:
                remedy = "put the columns in the order of fit"
                if sorted(known) != sorted(names):
                    remedy = "pass the same columns, or fit again"
                raise DataError(
                    f"The feature names should match those that were passed during fit: expected "
                    f"{ours!r}, got {theirs!r}: {remedy}"
                )


def warn_caller(message: str, category: type[Warning]) -> None:
    """Warn at the line, outside of this package and of scikit-learn, that led here."""
    frame, level = inspect.currentframe(), 1
    while frame is not None and frame.f_globals.get("__name__", "").startswith(_NOT_CALLERS):
        frame, level = frame.f_back, level + 1
    warnings.warn(message, category, stacklevel=level)


def shown(names: Sequence[str]) -> str:
    """The first few names, for a message."""
    return ", ".join(map(repr, names[:3])) + (", …" if len(names) > 3 else "")
