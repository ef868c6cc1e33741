"""What can be seen inside a model: how its classes lie, before its layers and after them."""

from __future__ import annotations

import math
from collections.abc import Iterator

from redunet.core.second_moments import SecondMoments
from redunet.core.subspaces import Subspaces
from redunet.estimators.classifier import ReduNetClassifier
from redunet.features import Flatten, Standardize

LEAST_SIDE = 5
"""Vectors of fewer values than a square of this side are not taken for pictures."""


def before_and_after(model: ReduNetClassifier, n_values: int) -> Iterator[Subspaces]:
    """The subspaces of a model's classes before its first layer, then after its last.

    Parameters
    ----------
    model : ReduNetClassifier
    n_values : int
        How many eigenvalues to keep of each class, where it has as many.
    """
    d = model.moments_.n_features
    n_components = model._settings().components(d)
    network = model.network_
    n_values = min(d, max(n_values, n_components))
    # A pass for the last moments first: the first ones are there already.
    last = network.layers.last
    first = SecondMoments.of_matrices(next(network.moments()))
    yield Subspaces.of(first, n_components, n_values)
    yield Subspaces.of(last, n_components, n_values)


def as_learnt(model: ReduNetClassifier, n_values: int) -> Subspaces:
    """The subspaces of a model's classes in the features that were learnt, before any map."""
    moments = model.moments_
    n_components = model._settings().components(moments.n_features)
    n_values = min(moments.n_features, max(n_values, n_components))
    first = SecondMoments.of_matrices(moments.Sigma())
    return Subspaces.of(first, n_components, n_values)


def is_whitened(model: ReduNetClassifier) -> bool:
    """Whether a map from moments stands between the features and the first layer.

    What lies behind it are no pixels any more, whatever the features are.
    """
    return getattr(model, "whitening", None) is not None


def picture_shape(model: ReduNetClassifier) -> tuple[tuple[int, ...] | None, bool]:
    """The shape of a picture whose pixels are a model's features, and whether it is a guess.

    Features are pixels where a feature map says so: `Flatten` or `Standardize` of
    images, (h, w), (h, w, 1) or (h, w, 3). Without a feature map it is a guess: as
    many values as a square of at least 5 × 5 pixels has, no names of columns, and
    no second moment below zero in any class, as values below zero would leave.

    Returns
    -------
    shape : (h, w) or (h, w, 3), or None
    guessed : bool
    """
    features = model.features
    if isinstance(features, Flatten | Standardize):
        shape = tuple(features.input_shape)
        if len(shape) == 3 and shape[2] == 1:
            shape = shape[:2]
        drawable = len(shape) == 2 or (len(shape) == 3 and shape[2] == 3)
        return (shape if drawable else None), False
    d = model.moments_.n_features
    side = math.isqrt(d)
    if features is not None or side < LEAST_SIDE or side * side != d:
        return None, False
    if hasattr(model, "feature_names_in_"):
        return None, False
    moments = model.moments_
    if any(bool((moments[label].second_moment < 0).any()) for label in moments.labels):
        return None, False
    return (side, side), True


def rates_by_layer(model: ReduNetClassifier) -> dict[str, list[float]]:
    """The objective and its two terms before each layer of a model's network."""
    rates = model.network_.rates()
    return {
        "R": [rate.R for rate in rates],
        "R_c": [rate.R_c for rate in rates],
        "delta_R": [rate.delta_R for rate in rates],
    }
