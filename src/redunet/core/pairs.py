"""Pairs of a sample and a class of low rank: how far the sample is from the class, and its pull.

With Σ_j = Bᵀ B and M as in `redunet.core.low_rank`, u = B z and v = M u,

    ‖(I − Bᵀ M B) z‖² = ‖z‖² − uᵀ v − ‖v‖² / α_j,

and the class pulls the sample by π̂_j Bᵀ v. For stacks in the form of
`redunet.core.low_rank.principal`, M is diagonal, m, and uᵀ u takes the place of both terms.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from redunet.core.layer import row_norms

FEW = 0.5
"""On a CPU, going through classes one by one is faster where at most this share of them matters.
Chosen by hand: it halves the products, and the rows have to be collected for it."""


def pairs_of(
    Z: Tensor,
    B: Tensor,
    M: Tensor,
    alphas: Tensor,
    allowed: Tensor | None,
    space: Tensor,
    scratch: Tensor,
) -> Pairs:
    """Pairs of samples and the classes of a stack: all, or at least the allowed ones.

    Parameters
    ----------
    Z : Tensor of shape (n, d)
    B : Tensor of shape (g, r, d)
    M : Tensor of shape (g, r, r), or (g, r) for m
    alphas : Tensor of shape (g,)
        α_j.
    allowed : Tensor of shape (n, g), bool, or None
        None means all.
    space : Tensor
        Memory for n g r numbers, which the pairs use from then on.
    scratch : Tensor
        The same, for the time of this call; of no use with m.
    """
    few = allowed is not None and Z.device.type == "cpu"
    if allowed is not None and few and int(allowed.sum()) <= FEW * allowed.numel():
        return SomePairs.of(Z, B, M, alphas, allowed, space, scratch)
    return AllPairs.of(Z, B, M, alphas, space, scratch)


class Pairs(ABC):
    """Pairs of samples and the classes of one stack."""

    @abstractmethod
    def set_residuals_(self, residuals: Tensor, classes: Sequence[int], energy: Tensor) -> None:
        """Write ‖(I − Q_j) z‖ of each pair.

        Parameters
        ----------
        residuals : Tensor of shape (n, k)
        classes : sequence of g int
            The columns of the stack's classes.
        energy : Tensor of shape (n,)
            ‖z‖².
        """

    @abstractmethod
    def pull_(self, out: Tensor, weights: Tensor, B: Tensor, scale: float, least: float) -> None:
        """Add scale · Σ_j π̂_j B_jᵀ v_j to ``out``, (n, d).

        Parameters
        ----------
        out : Tensor of shape (n, d)
        weights : Tensor of shape (n, g)
            Memberships π̂_j.
        B : Tensor of shape (g, r, d)
        scale : float
        least : float
            Memberships up to this may be left out, where that saves work.
        """


@dataclass(frozen=True, eq=False)
class AllPairs(Pairs):
    """All samples with all classes of a stack.

    Parameters
    ----------
    v : Tensor of shape (n, g, r)
        M B z, or B z where m is given.
    m : Tensor of shape (g, r), or None
    inside : Tensor of shape (n, g)
        ‖z‖² − ‖(I − Q_j) z‖².
    """

    v: Tensor
    m: Tensor | None
    inside: Tensor

    @classmethod
    def of(
        cls, Z: Tensor, B: Tensor, M: Tensor, alphas: Tensor, space: Tensor, scratch: Tensor
    ) -> AllPairs:
        """As `pairs_of`."""
        n, (g, r, d) = len(Z), B.shape
        U = (space if M.dim() == 2 else scratch)[: n * g * r].view(n, g, r)
        torch.mm(Z, B.view(-1, d).mT, out=U.view(n, g * r))
        if M.dim() == 2:
            return cls(U, M, row_norms(U).square_())
        v = space[: U.numel()].view(g, n, r)
        torch.bmm(U.transpose(0, 1), M, out=v)
        dtype = torch.promote_types(Z.dtype, torch.float32)
        along = (U.transpose(0, 1) * v).sum(dim=-1, dtype=dtype)
        inside = along.addcdiv_(v.square().sum(dim=-1, dtype=dtype), alphas[:, None])
        return cls(v.transpose(0, 1), None, inside.mT)

    def set_residuals_(self, residuals: Tensor, classes: Sequence[int], energy: Tensor) -> None:
        """As `Pairs.set_residuals_`."""
        residuals[:, classes] = (energy[:, None] - self.inside).clamp_(min=0).sqrt_()

    def pull_(self, out: Tensor, weights: Tensor, B: Tensor, scale: float, least: float) -> None:
        """As `Pairs.pull_`."""
        relevant = weights.mT > least
        if out.device.type != "cpu" or int(relevant.sum()) > FEW * relevant.numel():
            v = self.v * weights[:, :, None]
            v = v if self.m is None else v.mul_(self.m)
            out.addmm_(v.reshape(len(out), -1), B.view(-1, B.shape[-1]), alpha=scale)
            return
        classes, rows = relevant.nonzero(as_tuple=True)
        v = self.v[rows, classes]
        _pull_some_(out, rows, classes, v, weights[rows, classes], B, self.m, scale)


@dataclass(frozen=True, eq=False)
class SomePairs(Pairs):
    """Some pairs, in the order of the classes.

    Parameters
    ----------
    rows, classes : Tensor of shape (p,), int64
        Of each pair, the sample, and the class as a place in the stack.
    sizes : list of g int
        Pairs of each class.
    v : Tensor of shape (p, r)
    m : Tensor of shape (g, r), or None
    inside : Tensor of shape (p,)
    """

    rows: Tensor
    classes: Tensor
    sizes: list[int]
    v: Tensor
    m: Tensor | None
    inside: Tensor

    @classmethod
    def of(
        cls,
        Z: Tensor,
        B: Tensor,
        M: Tensor,
        alphas: Tensor,
        allowed: Tensor,
        space: Tensor,
        scratch: Tensor,
    ) -> SomePairs:
        """As `pairs_of`."""
        classes, rows = allowed.mT.nonzero(as_tuple=True)
        sizes, rank = allowed.sum(dim=0).tolist(), B.shape[1]
        U, v = (one[: len(rows) * rank].view(-1, rank) for one in (scratch, space))
        U = v if M.dim() == 2 else U
        for j, (rows_j, U_j) in enumerate(_parts(sizes, rows, U)):
            if len(rows_j):
                torch.mm(Z.index_select(0, rows_j), B[j].mT, out=U_j)
        if M.dim() == 2:
            return cls(rows, classes, sizes, U, M, row_norms(U).square_())
        for M_j, (U_j, v_j) in zip(M, _parts(sizes, U, v), strict=True):
            if len(U_j):
                torch.mm(U_j, M_j, out=v_j)
        dtype = torch.promote_types(Z.dtype, torch.float32)
        along = (U * v).sum(dim=1, dtype=dtype)
        inside = along.addcdiv_(v.square().sum(dim=1, dtype=dtype), alphas[classes])
        return cls(rows, classes, sizes, v, None, inside)

    def set_residuals_(self, residuals: Tensor, classes: Sequence[int], energy: Tensor) -> None:
        """As `Pairs.set_residuals_`."""
        columns = torch.tensor(classes, device=residuals.device)[self.classes]
        residuals[self.rows, columns] = (energy[self.rows] - self.inside).clamp_(min=0).sqrt_()

    def pull_(self, out: Tensor, weights: Tensor, B: Tensor, scale: float, least: float) -> None:
        """As `Pairs.pull_`."""
        shares = weights[self.rows, self.classes]
        chosen = (shares > least).nonzero()[:, 0]
        rows, classes = self.rows[chosen], self.classes[chosen]
        _pull_some_(out, rows, classes, self.v[chosen], shares[chosen], B, self.m, scale)


def _pull_some_(
    out: Tensor,
    rows: Tensor,
    classes: Tensor,
    v: Tensor,
    shares: Tensor,
    B: Tensor,
    m: Tensor | None,
    scale: float,
) -> None:
    """As `Pairs.pull_`, by pairs in the order of the classes; v, (p, r), is overwritten."""
    v.mul_(shares[:, None])
    if m is not None:
        v.mul_(m.index_select(0, classes))
    sizes = torch.bincount(classes, minlength=len(B)).tolist()
    for B_j, (rows_j, v_j) in zip(B, _parts(sizes, rows, v), strict=True):
        if len(rows_j):
            out.index_add_(0, rows_j, v_j @ B_j, alpha=scale)


def _parts(sizes: list[int], *tensors: Tensor) -> zip[tuple[Tensor, ...]]:
    """Tensors of p rows, split into those of each class."""
    return zip(*(torch.split(one, sizes) for one in tensors), strict=True)
