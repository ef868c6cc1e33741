"""The layout of feature vectors on a grid, channels over positions, and its frequencies."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from redunet.errors import DataError, SettingsError

MOST_POSITIONS = 2**14
"""In all: C x C matrices for each of them are needed."""

MOST_AXES = 3


@dataclass(frozen=True)
class Layout:
    """Feature vectors as channels over a grid, all positions of a channel one after another.

    Parameters
    ----------
    channels : int
        C.
    positions : tuple of int
        Lengths of the axes of the grid, in one dimension or more.
    """

    channels: int
    positions: tuple[int, ...]

    def __post_init__(self) -> None:
        if (
            not 1 <= len(self.positions) <= MOST_AXES
            or not all(type(size) is int and size >= 1 for size in self.positions)
            or self.n > MOST_POSITIONS
        ):
            raise SettingsError(
                f"expected positions as 1 to {MOST_AXES} lengths, such as (28, 28), of at most "
                f"{MOST_POSITIONS:,} positions in all, got {self.positions!r}"
            )

    @classmethod
    def of(cls, n_features: int, positions: tuple[int, ...]) -> Layout:
        """The layout of vectors of so many features; an error where they do not fill the grid."""
        layout = cls(1, positions)
        channels, left = divmod(n_features, layout.n)
        if left or not channels:
            raise DataError(
                f"expected channels over a grid of {' x '.join(map(str, positions))} positions, a "
                f"multiple of {layout.n} features, got {n_features}: set positions to the shape "
                f"of one channel"
            )
        return cls(channels, positions)

    @property
    def n(self) -> int:
        """Positions, and so shifts and frequencies."""
        return math.prod(self.positions)

    @property
    def d(self) -> int:
        """Features: C n."""
        return self.channels * self.n

    @cached_property
    def opposite(self) -> Tensor:
        """The place of −f, or of −t, for each frequency f or shift t: (n,), int64."""
        places = torch.arange(self.n).reshape(self.positions)
        axes = tuple(range(len(self.positions)))
        return places.flip(axes).roll((1,) * len(axes), axes).flatten()

    @cached_property
    def pairs(self) -> Tensor:
        """Channels c <= c': Tensor of shape (2, C (C + 1) / 2), int64."""
        return torch.triu_indices(self.channels, self.channels)

    @cached_property
    def frequencies(self) -> Tensor:
        """One of each pair of opposite frequencies: Tensor of shape (F,), int64, ascending."""
        return (torch.arange(self.n) <= self.opposite).nonzero()[:, 0]

    @cached_property
    def multiplicity(self) -> Tensor:
        """The number of frequencies, 1 or 2, that each of `frequencies` stands for: (F,)."""
        alone = self.opposite[self.frequencies] == self.frequencies
        return torch.where(alone, 1.0, 2.0).to(torch.float64)

    def to_spectrum(self, Z: Tensor) -> Tensor:
        """Samples, (rows, d), in the Fourier domain, (F, rows, C): lengths stay."""
        planes = Z.reshape(len(Z), self.channels, *self.positions)
        whole: Tensor = torch.fft.fftn(planes, dim=self._axes, norm="ortho").flatten(2)
        half = whole[..., self.frequencies.to(Z.device)].permute(2, 0, 1)
        return half * self._lengths(half)

    def from_spectrum(self, U: Tensor) -> Tensor:
        """The samples that `to_spectrum` gave, (rows, d), real."""
        rows, device = U.shape[1], U.device
        frequencies = self.frequencies.to(device)
        half = (U / self._lengths(U)).permute(1, 2, 0)
        whole = U.new_empty(rows, self.channels, self.n)
        whole[..., self.opposite.to(device)[frequencies]] = half.conj()
        whole[..., frequencies] = half
        shaped = whole.reshape(rows, self.channels, *self.positions)
        Z: Tensor = torch.fft.ifftn(shaped, dim=self._axes, norm="ortho").real
        return Z.reshape(rows, -1)

    def blocks(self, correlations: Tensor) -> Tensor:
        """The second moment of all shifts at each frequency, (F, C, C), from correlations.

        Σ X Xᴴ over samples, with X the transform of a sample at that frequency, not scaled.
        """
        shaped = correlations.to(torch.float64).reshape(-1, *self.positions)
        device = correlations.device
        # Σ_t A[c, c', t] e^(−iωt) = conj(X_c) X_c'.
        whole: Tensor = torch.fft.fftn(shaped, dim=self._axes).flatten(1)
        spectra = whole[:, self.frequencies.to(device)].mT
        first, second = self.pairs.to(device)
        out = spectra.new_empty(len(spectra), self.channels, self.channels)
        out[:, first, second] = spectra.conj()
        out[:, second, first] = spectra
        diagonal = out.diagonal(dim1=-2, dim2=-1)
        diagonal.copy_(diagonal.real)  # a spectrum of energies
        return out

    @property
    def _axes(self) -> tuple[int, ...]:
        """The last ones."""
        return tuple(range(-len(self.positions), 0))

    def _lengths(self, U: Tensor) -> Tensor:
        """The root of the multiplicity: Tensor of shape (F, 1, 1), real, as U is."""
        return self.multiplicity.sqrt().to(U.device, U.real.dtype)[:, None, None]
