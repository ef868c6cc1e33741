"""Layers of classes with few samples in float32, that look closer at the possible classes only.

With q_i the eigenvalues of Q_j, v_i its eigenvectors and w_i = q_i (2 − q_i),

    ‖(I − Q_j) z‖² = ‖z‖² − Σ_i w_i (v_iᵀ z)²,   Q_j z = Σ_i q_i v_i v_iᵀ z.

The leading eigenvectors of all classes tell which classes a sample may belong to: what is left out
of the first sum is at most w of the first eigenvector left out, times what is left of ‖z‖². Only
of these classes are the other eigenvectors looked at.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import torch
from torch import Tensor

from redunet.core.layer import Confidence, LayerOutput, sharpness_of
from redunet.core.low_rank import RANKS, LowRankLayer, Pull, Stack, Taking, move_by_factors_
from redunet.core.rate import Coding

LEADING = 0.25
"""The share of its eigenvectors by which a class is looked at first. On CLINC150 a third of the 150
classes is left by a quarter of them, and hardly fewer by half of them."""

LEAST_SHARE = 2.0**-18
"""Classes of a smaller share in a sample are left out of it, which changes it by tens of roundings
of float32: less than answers are tested for, see `redunet.core.cascade.NUDGE`."""


class LeadingStack(NamedTuple):
    """Some classes of similar rank, in terms of their eigenvectors."""

    classes: list[int]
    leading: Tensor  # (g, r, d): rows √w_i v_i
    others: Tensor  # (g, s, d): the other rows
    m_leading: Tensor  # (g, r): q_i / w_i
    m_others: Tensor  # (g, s)
    left_out: Tensor  # (g,): w of the first row of ``others``

    @classmethod
    def of(cls, stack: Stack, coding: Coding) -> LeadingStack:
        """Classes in the form of `LowRankLayer`."""
        B = stack.B.to(torch.float64)
        values, vectors = torch.linalg.eigh(torch.bmm(B, B.mT))
        values, vectors = values.flip(1), vectors.flip(2)
        alphas = values.new_tensor([coding.alphas[j] for j in stack.classes])[:, None]
        least = values[:, :1] * B.shape[1] * torch.finfo(stack.B.dtype).eps
        q = torch.where(values > least, alphas * values / (1 + alphas * values), 0)
        scale = torch.where(q > 0, (q * (2 - q) / values.clamp(min=1e-300)).sqrt(), 0)
        rows = torch.bmm(vectors.mT * scale[:, :, None], B).float()
        m = (1 / (2 - q)).float()
        r = min(B.shape[1], math.ceil(LEADING * B.shape[1] / RANKS) * RANKS)
        w = torch.nn.functional.pad(q * (2 - q), (0, 1))[:, r].float()
        parts = rows[:, :r].contiguous(), rows[:, r:].contiguous(), m[:, :r], m[:, r:]
        return cls(list(stack.classes), *parts, w)

    def look(self, c: Tensor, Z: Tensor, energy: Tensor, take: Taking) -> tuple[Tensor, Pull]:
        """‖(I − Q_j) z‖, (n, g), and what pulls samples; see `move_by_factors_`.

        Of a class that is left out of a sample, the lower bound. ``c`` has c_j of all classes.
        """
        n, (g, r, d) = len(Z), self.leading.shape
        u = torch.mm(Z, self.leading.view(-1, d).mT, out=take(n, g * r)).view(n, g, r)
        most = (energy - torch.linalg.vector_norm(u, dim=-1).square_()).clamp_(min=0)
        residuals = (most * (1 - self.left_out)).sqrt_()
        c = c[self.classes]
        likeliest = (most.sqrt() * -c).amax(dim=1, keepdim=True)
        possible = residuals * -c > likeliest + math.log(LEAST_SHARE)
        closer = []
        for j in range(g):
            rows = possible[:, j].nonzero()[:, 0]
            v = Z[rows] @ self.others[j].mT
            inside = v.square().sum(dim=1)
            residuals[rows, j] = (most[rows, j] - inside).clamp_(min=0).sqrt_()
            closer.append((rows, v))

        def pull(out: Tensor, shares: Tensor, scale: float) -> None:
            for j, (rows, v) in enumerate(closer):
                share = shares[rows, j]
                of = share > LEAST_SHARE
                rows, share = rows[of], share[of, None]
                pulled = (u[rows, j] * (share * self.m_leading[j])) @ self.leading[j]
                pulled.addmm_(v[of] * (share * self.m_others[j]), self.others[j])
                out.index_add_(0, rows, pulled, alpha=scale)

        return residuals, pull


@dataclass(frozen=True, eq=False)
class CoarseLowRankLayer:
    """A `LowRankLayer` in float32, to move samples by."""

    E: Tensor  # (d, d)
    dense: list[int]  # Indices of the classes that have a matrix
    compression: Tensor  # (g, d, d)
    stacks: tuple[LeadingStack, ...]  # The other classes
    coding: Coding
    step: float

    @classmethod
    def of(cls, layer: LowRankLayer, step: float) -> CoarseLowRankLayer:
        """A layer with another step."""
        E, C = (A.to(torch.float32, copy=True) for A in (layer.E, layer.compression))
        stacks = tuple(LeadingStack.of(stack, layer.coding) for stack in layer.stacks)
        return cls(E, list(layer.dense), C, stacks, layer.coding, step)

    def sample_space(self, n: int) -> Tensor:
        """Memory to move n samples in."""
        leading = sum(len(stack.classes) * stack.leading.shape[1] for stack in self.stacks)
        return self.E.new_empty(n * (len(self.dense) * len(self.E) + leading))

    def move_samples_(self, Z: Tensor, sharpness: Confidence, space: Tensor) -> LayerOutput:
        """Move features, (n, d), in place; see `AbstractLayer.move_samples_`."""
        c = Z.new_tensor(sharpness_of(sharpness).of_classes(self.coding))
        groups = [(stack.classes, partial(stack.look, c)) for stack in self.stacks]
        dense = self.E, self.dense, self.compression
        return move_by_factors_(Z, dense, groups, self.coding, self.step, sharpness, space)
