"""The network as PyTorch modules, in the form that is exported.

A layer in its simplest form: with τ = ηα, Q_j the soft projection onto class j and Q the one
onto everything, C_j = α_j (I − Q_j) and E = α (I − Q), so a layer is

    z ← z + τ (Σ_j π̂_j Q_j z − Q z),   π̂ = softmax_j(−c_j ‖z − Q_j z‖),

then z back onto the sphere. A class of low rank has Q_j = V diag(q) Vᵀ, with few columns V.

Modules use few kinds of operations, those that `redunet.export.onnx_graph` translates.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from redunet.core.layer import AbstractLayer, Sharpness
from redunet.core.low_rank import LowRankLayer, Stack
from redunet.core.reduced_space import ReducedSpace

TINY = 1e-30
"""The least length that a row is divided by, so that a zero row stays zero."""


def lengths_of(Z: Tensor) -> Tensor:
    """Lengths of rows, (n, 1), from vectors, (n, d)."""
    return (Z * Z).sum(1, keepdim=True).sqrt()


def unit_rows(Z: Tensor) -> Tensor:
    """Rows on the unit sphere, (n, d); a zero row stays zero, and huge values do not overflow."""
    # In two steps, as 1 / x overflows for the smallest numbers: the first one makes their
    # largest value at least 5e-24, the second 1. What follows has a length from 1 on, or zero.
    for least in (1e-300, TINY):
        Z = Z / Z.abs().amax(1, keepdim=True).clamp(min=least)
    return Z / lengths_of(Z).clamp(min=1.0)


class UnitRows(nn.Module):
    """`unit_rows`."""

    def forward(self, Z: Tensor) -> Tensor:
        """Vectors, (n, d)."""
        return unit_rows(Z)


class LinearMap(nn.Module):
    """z ↦ z A, and back onto the unit sphere: whitening."""

    def __init__(self, A: Tensor) -> None:
        super().__init__()
        self.A = nn.Buffer(A)

    def forward(self, Z: Tensor) -> Tensor:
        """Vectors, (n, d)."""
        Z = torch.matmul(Z, self.A)
        return Z / lengths_of(Z).clamp(min=TINY)


class ExportedLayer(nn.Module):
    """A layer of path τ, or a block of layers of path Σ τ as one, in its simplest form."""

    def __init__(
        self, layer: AbstractLayer, sharpness: Sharpness, path: float, dtype: torch.dtype
    ) -> None:
        super().__init__()
        coding, self.path = layer.coding, path
        E = layer.E.detach().cpu().double()
        eye = torch.eye(len(E), dtype=torch.float64)
        self.head = nn.Buffer(((1 - path) * eye + (path / coding.alpha) * E).to(dtype))
        dense, C, stacks = _parts(layer)
        order, self.d, self.n_dense = list(dense), len(E), len(dense)
        if order:
            Q = torch.stack([eye - C_j / coding.alphas[j] for j, C_j in zip(dense, C, strict=True)])
            # One product for all classes: the matrices are symmetric, so rows are columns.
            self.projections = nn.Buffer(columns_of(Q).to(dtype))
            self.dense = nn.Buffer(torch.arange(len(order)))
        self.stacks: list[Directions] = []
        for place, stack in enumerate(stacks):
            alphas = [coding.alphas[j] for j in stack.classes]
            made = Directions(stack.B.detach().cpu(), alphas, len(order), dtype)
            self.stacks.append(made)
            self.add_module(f"stack_{place}", made)
            order += stack.classes
        c = sharpness.of_classes(coding)
        self.minus_c = nn.Buffer(torch.tensor([-c[j] for j in order], dtype=dtype))

    def forward(self, Z: Tensor) -> Tensor:
        """Features, (n, d), after the layer."""
        squares, projected = [], None
        if self.n_dense:
            projected = torch.matmul(Z, self.projections).reshape(-1, self.n_dense, self.d)
            outside = Z.unsqueeze(1) - projected
            squares.append((outside * outside).sum(2))
        energy = (Z * Z).sum(1, keepdim=True)
        along = [stack.along(Z) for stack in self.stacks]
        for stack, of_stack in zip(self.stacks, along, strict=True):
            squares.append((energy - stack.explained(of_stack)).clamp(min=0.0))
        every = squares[0] if len(squares) == 1 else torch.cat(squares, 1)
        shares = torch.softmax(every.sqrt() * self.minus_c, 1)
        moved = torch.matmul(Z, self.head)
        if projected is not None:
            of_dense = shares
            if self.stacks:
                of_dense = torch.index_select(shares, 1, self.dense)
            pulled = torch.matmul(of_dense.unsqueeze(1), projected).reshape(-1, self.d)
            moved = moved + pulled * self.path
        for stack, of_stack in zip(self.stacks, along, strict=True):
            moved = moved + stack.pulled(of_stack, shares) * self.path
        return moved / lengths_of(moved).clamp(min=TINY)


def _parts(layer: AbstractLayer) -> tuple[Sequence[int], Tensor, Sequence[Stack]]:
    """The classes that have a matrix, their compression, (g, d, d), and the others."""
    if isinstance(layer, LowRankLayer):
        return layer.dense, layer.compression.detach().cpu().double(), layer.stacks
    return range(len(layer.coding.counts)), layer.C.detach().cpu().double(), ()


def columns_of(matrices: Tensor) -> Tensor:
    """Matrices A_j, (k, r, d), such that z A has A_1 z, A_2 z, ... one after another: (d, k r)."""
    return matrices.reshape(-1, matrices.shape[-1]).mT.contiguous()


class Directions(nn.Module):
    """Soft projections V diag(q) Vᵀ of g classes of similar rank: Σ_j = BᵀB with B (g, r, d)."""

    def __init__(self, B: Tensor, alphas: Sequence[float], first: int, dtype: torch.dtype) -> None:
        super().__init__()
        (self.g, self.r, self.d), V, q = B.shape, torch.zeros_like(B, dtype=torch.float64), []
        for B_j, V_j, alpha in zip(B.double(), V, alphas, strict=True):
            _, s, rows = torch.linalg.svd(B_j, full_matrices=False)
            V_j[: len(s)] = rows
            energy = torch.nn.functional.pad(alpha * s.square(), (0, self.r - len(s)))
            q.append(energy / (1 + energy))
        shares = torch.stack(q).flatten()
        owner = torch.arange(first, first + self.g).repeat_interleave(self.r)
        self.rows = nn.Buffer(V.reshape(-1, self.d).to(dtype))
        self.q = nn.Buffer(shares.to(dtype))
        self.weights = nn.Buffer((shares * (2 - shares)).to(dtype))
        self.owner = nn.Buffer(owner)

    def along(self, Z: Tensor) -> Tensor:
        """Vᵀ z, (n, g r)."""
        return torch.nn.functional.linear(Z, self.rows)

    def explained(self, along: Tensor) -> Tensor:
        """‖z‖² − ‖z − Q_j z‖², (n, g)."""
        return (along * along * self.weights).reshape(-1, self.g, self.r).sum(2)

    def pulled(self, along: Tensor, shares: Tensor) -> Tensor:
        """Σ_j π̂_j Q_j z, (n, d)."""
        return torch.matmul(along * self.q * torch.index_select(shares, 1, self.owner), self.rows)


class Layers(nn.Module):
    """Layers one after another, within a reduced space or in all dimensions."""

    def __init__(
        self, layers: Sequence[ExportedLayer], space: ReducedSpace | None, dtype: torch.dtype
    ) -> None:
        super().__init__()
        self.layers, self.dtype = nn.ModuleList(layers), dtype
        self.reduced, self.based = space is not None, False
        if space is None:
            return
        features = space.features.cpu()
        place = torch.full((space.d,), len(features))
        place[features] = torch.arange(len(features))
        self.features = nn.Buffer(features)
        self.place = nn.Buffer(place)
        self.inner = nn.Buffer(torch.arange(space.size - 1))
        self.last = nn.Buffer(torch.tensor([space.size - 1]))
        if space.basis is not None:
            self.based = True
            basis = space.basis.detach().cpu().double()
            self.basis = nn.Buffer(basis)
            self.back = nn.Buffer(basis.mT.contiguous())

    def forward(self, Z: Tensor) -> Tensor:
        """Features, (n, d) in float64, after the layers."""
        if not len(self.layers):
            return Z
        if not self.reduced:
            return self._moved(Z)
        inside = torch.index_select(Z, 1, self.features)
        if self.based:
            inside = torch.matmul(inside, self.basis)
        outside = Z - self._in_all(inside)
        length = lengths_of(outside)
        moved = self._moved(torch.cat([inside, length], 1))
        scale = torch.index_select(moved, 1, self.last) / length.clamp(min=TINY)
        return outside * scale + self._in_all(torch.index_select(moved, 1, self.inner))

    def _moved(self, Z: Tensor) -> Tensor:
        Z = Z.to(self.dtype)
        for layer in self.layers:
            Z = layer(Z)
        return Z.to(torch.float64)

    def _in_all(self, inside: Tensor) -> Tensor:
        """Vectors within the space, (n, s), in all dimensions, (n, d)."""
        if self.based:
            inside = torch.matmul(inside, self.back)
        return torch.index_select(torch.nn.functional.pad(inside, (0, 1)), 1, self.place)
