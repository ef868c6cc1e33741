"""Attributes of an estimator that has learnt something."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from redunet.core.moments import ClassMoments, Label
from redunet.encoders import EncoderId
from redunet.estimators.protocol import SklearnEstimator
from redunet.estimators.state import State
from redunet.features import FeatureMap


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
        """The map of samples: ``features``, then the method's own map; None without any."""
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

    def resize_images(self) -> Self:
        """Have commands scale and crop image files to the input shape of the feature map.

        Of no meaning to arrays. Cache in the model until the next `fit`.

        Returns
        -------
        self
        """
        self._state = replace(self._fitted(), resize=True)
        return self

    def set_encoder(self, encoder: EncoderId | None) -> Self:
        """State which encoder makes the vectors, for commands that are given texts or images.

        Of no meaning to arrays. Cache in the model until the next `fit`.

        Parameters
        ----------
        encoder : EncoderId, or None

        Returns
        -------
        self
        """
        self._state = replace(self._fitted(), encoder=encoder)
        return self

    def _fitted(self) -> State:
        """The state; an error where nothing is learnt."""
        raise NotImplementedError

    def __sklearn_is_fitted__(self) -> bool:
        return "_state" in self.__dict__
