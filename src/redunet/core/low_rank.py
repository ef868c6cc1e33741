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
from collections.abc import Iterator
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from redunet.core.layer import AbstractLayer, move_by_, row_norms, spread_of
from redunet.core.linalg import add_identity, definite, mirror_, spd_inverse_
from redunet.core.memberships import Confidence, Moved, estimate, logits_of
from redunet.core.pairs import pairs_of
from redunet.core.rate import Coding, Rate

IRRELEVANT = 2.0**-4
"""The share of a rounding error below which what all left out classes add is of no matter."""

PART_BYTES = 2**29
"""Factors that copies are made of at a time."""

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


def principal(stack: Stack, M: Tensor, coding: Coding) -> tuple[Stack, Tensor]:
    """A stack in terms of the eigenvectors v_i of its classes, to answer samples with.

    With q_i the eigenvalues of Q_j = Bᵀ M B and w_i = q_i (2 − q_i), B becomes the rows
    √w_i v_i, so that ‖(I − Q_j) z‖² = ‖z‖² − ‖B z‖² takes one product and no other, and
    Q_j z = Bᵀ diag(m) B z with m_i = q_i / w_i.

    Returns
    -------
    stack : Stack
    m : Tensor of shape (g, r)
    """
    if M.dim() == 2:
        return stack, M
    B = stack.B.to(torch.float64)
    values, vectors = torch.linalg.eigh(torch.bmm(B, B.mT))
    alphas = values.new_tensor([coding.alphas[j] for j in stack.classes])[:, None]
    least = values.amax(dim=1, keepdim=True) * B.shape[1] * torch.finfo(B.dtype).eps
    q = torch.where(values > least, alphas * values / (1 + alphas * values), 0)
    scale = torch.where(q > 0, (q * (2 - q) / values.clamp(min=1e-300)).sqrt(), 0)
    rows = torch.bmm(vectors.mT * scale[:, :, None], B)
    return Stack(stack.classes, rows.to(stack.B)), (1 / (2 - q)).to(M)


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
    left_out : Tensor of shape (k,), default=None
        For classes that are cut to their leading directions, w of the first one that is left
        out, see `principal`; 0 for other classes. None where none is cut.
    least_share : float, default=0.0
        As for `AbstractLayer.fused`.
    """

    E: Tensor
    dense: tuple[int, ...]
    compression: Tensor
    stacks: tuple[Stack, ...]
    M: tuple[Tensor, ...]
    coding: Coding
    step: float
    rate: Rate
    left_out: Tensor | None = None
    least_share: float = 0.0

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

    def fused(self, step: float, dtype: torch.dtype, least_share: float = 0.0) -> LowRankLayer:
        """As `AbstractLayer.fused`, in the form that takes the fewest products: see `principal`."""
        pairs = zip(self.stacks, self.M, strict=True)
        stacks, M = zip(*(principal(*pair, self.coding) for pair in pairs), strict=True)
        stacks = tuple(Stack(one.classes, one.B.to(dtype, copy=True)) for one in stacks)
        M = tuple(one.to(dtype, copy=True) for one in M)
        E, dense = (A.to(dtype, copy=True) for A in (self.E, self.compression))
        made = replace(self, E=E, compression=dense, stacks=stacks, M=M, step=step)
        return replace(made, least_share=least_share)

    def cut(self, share: float) -> LowRankLayer:
        """The layer with a share of each class's directions only, those of the largest eigenvalues.

        Only of layers in the form that `fused` gives.
        """
        left_out = self.E.new_zeros(len(self.coding.counts), dtype=torch.float32)
        stacks, inner = [], []
        for stack, m in zip(self.stacks, self.M, strict=True):
            rank = stack.B.shape[1]
            kept = min(rank, math.ceil(share * rank / RANKS) * RANKS)
            if kept < rank:
                next_row = stack.B[:, rank - kept - 1].float()
                left_out[list(stack.classes)] = next_row.square().sum(dim=1)
            stacks.append(Stack(stack.classes, stack.B[:, rank - kept :].contiguous()))
            inner.append(m[:, rank - kept :].contiguous())
        return replace(self, stacks=tuple(stacks), M=tuple(inner), left_out=left_out)

    def products(self, considered: float = 1.0, relevant: float = 1.0) -> float:
        """As `AbstractLayer.products`."""
        factors = sum(stack.B.numel() for stack in self.stacks)
        inner = sum(M.numel() for M in self.M)
        dense = self.E.numel() + self.compression.numel()
        return dense + considered * (factors + inner) + relevant * factors

    @property
    def n_bytes(self) -> int:
        """As `AbstractLayer.n_bytes`."""
        factors = sum(stack.B.nbytes for stack in self.stacks) + sum(M.nbytes for M in self.M)
        return self.E.nbytes + self.compression.nbytes + factors

    def sample_space(self, n: int) -> Tensor:
        """As `AbstractLayer.sample_space`."""
        wide = sum(len(stack.rows) for stack in self.stacks)
        return self.E.new_empty(n * (len(self.dense) * len(self.E) + wide + self._scratch))

    @property
    def _scratch(self) -> int:
        """Numbers that a sample needs beside those that are kept of its pairs."""
        wide = (
            len(stack.rows) for stack, M in zip(self.stacks, self.M, strict=True) if M.dim() > 2
        )
        return max(wide, default=0)

    def _least_share(self, g: int) -> float:
        """The membership up to which one of g classes is left out of a sample.

        At least `IRRELEVANT` / g times the rounding: as ‖B_jᵀ v_j‖ ≤ ‖z‖, all that is left out of
        a sample of unit length is then shorter than `IRRELEVANT` times the rounding, and could
        not change a sum.
        """
        return max(self.least_share, IRRELEVANT / g * torch.finfo(self.E.dtype).eps)

    def move_samples_(
        self, Z: Tensor, sharpness: Confidence, space: Tensor, among: Tensor | None = None
    ) -> Moved:
        """As `AbstractLayer.move_samples_`."""
        (n, d), k, g = Z.shape, len(self.coding.counts), len(self.dense)
        dtype = torch.promote_types(Z.dtype, torch.float32)
        residuals = Z.new_full((n, k), torch.inf, dtype=dtype)
        alphas = residuals.new_tensor(self.coding.alphas)
        energy = row_norms(Z).square_()
        take = _Taking(space)
        compressed = take(n, g, d)
        scratch = take(n * self._scratch)
        pairs = []
        for stack, M in zip(self.stacks, self.M, strict=True):
            classes, kept = list(stack.classes), take(n * len(stack.rows))
            allowed = None if among is None else among[:, classes]
            found = pairs_of(Z, stack.B, M, alphas[classes], allowed, kept, scratch)
            found.set_residuals_(residuals, classes, energy)
            pairs.append(found)
        dense = list(self.dense)
        torch.mm(Z, self.compression.reshape(g * d, d).mT, out=compressed.view(n, g * d))
        residuals[:, dense] = row_norms(compressed) / alphas[dense]
        memberships, logits = estimate(residuals, self.coding, sharpness)
        weights = memberships.to(Z.dtype)
        alpha = self.coding.alpha
        pulled = torch.bmm((weights * self.gamma)[:, None, dense], compressed)[:, 0]
        # γ_j α_j = α, whatever the class
        in_factors = 1 - weights[:, dense].sum(dim=1, keepdim=True)
        pulled.addcmul_(Z, in_factors, value=alpha)
        for stack, found in zip(self.stacks, pairs, strict=True):
            shares = weights[:, list(stack.classes)]
            found.pull_(pulled, shares, stack.B, -alpha, self._least_share(len(stack.B)))
        spread = spread_of(memberships, residuals, pulled, alpha)
        move_by_(Z, torch.mm(Z, self.E).sub_(pulled), self.step)
        return Moved(memberships, logits, spread, self._least_behind(residuals, sharpness))

    def _least_behind(self, residuals: Tensor, sharpness: Confidence) -> Tensor | None:
        """As `Moved.least_behind`, from ‖(I − Q_j) z‖, (n, k).

        Their squares are differences, which numbers of few bits hardly tell from 0.
        """
        if self.left_out is None and self.E.dtype != torch.bfloat16:
            return None
        rounding = torch.finfo(self.E.dtype).eps
        squares = residuals.square()
        most = (squares + rounding).sqrt_()
        least = squares.sub_(rounding).clamp_(min=0)
        if self.left_out is not None:
            # What is left out of ‖B z‖² is at most w of the part of z outside of B.
            least.mul_((1 - self.left_out).clamp(min=0))
        lowest, highest = (logits_of(one, self.coding, sharpness) for one in (most, least.sqrt_()))
        return lowest.amax(dim=1, keepdim=True) - highest


class _Taking:
    """Tensors of given shapes, one after another, out of one piece of memory."""

    def __init__(self, space: Tensor) -> None:
        self._space = space

    def __call__(self, *shape: int) -> Tensor:
        size = math.prod(shape)
        taken, self._space = self._space[:size].view(shape), self._space[size:]
        return taken
