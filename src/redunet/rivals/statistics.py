"""Means and covariances of classes, from counts, sums and second moments.

Second moments come one class at a time, since a stack of all of them can be
large; sums over classes are taken in the order of the labels.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import torch
from torch import Tensor

from redunet.core.grid import GRID
from redunet.core.linalg import add_identity
from redunet.core.moments import ClassMoments

LEAST_VARIANCE = GRID**-2.0
"""A step of the grid, squared: smaller variances cannot be told from rounding to the grid."""


def in_float64(moments: ClassMoments, device: str) -> tuple[Tensor, Tensor, Iterator[Tensor]]:
    """Counts, sums and second moments in units of the feature vectors.

    Returns
    -------
    n : Tensor of shape (k,), float64
    s : Tensor of shape (k, d), float64
    S : iterator over k Tensors of shape (d, d), float64
        Each made when it is asked for.
    """
    of_class = [moments[label] for label in moments.labels]
    n = torch.tensor(moments.counts, dtype=torch.float64, device=device)
    s = torch.stack([moment.sum for moment in of_class]).to(device, torch.float64) / GRID
    S = (m.second_moment.to(device).to(torch.float64).div_(GRID**2) for m in of_class)
    return n, s, S


def scatters(n: Tensor, s: Tensor, S: Iterable[Tensor]) -> Iterator[Tensor]:
    """Σ (x − μ_j)(x − μ_j)ᵀ = S_j − s_j s_jᵀ / n_j of each class, Tensors of shape (d, d)."""
    for n_j, s_j, S_j in zip(n, s, S, strict=True):
        yield S_j - torch.outer(s_j, s_j / n_j)


def mean_variance(covariance: Tensor) -> float:
    """The variance of a feature on average, tr C / d."""
    return float(covariance.diagonal().mean())


def plus_identity(A: Tensor, scale: float) -> Tensor:
    """Add ``scale`` times the identity to A in place, or ``LEAST_VARIANCE`` times if that is more.

    So the sum is positive definite even where nothing varies.
    """
    return add_identity(A, max(scale, LEAST_VARIANCE))
