"""Samples of classes, drawn from their moments, as new ones are expected to be.

A class is taken for a multivariate t distribution with its mean and covariance, of few degrees of
freedom: real classes have heavier tails than normal ones.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from redunet.core.linalg import add_identity
from redunet.core.second_moments import SecondMoments

LEAST_VARIANCE = 2.0**-20
"""What makes a covariance definite, as a share of its mean variance: a step of the grid."""

DRAWN_PER_CLASS = 8
"""Samples that are drawn of a class, at least: fewer would not show how a class varies."""


class Tails(NamedTuple):
    """Distances of samples from the mean of their class."""

    degrees: int  # ν, the degrees of freedom
    # Samples are μ + √(scale / χ²_ν) times a normal deviation: with ν − 2 they have the covariance
    # of the class
    scale: float


NEW = Tails(5, 5.0)
"""Of new samples to a network that was built from other samples of the same classes, which finds
them farther away than those. Chosen on held-out training samples: see docs/tuning.md."""


def class_samples(
    moments: SecondMoments,
    means: Tensor,
    counts: Sequence[int],
    n: int,
    tails: Tails = NEW,
) -> tuple[Tensor, Tensor]:
    """About n samples on the unit sphere, and the class of each; the same each time.

    Shapes: means (k, s); returns Z (about n, d), classes (about n,).
    """
    generator = torch.Generator().manual_seed(0)
    every = math.ceil(len(counts) / max(1, n // DRAWN_PER_CLASS))
    chosen = range(0, len(counts), every)
    size, means = math.ceil(n / len(chosen)), means.to(torch.float64)

    def normal(columns: int) -> Tensor:
        drawn = torch.randn(size, columns, generator=generator, dtype=torch.float64)
        return drawn.to(means.device)

    deviations = {}
    for j, A, of_rows in moments.each():
        if j in chosen:
            made = _deviations_of_rows if of_rows else _deviations
            deviations[j] = made(normal(len(A)), A, means[j], counts[j])
    rows = []
    for j in chosen:
        chi_square = normal(tails.degrees).square().sum(dim=1, keepdim=True)
        rows.append(means[j] + (tails.scale / chi_square).sqrt() * deviations[j])
    Z = torch.cat(rows)
    Z = Z if moments.space is None else moments.space.directions(Z.mT).mT
    classes = torch.tensor(chosen, device=Z.device).repeat_interleave(size)
    return torch.nn.functional.normalize(Z, dim=1).to(moments.dtype), classes


def _deviations(normal: Tensor, Sigma: Tensor, mean: Tensor, n: int) -> Tensor:
    """Deviations of the covariance Σ/n − μμᵀ, (size, s), from normal numbers of that shape."""
    C = Sigma.to(torch.float64).div(n)
    least = LEAST_VARIANCE * float(C.diagonal().mean())
    root: Tensor = torch.linalg.cholesky_ex(add_identity(C.addr_(mean, mean, alpha=-1), least))[0]
    return normal @ root.mT


def _deviations_of_rows(normal: Tensor, B: Tensor, mean: Tensor, n: int) -> Tensor:
    """Deviations of Σ = BᵀB, (size, s), from normal numbers, (size, r).

    With μ = Bᵀw, the covariance is Bᵀ (I/n − wwᵀ) B.
    """
    B = B.to(torch.float64)
    values, vectors = torch.linalg.eigh(B @ B.mT)
    held = values > 2.0**-40 * float(values[-1])
    V = vectors[:, held]
    w = V @ ((V.mT @ (B @ mean)) / values[held])
    length = float(torch.linalg.vector_norm(w))
    if length > 0:
        w = w / length
        left = math.sqrt(max(0.0, 1 - n * length**2))
        normal = normal - (1 - left) * (normal @ w)[:, None] * w
    return (normal @ B).div_(math.sqrt(n))
