"""Layers of classes with few samples, without their d × d matrices.

A class whose Σ_j has a rank r well below d is stored as B (r, d) with
Σ_j = Bᵀ B. By Woodbury's identity, with M = (B Bᵀ + I/α_j)⁻¹, (r, r),

    C_j = α_j (I − Bᵀ M B),   log det(I + α_j Σ_j) = log det(I + α_j B Bᵀ),

and the layer sends B to B + η (B E − γ_j M B), rescaled. Nothing is approximated.
Classes of similar rank are stacked, with rows of zeros where ranks differ, which
change nothing.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from redunet.core.layer import AbstractLayer
from redunet.core.linalg import add_identity, mirror_, spd_inverse_
from redunet.core.rate import Coding, Rate

RANKS = 4
"""Ranks are rounded up to a multiple of this, so that classes of similar rank go together."""


@dataclass(frozen=True, eq=False)
class Stack:
    """Some classes of similar rank.

    Parameters
    ----------
    classes : tuple of g int
        Their indices in the order of the labels.
    B : Tensor of shape (g, r, d)
    """

    classes: tuple[int, ...]
    B: Tensor

    @property
    def rows(self) -> Tensor:
        """All rows of B, (g r, d), in the same memory."""
        return self.B.view(-1, self.B.shape[-1])

    def inverse(self, coding: Coding) -> tuple[Tensor, list[float]]:
        """M of each class, (g, r, r), and log det(I + α_j Σ_j)."""
        rank = self.B.shape[1]
        alphas = [coding.alphas[j] for j in self.classes]
        A = torch.bmm(self.B, self.B.mT)
        A.diagonal(dim1=1, dim2=2).add_(A.new_tensor(alphas).reciprocal()[:, None])
        M = torch.empty_like(A)
        log_dets = spd_inverse_(A, M).tolist()
        return M, [x + rank * math.log(a) for x, a in zip(log_dets, alphas, strict=True)]

    def moved(self, E: Tensor, M: Tensor, step: float, coding: Coding, out: Tensor) -> Stack:
        """The stack after a layer, with B written into ``out``."""
        gamma = M.new_tensor([coding.gamma[j] for j in self.classes])[:, None, None]
        counts = M.new_tensor([coding.counts[j] for j in self.classes])[:, None, None]
        torch.addmm(self.rows, self.rows, E, alpha=step, out=out.view(self.rows.shape))
        out.baddbmm_(M * gamma, self.B, alpha=-step)
        out.mul_((counts / out.square().sum(dim=(1, 2), keepdim=True)).sqrt_())
        return Stack(self.classes, out)


def stacked(factors: dict[int, Tensor]) -> tuple[Stack, ...]:
    """Stacks of the factors of classes, each of shape (d, r)."""
    by_rank: dict[int, list[int]] = {}
    for j, F in factors.items():
        by_rank.setdefault(max(1, math.ceil(F.shape[1] / RANKS)) * RANKS, []).append(j)
    out = []
    for rank, classes in sorted(by_rank.items()):
        first = factors[classes[0]]
        B = first.new_zeros(len(classes), rank, len(first))
        for B_j, j in zip(B, classes, strict=True):
            B_j[: factors[j].shape[1]] = factors[j].mT
        out.append(Stack(tuple(classes), B))
    return tuple(out)


@dataclass(frozen=True, eq=False)
class LowRankLayer(AbstractLayer):
    """A layer with the compression of some classes, those of low rank, as factors.

    C, with a matrix for each class, is computed each time it is asked for.

    Parameters
    ----------
    E : Tensor of shape (d, d)
    dense : tuple of int
        Indices of the classes that have a matrix.
    compression : Tensor of shape (len(dense), d, d)
    stacks : tuple of Stack
        The other classes.
    M : tuple of Tensor, each of shape (g, r, r)
        One for each stack.
    coding : Coding
    step : float
    rate : Rate
    """

    E: Tensor
    dense: tuple[int, ...]
    compression: Tensor
    stacks: tuple[Stack, ...]
    M: tuple[Tensor, ...]
    coding: Coding
    step: float
    rate: Rate

    @property
    def gamma(self) -> Tensor:
        """γ_j, the share of each class: Tensor of shape (k,)."""
        return self.E.new_tensor(self.coding.gamma)

    @property
    def C(self) -> Tensor:
        """Compression of each class: Tensor of shape (k, d, d)."""
        k, d = len(self.coding.counts), len(self.E)
        C = self.E.new_empty(k, d, d)
        C[list(self.dense)] = self.compression
        for stack, M in zip(self.stacks, self.M, strict=True):
            for j, B_j, M_j in zip(stack.classes, stack.B, M, strict=True):
                torch.mm(B_j.mT @ M_j, B_j, out=C[j])
                mirror_(add_identity(C[j].neg_()).mul_(self.coding.alphas[j]))
        return C

    def sample_space(self, n: int) -> Tensor:
        """As `AbstractLayer.sample_space`."""
        d = len(self.E)
        widest = max([d, *(len(stack.rows) for stack in self.stacks)])
        wide = sum(len(stack.rows) for stack in self.stacks)
        return self.E.new_empty(n * ((len(self.dense) + 1) * d + wide + widest))

    def move_samples_(self, Z: Tensor, sharpness: float, space: Tensor) -> Tensor:
        """As `AbstractLayer.move_samples_`."""
        (n, d), k, g = Z.shape, len(self.coding.counts), len(self.dense)
        lengths = Z.new_empty(n, k)
        take = _Taking(space)
        compressed = take(n, g, d)
        torch.mm(Z, self.compression.reshape(g * d, d).mT, out=compressed.view(n, g * d))
        lengths[:, list(self.dense)] = torch.linalg.vector_norm(compressed, dim=2)
        energy = Z.square().sum(dim=1, keepdim=True)
        moved = take(n, d)
        inner = [take(n, *stack.B.shape[:2]) for stack in self.stacks]
        outer = take(n * max([d, *(len(stack.rows) for stack in self.stacks)]))
        for stack, M, V in zip(self.stacks, self.M, inner, strict=True):
            U = outer[: V.numel()].view(V.shape)
            torch.mm(Z, stack.rows.mT, out=U.view(n, -1))
            V.copy_(torch.bmm(U.transpose(0, 1), M).transpose(0, 1))
            alphas = Z.new_tensor([self.coding.alphas[j] for j in stack.classes])
            # ‖(I − Bᵀ M B) z‖² in terms of u = B z and v = M u.
            inside = (U * V).sum(dim=2) + V.square().sum(dim=2) / alphas
            lengths[:, list(stack.classes)] = alphas * (energy - inside).clamp_(min=0).sqrt_()
        memberships = torch.softmax(-sharpness * k * lengths, dim=1)
        alpha = self.coding.alpha
        torch.mm(Z, self.E, out=moved).mul_(self.step).add_(Z)
        weights = memberships[:, list(self.dense)] * self.gamma[list(self.dense)]
        moved[:, None].baddbmm_(weights[:, None], compressed, alpha=-self.step)
        for stack, V in zip(self.stacks, inner, strict=True):
            shares = memberships[:, list(stack.classes)]  # γ_j α_j = α, whatever the class
            moved.addcmul_(Z, shares.sum(dim=1, keepdim=True), value=-self.step * alpha)
            V.mul_(shares[:, :, None])
            pulled = outer[: n * d].view(n, d)
            torch.mm(V.view(n, -1), stack.rows, out=pulled)
            moved.add_(pulled, alpha=self.step * alpha)
        norms = torch.linalg.vector_norm(moved, dim=1, keepdim=True)
        torch.div(moved, norms.where(norms > 0, 1), out=Z)
        return memberships


class _Taking:
    """Tensors of given shapes, one after another, out of one piece of memory."""

    def __init__(self, space: Tensor) -> None:
        self._space = space

    def __call__(self, *shape: int) -> Tensor:
        size = math.prod(shape)
        taken, self._space = self._space[:size].view(shape), self._space[size:]
        return taken
