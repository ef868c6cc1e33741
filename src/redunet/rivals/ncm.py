"""Nearest class mean."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from torch import Tensor

from redunet.core.discriminants import LinearScores
from redunet.features import FeatureMap
from redunet.rivals.closed_form import ClosedForm


def nearest_mean_scores(n: Tensor, s: Tensor) -> LinearScores:
    """Scores μ_jᵀ z − ½‖μ_j‖²: minus half the squared distance, less what all classes share.

    Parameters
    ----------
    n : Tensor of shape (k,)
    s : Tensor of shape (k, d)
    """
    means = s / n[:, None]
    return LinearScores(means.mT, -0.5 * means.square().sum(dim=1))


class NearestClassMean(ClosedForm):
    """The class whose mean is nearest.

    Of the moments it uses counts and sums alone.

    Parameters
    ----------
    features, normalize, input_range, device
        As for `ReduNetClassifier`.

    Examples
    --------
    >>> model = NearestClassMean().partial_fit([[3.0, 4.0]], [0])
    >>> model.partial_fit([[1.0, 0.0], [1.0, 0.1]], [1, 1]).predict([[1.0, 1.0], [2.0, 0.0]])
    array([0, 1])
    """

    kind = "ncm"

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

    def _solve(self, n: Tensor, s: Tensor, S: Iterable[Tensor], **settings: Any) -> LinearScores:
        return nearest_mean_scores(n, s)
