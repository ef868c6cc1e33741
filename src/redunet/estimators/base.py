"""Estimators over class moments: learning, withdrawing and merging, whatever is built on top."""

from __future__ import annotations

import math
import os
import warnings
from collections.abc import Iterable
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn import exceptions
from sklearn.base import BaseEstimator
from sklearn.utils.validation import validate_data

from redunet.core.moments import ClassMoments
from redunet.errors import DataError, DataTypeError, ReduNetError, SettingsError
from redunet.estimators.checked_input import (
    Embedding,
    checked_labels,
    checked_samples,
    one_line_errors,
)
from redunet.estimators.model_file import Model
from redunet.estimators.settings import resolve_device
from redunet.features import FeatureMap, held_of_data


class NotFittedError(ReduNetError, exceptions.NotFittedError):
    """A model was asked for something before it had learnt anything."""


class LearntFeaturesWarning(UserWarning):
    """A feature map that was learnt from data stays as it is when data is withdrawn."""


class MomentEstimator(BaseEstimator):
    """What every estimator that remembers class moments, and nothing else, can do.

    A subclass sets the four parameters below in its constructor, says in
    `_plain_settings` what else changes a label and makes a model of that in
    `_made_with`, and may check its parameters in `_check_parameters` and drop
    in `_keep` what it built from older moments.

    Parameters
    ----------
    features, normalize, input_range, device
        As for `ReduNetClassifier`.
    """

    features: FeatureMap | None
    normalize: str
    input_range: tuple[float, float] | None
    device: str

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
        return self._learn(X, y, afresh=True)

    def partial_fit(self, X: ArrayLike, y: ArrayLike, classes: ArrayLike | None = None) -> Self:
        """Learn new classes, or more samples of old ones, in any order and batch size.

        Parameters
        ----------
        X : array-like of shape (n, d)
        y : array-like of shape (n,), int or str
        classes : array-like, default=None
            Never needed; where given, labels outside of it are an error.

        Returns
        -------
        self
        """
        return self._learn(X, y, not self.__sklearn_is_fitted__(), classes)

    def forget(self, classes: Iterable[Any]) -> Self:
        """Withdraw classes, as if they had never been seen.

        Parameters
        ----------
        classes : iterable of labels

        Returns
        -------
        self
        """
        moments = self._fitted_moments()
        try:
            labels = [label.item() if isinstance(label, np.generic) else label for label in classes]
        except TypeError:
            raise DataTypeError(
                f"expected a list of classes to forget, such as [3, 7], got {classes!r}"
            ) from None
        return self._keep(moments.drop(labels))._say_what_stays()

    def unlearn(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Withdraw samples, as if they had never been seen.

        Samples that cannot have been learnt are an error. With many samples in
        a class this cannot always be known: a stranger's sample may pass.

        Parameters
        ----------
        X : array-like of shape (n, d)
        y : array-like of shape (n,)

        Returns
        -------
        self
        """
        moments = self._fitted_moments()
        embedding, nothing = self._unchanged_embedding(), ClassMoments(moments.n_features)
        gone = self._moments_of(self._rows(X, embedding), y, embedding, nothing)
        return self._keep(moments - gone)._say_what_stays()

    def merge(self, other: Self) -> Self:
        """Add what another model has learnt, as if one model had seen both.

        Parameters
        ----------
        other : estimator of the same kind
            With the same settings.

        Returns
        -------
        self
        """
        moments = self._fitted_moments()
        if not isinstance(other, type(self)):
            raise DataTypeError(
                f"expected a {type(self).__name__} to merge, got {type(other).__name__}"
            )
        theirs = other._fitted_moments()
        mine, others = self._identity(), other._identity()
        for name in {**mine, **others}:
            if mine.get(name) != others.get(name):
                raise SettingsError(
                    f"expected models made alike, but they differ in {name}: "
                    f"merge models with the same settings and features"
                )
        return self._keep(moments + theirs)

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
        embedding = self._embedding()
        features = embedding.features
        n_columns = moments.n_features if features is None else math.prod(features.input_shape)
        if embedding.n_features(n_columns) != moments.n_features:
            raise DataError(
                f"expected moments of {embedding.n_features(n_columns)} features, got "
                f"{moments.n_features}: pass moments learnt through the same features"
            )
        self._check_parameters(moments.n_features)
        self._keep(moments)
        self.n_features_in_, self._learnt_through = n_columns, embedding
        self.__dict__.pop("feature_names_in_", None)
        return self

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the model to a file; equal models give equal files, to the byte."""
        moments, embedding = self._fitted_moments(), self._unchanged_embedding()
        Model(self._plain_settings(), embedding, moments, self._feature_names()).save(path)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Read a model from a file."""
        return cls._restored(
            Model.load(path, lambda values: cls._made_with(values)._plain_settings())
        )

    @classmethod
    def _restored(cls, read: Model) -> Self:
        """The estimator that a file was made of."""
        model = cls._made_with(read.settings)
        model.features = read.embedding.features
        model.normalize = read.embedding.normalize
        model.input_range = read.embedding.input_range
        model.n_features_in_ = read.n_features_in
        if read.feature_names is not None:
            model.feature_names_in_ = np.asarray(read.feature_names, dtype=object)
        model._learnt_through = read.embedding
        return model._keep(read.moments)

    @property
    def classes_(self) -> NDArray[Any]:
        """The classes seen, sorted: ndarray of shape (k,)."""
        return np.asarray(self._fitted_moments().labels)

    def _learn(
        self, X: ArrayLike, y: ArrayLike, afresh: bool, classes: ArrayLike | None = None
    ) -> Self:
        """Learn samples; nothing of the model changes before everything has gone well."""
        if not afresh:
            embedding = self._unchanged_embedding()
            rows = self._rows(X, embedding)
            return self._keep(self._moments_of(rows, y, embedding, self.moments_, classes))
        embedding = self._embedding()
        rows = checked_samples(X, embedding.features, self)
        nothing = ClassMoments(embedding.n_features(rows.shape[1]))
        moments = self._moments_of(rows, y, embedding, nothing, classes)
        names_from = X if embedding.features is None else rows
        with one_line_errors():
            validate_data(self, names_from, reset=True, skip_check_array=True)
        self._learnt_through = embedding
        return self._keep(moments)

    def _moments_of(
        self,
        rows: NDArray[Any],
        y: ArrayLike,
        embedding: Embedding,
        start: ClassMoments,
        classes: ArrayLike | None = None,
    ) -> ClassMoments:
        """Moments with these samples added to those of others."""
        self._check_parameters(start.n_features)
        device = resolve_device(self.device)
        labels = checked_labels(y, len(rows))
        if classes is not None:
            unknown = np.setdiff1d(labels, np.asarray(classes))
            if len(unknown):
                raise DataError(f"expected labels among classes=, got {unknown.tolist()[0]!r}")
        return start.update(rows, labels, lambda part: embedding.learn(part, device), device)

    def _plain_settings(self) -> dict[str, Any]:
        """Whatever changes a label besides embedding and moments: plain values, checked."""
        raise NotImplementedError

    @classmethod
    def _made_with(cls, values: dict[str, Any]) -> Self:
        """A model that has learnt nothing, from what `_plain_settings` gave."""
        raise NotImplementedError

    def _check_parameters(self, n_features: int) -> None:
        """Complain of parameters of a subclass that cannot be used."""

    def _keep(self, moments: ClassMoments) -> Self:
        """Take new moments; whatever was built from the old ones is gone."""
        if not len(moments):
            raise DataError(
                "expected at least one class to remain, but this would withdraw the last one: "
                "discard the model instead"
            )
        self.moments_ = moments
        return self

    def _say_what_stays(self) -> Self:
        held = held_of_data(self.features)
        if held is not None:
            warnings.warn(
                f"the feature map was learnt from data and stays as it is: what it holds of that "
                f"data ({held}) is not withdrawn",
                LearntFeaturesWarning,
                stacklevel=3,
            )
        return self

    def _embedding(self) -> Embedding:
        """The parameters of the input, checked."""
        return Embedding.checked(self.features, self.normalize, self.input_range)

    def _unchanged_embedding(self) -> Embedding:
        """The embedding that the moments were learnt through."""
        if self._embedding() != self._learnt_through:
            raise SettingsError(
                "features, normalize or input_range changed since the model was fitted: "
                "set them back, or fit anew"
            )
        return self._learnt_through

    def _feature_names(self) -> list[str] | None:
        names = getattr(self, "feature_names_in_", None)
        return None if names is None else names.tolist()

    def _identity(self) -> dict[str, Any]:
        """What two models must share to be merged."""
        return {
            **self._plain_settings(),
            "features, normalize or input_range": self._unchanged_embedding(),
            "the number of features": self.n_features_in_,
            "the list of feature names": self._feature_names(),
        }

    def _rows(self, X: ArrayLike, embedding: Embedding) -> NDArray[Any]:
        """Samples of the features that the model knows, as an array of shape (n, values)."""
        rows = checked_samples(X, embedding.features, self)
        with one_line_errors():
            names_from = X if embedding.features is None else rows
            validate_data(self, names_from, reset=False, skip_check_array=True)
        return rows

    def _fitted_moments(self) -> ClassMoments:
        if not self.__sklearn_is_fitted__():
            raise NotFittedError(
                f"This {type(self).__name__} has learnt nothing yet: call fit or partial_fit first"
            )
        return self.moments_

    def __sklearn_is_fitted__(self) -> bool:
        return "moments_" in self.__dict__
