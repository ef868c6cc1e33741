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
    """Scores w_jᵀ z + b_j; the highest wins."""

    weights: Tensor  # (d, k)
    offsets: Tensor  # (k,)

    def scores(self, Z: Tensor) -> Tensor:
        """Scores of features, (n, d): Tensor of shape (n, k)."""
        return Z.to(torch.float64) @ self.weights + self.offsets


@dataclass(frozen=True, eq=False)
class QuadraticScores:
    """Scores −½‖L_j⁻¹ (z − μ_j)‖² + b_j; the highest wins."""

    means: Tensor  # (k, d)
    factors: Tensor  # (k, d, d): L_j, lower triangular, with L_j L_jᵀ the matrix of class j
    offsets: Tensor  # (k,)

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

    Shapes: covariance (d, d); means (k, d); returns weights (d, k), offsets (k,).
    """
    weights = torch.cholesky_solve(means.mT, cholesky(covariance, remedy))
    prior = shares(means, counts).log()
    return weights, prior - 0.5 * (weights * means.mT).sum(dim=0)


def regression_scores(
    covariance: Tensor, means: Tensor, counts: Sequence[int], remedy: str
) -> tuple[Tensor, Tensor]:
    """Least squares to 1 for a sample's own class and 0 for others.

    Shapes: covariance (d, d); returns weights (d, k), offsets (k,).
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
