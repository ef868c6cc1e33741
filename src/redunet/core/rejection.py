"""Novelty of samples: the code that they add to the class nearest to them.

Second moments do not tell z from −z, but counts and sums are known too. So samples are coded with
one coordinate more, a constant: x = (z, 1)/√2, with the second moments [[Σ_j, s_j], [s_jᵀ, n_j]]/2,
called Σ_j from here on, and d for their dimension. With P_j = (I + α_j Σ_j)⁻¹, x leaves xᵀ P_j x
of its energy outside of what class j codes up to ε: little in directions that many of its
samples have, all in directions that none of them has. Coding it with a class adds

    log det(I + d/ε² (Σ_j/n_j + xxᵀ)) − log det(I + d/ε² Σ_j/n_j) = log(1 + d/ε² · xᵀ P_j x).

With α_j in place of d/ε², as if it were one of n_j + 1 samples, the order of classes would depend
on how many samples each has: those of many would seem nearest to everything.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from redunet.core.class_samples import DRAWN_PER_CLASS, Tails, class_samples
from redunet.core.linalg import add_identity, spd_inverse
from redunet.core.low_rank import Stack
from redunet.core.rate import Coding
from redunet.core.second_moments import SecondMoments

BATCH_BYTES = 2**26
"""About how much memory the products of some samples with all classes may take."""

DRAWN = 4000
"""Samples that are drawn, of all classes together, to learn how novel known ones are."""

ROWS = 1024
"""Drawn samples whose residuals from all classes are held at a time."""

TAILS = Tails(6, 4.0)
"""Of known samples, with the covariance of their class: real samples have longer tails than normal
ones. Chosen on training data of texts, images and measurements; see docs/unknown.md."""

STEEPEST = 1.5
"""How much the residual of a new sample grows, at most, with that of one that was learnt, in
logarithms. Chosen in the same way."""


@dataclass(frozen=True, eq=False)
class Residuals:
    """xᵀ (I + α_j Σ_j)⁻¹ x of samples x = (z, 1)/√2, class by class."""

    first: SecondMoments  # Of the features z, without the constant
    means: Tensor  # (k, s): in the scale of the second moments
    coding: Coding  # In as many dimensions as x has
    stacks: tuple[Stack, ...]  # Of the classes in factors, B with Bᵀ B = I − P_j
    # P_j of the other classes; None where they are computed each time, to save memory
    inverses: tuple[Tensor, ...] | None

    @classmethod
    def of(
        cls,
        first: SecondMoments,
        means: Tensor,
        counts: tuple[int, ...],
        eps: float,
        memory: int,
    ) -> Residuals:
        """Those of second moments and means, (k, d); matrices are kept where they fit the memory.

        Shapes: means (k, d).
        """
        coding = Coding(counts, first.n_features + 1, eps)
        within = first.inside(means.to(first.Sigma)).to(torch.float64)
        stacks = tuple(_soft_projections(stack, within, coding) for stack in first.stacks)
        made = cls(first, within, coding, stacks, None)
        return replace(made, inverses=made._kept_inverses(memory))

    def __call__(self, Z: Tensor) -> Tensor:
        """Residuals of samples.

        Shapes: Z (n, d); returns (n, k).
        """
        X = _with_constant(self.first.inside(Z))
        out = torch.ones(len(Z), self.first.n_classes, dtype=torch.float64, device=Z.device)
        for j, P in zip(self.first.dense, self.inverses or self._each_inverse(), strict=True):
            out[:, j] = _energy(X @ P, X)
        for stack in self.stacks:
            g, rank, _ = stack.B.shape
            rows = max(1, BATCH_BYTES // (g * rank * stack.B.element_size()))
            projected = (part @ stack.rows.mT for part in torch.split(X.to(stack.B), rows))
            each = [U.view(-1, g, rank).square_().sum(dim=2) for U in projected]
            out[:, list(stack.classes)] = 1 - torch.cat(each).to(torch.float64)
        out[~Z.any(dim=1)] = 1
        return out.clamp_(0, 1)

    def nearest(self, Z: Tensor) -> Tensor:
        """The smallest residual of each sample over all classes: Tensor of shape (n,)."""
        return self(Z).amin(dim=1)

    def added(self, residuals: Tensor) -> Tensor:
        """Nats that samples add to the code of a class, from their residuals."""
        return torch.log1p(residuals * (self.coding.d / self.coding.eps**2))

    def drawn(self) -> tuple[Tensor, Tensor]:
        """Residuals of samples as new ones of known classes are expected to be, from moments alone.

        Samples are drawn with the mean and the covariance of each class. A sample that was learnt
        leaves less outside than it would as a new one: h = α_j xᵀ P_j x, with the sample in Σ_j,
        becomes h / (1 − h) without it. Drawn samples have the h of those that were learnt, and are
        corrected by the tangent of h / (1 − h) in logarithms, at their mean h̄: by
        h̄ / (1 − h̄) · (h / h̄)^p with p = 1 / (1 − h̄), at most `STEEPEST`. The curve itself would
        send many samples of small classes beyond all bounds.

        Shapes: returns residuals (k, m), weights (k, m).
        """
        counts, k = self.coding.counts, len(self.coding.counts)
        n = max(DRAWN, DRAWN_PER_CLASS * k)
        Z, classes = class_samples(self.first, self.means, counts, n, TAILS)
        residuals = torch.cat([self(part) for part in torch.split(Z, ROWS)])
        own = residuals.gather(1, classes[:, None]).view(k, -1).cpu()
        alphas = torch.tensor(self.coding.alphas, dtype=torch.float64)[:, None]
        h = alphas * own
        mean = h.mean(dim=1, keepdim=True).clamp(min=1e-300)
        left = (1 - mean).clamp(min=1e-9)
        new = (h / mean).pow((1 / left).clamp(max=STEEPEST)) * (mean / left / alphas)
        weights = torch.tensor(counts, dtype=torch.float64)[:, None].expand_as(new)
        return new.clamp(0, 1), weights / weights.sum()

    def _each_moment(self) -> Iterator[Tensor]:
        """Σ_j, with the constant, of the classes that have a matrix: of shape (s + 1, s + 1)."""
        for j, Sigma_j in zip(self.first.dense, self.first.Sigma, strict=True):
            total = (self.coding.counts[j] * self.means[j]).to(Sigma_j)[:, None]
            last = torch.cat([total.mT, total.new_full((1, 1), self.coding.counts[j])], dim=1)
            yield torch.cat([torch.cat([Sigma_j, total], dim=1), last]).div_(2)

    def _each_inverse(self) -> Iterator[Tensor]:
        """P_j of the classes that have a matrix."""
        for j, moment in zip(self.first.dense, self._each_moment(), strict=True):
            yield spd_inverse(add_identity(moment.mul_(self.coding.alphas[j])))[0]

    def _kept_inverses(self, memory: int) -> tuple[Tensor, ...] | None:
        return None if self.first.Sigma.nbytes > memory else tuple(self._each_inverse())


def quantiles(values: Tensor, weights: Tensor, levels: Tensor) -> Tensor:
    """Values that weighted ones are below with given probabilities, interpolated.

    Shapes: levels (m,); returns (m,).
    """
    order = values.flatten().argsort(stable=True)
    values, weights = values.flatten()[order], weights.flatten()[order]
    below = (weights.cumsum(0) - weights / 2) / weights.sum()
    after = torch.searchsorted(below, levels.to(below)).clamp(1, len(below) - 1)
    low, high = below[after - 1], below[after]
    share = ((levels - low) / (high - low)).clamp(0, 1)
    return values[after - 1].lerp(values[after], share)


def _soft_projections(stack: Stack, means: Tensor, coding: Coding) -> Stack:
    """B with Bᵀ B = α_j Σ_j (I + α_j Σ_j)⁻¹, the constant included, in terms of eigenvectors."""
    classes = list(stack.classes)
    B = _root_with_constant(stack.B.to(torch.float64), means[classes], coding, classes)
    values, vectors = torch.linalg.eigh(torch.bmm(B, B.mT))
    alphas = values.new_tensor([coding.alphas[j] for j in classes])[:, None]
    # = Bᵀ V diag(α / (1 + α λ)) Vᵀ B: no division by eigenvalues, which may be zero.
    scale = (alphas / (1 + alphas * values.clamp(min=0))).sqrt()
    # In float32: of residuals, which are shares of 1, it leaves six digits, in half the time.
    rows = torch.bmm(vectors.mT * scale[:, :, None], B).to(torch.float32)
    return Stack(stack.classes, rows)


def _root_with_constant(B: Tensor, means: Tensor, coding: Coding, classes: list[int]) -> Tensor:
    """Roots of second moments with the constant, (g, r + 1, s + 1), from those without it.

    With b such that Bᵀ b is the mean, they are [[B, n b], [0, √(n − n²‖b‖²)]] / √2.
    """
    counts = B.new_tensor([coding.counts[j] for j in classes])[:, None]
    values, vectors = torch.linalg.eigh(torch.bmm(B, B.mT))
    least = values.amax(dim=1, keepdim=True) * B.shape[1] * torch.finfo(torch.float32).eps
    inverse = torch.where(values > least, values.clamp(min=1e-300).reciprocal(), 0)
    along = torch.bmm(vectors.mT, torch.bmm(B, means[:, :, None]))
    c = counts * torch.bmm(vectors, inverse[:, :, None] * along)[:, :, 0]
    rest = (counts[:, 0] - c.square().sum(dim=1)).clamp(min=0).sqrt()
    out = torch.nn.functional.pad(B, (0, 1, 0, 1))
    out[:, :-1, -1], out[:, -1, -1] = c, rest
    return out.div_(math.sqrt(2))


def _with_constant(Z: Tensor) -> Tensor:
    """(z, 1)/√2 of unit vectors z, (n, s): Tensor of shape (n, s + 1)."""
    return torch.nn.functional.pad(Z, (0, 1), value=1.0).div_(math.sqrt(2))


def _energy(moved: Tensor, Z: Tensor) -> Tensor:
    return (moved * Z).sum(dim=1, dtype=torch.float64)
