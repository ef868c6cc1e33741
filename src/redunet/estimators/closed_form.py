"""The base of closed-form estimators: scores of classes, solved from moments when needed."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, ClassVar, Protocol, Self

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from redunet.core.moments import ClassMoments
from redunet.errors import SettingsError
from redunet.estimators.base import MomentEstimator
from redunet.estimators.inputs import InputPipeline
from redunet.estimators.settings import resolve_device
from redunet.estimators.state import State
from redunet.features import Chain, FeatureMap

_ROWS = 2048
"""New samples at a time."""


class Solution(Protocol):
    """Scores and probabilities that a method computes from moments."""

    def scores(self, Z: Tensor) -> Tensor:
        """The score of each class, (n, k), of feature vectors, (n, d); the highest wins."""

    def probabilities(self, scores: Tensor) -> Tensor:
        """Rows of sum 1, (n, k), from scores, (n, k)."""


class ClosedForm(MomentEstimator):
    """A classifier that is a function of the class moments, solved when it is next needed.

    A subclass sets its ``kind``, checks its own parameters in `own_settings` and
    solves in `_solve`; one with a feature map of its own gives it in `own_map`.
    `redunet.estimators.register` makes it known to `load` and to the command line.
    New samples are scaled as those that were learnt: to the unit sphere, or with
    ``normalize="class"`` from the range given.

    Parameters
    ----------
    normalize, input_range, features, device
        As for `ReduNetClassifier`.
    """

    kind: ClassVar[str]
    """The name in model files and records."""

    exported: ClassVar[str | None] = "weights and an offset for each class"
    """The content of an exported file beside labels and features; None: it has no such file."""

    revealed: ClassVar[str | None] = None
    """The part of each class that an exported file tells as exactly as the model does."""

    earlier_names: ClassVar[Mapping[str, str]] = {}
    """Names that parameters had before, which model files keep, and their names today."""

    def __init__(
        self,
        normalize: str = "sample",
        input_range: tuple[float, float] | None = None,
        features: FeatureMap | None = None,
        device: str = "auto",
    ) -> None:
        self.normalize = normalize
        self.input_range = input_range
        self.features = features
        self.device = device

    @classmethod
    def name(cls) -> str:
        """The words of the class name, such as "linear-discriminant"."""
        return re.sub(r"(?<=[a-z0-9])(?=[A-Z][a-z])", "-", cls.__name__).lower()

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """The class of each sample: ndarray of shape (n,)."""
        state = self._fitted()
        labels = np.asarray(state.moments.labels)
        predicted: NDArray[Any] = labels[self._scores(state, X).argmax(dim=1).numpy()]
        return predicted

    def decision_function(self, X: ArrayLike) -> NDArray[np.float64]:
        """The score of each class; the highest wins.

        Returns
        -------
        ndarray of shape (n, k), or (n,) for two classes
            For two classes, how much higher the second one's score is.
        """
        scores = self._scores(self._fitted(), X)
        if scores.shape[1] == 2:
            scores = scores[:, 1] - scores[:, 0]
        values: NDArray[np.float64] = scores.numpy()
        return values

    def predict_proba(self, X: ArrayLike) -> NDArray[np.float64]:
        """The probability of each class: ndarray of shape (n, k), rows of sum 1."""
        state = self._fitted()
        solution = self._solution(state, resolve_device(self.device))
        probabilities: NDArray[np.float64] = solution.probabilities(self._scores(state, X)).numpy()
        return probabilities

    @property
    def solution_(self) -> Solution:
        """The solution of the moments and settings as they are now, in float64."""
        return self._solution(self._fitted(), resolve_device(self.device))

    def _solution(self, state: State, device: str) -> Solution:
        settings = self.own_settings()
        return state.cache.get(
            "solution",
            (device, *settings.values()),
            lambda: self._solve(state.total, device, **settings),
        )

    @classmethod
    def named_today(cls, settings: Mapping[str, Any]) -> dict[str, Any]:
        """Settings of the method under the names of today, where some have earlier names."""
        return {cls.earlier_names.get(name, name): value for name, value in settings.items()}

    def own_settings(self) -> dict[str, Any]:
        """The parameters of the method itself, by name, checked."""
        return {}

    def own_map(self, n_values: int) -> FeatureMap | None:
        """The feature map that belongs to the method, behind ``features``; most have none.

        Parameters
        ----------
        n_values : int
            The length of the vectors that it takes.

        Returns
        -------
        feature map of vectors, or None
            The same each time for the same settings.
        """
        return None

    def remember(self, moments: ClassMoments) -> Self:
        """Forget everything, then take moments; a method with a map of its own cannot."""
        if self.own_map(1) is not None:
            raise SettingsError(
                f"expected an estimator that has no feature map of its own, got a "
                f"{type(self).__name__}: moments do not say what it was applied to, so fit it"
            )
        return super().remember(moments)

    def _full_pipeline(self, n_columns: int) -> InputPipeline:
        given = super()._full_pipeline(n_columns)
        features = given.features
        own = self.own_map(n_columns if features is None else features.n_features)
        if own is None:
            return given
        if given.normalize != "sample":
            raise SettingsError(
                f"expected normalize='sample' for a {type(self).__name__}, which has a feature map "
                f"of its own, got {given.normalize!r}"
            )
        return replace(given, features=own if features is None else Chain(features, own))

    def _given_features(self, features: FeatureMap | None) -> FeatureMap | None:
        if features is None or self.own_map(1) is None:
            return features
        return features.first if isinstance(features, Chain) else None

    def _solve(self, moments: ClassMoments, device: str, **settings: Any) -> Solution:
        """The solution for class moments and the method's own settings, in float64."""
        raise NotImplementedError

    def _scores(self, state: State, X: ArrayLike) -> Tensor:
        """Scores of all samples on the CPU, (n, k)."""
        rows = self._rows_to_predict(state, X)
        device = resolve_device(self.device)
        solution = self._solution(state, device)
        return torch.cat(
            [
                solution.scores(state.pipeline.vectors(rows[start : start + _ROWS], device)).cpu()
                for start in range(0, len(rows), _ROWS)
            ]
        )

    def _check_parameters(self, n_features: int) -> None:
        self.own_settings()

    def _plain_settings(self) -> dict[str, Any]:
        in_files = {now: before for before, now in self.earlier_names.items()}
        own = {in_files.get(name, name): value for name, value in self.own_settings().items()}
        return {"kind": self.kind, **own}

    @classmethod
    def _made_with(cls, values: dict[str, Any]) -> Self:
        if values.get("kind") != cls.kind:
            raise SettingsError(f"expected a model of {cls.__name__}")
        own = {name: value for name, value in values.items() if name != "kind"}
        return cls(**cls.named_today(own))
