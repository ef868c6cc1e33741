"""Wavelet scattering as a PyTorch module without complex numbers: Fourier transforms as products.

What a transform gives is rounded to the whole numbers that it stands for, as in the map
itself, so both have the same bits unless a rounding error exceeds a half.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from redunet.features import Scattering
from redunet.features import scattering as maps


def waves(n: int, every: int = 1) -> tuple[Tensor, Tensor]:
    """Cosines and sines of 2π u v / n, at every so many u: two Tensors of shape (n / every, n)."""
    turns = torch.outer(torch.arange(0, n, every), torch.arange(n)) % n
    angles = turns.to(torch.float64) * (2 * math.pi / n)
    return angles.cos(), angles.sin()


class Spectrum(nn.Module):
    """The Fourier transform of real signals, (n, p, h, w): its real and its imaginary part."""

    def __init__(self, h: int, w: int) -> None:
        super().__init__()
        self.cos_h, self.sin_h = map(nn.Buffer, waves(h))
        self.cos_w, self.sin_w = map(nn.Buffer, waves(w))

    def forward(self, U: Tensor) -> tuple[Tensor, Tensor]:
        """Two Tensors of shape (n, p, h, w)."""
        even, odd = torch.matmul(U, self.cos_w), torch.matmul(U, self.sin_w)
        real = torch.matmul(self.cos_h, even) - torch.matmul(self.sin_h, odd)
        imaginary = torch.matmul(self.cos_h, odd) + torch.matmul(self.sin_h, even)
        return real, -imaginary


class Moduli(nn.Module):
    """|U ⋆ ψ| at every 2^j-th place, from the spectrum of p signals known at every 2^i-th.

    Parameters
    ----------
    features : Scattering
    p, i, j : int
    h, w : int
        Of the signals.
    """

    def __init__(self, features: Scattering, p: int, i: int, j: int, h: int, w: int) -> None:
        super().__init__()
        fold, self.L = 2 ** (j - i), features.L
        self.shape = (-1, p * features.L, h, w)
        bank = maps.wavelets((h, w), features.L, j, 2**i)[:, :, ::2] / (h * w)
        self.bank = nn.Buffer(bank.contiguous())
        self.cos_h, self.sin_h = map(nn.Buffer, waves(h, fold))
        # Products from the right take the waves as columns.
        self.cos_w, self.sin_w = (nn.Buffer(one.mT.contiguous()) for one in waves(w, fold))

    def forward(self, real: Tensor, imaginary: Tensor) -> Tensor:
        """Moduli, (n, p · L, h / 2^(j−i), w / 2^(j−i)), in whole numbers."""
        a, b = ((part.unsqueeze(2) * self.bank).reshape(*self.shape) for part in (real, imaginary))
        even = torch.matmul(a, self.cos_w) - torch.matmul(b, self.sin_w)
        odd = torch.matmul(a, self.sin_w) + torch.matmul(b, self.cos_w)
        x = torch.matmul(self.cos_h, even) - torch.matmul(self.sin_h, odd)
        y = torch.matmul(self.cos_h, odd) + torch.matmul(self.sin_h, even)
        x, y = ((part.round() / float(maps.WAVELET_GRID)).round() for part in (x, y))
        return (x * x + y * y).sqrt().round()


class Averages(nn.Module):
    """Signals known at every 2^j-th place, (n, p, h, w), averaged: (n, p · cells)."""

    def __init__(self, features: Scattering, j: int, p: int) -> None:
        super().__init__()
        rows, columns = (
            maps.windows(side, whole, features.J, 2**j, features.pool)
            for side, whole in zip(features.input_shape, features._padded, strict=False)
        )
        self.rows, self.columns = nn.Buffer(rows), nn.Buffer(columns.mT.contiguous())
        self.size = p * len(rows) * len(columns)

    def forward(self, U: Tensor) -> Tensor:
        """Averages, times the grids of windows."""
        return torch.matmul(self.rows, torch.matmul(U, self.columns)).reshape(-1, self.size)


class Scattered(nn.Module):
    """`Scattering`."""

    def __init__(self, features: Scattering) -> None:
        super().__init__()
        J, L, (height, width) = features.J, features.L, features._padded
        self.J, self.n_features, self.padded = J, features.n_features, (height, width)
        side_h, side_w, channels = (*features.input_shape, 1)[:3]
        self.size = side_h * side_w * channels
        numbers = torch.arange(self.size, dtype=torch.float64)
        planes = numbers.reshape(1, side_h, side_w, channels).permute(0, 3, 1, 2)
        self.where = nn.Buffer(features._continued(planes).to(torch.int64).flatten())
        sides = [(height // 2**j, width // 2**j) for j in range(J)]
        self.spectra = nn.ModuleList(Spectrum(*side) for side in sides)
        self.first = nn.ModuleList(Moduli(features, 1, 0, j, *sides[0]) for j in range(J))
        self.pairs = [(i, j) for i in range(J - 1) for j in range(i + 1, J)]
        self.second = nn.ModuleList(Moduli(features, L, i, j, *sides[i]) for i, j in self.pairs)
        self.average = Averages(features, 0, 1)
        self.averages = nn.ModuleList(Averages(features, j, L) for j in range(J))
        self.coarse = nn.ModuleList(Averages(features, j, L * L) for j in range(1, J))

    def forward(self, X: Tensor) -> Tensor:
        """Vectors, (n, d), of images, (n, *input_shape)."""
        rows = X.reshape(-1, self.size) * float(maps.SIGNAL_GRID)
        x = torch.index_select(rows, 1, self.where).reshape(-1, 1, *self.padded)
        spectrum = self.spectra[0](x)
        moduli = [wavelets(*spectrum) for wavelets in self.first]
        paths = [self.average(x)]
        paths += [average(U) for average, U in zip(self.averages, moduli, strict=True)]
        spectra = [self.spectra[i](moduli[i]) for i in range(self.J - 1)]
        for (i, j), wavelets in zip(self.pairs, self.second, strict=True):
            paths.append(self.coarse[j - 1](wavelets(*spectra[i])))
        features = torch.cat(paths, 1).reshape(-1, self.n_features)
        return features / float(maps.SIGNAL_GRID * maps.WINDOW_GRID**2)
