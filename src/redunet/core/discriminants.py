"""Scores of classes from means and covariances: nearest mean, normal classes, regression."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from redunet.core.covariance import overall_mean, shares
from redunet.core.linalg import cholesky

LEAST_SCORE = 1e-12
"""What a regression's highest score is raised to where it is less, for probabilities."""


@dataclass(frozen=True, eq=False)
class LinearScores:
    """Scores w_jᵀ z + b_j; the highest wins.

    Parameters
    ----------
    weights : Tensor of shape (d, k), float64
    offsets : Tensor of shape (k,), float64
    """

    weights: Tensor
    offsets: Tensor

    def scores(self, Z: Tensor) -> Tensor:
        """Scores of features, (n, d): Tensor of shape (n, k)."""
        return Z.to(torch.float64) @ self.weights + self.offsets


@dataclass(frozen=True, eq=False)
class QuadraticScores:
    """Scores −½‖L_j⁻¹ (z − μ_j)‖² + b_j; the highest wins.

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
        """Scores of features, (n, d): Tensor of shape (n, k)."""
        distances = [
            torch.linalg.solve_triangular(L, (Z - mean).mT, upper=False).square().sum(dim=0)
            for mean, L in zip(self.means, self.factors, strict=True)
        ]
        return self.offsets - 0.5 * torch.stack(distances, dim=1)

    def probabilities(self, scores: Tensor) -> Tensor:
        """Rows of sum 1, (n, k): softmax of scores."""
        return torch.softmax(scores, dim=1)


def normal_scores(
    covariance: Tensor, means: Tensor, counts: Sequence[int], remedy: str
) -> tuple[Tensor, Tensor]:
    """The linear discriminant of normal classes with one covariance.

    Parameters
    ----------
    covariance : Tensor of shape (d, d), float64
        Positive definite.
    means : Tensor of shape (k, d), float64
    counts : sequence of k int
    remedy : str
        What to do where the covariance is not positive definite, for the error.

    Returns
    -------
    weights : Tensor of shape (d, k)
    offsets : Tensor of shape (k,)
        The score of class j is w_jᵀ z + b_j.
    """
    weights = torch.cholesky_solve(means.mT, cholesky(covariance, remedy))
    prior = shares(means, counts).log()
    return weights, prior - 0.5 * (weights * means.mT).sum(dim=0)


def regression_scores(
    covariance: Tensor, means: Tensor, counts: Sequence[int], remedy: str
) -> tuple[Tensor, Tensor]:
    """Least squares to 1 for a sample's own class and 0 for others.

    Parameters
    ----------
    covariance : Tensor of shape (d, d), float64
        Of all samples, with the penalty on its diagonal: positive definite.
    means, counts, remedy
        As for `normal_scores`.

    Returns
    -------
    weights : Tensor of shape (d, k)
    offsets : Tensor of shape (k,)
        Which are not penalised, so the scores of a sample have the sum 1.
    """
    gamma = shares(means, counts)
    mean = overall_mean(means, counts)
    with_targets = (gamma[:, None] * (means - mean)).mT
    weights = torch.cholesky_solve(with_targets, cholesky(covariance, remedy))
    return weights, gamma - mean @ weights


def positive_part(scores: Tensor) -> Tensor:
    """Regression scores as probabilities: those below 0 become 0, and rows have the sum 1.

    Without an intercept all scores of a sample can be below 0, or 0: then they are raised by as
    much as makes the highest positive, so that it has all of the probability.
    """
    short = (LEAST_SCORE - scores.amax(dim=1, keepdim=True)).clamp(min=0)
    positive = (scores + short).clamp(min=0)
    return positive / positive.sum(dim=1, keepdim=True)
