"""A model that has learnt nothing yet, made for its first data."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from redunet.data.matching import at, check_finite, read
from redunet.data.source import Source
from redunet.errors import DataError, SettingsError
from redunet.estimators import ClosedForm, Estimator, estimator_named
from redunet.estimators.model_settings import ModelSettings
from redunet.estimators.recipes import model_settings
from redunet.estimators.settings import InputSettings, Settings, resolve_device
from redunet.features import FeatureMap
from redunet.progress import Progress, silent

MOST_FEATURES = 2**15
"""Beyond it the second moment of one class alone takes more than 8 GB."""

SAMPLE_BYTES = 2**27
"""Of samples, as float64, that features are learnt from: statistics of more would differ little."""


def new_model(
    name: str,
    recipe: str | None,
    settings: Mapping[str, Any],
    sources: Sequence[Source],
    device: str,
    progress: Progress = silent,
) -> Estimator:
    """Make a model for its first data."""
    kind = estimator_named(name)
    own, shared = _own_settings(kind, settings)
    made_with = model_settings(recipe, shared)
    features = _features(made_with, sources, device, progress)
    if not issubclass(kind, ClosedForm):
        return made_with.learner(features, device)
    of_input = InputSettings.of(made_with).to_dict()
    return kind(**own, **of_input, features=features, device=device)


def _own_settings(
    kind: type[Estimator], settings: Mapping[str, Any]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Settings of a closed-form method itself, and those of its features and input."""
    if not issubclass(kind, ClosedForm):
        return {}, dict(settings)
    known, settings = kind().own_settings(), kind.named_today(settings)
    shared = {key: value for key, value in settings.items() if key not in known}
    for key in shared:
        if key in Settings.names():
            raise SettingsError(
                f"expected settings of {kind.name()}, its features or its input, got {key!r}: its "
                f"own are {', '.join(known) or 'none'}"
            )
    return {key: value for key, value in settings.items() if key in known}, shared


def _features(
    settings: ModelSettings, sources: Sequence[Source], device: str, progress: Progress
) -> FeatureMap | None:
    """The feature map of a new model, made for and from its first data."""
    first = next(batch.X for _, batch in read(sources, "opening", silent))
    shape = first.shape[1:]
    if len(shape) == 1 and settings.features == "pixels":
        _check_size(shape[0])
    samples = first
    if settings.features != "pixels" and settings.fit_features_on != "nowhere":
        samples = _spread(sources, max(1, SAMPLE_BYTES // (8 * math.prod(shape))), progress)
    features = settings.features_for(samples, resolve_device(device))
    if features is not None:
        _check_size(features.n_features)
    return features


def _check_size(n_features: int) -> None:
    if n_features > MOST_FEATURES:
        raise DataError(
            f"expected at most {MOST_FEATURES:,} features, got {n_features:,}: "
            f"make the images smaller, or learn the output of an encoder"
        )


def _spread(sources: Sequence[Source], most: int, progress: Progress) -> NDArray[Any]:
    """At most so many samples, spread evenly over all of them."""
    kept: list[NDArray[Any]] = []
    every, seen = 1, 0
    for source, batch in read(sources, "looking at", progress):
        with at(source, batch):
            check_finite(batch.X)
        for sample in batch.X:
            if seen % every == 0:
                kept.append(np.array(sample))
                if len(kept) > most:
                    kept, every = kept[::2], 2 * every
            seen += 1
    try:
        return np.stack(kept)
    except ValueError:
        raise DataError("expected samples of one shape throughout: pass data of one kind") from None
