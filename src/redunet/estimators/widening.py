"""Features that appear after the first sample."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TypeVar

from redunet.errors import DataError, SettingsError
from redunet.estimators.base import MomentEstimator
from redunet.validation import whole_number

AnyEstimator = TypeVar("AnyEstimator", bound=MomentEstimator)


def add_features(
    model: AnyEstimator, n_more: int, names: Sequence[str] | None = None
) -> AnyEstimator:
    """Add features to the input of a model, as if they had been 0 in every sample before.

    They come after those that it has. Nothing has to be learnt again: the model is the one that
    the same samples would give with zeros in these places.

    Parameters
    ----------
    model : estimator
        Fitted on raw samples, ``features=None`` and ``normalize="sample"``, of which it remembers
        moments of whole vectors: no `EnsembleClassifier`, and no `ShiftInvariantClassifier`.
    n_more : int
        At least 1.
    names : sequence of n_more str, default=None
        Of the new features, for a model that was fitted with column names.

    Returns
    -------
    estimator
        The same, changed.

    Examples
    --------
    >>> from redunet.estimators import NearestMean
    >>> model = NearestMean().fit([[3.0, 4.0], [1.0, 0.0]], [0, 1])
    >>> add_features(model, 1).n_features_in_
    3
    >>> model.moments_ == NearestMean().fit([[3.0, 4.0, 0.0], [1.0, 0.0, 0.0]], [0, 1]).moments_
    True
    """
    state = model._fitted()
    n_more = whole_number("n_more", n_more, least=1)
    if not model.learns_vectors:
        raise SettingsError(
            f"expected a model of moments of vectors to add features to, got a "
            f"{type(model).__name__}, which has {state.moments.of_what}: fit it with all features"
        )
    if state.pipeline.features is not None or state.pipeline.normalize != "sample":
        raise SettingsError(
            f"expected a model of raw samples (features=None, normalize='sample') to add features "
            f"to, got a {type(model).__name__} whose input is transformed: give all features with "
            f"the first sample"
        )
    if state.encoder is not None:
        raise SettingsError(
            f"expected a model of raw samples to add features to, got one over vectors of the "
            f"encoder {state.encoder}, whose number is fixed"
        )
    known = state.feature_names
    if (known is None) != (names is None) or (names is not None and len(names) != n_more):
        wanted = "no names" if known is None else f"{n_more} names"
        raise DataError(f"expected {wanted} of features to add, like those there, got {names!r}")
    own = None if state.self_labelled is None else state.self_labelled.widened(n_more)
    more = state.with_moments(state.moments.widened(n_more), own)
    if known is not None and names is not None:
        more = replace(more, feature_names=(*known, *names))
    model._state = more
    return model
