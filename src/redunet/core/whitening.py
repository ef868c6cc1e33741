"""A linear map that gives classes the same variance in all directions, from moments alone.

With W the pooled within-class covariance, z becomes (W + ρI)^(−½) z. W is a
function of counts, sums and second moments, so the map is as exact as they
are: the same in any order of learning, and computed again when classes or
samples are added or withdrawn.

Any A with AᵀA = (W + ρI)⁻¹ will do: two of them differ by a rotation, which
turns the layers and leaves rates, memberships and residuals as they are. Here A
is the inverse of the Cholesky factor, for which no eigenvectors are needed.

The second moment of a class becomes A S Aᵀ, scaled to trace n_j as between
layers; a new sample becomes A z, rescaled to the unit sphere. The samples that
were learnt are not rescaled one by one, as moments do not hold their lengths:
the map acts as a layer does.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from redunet.core.allocation import on_device
from redunet.core.covariance import (
    LEAST_VARIANCE,
    class_means,
    covariance_of_sum,
    mean_variance,
    summed,
)
from redunet.core.linalg import add_identity, cholesky
from redunet.core.moments import ClassMoments


@dataclass(frozen=True, eq=False)
class Whitening:
    """z ↦ A z, up to length."""

    A: Tensor  # (d, d): lower triangular

    @classmethod
    def from_moments(
        cls,
        moments: ClassMoments,
        ridge: float,
        device: str = "cpu",
    ) -> Whitening:
        """The map of given class moments."""
        means = class_means(moments, device)
        W = covariance_of_sum(summed(moments, device), means, moments.counts)
        mean = mean_variance(W)
        if mean <= LEAST_VARIANCE:
            return cls(torch.eye(moments.n_features, dtype=W.dtype, device=device))
        factor = cholesky(add_identity(W.div_(mean), ridge), "raise whitening")
        identity = torch.eye(len(W), dtype=W.dtype, device=W.device)
        return cls(torch.linalg.solve_triangular(factor, identity, upper=False))

    def moments(
        self, moments: ClassMoments, dtype: torch.dtype = torch.float64
    ) -> tuple[Tensor, Tensor]:
        """Second moments of all classes after the map, each of trace n_j, and their means.

        Shapes: returns Sigma (k, d, d), means (k, d).
        """
        d, device = moments.n_features, str(self.A.device)
        Sigma = on_device(moments.allocate, (len(moments), d, d), dtype, device)
        means = torch.empty(len(moments), d, dtype=dtype, device=device)
        for j, (label, n) in enumerate(zip(moments, moments.counts, strict=True)):
            T = self.A @ moments[label].Sigma(device) @ self.A.mT
            scale = n / T.diagonal().sum()
            Sigma[j] = (T + T.mT).mul_(scale / 2)
            means[j] = scale.sqrt() * (self.A @ moments[label].mean().to(device))
        return Sigma, means

    def samples(self, Z: Tensor) -> Tensor:
        """New samples, (n, d), after the map, on the unit sphere."""
        moved = Z @ self.A.to(Z.dtype).mT
        norms = torch.linalg.vector_norm(moved, dim=1, keepdim=True)
        return moved.div_(norms.where(norms > 0, 1))
