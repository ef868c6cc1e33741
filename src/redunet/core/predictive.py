"""New samples as the moments of their classes predict them.

A class is taken for a multivariate t distribution with its mean and scatter, of few degrees of
freedom: real classes have heavier tails than normal ones, and a network that was built from a
class's own samples finds new ones farther away than those.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from redunet.core.linalg import add_identity
from redunet.core.second_moments import LEAST_SHARE, SecondMoments

DEGREES = 5
"""Degrees of freedom; chosen on held-out training samples, see docs/tuning.md."""


def new_samples(
    first: SecondMoments, means: Tensor, counts: Sequence[int], n: int
) -> tuple[Tensor, Tensor]:
    """About n samples on the unit sphere, and the class of each; the same each time.

    Parameters
    ----------
    first : SecondMoments
        Of trace n_j.
    means : Tensor of shape (k, s)
        In the scale of ``first``, within its reduced space.
    counts : sequence of k int
    n : int
        Some classes are left out if there are many.

    Returns
    -------
    Z : Tensor of shape (about n, d)
    classes : Tensor of shape (about n,), int64
        Indices in the order of the labels.
    """
    generator = torch.Generator().manual_seed(0)
    chosen, size = first.drawn_classes(n)
    means = means.to(torch.float64)

    def normal(columns: int) -> Tensor:
        drawn = torch.randn(size, columns, generator=generator, dtype=torch.float64)
        return drawn.to(means.device)

    dense, held, drawn = set(first.dense), first.held(), {}
    for j, width in first.widths().items():
        if j in chosen:
            along = normal(width)
            if j in dense:
                drawn[j] = along @ _root(held[j], means[j], counts[j]).mT
            else:
                drawn[j] = _centred(along, held[j], means[j], counts[j])
    rows = []
    for j in chosen:
        heavy = (normal(DEGREES).square().sum(dim=1, keepdim=True) / DEGREES).rsqrt_()
        rows.append(means[j] + heavy * drawn[j])
    Z = torch.cat(rows)
    Z = Z if first.space is None else first.space.directions(Z.mT).mT
    classes = torch.tensor(chosen, device=Z.device).repeat_interleave(size)
    return torch.nn.functional.normalize(Z, dim=1).to(first.Sigma.dtype), classes


def _root(Sigma: Tensor, mean: Tensor, n: int) -> Tensor:
    """A root of the covariance of a class, Σ/n − μμᵀ, (s, s)."""
    C = Sigma.to(torch.float64).div(n)
    least = LEAST_SHARE * float(C.diagonal().mean())
    root: Tensor = torch.linalg.cholesky_ex(add_identity(C.addr_(mean, mean, alpha=-1), least))[0]
    return root


def _centred(E: Tensor, B: Tensor, mean: Tensor, n: int) -> Tensor:
    """Samples of a class's covariance, (size, s), from normal numbers, (size, r).

    With Σ = BᵀB and μ = Bᵀw, the covariance is Bᵀ (I/n − wwᵀ) B.
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
        E = E - (1 - left) * (E @ w)[:, None] * w
    return (E @ B).div_(math.sqrt(n))
