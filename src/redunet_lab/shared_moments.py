"""Methods over the same class moments: learnt once a stream, with test vectors computed once."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from redunet.estimators.classifier import ReduNetClassifier
from redunet.estimators.settings import resolve_device
from redunet.features import FeatureMap
from redunet_lab.experiment import Experiment
from redunet_lab.methods import Method
from redunet_lab.runner import Evaluation
from redunet_lab.streams import Task
from redunet_lab.tuning import labels_by_components
from redunet_lab.vectors import vectors_of

Labels = dict[str, NDArray[Any]]


class SharedMoments:
    """One learner of moments, and the methods whose labels come from its moments.

    Methods take turns, so the memory that one of them needs is free for the next.

    Parameters
    ----------
    experiment : Experiment
        With a seed.
    tasks : sequence of Task
    device, memory
        As for `ReduNetClassifier`.
    """

    def __init__(
        self, experiment: Experiment, tasks: Sequence[Task], device: str, memory: str
    ) -> None:
        self.experiment, self.tasks = experiment, tuple(tasks)
        self.device, self.memory = device, memory
        self._vectors: NDArray[Any] | None = None
        self._answering: Any = None

    @cached_property
    def features(self) -> FeatureMap | None:
        """The feature map, the same for all methods; None takes samples as they are."""
        return self.experiment.features(self.tasks, resolve_device(self.device))

    @property
    def n_features(self) -> int:
        """The length of the vectors."""
        if self.features is not None:
            return self.features.n_features
        return int(np.prod(self.tasks[0].data.x_train.shape[1:]))

    def learner(self) -> ReduNetClassifier:
        """An estimator that has learnt nothing yet."""
        return self.experiment.estimator(self.features, self.device, self.memory)

    def evaluation(
        self,
        method: Method,
        folder: Path,
        settings: Mapping[str, Any],
        after_task: Callable[[Any, Any, dict[str, Any]], Mapping[str, Any]] | None = None,
        at_end: Mapping[str, Callable[[Any], Any]] | None = None,
    ) -> Evaluation:
        """How a method's labels come from the learner's moments."""
        answering: dict[str, Any] = {}

        def labels(model: ReduNetClassifier, X: NDArray[Any]) -> Labels:
            self._answering = None  # what it has built is not needed any more
            estimator = method.estimator(self.device, self.memory).remember(model.moments_)
            self._answering = estimator
            found = self._readings(estimator, X, method.readings)
            if isinstance(estimator, ReduNetClassifier) and estimator.n_layers:
                answering["fusions"] = estimator.fused_network_.summary()
            return found

        def answer(model: ReduNetClassifier, X: NDArray[Any]) -> NDArray[Any]:
            estimator, self._answering = self._answering, None  # nobody asks it again
            found: NDArray[Any] = estimator.predict(vectors_of(self.features, X, self.device))
            return found

        def without_layers(model: ReduNetClassifier, X: NDArray[Any]) -> Labels:
            self._answering = None  # nor is it now
            estimator = method.estimator(self.device, self.memory).set_params(n_layers=0)
            return self._readings(estimator.remember(model.moments_), X, method.readings)

        return Evaluation(
            folder,
            settings,
            labels,
            method.name,
            without_layers if method.readings else None,
            answer,
            lambda: answering,
            after_task,
            {"n_features": lambda model: self.n_features, **(at_end or {})},
        )

    def vectors(self, samples: NDArray[Any]) -> NDArray[Any]:
        """Vectors of test samples: those of the last call, and perhaps more after them."""
        if self.features is None:
            return samples.reshape(len(samples), -1)
        if self._vectors is None or len(self._vectors) > len(samples):
            self._vectors = np.empty((0, self.features.n_features))
        more = vectors_of(self.features, samples[len(self._vectors) :], self.device)
        self._vectors = np.concatenate([self._vectors, more])
        return self._vectors

    def forget_vectors(self) -> None:
        """Free the memory of test vectors; they are computed again when they are needed."""
        self._vectors = None

    def _readings(self, estimator: Any, X: NDArray[Any], readings: Mapping[str, int]) -> Labels:
        vectors = self.vectors(X)
        if not readings:
            return {"predict": estimator.predict(vectors)}
        by_components = labels_by_components(estimator, vectors, sorted(set(readings.values())))
        return {name: by_components[r] for name, r in readings.items()}
