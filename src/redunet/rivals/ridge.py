"""Ridge regression to one-hot targets."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor

from redunet.core.discriminants import LinearScores, regression_scores
from redunet.estimators.settings import number
from redunet.features import FeatureMap
from redunet.rivals.closed_form import ClosedForm
from redunet.rivals.statistics import mean_variance, plus_identity


def ridge_to_one_hot(
    n: Tensor, s: Tensor, S: Iterable[Tensor], regularization: float
) -> LinearScores:
    """The w_j and b_j of least Σ (w_jᵀ x + b_j − y_j)² + m ρ (tr T / d) ‖w_j‖², for all classes j.

    Parameters
    ----------
    n : Tensor of shape (k,)
    s : Tensor of shape (k, d)
    S : iterable of k Tensors of shape (d, d)
    regularization : float
        ρ; T is the covariance of all samples.
    """
    mean = s.sum(dim=0) / n.sum()
    T = s.new_zeros(s.shape[1], s.shape[1])
    for S_j in S:
        T += S_j
    T = T.div_(n.sum()).sub_(torch.outer(mean, mean))
    penalised = plus_identity(T, regularization * mean_variance(T))
    means = s / n[:, None]
    return LinearScores(*regression_scores(penalised, means, n.tolist(), "raise regularization"))


class RidgeToOneHot(ClosedForm):
    """Least squares to targets of 1 for a sample's own class and 0 for others, with a penalty.

    Parameters
    ----------
    regularization : float, default=0.01
        ρ, above 0: the penalty is m ρ (tr T / d) ‖w‖² for m samples of
        covariance T. The intercept is not penalised.
    features, normalize, input_range, device
        As for `ReduNetClassifier`.

    Notes
    -----
    The head of analytic continual learning. The same as scikit-learn's
    ``Ridge`` with ``alpha`` = m ρ tr T / d, on the feature vectors.
    """

    kind = "ridge"

    def __init__(
        self,
        regularization: float = 0.01,
        normalize: str = "sample",
        input_range: tuple[float, float] | None = None,
        features: FeatureMap | None = None,
        device: str = "auto",
    ) -> None:
        self.regularization = regularization
        self.normalize = normalize
        self.input_range = input_range
        self.features = features
        self.device = device

    def own_settings(self) -> dict[str, Any]:
        """The parameters of the method itself, by name, checked."""
        return {"regularization": number("regularization", self.regularization, above=0)}

    def _solve(self, n: Tensor, s: Tensor, S: Iterable[Tensor], **settings: Any) -> LinearScores:
        return ridge_to_one_hot(n, s, S, **settings)
