"""Linear discriminant analysis with a covariance that all classes share."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from torch import Tensor

from redunet.core.discriminants import LinearScores, normal_scores
from redunet.estimators.settings import number
from redunet.features import FeatureMap
from redunet.rivals.closed_form import ClosedForm
from redunet.rivals.statistics import mean_variance, plus_identity, scatters


def linear_discriminant(
    n: Tensor, s: Tensor, S: Iterable[Tensor], regularization: float
) -> LinearScores:
    """Scores μ_jᵀ P z − ½ μ_jᵀ P μ_j + log n_j/m, with P the inverse of (1 − ρ)W + ρ (tr W / d) I.

    Parameters
    ----------
    n : Tensor of shape (k,)
    s : Tensor of shape (k, d)
    S : iterable of k Tensors of shape (d, d)
    regularization : float
        ρ; W is the covariance within the classes, Σ_j Σ (x − μ_j)(x − μ_j)ᵀ / m.
    """
    means = s / n[:, None]
    W = means.new_zeros(means.shape[1], means.shape[1])
    for scatter in scatters(n, s, S):
        W += scatter
    W /= n.sum()
    variance = mean_variance(W)
    shrunk = plus_identity(W.mul_(1 - regularization), regularization * variance)
    return LinearScores(*normal_scores(shrunk, means, n.tolist(), "raise regularization"))


class LinearDiscriminant(ClosedForm):
    """Gaussian classes with one covariance, shrunk towards a multiple of the identity.

    Parameters
    ----------
    regularization : float, default=0.01
        ρ, above 0 and at most 1: the covariance W is taken as
        (1 − ρ) W + ρ (tr W / d) I.
    features, normalize, input_range, device
        As for `ReduNetClassifier`.

    Notes
    -----
    The same as scikit-learn's ``LinearDiscriminantAnalysis`` with
    ``shrinkage=regularization``, on the feature vectors.
    """

    kind = "lda"

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
        return {"regularization": number("regularization", self.regularization, above=0, most=1)}

    def _solve(self, n: Tensor, s: Tensor, S: Iterable[Tensor], **settings: Any) -> LinearScores:
        return linear_discriminant(n, s, S, **settings)
