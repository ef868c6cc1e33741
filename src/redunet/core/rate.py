"""The objective, rate reduction, and its two operators, as functions of moments.

===========  ============  ==========  =====================================================
symbol       code          shape       meaning
===========  ============  ==========  =====================================================
d, k         ``d, k``                  features, classes
n_j, m       ``counts``    (k,)        samples of class j; samples in all, m = Σ n_j
Σ_j          ``Sigma``     (k, d, d)   second moment of class j's features, tr Σ_j = n_j
ε            ``eps``                   precision of the coding
α, α_j       ``alpha``                 d / (m ε²); d / (n_j ε²)
γ_j          ``gamma``     (k,)        n_j / m
R            ``R``                     ½ log det(I + α Σ), with Σ the sum of all Σ_j
R_c          ``R_c``                   Σ_j γ_j/2 log det(I + α_j Σ_j)
ΔR           ``delta_R``               R − R_c, what each layer raises
E            ``E``         (d, d)      expansion: α (I + α Σ)⁻¹, so that ∂R/∂Z = E Z
C_j          ``C``         (k, d, d)   compression: α_j (I + α_j Σ_j)⁻¹, ∂R_c/∂Z_j = γ_j C_j Z_j
===========  ============  ==========  =====================================================

Here Z holds samples as columns, Z_j those of class j, and Σ_j = Z_j Z_jᵀ.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from redunet.core.linalg import (
    at_once,
    definite,
    lower_product_,
    side_by_side,
    spd_inverse,
    spd_inverse_,
    stacks,
)
from redunet.core.threads import on_threads


@dataclass(frozen=True)
class Coding:
    """The scalars of the objective, from counts, dimension and precision.

    Examples
    --------
    >>> coding = Coding(counts=(30, 10), d=64, eps=0.5)
    >>> coding.alpha, coding.gamma
    (6.4, (0.75, 0.25))
    """

    counts: tuple[int, ...]  # n_j, the samples of each class
    d: int
    eps: float  # ε, the precision of the coding

    @cached_property
    def alpha(self) -> float:
        """α = d / (m ε²)."""
        return self.d / (sum(self.counts) * self.eps**2)

    @cached_property
    def alphas(self) -> tuple[float, ...]:
        """α_j = d / (n_j ε²)."""
        return tuple(self.d / (n * self.eps**2) for n in self.counts)

    @cached_property
    def gamma(self) -> tuple[float, ...]:
        """γ_j = n_j / m."""
        m = sum(self.counts)
        return tuple(n / m for n in self.counts)


@dataclass(frozen=True)
class Rate:
    """The value of the objective."""

    R: float  # Rate of all features together
    R_c: float  # Rate of the features class by class

    @property
    def delta_R(self) -> float:
        """ΔR = R − R_c."""
        return self.R - self.R_c


def operators(
    Sigma: Tensor, coding: Coding, out: Tensor | None = None, scratch: Tensor | None = None
) -> tuple[Tensor, Tensor, Rate]:
    """The gradient operators of the objective, and its value.

    With C_j = (Σ_j + I/α_j)⁻¹ there is nothing to scale, before or after.

    Shapes: Sigma (k, d, d); out (k + 1, d, d); scratch (n, d, d); returns E (d, d), C (k, d, d).
    """
    k, d, _ = Sigma.shape
    out = Sigma.new_empty(k + 1, d, d) if out is None else out
    scratch = Sigma.new_empty(at_once(out), d, d) if scratch is None else scratch
    alphas = torch.tensor((coding.alpha, *coding.alphas), dtype=torch.float64)
    found = operators_(Sigma, (), alphas.reciprocal().to(Sigma), out, scratch)
    R, *rates = volumes(found, alphas, Sigma)
    R_c = sum(g * x for g, x in zip(coding.gamma, rates, strict=True))
    return out[0], out[1:], Rate(0.5 * R, 0.5 * R_c)


def operators_(
    Sigma: Tensor,
    rows: Sequence[Tensor],
    shifts: Tensor,
    out: Tensor,
    scratch: Tensor,
) -> Tensor:
    """E and some C_j into ``out``.

    Shapes: Sigma (g, d, d); rows (r, d); shifts (1 + g,); returns (1 + g,).
    """
    parts = list(stacks(out))
    threads = min(side_by_side(Sigma), len(scratch))

    def inverted(place: int) -> list[Tensor]:
        log_dets: list[Tensor] = []
        for part in parts[place::threads]:
            A = scratch[place:][: part.stop - part.start]
            classes = A
            if not part.start:
                sum_over_classes(Sigma, A[0])
                for B in rows:
                    lower_product_(A[0], B.mT, B.mT, beta=1.0)
                classes = A[1:]
            classes.copy_(Sigma[part.stop - 1 - len(classes) : part.stop - 1])
            A.diagonal(dim1=-2, dim2=-1).add_(shifts[part, None])
            log_dets.append(spd_inverse_(A, out[part]))
        return log_dets

    found = on_threads(inverted, range(threads))
    return torch.cat([found[i % threads][i // threads] for i in range(len(parts))])


def volumes(log_dets: Tensor, alphas: Tensor, Sigma: Tensor) -> list[float]:
    """From what `operators_` gave: log det(I + αΣ), then log det(I + α_j Σ_j).

    Shapes: log_dets (1 + g,); alphas (1 + g,); Sigma (g, d, d).
    """
    found = definite(log_dets.cpu(), Sigma) + Sigma.shape[-1] * alphas.log()
    return [float(x) for x in found]


def rate_reduction(Sigma: Tensor, counts: Sequence[int], eps: float) -> Rate:
    """R, R_c and ΔR of given second moments.

    Parameters
    ----------
    Sigma : Tensor of shape (k, d, d)
        Second moment of each class, of trace n_j.
    counts : sequence of k int
    eps : float

    Returns
    -------
    Rate

    Examples
    --------
    Two classes on orthogonal lines are worth coding apart:

    >>> import torch
    >>> Sigma = torch.diag_embed(torch.tensor([[8.0, 0.0], [0.0, 8.0]]))
    >>> rate = rate_reduction(Sigma, [8, 8], eps=0.5)
    >>> round(rate.R, 4), round(rate.R_c, 4), round(rate.delta_R, 4)
    (1.6094, 1.0986, 0.5108)
    """
    return operators(Sigma, Coding(tuple(counts), Sigma.shape[-1], eps))[2]


def sum_over_classes(Sigma: Tensor, out: Tensor) -> Tensor:
    """Σ = Σ_1 + … + Σ_k into ``out``, (d, d)."""
    return torch.sum(Sigma, dim=0, out=out)


def Sigma_of(C: Tensor, coding: Coding) -> Tensor:
    """Second moments read back from compression operators: Σ_j = C_j⁻¹ − I/α_j.

    Shapes: C (k, d, d); returns (k, d, d).
    """
    Sigma, _ = spd_inverse(C)
    inverse_alphas = torch.tensor(coding.alphas, dtype=C.dtype, device=C.device).reciprocal()
    Sigma.diagonal(dim1=-2, dim2=-1).sub_(inverse_alphas[:, None])
    return Sigma
