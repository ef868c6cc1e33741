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
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TypeAlias

import torch
from torch import Tensor

from redunet.core.layer import AbstractLayer, Confidence, LayerOutput, estimate, move_by_, spread_of
from redunet.core.linalg import add_identity, definite, mirror_, spd_inverse_
from redunet.core.rate import Coding, Rate

IRRELEVANT = 2.0**-4
"""Classes are left out of a sample where all of them together pull it by at most this share of a
rounding error, which could not change a sum."""

FEW = 0.5
"""On a CPU, pulling samples class by class is faster where at most this share of the pairs of a
sample and a class matters: it halves the products, and the rows have to be collected for it."""

PART_BYTES = 2**29
"""Factors that copies are made of at a time."""

RANKS = 4
"""Ranks are rounded up to a multiple of this, so that classes of similar rank go together."""


@dataclass(frozen=True, eq=False)
class Stack:
    """Some classes of similar rank."""

    classes: tuple[int, ...]  # Their indices in the order of the labels
    B: Tensor  # (g, r, d)

    @property
    def rows(self) -> Tensor:
        """All rows of B, (g r, d), in the same memory."""
        return self.B.view(-1, self.B.shape[-1])

    def parts(self) -> Iterator[Stack]:
        """The stack in pieces that are not too large to work with copies of, in the same memory."""
        size = max(1, PART_BYTES // max(1, self.B[:1].nbytes))
        for start in range(0, len(self.B), size):
            chosen = slice(start, start + size)
            yield Stack(self.classes[chosen], self.B[chosen])

    def inverse(self, coding: Coding) -> tuple[Tensor, list[float]]:
        """M of each class, (g, r, r), and log det(I + α_j Σ_j)."""
        rank = self.B.shape[1]
        alphas = [coding.alphas[j] for j in self.classes]
        A = torch.bmm(self.B, self.B.mT)
        A.diagonal(dim1=1, dim2=2).add_(A.new_tensor(alphas).reciprocal()[:, None])
        M = torch.empty_like(A)
        log_dets = definite(spd_inverse_(A, M).cpu(), A).tolist()
        return M, [x + rank * math.log(a) for x, a in zip(log_dets, alphas, strict=True)]

    def moved(
        self,
        E: Tensor,
        M: Tensor,
        step: float,
        coding: Coding,
        out: Tensor,
        means: Tensor | None = None,
    ) -> Stack:
        """The stack after a layer, with B written into ``out``, which may be on another device.

        Means of all classes, (k, d), where there are some, are moved in place by the same maps.
        """
        done = 0
        for some in self.parts():
            chosen = slice(done, done := done + len(some.B))
            scale = some._move(E, M[chosen], step, coding, out[chosen])
            if means is not None:
                classes = list(some.classes)
                mu = means[classes][:, None]  # (g, 1, d)
                inside = mu @ some.B.mT @ M[chosen] @ some.B
                pulled = mu @ E - coding.alpha * (mu - inside)
                means[classes] = (scale * (mu + step * pulled))[:, 0]
        return Stack(self.classes, out)

    def _move(self, E: Tensor, M: Tensor, step: float, coding: Coding, out: Tensor) -> Tensor:
        """B after a layer into ``out``; what each class was scaled by, (g, 1, 1)."""
        gamma = M.new_tensor([coding.gamma[j] for j in self.classes])[:, None, None]
        counts = M.new_tensor([coding.counts[j] for j in self.classes])[:, None, None]
        moved = out if out.device == E.device else torch.empty_like(self.B)
        torch.addmm(self.rows, self.rows, E, alpha=step, out=moved.view(self.rows.shape))
        moved.baddbmm_(M * gamma, self.B, alpha=-step)
        scale: Tensor = (counts / moved.square().sum(dim=(1, 2), keepdim=True)).sqrt_()
        moved.mul_(scale)
        if moved is not out:
            out.copy_(moved)
        return scale


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
    M : tuple of Tensor, each of shape (g, r, r), or (g, r)
        One for each stack; (g, r) for stacks in the form of `principal`.
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
                inner = B_j.mT * M_j if M_j.dim() == 1 else B_j.mT @ M_j
                torch.mm(inner, B_j, out=C[j])
                mirror_(add_identity(C[j].neg_()).mul_(self.coding.alphas[j]))
        return C

    @property
    def n_bytes(self) -> int:
        """See `AbstractLayer.n_bytes`."""
        factors = sum(stack.B.nbytes for stack in self.stacks) + sum(M.nbytes for M in self.M)
        return self.E.nbytes + self.compression.nbytes + factors

    def sample_space(self, n: int) -> Tensor:
        """See `AbstractLayer.sample_space`."""
        wide = sum(len(stack.rows) for stack in self.stacks)
        return self.E.new_empty(n * (len(self.dense) * len(self.E) + wide + self._scratch))

    @property
    def _scratch(self) -> int:
        """Numbers that a sample needs beside those that are kept of its classes."""
        return max((len(stack.rows) for stack in self.stacks), default=0)

    def move_samples_(self, Z: Tensor, sharpness: Confidence, space: Tensor) -> LayerOutput:
        """See `AbstractLayer.move_samples_`."""
        take = Taking(space)
        scratch = take(len(Z) * self._scratch)
        groups: list[tuple[list[int], Look]] = []
        for stack, M in zip(self.stacks, self.M, strict=True):
            alphas = Z.new_tensor([self.coding.alphas[j] for j in stack.classes])
            groups.append((list(stack.classes), partial(_look, stack.B, M, alphas, scratch)))
        dense = self.E, list(self.dense), self.compression
        return move_by_factors_(Z, dense, groups, self.coding, self.step, sharpness, take.space)


class Taking:
    """Tensors of given shapes, one after another, out of one piece of memory."""

    def __init__(self, space: Tensor) -> None:
        self.space = space

    def __call__(self, *shape: int) -> Tensor:
        """The next tensor."""
        size = math.prod(shape)
        taken, self.space = self.space[:size].view(shape), self.space[size:]
        return taken


Pull: TypeAlias = Callable[[Tensor, Tensor, float], None]
"""Adds scale · Σ_j π̂_j Q_j z, of some classes, to a Tensor of shape (n, d), from π̂, (n, g)."""

Look: TypeAlias = Callable[[Tensor, Tensor, Taking], tuple[Tensor, Pull]]
"""From samples, (n, d), their ‖z‖², (n, 1), and memory to ‖(I − Q_j) z‖ of some classes, (n, g)."""


def move_by_factors_(
    Z: Tensor,
    dense: tuple[Tensor, list[int], Tensor],
    groups: Sequence[tuple[list[int], Look]],
    coding: Coding,
    step: float,
    sharpness: Confidence,
    space: Tensor,
) -> LayerOutput:
    """Move features, (n, d), in place by a layer of classes in factors.

    Shapes: Z (n, d).
    """
    (E, places, C), (n, d), take = dense, Z.shape, Taking(space)
    residuals = Z.new_empty(n, len(coding.counts))
    compressed = take(n, len(places), d)
    torch.mm(Z, C.reshape(-1, d).mT, out=compressed.view(n, -1))
    lengths = torch.linalg.vector_norm(compressed, dim=-1)
    residuals[:, places] = lengths / Z.new_tensor([coding.alphas[j] for j in places])
    energy = Z.square().sum(dim=1, keepdim=True)
    pulls = []
    for classes, look in groups:
        residuals[:, classes], pull = look(Z, energy, take)
        pulls.append((classes, pull))
    memberships, logits = estimate(residuals, coding, sharpness)
    weights = memberships * Z.new_tensor(coding.gamma)
    pulled = torch.bmm(weights[:, None, places], compressed)[:, 0]
    # C_j z = α_j (z − Q_j z), and γ_j α_j = α, whatever the class.
    in_factors = 1 - memberships[:, places].sum(dim=1, keepdim=True)
    pulled.addcmul_(Z, in_factors, value=coding.alpha)
    for classes, pull in pulls:
        pull(pulled, memberships[:, classes], -coding.alpha)
    spread = spread_of(memberships, residuals, pulled, coding.alpha)
    move_by_(Z, torch.mm(Z, E).sub_(pulled), step)
    return LayerOutput(memberships, logits, spread)


def _look(
    B: Tensor, M: Tensor, alphas: Tensor, scratch: Tensor, Z: Tensor, energy: Tensor, take: Taking
) -> tuple[Tensor, Pull]:
    """All classes of a stack: with u = B z and v = M u, Q_j z = Bᵀ v.

    And ‖(I − Q_j) z‖² = ‖z‖² − uᵀ v − ‖v‖² / α_j.
    """
    n, (g, r, d) = len(Z), B.shape
    u = torch.mm(Z, B.view(-1, d).mT, out=scratch[: n * g * r].view(n, g * r)).view(n, g, r)
    v = torch.bmm(u.transpose(0, 1), M, out=take(g, n, r)).transpose(0, 1)
    inside = (u * v).sum(dim=-1).addcdiv_(v.square().sum(dim=-1), alphas)

    def pull(out: Tensor, shares: Tensor, scale: float) -> None:
        relevant = shares > IRRELEVANT / g * torch.finfo(v.dtype).eps
        if out.device.type != "cpu" or int(relevant.sum()) > FEW * relevant.numel():
            weighted = (v * shares[:, :, None]).reshape(n, -1)
            out.addmm_(weighted, B.view(-1, d), alpha=scale)
            return
        for j, B_j in enumerate(B):
            rows = relevant[:, j].nonzero()[:, 0]
            if len(rows):
                pulled = (v[rows, j] * shares[rows, j, None]) @ B_j
                out.index_add_(0, rows, pulled, alpha=scale)

    return (energy - inside).clamp_(min=0).sqrt_(), pull
