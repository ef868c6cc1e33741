"""The network of all shifts: the equations of `redunet.core.rate`, frequency by frequency.

With d = C n features and all n shifts of a sample as samples, α = d / (m n ε²), α_j and γ_j are
those of ordinary moments, and Σ_j of trace n_j n is block-circulant. In the Fourier domain it is
one Hermitian C x C block for each frequency, and so are

    E = α (I + αΣ)⁻¹,  C_j = α_j (I + α_jΣ_j)⁻¹  and  L_j = I + η (E − γ_j C_j);

log det is the sum of those of all blocks. Norms of samples are over all frequencies, so estimated
memberships do not change when a sample is shifted, and its features are shifted with it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from redunet.core.construction import Schedule
from redunet.core.labels import Label
from redunet.core.layer import Confidence, estimate
from redunet.core.linalg import cholesky
from redunet.core.rate import Coding, Rate
from redunet.errors import DataError
from redunet.shift_invariant.layout import Layout
from redunet.shift_invariant.moments import ShiftMoments

_BATCH_BYTES = 2**26
"""About how much memory the products of some samples with all classes may take."""


@dataclass(frozen=True, eq=False)
class ShiftLayer:
    """A layer whose operators are block-circulant.

    Parameters
    ----------
    E : Tensor of shape (F, C, C), complex
        Expansion, at each frequency of `Layout.frequencies`.
    C : Tensor of shape (k, F, C, C), complex
        Compression of each class.
    coding : Coding
        Of all shifts.
    step : float
        η.
    rate : Rate
        The objective before the step.
    """

    E: Tensor
    C: Tensor
    coding: Coding
    step: float
    rate: Rate

    @property
    def gamma(self) -> Tensor:
        """γ_j, the share of each class: Tensor of shape (k,), float64."""
        return torch.tensor(self.coding.gamma, dtype=torch.float64, device=self.E.device)

    @classmethod
    def from_blocks(cls, Sigma: Tensor, layout: Layout, coding: Coding, step: float) -> ShiftLayer:
        """The layer that raises the rate reduction of Sigma, (k, F, C, C)."""
        C, log_dets = [], []
        weights = layout.multiplicity.to(Sigma.device)
        for A, alpha in ((Sigma.sum(dim=0), coding.alpha), *zip(Sigma, coding.alphas, strict=True)):
            # α (I + αΣ)⁻¹ = (Σ + I/α)⁻¹, as in `redunet.core.rate`.
            A = A.clone()
            A.diagonal(dim1=-2, dim2=-1).add_(1 / alpha)
            factor = cholesky(A, "raise eps, lower step, or use dtype='float64'")
            C.append(torch.cholesky_inverse(factor))
            pivots = factor.diagonal(dim1=-2, dim2=-1).real.double().log().sum(dim=-1)
            log_dets.append(float((2 * pivots * weights).sum()) + layout.d * math.log(alpha))
        R_c = sum(g * x for g, x in zip(coding.gamma, log_dets[1:], strict=True))
        return cls(C[0], torch.stack(C[1:]), coding, step, Rate(0.5 * log_dets[0], 0.5 * R_c))

    def move_moments(self, Sigma: Tensor, layout: Layout) -> Tensor:
        """Second moments after the layer, (k, F, C, C), each of trace n_j n."""
        pull = self.step * self.gamma.to(Sigma.real.dtype)[:, None, None, None]
        L = self.step * self.E - pull * self.C
        L.diagonal(dim1=-2, dim2=-1).add_(1)
        T = L @ Sigma @ L.mH
        T = (T + T.mH) / 2
        counts = torch.tensor(self.coding.counts, dtype=torch.float64, device=T.device)
        return T * (counts / trace(T, layout))[:, None, None, None]

    def move_samples(self, U: Tensor, sharpness: Confidence) -> tuple[Tensor, Tensor]:
        """Samples, (F, rows, C), after the layer, of length 1, and memberships, (rows, k)."""
        k, F, C, _ = self.C.shape
        compressed = (U @ self._side_by_side).reshape(F, -1, k, C)
        lengths = norms(compressed)
        residuals = lengths / lengths.new_tensor(self.coding.alphas)
        memberships, _ = estimate(residuals, self.coding, sharpness)
        weights = memberships * self.gamma.to(memberships)
        # As real numbers, a product of small matrices, which is faster than of complex ones.
        parts = torch.view_as_real(compressed).flatten(3)
        pulled = torch.view_as_complex((weights[:, None].to(parts) @ parts).reshape(*U.shape, 2))
        moved = U + self.step * (U @ self.E.mT - pulled)
        lengths = norms(moved)[:, None]
        return moved / lengths.where(lengths > 0, 1), memberships

    @cached_property
    def _side_by_side(self) -> Tensor:
        """C_jᵀ of all classes, (F, C, k C): one product for each frequency serves all classes."""
        k, F, C, _ = self.C.shape
        return self.C.permute(1, 3, 0, 2).reshape(F, C, k * C)

    def to(self, dtype: torch.dtype, device: str) -> ShiftLayer:
        """The layer in another complex dtype, or elsewhere."""
        E, C = self.E.to(device, dtype), self.C.to(device, dtype)
        return ShiftLayer(E, C, self.coding, self.step, self.rate)


@dataclass(frozen=True, eq=False)
class ShiftNetwork:
    """A network whose layers commute with all circular shifts.

    Parameters
    ----------
    labels : tuple of k labels, sorted
    layout : Layout
    layers : tuple of ShiftLayer
    coding : Coding
        Of all shifts.
    last : Tensor of shape (k, F, C, C), complex128
        Second moments after the last layer.
    dtype : torch.dtype, default=torch.complex128
        Of the layers, and of what is made of the moments.
    """

    labels: tuple[Label, ...]
    layout: Layout
    layers: tuple[ShiftLayer, ...]
    coding: Coding
    last: Tensor
    dtype: torch.dtype = torch.complex128

    def rates(self) -> tuple[Rate, ...]:
        """The objective before each layer."""
        return tuple(layer.rate for layer in self.layers)

    def transform(self, Z: Tensor, sharpness: Confidence) -> Tensor:
        """Features of new samples, (rows, d) on the unit sphere, of the same shape and dtype."""
        parts = [Z[:0]]
        for U, _ in self.passes(Z, sharpness):
            parts.append(self.layout.from_spectrum(U).to(Z.dtype))
        return torch.cat(parts)

    def memberships(self, Z: Tensor, sharpness: Confidence) -> Tensor:
        """Estimated memberships of new samples at each layer: (layers, rows, k)."""
        parts = [torch.zeros(len(self.layers), 0, len(self.labels)).to(Z)]
        parts += [memberships for _, memberships in self.passes(Z, sharpness)]
        return torch.cat(parts, dim=1)

    def passes(self, Z: Tensor, sharpness: Confidence) -> Iterator[tuple[Tensor, Tensor]]:
        """Of some samples at a time: features, (F, rows, C), and memberships, (layers, rows, k)."""
        each = 16 * len(self.layout.frequencies) * self.layout.channels * (len(self.labels) + 3)
        Z = Z.to(torch.float64 if self.dtype == torch.complex128 else torch.float32)
        for part in torch.split(Z, max(1, _BATCH_BYTES // each)):
            U, found = self.layout.to_spectrum(part), []
            for layer in self.layers:
                U, memberships = layer.move_samples(U, sharpness)
                found.append(memberships)
            nothing = part.new_zeros(0, len(part), len(self.labels))
            yield U, torch.stack(found) if found else nothing


def build_shift_network(
    moments: ShiftMoments,
    eps: float,
    schedule: Schedule,
    *,
    dtype: torch.dtype = torch.float64,
    device: str = "cpu",
) -> ShiftNetwork:
    """The network of given moments of shifts; its layers are made in float64.

    Parameters
    ----------
    moments : ShiftMoments
    eps : float
        ε, the precision of the coding.
    schedule : Schedule
    dtype : torch.dtype, default=torch.float64
        Of the layers, once they are made.
    device : str, default="cpu"

    Returns
    -------
    ShiftNetwork

    Examples
    --------
    >>> import torch
    >>> from redunet.core.construction import Schedule
    >>> from redunet.shift_invariant.layout import Layout
    >>> X = torch.tensor([[1.0, 2.0, 0.0, 0.0], [1.0, 0.0, 2.0, 0.0]])
    >>> moments = ShiftMoments(Layout(1, (4,))).update(X, ["close", "apart"])
    >>> network = build_shift_network(moments, eps=0.5, schedule=Schedule(3, 0.5, 0.9))
    >>> [round(rate.delta_R, 3) for rate in network.rates()]
    [0.257, 0.418, 0.563]
    """
    if not len(moments):
        raise DataError("expected at least one class, got none: learn some samples first")
    layout = moments.layout
    coding = Coding(tuple(n * layout.n for n in moments.counts), layout.d, eps)
    Sigma = moments.blocks().to(device)
    layers: list[ShiftLayer] = []
    complex_dtype = torch.complex128 if dtype == torch.float64 else torch.complex64
    for index in range(schedule.n_layers):
        layer = ShiftLayer.from_blocks(Sigma, layout, coding, schedule.at(index, coding.alpha))
        gain = layer.rate.delta_R - layers[-1].rate.delta_R if layers else math.inf
        if schedule.tol is not None and gain < schedule.tol:
            break
        layers.append(layer.to(complex_dtype, device))
        Sigma = layer.move_moments(Sigma, layout)
    return ShiftNetwork(moments.labels, layout, tuple(layers), coding, Sigma, complex_dtype)


def norms(U: Tensor) -> Tensor:
    """Lengths over all frequencies and channels: Tensor of shape (...), real, from (F, ..., C)."""
    # As real numbers and one dimension after the other, which is thirty times faster.
    of_each = torch.linalg.vector_norm(torch.view_as_real(U).flatten(-2), dim=-1)
    lengths: Tensor = torch.linalg.vector_norm(of_each, dim=0)
    return lengths


def trace(Sigma: Tensor, layout: Layout) -> Tensor:
    """Traces of block-circulant matrices, (...,), from their blocks, (..., F, C, C)."""
    each = Sigma.diagonal(dim1=-2, dim2=-1).real.sum(dim=-1)
    return (each * layout.multiplicity.to(each)).sum(dim=-1)
