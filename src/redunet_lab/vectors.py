"""Vectors of test samples, computed once for all methods that answer from one learner's moments."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from redunet.estimators.settings import resolve_device
from redunet.features import FeatureMap
from redunet_lab.experiment import Experiment
from redunet_lab.streams import Task

_ROWS = 512
"""Samples at a time, for the feature map."""


class Vectors:
    """The feature map that methods share over one stream, and the vectors of its test samples."""

    def __init__(
        self, experiment: Experiment, tasks: tuple[Task, ...], device: str, memory: str
    ) -> None:
        self.experiment, self.tasks = experiment, tasks
        self.device, self.memory = device, memory
        self._kept: NDArray[Any] | None = None

    @cached_property
    def features(self) -> FeatureMap | None:
        """The feature map; None takes samples as they are."""
        return self.experiment.features(self.tasks, resolve_device(self.device))

    @property
    def n_features(self) -> int:
        """The length of the vectors."""
        if self.features is not None:
            return self.features.n_features
        return int(np.prod(self.tasks[0].data.x_train.shape[1:]))

    def learner(self) -> Any:
        """An estimator of the moments that methods share, which has learnt nothing yet."""
        return self.experiment.estimator(self.features, self.device, self.memory)

    def of(self, samples: NDArray[Any]) -> NDArray[Any]:
        """Vectors of test samples: those of the last call, and perhaps more after them."""
        if self.features is None:
            return samples.reshape(len(samples), -1)
        if self._kept is None or len(self._kept) > len(samples):
            self._kept = np.empty((0, self.features.n_features))
        more = self.computed(samples[len(self._kept) :])
        self._kept = np.concatenate([self._kept, more])
        return self._kept

    def computed(self, samples: NDArray[Any]) -> NDArray[Any]:
        """Vectors of samples, computed now."""
        return vectors_of(self.features, samples, self.device)

    def forget(self) -> None:
        """Free the memory of test vectors; they are computed again when they are needed."""
        self._kept = None


def vectors_of(features: FeatureMap | None, samples: NDArray[Any], device: str) -> NDArray[Any]:
    """Vectors of samples by a feature map, ndarray of shape (n, d); without one their values."""
    if features is None:
        return samples.reshape(len(samples), -1)
    parts = [np.empty((0, features.n_features))]
    for start in range(0, len(samples), _ROWS):
        part = np.asarray(samples[start : start + _ROWS], dtype=np.float64)
        on_device = torch.from_numpy(part).to(resolve_device(device))
        parts.append(features(on_device.reshape(len(part), *features.input_shape)).cpu().numpy())
    return np.concatenate(parts)
