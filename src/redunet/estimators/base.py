"""Estimators over class moments: learning, withdrawing and merging, whatever is built on top."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Any, ClassVar, Self, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from redunet.core.moments import ClassMoments, Label
from redunet.errors import DataError, DataTypeError, ModelFileError, SettingsError
from redunet.estimators.checks import (
    check_among,
    checked_labels,
    checked_samples,
    column_names,
)
from redunet.estimators.fitted import Fitted
from redunet.estimators.inputs import InputPipeline
from redunet.estimators.model_file import Model
from redunet.estimators.offloading import allocate_here
from redunet.estimators.protocol import not_fitted
from redunet.estimators.settings import resolve_device
from redunet.estimators.state import State, warn_caller
from redunet.features import FeatureMap, held_of_data

T = TypeVar("T")


class LearntFeaturesWarning(UserWarning):
    """A feature map that was learnt from data stays as it is when data is withdrawn."""


class SelfLabelledWarning(UserWarning):
    """Samples that a model labelled itself are withdrawn with what it learnt to label from."""


class MomentEstimator(Fitted):
    """An estimator that remembers class moments of its samples, and nothing else.

    A subclass sets the four parameters below in its constructor, says in
    `_plain_settings` what else changes a label and makes a model of that in
    `_made_with`, and may check its parameters in `_check_parameters`. Whatever it
    computes from the moments it keeps in ``state.cache``.

    Everything learnt is one immutable `State`, which is replaced as a whole: an
    interrupted call has changed nothing or everything, and other threads may
    predict meanwhile. Calls that change a model are not to overlap each other.

    Parameters
    ----------
    features, normalize, input_range, device
        As for `ReduNetClassifier`.
    """

    features: FeatureMap | None
    normalize: str
    input_range: tuple[float, float] | None
    device: str

    _remembers: ClassVar[Any] = ClassMoments
    """The kind of table that samples are learnt into."""

    _of_pipeline: ClassVar[str] = "features, normalize or input_range"
    """Parameters that cannot change once something is learnt."""

    in_partitions: ClassVar[bool] = True
    """Whether several processes can learn parts of the samples and add them up."""

    @property
    def learns_vectors(self) -> bool:
        """Whether what is remembered are moments of whole vectors: not of shifts, nor of groups."""
        vectors: bool = self._remembers is ClassMoments
        return vectors

    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Forget everything, then learn.

        Parameters
        ----------
        X : array-like of shape (n, d)
        y : array-like of shape (n,), int or str

        Returns
        -------
        self
        """
        return self._learn(None, [(X, y)], column_names(X))

    def partial_fit(self, X: ArrayLike, y: ArrayLike, classes: ArrayLike | None = None) -> Self:
        """Learn new classes, or more samples of old ones, in any order and batch size.

        Parameters
        ----------
        X : array-like of shape (n, d)
            With the column names of the first call, or without names as in the first call.
        y : array-like of shape (n,), int or str
        classes : array-like, default=None
            Never needed; where given, labels outside of it are an error.

        Returns
        -------
        self
        """
        return self._learn(self._state_or_none(), [(X, y)], column_names(X), classes)

    def partial_fit_batches(
        self,
        batches: Iterable[tuple[ArrayLike, ArrayLike]],
        feature_names: Sequence[str] | None = None,
    ) -> Self:
        """Learn batches that come one after another: all of them, or none after an error.

        The same as `partial_fit` with each, but moments are not copied in between.

        Parameters
        ----------
        batches : iterable of pairs
            X, an array of shape (n, d), and y, as for `partial_fit`.
        feature_names : sequence of str, default=None
            Column names of all batches.

        Returns
        -------
        self
        """
        names = None if feature_names is None else tuple(feature_names)
        return self._learn(self._state_or_none(), batches, names)

    def forget(self, classes: Iterable[Any]) -> Self:
        """Withdraw classes, as if they had never been seen.

        The input that was agreed on stays: the number of features and the column names.

        Parameters
        ----------
        classes : iterable of labels

        Returns
        -------
        self
        """
        state = self._fitted()
        try:
            labels = [label.item() if isinstance(label, np.generic) else label for label in classes]
        except TypeError:
            raise DataTypeError(
                f"expected a list of classes to forget, such as [3, 7], got {classes!r}"
            ) from None
        return self._withdrawn(state, state.moments.drop(labels))

    def unlearn(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Withdraw samples, as if they had never been seen.

        Samples that cannot have been learnt are an error. With many samples in
        a class this cannot always be known: a sample that was never learnt may
        go undetected.

        Parameters
        ----------
        X : array-like of shape (n, d)
        y : array-like of shape (n,)

        Returns
        -------
        self
        """
        state = self._fitted()
        gone = self._moments_of(state, [(X, y)], column_names(X), state.moments.select([]))
        return self._withdrawn(state, state.moments - gone)

    def unlearn_batches(
        self,
        batches: Iterable[tuple[ArrayLike, ArrayLike]],
        feature_names: Sequence[str] | None = None,
    ) -> Self:
        """Withdraw batches that come one after another: all of them, or none after an error.

        Parameters
        ----------
        batches, feature_names
            As for `partial_fit_batches`.

        Returns
        -------
        self
        """
        state = self._fitted()
        names = None if feature_names is None else tuple(feature_names)
        gone = self._moments_of(state, batches, names, state.moments.select([]))
        return self._withdrawn(state, state.moments - gone)

    def merge(self, other: MomentEstimator) -> Self:
        """Add what another model has learnt, as if one model had seen both.

        Parameters
        ----------
        other : estimator of the same kind
            With the same settings and the same column names, if any.

        Returns
        -------
        self
        """
        state = self._fitted()
        if not isinstance(other, type(self)):
            raise DataTypeError(
                f"expected a {type(self).__name__} to merge, got {type(other).__name__}"
            )
        theirs = other._fitted()
        mine, others = self._identity(state), other._identity(theirs)
        for name in {**mine, **others}:
            if mine.get(name) != others.get(name):
                raise SettingsError(
                    f"expected models made alike, but they differ in {name}: "
                    f"merge models with the same settings and features"
                )
        own = [one.self_labelled for one in (state, theirs) if one.self_labelled is not None]
        both = None if not own else own[0] if len(own) == 1 else own[0] + own[1]
        moments = state.moments + theirs.moments
        moments.check_not_zero()
        return self._set_moments(state, moments, both)

    def remember(self, moments: ClassMoments) -> Self:
        """Forget everything, then take moments as if their samples had been learnt here.

        Moments are shared, not copied: any number of estimators over the same ones
        hold them once.

        Parameters
        ----------
        moments : ClassMoments
            Learnt through this estimator's features; or through others, and then
            with ``features=None`` new samples are to be given as their vectors.

        Returns
        -------
        self
        """
        if type(moments) is not self._remembers:
            raise DataTypeError(
                f"expected {self._remembers.of_what} for a {type(self).__name__}, got "
                f"{moments.of_what}: fit the model instead"
            )
        n_columns = self._pipeline().n_columns(moments.n_features)
        pipeline = self._full_pipeline(n_columns)
        if pipeline.n_features(n_columns) != moments.n_features:
            raise DataError(
                f"expected moments of {pipeline.n_features(n_columns)} features, got "
                f"{moments.n_features}: pass moments learnt through the same features"
            )
        self._check_parameters(moments.n_features)
        pipeline.check_moments(moments)
        return self._set_moments(State(pipeline, None, moments), moments)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the model to a file; equal models give equal files, to the byte."""
        self._as_file().save(path)

    def to_bytes(self) -> bytes:
        """The bytes of the file that `save` writes."""
        return self._as_file().to_bytes()

    def sha256(self) -> str:
        """The sha256 of the file that `save` writes."""
        return self._as_file().sha256()

    def _as_file(self) -> Model:
        state = self._fitted()
        self._check_pipeline(state)
        return Model(self._plain_settings(), state)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Read a model from a file."""
        return cls._restored(
            Model.load(path, lambda values: cls._made_with(values)._plain_settings())
        )

    @classmethod
    def _restored(cls, read: Model) -> Self:
        """The estimator that a file was made of."""
        if type(read.state.moments) is not cls._remembers:
            raise ModelFileError(
                f"expected {cls._remembers.of_what} in the file of a {cls.__name__}, got "
                f"{read.state.moments.of_what}: the file is damaged"
            )
        model = cls._made_with(read.settings)
        pipeline = read.state.pipeline
        model.features = model._given_features(pipeline.features)
        model.normalize = pipeline.normalize
        model.input_range = pipeline.input_range
        model._state = read.state
        if model._full_pipeline(read.state.n_features_in) != pipeline:
            raise ModelFileError(
                f"expected the feature map of a {cls.__name__} with the settings in the file, got "
                f"another: the file is damaged"
            )
        return model

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

    def __setattr__(self, name: str, value: Any) -> None:
        if not name.startswith("_"):
            self.__dict__.pop("_checked", None)
        object.__setattr__(self, name, value)

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "_checked"}

    def _once(self, about: str, check: Callable[[], T]) -> T:
        """The result of a check of parameters, made once after each change of them."""
        checked = self.__dict__.setdefault("_checked", {})
        if about not in checked:
            checked[about] = check()
        found: T = checked[about]
        return found

    def _learn(
        self,
        state: State | None,
        batches: Iterable[tuple[ArrayLike, ArrayLike]],
        names: tuple[str, ...] | None,
        classes: ArrayLike | None = None,
    ) -> Self:
        """Learn samples; nothing of the model changes before everything has gone well."""
        if state is None:
            remaining = iter(batches)
            first = next(remaining, None)
            if first is None:
                raise _no_batches()
            rows = checked_samples(first[0], self._pipeline().features, self)
            state = self._before_learning(rows.shape[1], names)
            batches = itertools.chain([(rows, first[1])], remaining)
        moments = self._moments_of(state, batches, names, state.moments, classes)
        return self._set_moments(state, moments, state.self_labelled)

    def _moments_of(
        self,
        state: State,
        batches: Iterable[tuple[ArrayLike, ArrayLike]],
        names: tuple[str, ...] | None,
        start: ClassMoments,
        classes: ArrayLike | None = None,
    ) -> ClassMoments:
        """Moments with the samples of all batches added to those of others."""
        self._check_parameters(start.n_features)
        device, n_batches = self._device(), 0

        def checked() -> Iterator[tuple[NDArray[Any], list[Label]]]:
            nonlocal n_batches
            for n_batches, (X, y) in enumerate(batches, 1):  # noqa: B007 - counted
                rows = self._rows_to_change(state, X, names)
                labels = checked_labels(y, len(rows))
                if classes is not None:
                    check_among(labels, classes)
                yield rows, labels

        moments = start.update_from(checked(), self._embed(state, device), device)
        if not n_batches:
            raise _no_batches()
        return moments

    def _embed(self, state: State, device: str) -> Callable[[Any], Any]:
        """From samples to what is learnt of them."""
        return partial(state.pipeline.learn, device=device)

    def own_settings(self) -> dict[str, Any]:
        """The parameters that change a label, beside those of the input; by name, checked."""
        raise NotImplementedError

    def summary(self) -> dict[str, Any]:
        """Counts of samples by class, settings, and the feature map, as receipts state them."""
        features = self.feature_map_
        return {
            "classes": self.class_counts_,
            "self_labelled": sum(self.self_labelled_counts_.values()),
            "settings": {
                **self.own_settings(),
                "normalize": self.normalize,
                "input_range": self.input_range,
            },
            "feature_map": {
                "kind": None if features is None else features.kind,
                "still_holds": held_of_data(self.features),
            },
        }

    def _plain_settings(self) -> dict[str, Any]:
        """Plain values, checked, of all that changes a label besides input and moments."""
        raise NotImplementedError

    @classmethod
    def _made_with(cls, values: dict[str, Any]) -> Self:
        """A model that has learnt nothing, from what `_plain_settings` gave."""
        raise NotImplementedError

    def _pipeline(self) -> InputPipeline:
        """The parameters of the input, checked."""
        return self._once(
            "pipeline",
            lambda: InputPipeline.checked(self.features, self.normalize, self.input_range),
        )

    def _device(self) -> str:
        """Where to compute, checked."""
        return self._once("device", lambda: resolve_device(self.device))

    def _full_pipeline(self, n_columns: int) -> InputPipeline:
        """The pipeline of samples of so many values: the input's, and maps of a subclass's own."""
        return self._pipeline()

    def _given_features(self, features: FeatureMap | None) -> FeatureMap | None:
        """The parameter ``features`` of a model whose samples go through a feature map."""
        return features

    def _check_pipeline(self, state: State) -> None:
        """Raise a SettingsError where the input's parameters changed since the first sample."""
        if self._full_pipeline(state.n_features_in) != state.pipeline:
            raise SettingsError(
                f"{self._of_pipeline} changed since the model was fitted: "
                f"set them back, or fit again"
            )

    def _rows_to_change(
        self, state: State, X: ArrayLike, names: tuple[str, ...] | None
    ) -> NDArray[Any]:
        """Samples to learn or withdraw, as an array of shape (n, values)."""
        self._check_pipeline(state)
        rows = checked_samples(X, self._given_features(state.pipeline.features), self)
        state.check_changing(type(self).__name__, rows.shape[1], names)
        return rows

    def _rows_to_predict(self, state: State, X: ArrayLike) -> NDArray[Any]:
        """New samples, as an array of shape (n, values)."""
        self._check_pipeline(state)
        rows = checked_samples(X, self._given_features(state.pipeline.features), self)
        state.check_new(type(self).__name__, rows.shape[1], column_names(X))
        return rows

    def _check_parameters(self, n_features: int) -> None:
        """Raise a SettingsError where parameters of a subclass cannot be used."""

    def _no_moments(self, n_features: int) -> ClassMoments:
        """The table that samples are learnt into, of no class yet."""
        return ClassMoments(n_features, allocate=allocate_here())

    def _before_learning(self, n_columns: int, names: tuple[str, ...] | None) -> State:
        """The state that agrees on the input of the first samples and holds none of them."""
        pipeline = self._full_pipeline(n_columns)
        return State(pipeline, names, self._no_moments(pipeline.n_features(n_columns)))

    def _set_moments(
        self, state: State, moments: ClassMoments, self_labelled: ClassMoments | None = None
    ) -> Self:
        """Replace the state by one with other moments: all that ever changes in a model."""
        self._state = state.with_moments(moments, self_labelled)
        return self

    def _withdrawn(self, state: State, moments: ClassMoments) -> Self:
        """Replace the moments after samples were withdrawn, and drop what was made of these."""
        self._set_moments(state, moments)
        if state.self_labelled is not None:
            warn_caller(
                f"{sum(state.self_labelled.counts):,} samples that the model had labelled itself "
                f"were withdrawn too, as it learnt to label from what is gone: learn them again",
                SelfLabelledWarning,
            )
        return self._warn_of_learnt_features()

    def _warn_of_learnt_features(self) -> Self:
        held = held_of_data(self.features)
        if held is not None:
            warn_caller(
                f"the feature map was learnt from data and stays as it is: what it holds of that "
                f"data ({held}) is not withdrawn",
                LearntFeaturesWarning,
            )
        return self

    def _identity(self, state: State) -> dict[str, Any]:
        """Values that two models must share to be merged."""
        self._check_pipeline(state)
        return {
            **self.own_settings(),
            "features, normalize or input_range": state.pipeline,
            "the number of features": state.n_features_in,
            "the list of feature names": state.feature_names,
            "whether image files are resized": state.resize,
            "the encoder of their vectors": state.encoder,
        }


def _no_batches() -> DataError:
    return DataError("expected at least one batch of samples, got none")
