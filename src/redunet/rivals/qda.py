"""Quadratic discriminant analysis with shrunk covariances."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from redunet.core.linalg import cholesky
from redunet.estimators.settings import number, one_of
from redunet.features import FeatureMap
from redunet.rivals.closed_form import ClosedForm
from redunet.rivals.statistics import mean_variance, plus_identity, scatters


@dataclass(frozen=True, eq=False)
class QuadraticScores:
    """Scores −½‖L_j⁻¹ (z − μ_j)‖² + b_j.

    Parameters
    ----------
    means : Tensor of shape (k, d), float64
    factors : Tensor of shape (k, d, d), float64
        L_j, lower triangular, with L_j L_jᵀ the matrix of class j.
    offsets : Tensor of shape (k,), float64
    """

    means: Tensor
    factors: Tensor
    offsets: Tensor

    def scores(self, Z: Tensor) -> Tensor:
        """Scores of feature vectors: Tensor of shape (n, k)."""
        distances = [
            torch.linalg.solve_triangular(L, (Z - mean).mT, upper=False).square().sum(dim=0)
            for mean, L in zip(self.means, self.factors, strict=True)
        ]
        return self.offsets - 0.5 * torch.stack(distances, dim=1)


def quadratic_discriminant(
    n: Tensor, s: Tensor, S: Iterable[Tensor], regularization: float, distance: str
) -> QuadraticScores:
    """Mahalanobis distances by (1 − ρ) C_j + ρ (tr W / d) I, or by its correlations.

    Parameters
    ----------
    n : Tensor of shape (k,)
    s : Tensor of shape (k, d)
    S : iterable of k Tensors of shape (d, d)
    regularization : float
        ρ; C_j is the covariance of class j, W that within all classes.
    distance : {"gaussian", "correlation"}
    """
    means = s / n[:, None]
    factors = means.new_empty(*means.shape, means.shape[1])
    for n_j, C_j, scatter in zip(n, factors, scatters(n, s, S), strict=True):
        torch.div(scatter, n_j, out=C_j)
    # tr W is the mean of tr C_j over all samples.
    variance = sum(float(n_j) * mean_variance(C_j) for n_j, C_j in zip(n, factors, strict=True))
    target = regularization * variance / float(n.sum())
    for C_j in factors:
        shrunk = plus_identity(C_j.mul_(1 - regularization), target)
        if distance == "correlation":
            deviations = shrunk.diagonal().sqrt()
            shrunk = shrunk / torch.outer(deviations, deviations)
        C_j.copy_(cholesky(shrunk, "raise regularization"))
    if distance == "correlation":
        return QuadraticScores(means, factors, torch.zeros_like(n))
    half_log_det = factors.diagonal(dim1=-2, dim2=-1).log().sum(dim=1)
    return QuadraticScores(means, factors, (n / n.sum()).log() - half_log_det)


class QuadraticDiscriminant(ClosedForm):
    """Gaussian classes, each with a covariance of its own, shrunk towards one that all share.

    Parameters
    ----------
    regularization : float, default=0.5
        ρ, above 0 and at most 1: the covariance C_j of a class is taken as
        (1 − ρ) C_j + ρ (tr W / d) I, with W the covariance within all classes.
    distance : {"gaussian", "correlation"}, default="gaussian"
        "gaussian" is the log-likelihood, with log det C_j and the classes'
        shares. "correlation" leaves these out and scales each shrunk
        covariance to a unit diagonal, as FeCAM does.
    features, normalize, input_range, device
        As for `ReduNetClassifier`.

    Notes
    -----
    The target is shared, where scikit-learn's ``shrinkage`` has tr C_j / d for
    each class: a class seen few times, of which C_j says little, then keeps the
    scale of the others instead of a smaller one that no other class can match.

    References
    ----------
    D. Goswami, Y. Liu, B. Twardowski, J. van de Weijer: FeCAM: Exploiting the
    Heterogeneity of Class Distributions in Exemplar-Free Continual Learning.
    NeurIPS 2023.
    """

    kind = "qda"

    def __init__(
        self,
        regularization: float = 0.5,
        distance: str = "gaussian",
        normalize: str = "sample",
        input_range: tuple[float, float] | None = None,
        features: FeatureMap | None = None,
        device: str = "auto",
    ) -> None:
        self.regularization = regularization
        self.distance = distance
        self.normalize = normalize
        self.input_range = input_range
        self.features = features
        self.device = device

    def own_settings(self) -> dict[str, Any]:
        """The parameters of the method itself, by name, checked."""
        return {
            "regularization": number("regularization", self.regularization, above=0, most=1),
            "distance": one_of("distance", self.distance, ("gaussian", "correlation")),
        }

    def _solve(self, n: Tensor, s: Tensor, S: Iterable[Tensor], **settings: Any) -> QuadraticScores:
        return quadratic_discriminant(n, s, S, **settings)
