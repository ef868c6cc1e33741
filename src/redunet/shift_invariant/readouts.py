"""Labels from features that were moved by the network of all shifts; no shift changes them."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from redunet.core.linalg import cholesky
from redunet.core.subspaces import GRID_NOISE
from redunet.shift_invariant.network import ShiftNetwork, norms


class ShiftReadout(Protocol):
    """A read-out of features in the Fourier domain."""

    def scores(self, U: Tensor) -> Tensor:
        """A score for each class, (rows, k), float64, of samples, (F, rows, C); highest wins."""


@dataclass(frozen=True, eq=False)
class NearestShiftSubspace:
    """The class whose principal subspace, of all shifts of its samples, is nearest.

    An eigenvector of a block-circulant matrix is a wave of one frequency: those of the largest
    eigenvalues are taken from all frequencies together.

    Parameters
    ----------
    bases : tuple of k lists of pairs
        Frequencies, (f,), and orthonormal columns at each, (f, C, r), complex: those with about as
        many columns together, with columns of zeros where one has fewer.
    """

    bases: tuple[list[tuple[Tensor, Tensor]], ...]

    @classmethod
    def from_network(cls, network: ShiftNetwork, n_components: int) -> NearestShiftSubspace:
        """Subspaces of the network's last moments."""
        layout, dtype = network.layout, network.dtype
        least = layout.d * GRID_NOISE
        bases = []
        for Sigma_j in network.last:
            values, vectors = torch.linalg.eigh(Sigma_j)
            each = layout.multiplicity.to(values)[:, None].expand_as(values).flatten()
            order = values.flatten().argsort(descending=True, stable=True)
            taken = each[order].cumsum(dim=0) <= n_components
            taken &= values.flatten()[order] > least * values.amax()
            kept = torch.zeros_like(each, dtype=torch.bool)
            kept[order[taken]] = True
            kept = kept.view_as(values)
            # eigh sorts ascending: the last columns are the ones of the largest values.
            columns = (vectors * kept[:, None]).flip(2)
            bases.append(
                [
                    (where, columns[where][..., :width].to(dtype))
                    for where, width in _alike(kept.sum(dim=1).tolist())
                ]
            )
        return cls(tuple(bases))

    @property
    def dimensions(self) -> list[int]:
        """The number of waves of each class."""
        return [
            sum(int((basis.abs().sum(dim=1) > 0).sum()) for _, basis in parts)
            for parts in self.bases
        ]

    def scores(self, U: Tensor) -> Tensor:
        """Minus the squared distances from the subspaces, (rows, k), of samples, (F, rows, C)."""
        energy = norms(U).square()
        outside = []
        for parts in self.bases:
            left = energy.clone()
            for where, basis in parts:
                left -= norms(U[where] @ basis.conj()).square()
            outside.append(left)
        residuals = torch.stack(outside, dim=1).clamp_(min=0)
        return -residuals.to(torch.float64)


def _alike(numbers: list[int]) -> list[tuple[Tensor, int]]:
    """Places of numbers that are within a power of two, and the largest of these numbers."""
    groups: dict[int, list[int]] = {}
    for place, number in enumerate(numbers):
        if number:
            groups.setdefault(number.bit_length(), []).append(place)
    return [
        (torch.tensor(places), max(numbers[place] for place in places))
        for _, places in sorted(groups.items())
    ]


@dataclass(frozen=True, eq=False)
class ShiftCodingLength:
    """The class that takes the fewest nats more to code, up to ε, with all shifts of the sample.

    As `redunet.core.readouts.CodingLength`, of n vectors at once: coding N vectors of second
    moment Σ takes (N + d)/2 · log det(I + d/(Nε²) Σ) nats, and naming the class of each −log γ_j.

    Parameters
    ----------
    C : Tensor of shape (k, F, C, C), complex
        (Σ_j + I/α)⁻¹, with α = d / ((n_j + 1) n ε²), times n over the multiplicity.
    weights : Tensor of shape (F,), float64
        The multiplicity.
    volumes : Tensor of shape (k,), float64
        (n_j n + n + d)/2.
    growth : Tensor of shape (k,), float64
        What a sample of length zero would add.
    """

    C: Tensor
    weights: Tensor
    volumes: Tensor
    growth: Tensor

    @classmethod
    def from_network(cls, network: ShiftNetwork) -> ShiftCodingLength:
        """Coding lengths by the network's last moments and ε."""
        layout, coding, Sigma = network.layout, network.coding, network.last
        weights = layout.multiplicity.to(Sigma.device)
        n, d, k = layout.n, layout.d, len(Sigma)
        C = torch.empty(Sigma.shape, dtype=network.dtype, device=Sigma.device)
        growth = -n * torch.tensor(coding.gamma, dtype=torch.float64).log()
        for j in range(k):
            for size, sign in ((coding.counts[j], -1), (coding.counts[j] + n, 1)):
                alpha = d / (size * coding.eps**2)
                A = Sigma[j].clone()
                A.diagonal(dim1=-2, dim2=-1).add_(1 / alpha)
                factor = cholesky(A, "raise eps")
                pivots = factor.diagonal(dim1=-2, dim2=-1).real.log().sum(dim=-1)
                log_det = float(2 * (pivots * weights).sum()) + d * math.log(alpha)
                growth[j] += sign * 0.5 * (size + d) * log_det
            C[j] = torch.cholesky_inverse(factor) * (n / weights)[:, None, None]
        volumes = 0.5 * (torch.tensor(coding.counts, dtype=torch.float64) + n + d)
        return cls(C, weights, volumes.to(Sigma.device), growth.to(Sigma.device))

    def scores(self, U: Tensor) -> Tensor:
        """Minus the nats that samples, (F, rows, C), and their shifts add: (rows, k), float64."""
        each = []
        for C_j in self.C:
            energies = ((U @ C_j.mT) * U.conj()).real.sum(dim=2).to(torch.float64)
            each.append((energies.log1p_() * self.weights[:, None]).sum(dim=0))
        return -(self.growth + self.volumes * torch.stack(each, dim=1))


SHIFT_READOUTS: dict[str, Callable[[ShiftNetwork, int], ShiftReadout]] = {
    "subspace": NearestShiftSubspace.from_network,
    "coding": lambda network, _: ShiftCodingLength.from_network(network),
}
"""Read-outs of the network of all shifts, by name: from a network and n_components."""
