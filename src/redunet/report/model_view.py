"""A model, and the part of it that a page shows: classes, depths, samples."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from redunet.core.subspaces import Subspaces
from redunet.errors import DataError, SettingsError
from redunet.estimators import (
    EnsembleClassifier,
    Estimator,
    ReduNetClassifier,
)
from redunet.estimators.inspection import (
    after_layers,
    before_layers,
    layers_fit,
    most_similar,
)
from redunet.report.samples import Samples
from redunet.report.shared_figures import MOST_CLASSES

MOST_VALUES = 60
"""Eigenvalues that are drawn of each class."""

AFTER, BEFORE = "after the last layer", "before the first layer"


@dataclass(frozen=True, eq=False)
class ModelView:
    """A model, the classes of it to show, and samples to label.

    Parameters
    ----------
    model : estimator
        That has learnt something.
    samples : Samples, default=None
    wanted : sequence of str, default=()
        Names of classes to show; none means all, or of many the most similar.
    layers : bool, default=None
        Whether to show what the layers do, which takes a pass over all of them;
        None means where that is cheap or done anyway.
    add_mistake : bool, default=True
        Whether to follow a wrongly labelled sample too.
    """

    model: Estimator
    samples: Samples | None = None
    wanted: Sequence[str] = ()
    layers: bool | None = None
    add_mistake: bool = True

    @cached_property
    def names(self) -> list[str]:
        """Names of the classes."""
        return [str(label) for label in self.model.classes_.tolist()]

    @cached_property
    def drawn(self) -> Estimator:
        """The model whose classes and layers are shown: of several maps, that of the first one."""
        model = self.model
        return model.alone(0) if isinstance(model, EnsembleClassifier) else model

    @cached_property
    def network(self) -> ReduNetClassifier:
        """The model drawn; of another estimator, a network without layers on its moments."""
        model = self.drawn
        if isinstance(model, ReduNetClassifier):
            return model
        if not model.learns_vectors:
            raise SettingsError(
                f"expected a model of vectors to draw, got one of {model.name()}: see redunet "
                f"inspect"
            )
        bare = ReduNetClassifier(
            n_layers=0,
            features=model.feature_map_,
            normalize=model.normalize,
            input_range=model.input_range,
            device=model.device,
        )
        return bare.remember(model.moments_)

    @cached_property
    def with_layers(self) -> bool:
        """Whether there are layers, and they are to be shown."""
        if not self.network.n_layers or self.layers is not None:
            return bool(self.network.n_layers and self.layers)
        return self.samples is not None or layers_fit(self.network)

    @cached_property
    def ranked(self) -> list[int]:
        """The places of the classes to show, those that matter most first."""
        if not self.wanted:
            return most_similar(self.network, MOST_CLASSES)
        for name in self.wanted:
            if name not in self.names:
                raise DataError(
                    f"unknown class {name!r}: expected some of the model's {len(self.names)} "
                    f"classes, such as {self.names[0]!r}"
                )
        return [self.names.index(name) for name in dict.fromkeys(self.wanted)][:MOST_CLASSES]

    @cached_property
    def chosen(self) -> list[int]:
        """Places of the classes to show, in the order of the classes."""
        return sorted(self.ranked)

    def rule(self, shown: int) -> str:
        """Which classes are shown, where not all are."""
        count = len(self.names)
        if shown == count:
            return ""
        if self.wanted:
            return f" {shown} classes that were asked for, of {count}."
        return f" {shown} of {count} classes: those of the most similar pairs (--classes: others)."

    @cached_property
    def stages(self) -> dict[str, Subspaces]:
        """The subspaces of the chosen classes, after the layers and before them."""
        before = before_layers(self.network, MOST_VALUES, self.chosen)
        if not self.with_layers:
            return {BEFORE: before}
        return {AFTER: after_layers(self.network, MOST_VALUES, self.chosen), BEFORE: before}

    @cached_property
    def labels(self) -> NDArray[Any]:
        """The labels that the model gives to the samples."""
        found: NDArray[Any] = self.model.predict(self.samples.X) if self.samples else np.empty(0)
        return found

    @cached_property
    def wrong(self) -> list[int]:
        """The samples that are labelled wrongly, where that is known."""
        if self.samples is None or self.samples.y is None:
            return []
        found: list[int] = (self.labels != self.samples.y).nonzero()[0].tolist()
        return found
