"""Validation samples, and how a candidate labels them: quickly, by estimates."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from redunet.core.calibration import best_temperature, probabilities
from redunet.core.readings import Reading, Readings
from redunet.errors import ReduNetError, is_out_of_memory
from redunet.estimators.checks import checked_samples
from redunet.estimators.metrics import calibration_error
from redunet.estimators.predictor import Predictor
from redunet.estimators.settings import Settings

if TYPE_CHECKING:
    from redunet.estimators.classifier import ReduNetClassifier

MANY = 1000
"""Of so many samples a quarter is looked at first, and a network that is hopeless there left."""

Hits = NDArray[np.bool_]

Outcome = Hits | str | None
"""Which samples a candidate labels correctly; why it failed; None where it was left as hopeless."""


@dataclass(frozen=True, eq=False)
class ValidationSamples:
    """Validation samples as vectors before whitening and layers.

    Parameters
    ----------
    predictor : Predictor
        Of the model.
    rows : ndarray of shape (n,), int
        Which of the samples they are, in the order in which they are looked at.
    Z : Tensor of shape (n, d)
    classes : ndarray of shape (n,), int
        Indices in the order of the labels.
    """

    predictor: Predictor
    rows: NDArray[np.int64]
    Z: Tensor
    classes: NDArray[np.int64]

    @classmethod
    def of(
        cls, model: ReduNetClassifier, X: ArrayLike, classes: NDArray[np.int64]
    ) -> ValidationSamples:
        """Samples as the model takes them, as many as fit an eighth of its memory."""
        use = model._predictor()
        every = checked_samples(X, use.state.pipeline.features, model)
        most = max(MANY, use.memory // (64 * use.state.moments.n_features))
        rows = np.random.RandomState(0).permutation(len(every))[:most]
        return cls(use, rows, use.vectors(every[rows]), classes[rows])

    def outcomes(
        self, settings: Settings, readings: Sequence[Reading], best: Hits
    ) -> list[Outcome]:
        """What became of each reading of a network.

        Parameters
        ----------
        settings : Settings
            Of the network.
        readings : sequence of Reading
        best : ndarray of shape (n,), bool
            Which of them the best candidate so far labels correctly.
        """
        try:
            predictor = replace(self.predictor, settings=settings)
            predictor.built()
        except Exception as error:  # noqa: BLE001 - raised again where it is unforeseen
            return [_reason(error)] * len(readings)
        try:
            return self._hits(predictor, readings, best)
        except Exception as error:  # noqa: BLE001 - as above
            reason = _reason(error)
        if len(readings) == 1:
            return [reason]
        return [one for each in readings for one in self.outcomes(settings, [each], best)]

    def _hits(self, predictor: Predictor, readings: Sequence[Reading], best: Hits) -> list[Outcome]:
        """Which samples each reading labels correctly; None for each where that is hopeless."""
        labels = Readings(predictor.built().network, readings)

        def right(part: slice) -> list[Hits]:
            Z = self._features(predictor, part)
            return [one.cpu().numpy() == self.classes[part] for one in labels.labels(Z)]

        if len(self.rows) < MANY:
            return [*right(slice(None))]
        first = slice(len(self.rows) // 4)
        found = right(first)
        if all(_hopeless(one, best[first]) for one in found):
            return [None] * len(readings)
        others = right(slice(first.stop, None))
        return [np.concatenate(pair) for pair in zip(found, others, strict=True)]

    def scores(self, settings: Settings) -> Tensor:
        """Estimated scores of all samples, (n, k), on the CPU."""
        predictor = replace(self.predictor, settings=settings)
        readout = predictor.readout()
        Z = self._features(predictor, slice(None))
        return torch.cat([readout.scores(part).cpu() for part in torch.split(Z, 4096)])

    def best_temperature(self, scores: Tensor) -> float:
        """T of the least log loss by scores, (n, k)."""
        return best_temperature(scores, torch.from_numpy(self.classes))

    def calibration_error(self, scores: Tensor, T: float) -> float:
        """The expected calibration error of softmax(scores / T), from scores, (n, k)."""
        right = scores.argmax(dim=1).numpy() == self.classes
        return calibration_error(probabilities(scores, T).numpy(), right)

    def _features(self, predictor: Predictor, part: slice) -> Tensor:
        """Features after the last layer of some of the samples."""
        Z = predictor.whitened(self.Z[part])
        return predictor.cascade().estimate(Z, lambda features: features)


def _reason(error: Exception) -> str:
    """Why a candidate failed, in one line; what nobody foresaw is raised again."""
    if is_out_of_memory(error):
        return "out of memory"
    if isinstance(error, ReduNetError):
        return str(error)
    raise error


def _hopeless(hits: Hits, best: Hits) -> bool:
    """Whether accuracy is behind the best by more than three standard errors."""
    return float(best.mean() - hits.mean()) > 3 * standard_error(hits, best)


def standard_error(one: Hits, other: Hits) -> float:
    """The standard error of the difference between two accuracies on the same samples."""
    return float(np.std(one.astype(float) - other.astype(float)) / math.sqrt(len(one)))
