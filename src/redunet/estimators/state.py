"""What a model has learnt, as one value that is never changed, only replaced."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from redunet.core.moments import ClassMoments, Label
from redunet.encoders import EncoderId
from redunet.errors import DataError
from redunet.estimators.inputs import InputPipeline
from redunet.estimators.protocol import NotFittedError as NotFittedError
from redunet.estimators.protocol import SklearnEstimator, not_fitted
from redunet.estimators.rejection import Calibration
from redunet.features import FeatureMap

T = TypeVar("T")

_NOT_CALLERS = ("redunet.", "sklearn.")


class Kept:
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

    def __reduce__(self) -> tuple[type[Kept], tuple[()]]:
        return Kept, ()


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
    kept : Kept
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
    kept: Kept = field(default_factory=Kept)
    warned: set[type[Warning]] = field(default_factory=set)

    @property
    def n_features_in(self) -> int:
        """The number of values of a raw sample."""
        return self.pipeline.n_columns(self.moments.n_features)

    @property
    def counts(self) -> dict[Label, int]:
        """Samples that people labelled, by class, in the order of the labels."""
        return dict(zip(self.moments.labels, self.moments.counts, strict=True))

    @property
    def labels(self) -> tuple[Label, ...]:
        """The classes, sorted."""
        return self.moments.labels

    @property
    def total(self) -> ClassMoments:
        """The moments of all samples, whoever labelled them: what answers are made of."""
        own = self.self_labelled
        return (
            self.moments if own is None else self.kept.get("total", 0, lambda: self.moments + own)
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
        return replace(self, moments=moments, self_labelled=own, calibration=None, kept=Kept())

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
        """The same for samples to predict, where names on one side only are a warning."""
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


class Fitted(SklearnEstimator):
    """An estimator that holds a state: what it shows of it, once it has learnt something."""

    _state: State

    @property
    def classes_(self) -> NDArray[Any]:
        """The classes seen, sorted: ndarray of shape (k,)."""
        return np.asarray(self._fitted().labels)

    @property
    def class_counts_(self) -> dict[Label, int]:
        """The samples of each class that were learnt with their labels, in the order of classes."""
        return self._fitted().counts

    @property
    def self_labelled_counts_(self) -> dict[Label, int]:
        """The samples of each class that the model labelled itself; none of most."""
        own = self._fitted().self_labelled
        return {} if own is None else dict(zip(own.labels, own.counts, strict=True))

    @property
    def moments_(self) -> ClassMoments:
        """All that is remembered of the samples that were learnt with their labels."""
        return self._fitted().moments

    @property
    def self_labelled_(self) -> ClassMoments | None:
        """All that is remembered of samples that the model labelled itself; None if there are none.

        They are not part of ``moments_``, which is about the samples that people labelled.
        """
        return self._fitted().self_labelled

    @property
    def rejection_calibrated_(self) -> bool:
        """Whether thresholds of rejection come from validation samples, not from the moments."""
        return self._fitted().calibration is not None

    @property
    def n_features_in_(self) -> int:
        """The number of values of a raw sample."""
        return self._fitted().n_features_in

    @property
    def n_features_out_(self) -> int:
        """The number of features that are learnt of a sample, after the feature map."""
        return self._fitted().moments.n_features

    @property
    def feature_map_(self) -> FeatureMap | None:
        """What samples go through: ``features``, then the method's own map; None without any."""
        return self._fitted().pipeline.features

    @property
    def resize_images_(self) -> bool:
        """Whether commands scale and crop image files that they read for this model."""
        return self._fitted().resize

    @property
    def encoder_(self) -> EncoderId | None:
        """The encoder whose vectors the samples are; None where that is not known."""
        return self._fitted().encoder

    @property
    def feature_names_in_(self) -> NDArray[Any]:
        """The column names, ndarray of shape (n_features_in_,); only where there are some."""
        names = self._fitted().feature_names
        if names is None:
            raise AttributeError("the model was fitted without feature names")
        return np.asarray(names, dtype=object)

    def _state_or_none(self) -> State | None:
        return self.__dict__.get("_state")

    def _fitted(self) -> State:
        """The state. A method asks for it once, as another thread may replace it."""
        state = self._state_or_none()
        if state is None:
            raise not_fitted()(
                f"This {type(self).__name__} has learnt nothing yet: call fit or partial_fit first"
            )
        return state

    def __sklearn_is_fitted__(self) -> bool:
        return self._state_or_none() is not None


def warn_caller(message: str, category: type[Warning]) -> None:
    """Warn at the line, outside of this package and of scikit-learn, that led here."""
    frame, level = inspect.currentframe(), 1
    while frame is not None and frame.f_globals.get("__name__", "").startswith(_NOT_CALLERS):
        frame, level = frame.f_back, level + 1
    warnings.warn(message, category, stacklevel=level)


def shown(names: Sequence[str]) -> str:
    """The first few names, for a message."""
    return ", ".join(map(repr, names[:3])) + (", …" if len(names) > 3 else "")
