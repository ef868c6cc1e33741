"""Wavelet scattering: moduli of Morlet wavelet responses, averaged over windows.

Everything is computed in whole numbers. Pixels are whole, wavelets lie on a
grid, so a convolution has whole values, and what a Fourier transform gives is
rounded to them: its error, below 0.01, is gone. A modulus is rounded to the
grid of the signal, an average is a sum of whole numbers. So the features have
the same bits in every batch, with any number of threads, on every device.

It is written from the definition because the usual library, kymatio 0.3.0,
does not import with current versions of SciPy.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import torch
from torch import Tensor
from torch.nn.functional import pad

from redunet.errors import SettingsError
from redunet.features.base import FieldsMap, register
from redunet.features.checks import check_shape, whole_pixels

SIGNAL_GRID = 2**10
"""Steps in one unit of pixel brightness, of the image and of every modulus."""

WAVELET_GRID = 2**20
WINDOW_GRID = 2**16
"""Steps in one unit, so that the sums of an average stay below 2⁵³."""

_LARGEST_SIDE = 256
"""Beyond it, the rounding of a Fourier transform might not be undone with certainty."""

_MOST_ANGLES = 32

_BATCH_BYTES = {"cpu": 2**22, "cuda": 2**31}
"""Memory of the largest array of one pass: a processor's cache, a part of a GPU's memory."""


@register
@dataclass(frozen=True)
class Scattering(FieldsMap):
    """Scattering coefficients of orders 0, 1 and 2, of each colour channel by itself.

    With wavelets ψ_λ of J scales and L angles and a Gaussian window φ of
    width 0.8 · 2^(J−1): x ⋆ φ, then |x ⋆ ψ_λ| ⋆ φ, then ||x ⋆ ψ_λ| ⋆ ψ_μ| ⋆ φ for
    every μ of a coarser scale than λ. The image is continued by reflection, a
    modulus at scale j is kept at every 2^j-th place, and there is one window
    for every 2^J pixels of a side.

    The wavelets are Morlet's, exp(iξx) minus a constant that makes the sum
    zero, under a Gaussian of width σ along the wave and σL/4 across, with
    σ = 0.8 · 2^j and ξ = 3π/4 · 2^−j, at angles πl/L. Together with the window
    they cover the frequencies with a Littlewood–Paley sum of at most 1.03, so
    distances between images hardly ever grow.

    Parameters
    ----------
    input_shape : (int, int) or (int, int, int)
        Height, width and, where there are some, channels.
    J : int, default=2
        Number of scales; a side must have at least 2^(J+1) pixels.
    L : int, default=8
        Number of angles.
    pool : int, default=1
        Features of ``pool`` by ``pool`` neighbouring windows are averaged.

    Examples
    --------
    >>> Scattering((28, 28), J=3).n_features  # (1 + 3·8 + 3·8·8) · 4 · 4
    3472
    >>> Scattering((32, 32, 3), J=2, pool=2).n_features  # 3 · (1 + 2·8 + 8·8) · 4 · 4
    3888
    """

    kind: ClassVar[str] = "scattering"

    input_shape: tuple[int, ...]
    J: int = 2
    L: int = 8
    pool: int = 1

    def __post_init__(self) -> None:
        check_shape(self.input_shape, 2, 3)
        numbers = (self.J, self.L, self.pool)
        if any(type(n) is not int or n < 1 for n in numbers) or self.L > _MOST_ANGLES:
            raise SettingsError(
                f"expected J, L and pool of at least 1, and L of at most {_MOST_ANGLES}, got "
                f"{self.J}, {self.L} and {self.pool}"
            )
        short, long = min(self.input_shape[:2]), max(self.input_shape[:2])
        if short.bit_length() < self.J + 2 or long > _LARGEST_SIDE:
            raise SettingsError(
                f"expected sides from 2^(J+1) to {_LARGEST_SIDE} pixels, got {self.input_shape} "
                f"and J={self.J}: choose another J, or resize the images"
            )
        if any(n % self.pool for n in self._windows):
            raise SettingsError(
                f"expected pool to divide the number of windows, got pool={self.pool} and "
                f"{self._windows[0]} by {self._windows[1]} windows"
            )

    @property
    def n_paths(self) -> int:
        """1 + JL + L² J(J−1)/2, the coefficients of one channel at one window."""
        return 1 + self.J * self.L + self.L**2 * self.J * (self.J - 1) // 2

    @property
    def learnt_from_data(self) -> bool:
        """Nothing is learnt."""
        return False

    @property
    def n_features(self) -> int:
        """Channels · paths · cells."""
        rows, columns = self._windows
        return math.prod(self.input_shape[2:]) * self.n_paths * rows * columns // self.pool**2

    def __call__(self, X: Tensor) -> Tensor:
        """Feature vectors, (n, d), of images, (n, *input_shape): channel, path, row, column."""
        X = whole_pixels(X, 255)
        planes = X.reshape(*X.shape[:3], -1).permute(0, 3, 1, 2) * SIGNAL_GRID
        out = X.new_empty(len(X), self.n_features)
        height, width = self._padded
        per_image = planes.shape[1] * self.L**2 * height * width * 4
        per_pass = max(1, _BATCH_BYTES.get(X.device.type, 2**24) // per_image)
        for some, features in zip(
            torch.split(planes, per_pass), torch.split(out, per_pass), strict=True
        ):
            x = self._continued(some).flatten(0, 1)[:, None]
            features.copy_(torch.cat(list(self._paths(x)), dim=1).reshape(len(some), -1))
        return out.div_(SIGNAL_GRID * WINDOW_GRID**2)

    @cached_property
    def _wavelets(self) -> dict[tuple[int, int], Tensor]:
        """Wavelets of scale j for signals known at every 2^i-th place, by i and j."""
        height, width = self._padded
        first = [(0, j) for j in range(self.J)]
        second = [(i, j) for i in range(self.J) for j in range(i + 1, self.J)]
        return {
            (i, j): wavelets((height // 2**i, width // 2**i), self.L, j, 2**i)
            for i, j in {*first, *second}
        }

    @cached_property
    def _averaging(self) -> list[tuple[Tensor, Tensor]]:
        """Weights of rows and columns in each window, of signals known at every 2^j-th place."""
        return [
            (
                windows(self.input_shape[0], self._padded[0], self.J, 2**j, self.pool),
                windows(self.input_shape[1], self._padded[1], self.J, 2**j, self.pool),
            )
            for j in range(self.J)
        ]

    @cached_property
    def _windows(self) -> tuple[int, ...]:
        """Windows along each side of the image."""
        return tuple(math.ceil(side / 2**self.J) for side in self.input_shape[:2])

    @cached_property
    def _padded(self) -> tuple[int, ...]:
        """Sides of the image continued by at least 2^J pixels, multiples of 2^J."""
        return tuple(2**self.J * (math.ceil(side / 2**self.J) + 2) for side in self.input_shape[:2])

    def _continued(self, planes: Tensor) -> Tensor:
        """Planes, (n, channels, height, width), reflected at their borders."""
        (top, bottom), (left, right) = (
            ((whole - side) // 2, (whole - side + 1) // 2)
            for whole, side in zip(self._padded, self.input_shape, strict=False)
        )
        return pad(planes, (left, right, top, bottom), mode="reflect")

    def _paths(self, x: Tensor) -> Iterator[Tensor]:
        """Coefficients of planes, (n, 1, h, w), order by order: (n, paths, rows, columns) each."""
        yield self._averages(x, 0)
        spectrum = torch.fft.fft2(x)
        moduli = [self._moduli(spectrum, 0, j) for j in range(self.J)]
        for j, U in enumerate(moduli):
            yield self._averages(U, j)
        for j, U in enumerate(moduli[:-1]):
            spectrum = torch.fft.fft2(U)
            for coarser in range(j + 1, self.J):
                yield self._averages(self._moduli(spectrum, j, coarser), coarser)

    def _moduli(self, spectrum: Tensor, i: int, j: int) -> Tensor:
        """|U ⋆ ψ| in units of the signal's grid; parameters and shape as for `_responses`."""
        response = self._responses(spectrum, i, j)
        real, imaginary = (
            part.round().mul_(1 / WAVELET_GRID).round_() for part in (response.real, response.imag)
        )
        # The root of a whole number keeps far enough from halves to be rounded safely.
        return real.square_().add_(imaginary.square_()).sqrt_().round_()

    def _responses(self, spectrum: Tensor, i: int, j: int) -> Tensor:
        """U ⋆ ψ at every 2^j-th place, of the wavelets of scale j; whole but for rounding.

        From the Fourier transform, (n, p, h, w), of p signals U known at every 2^i-th place:
        (n, p · L, h / 2^(j−i), w / 2^(j−i)).
        """
        n, p, h, w = spectrum.shape
        fold = 2 ** (j - i)
        bank = self._wavelets[i, j].to(spectrum.device) / fold**2
        signals = torch.view_as_real(spectrum).reshape(n, p, 1, fold, h // fold, fold, -1)
        wavelets = bank.reshape(self.L, fold, h // fold, fold, -1)
        # To leave out places is to fold the spectrum.
        product = signals.new_zeros(n, p, self.L, h // fold, 2 * w // fold)
        for a, b in itertools.product(range(fold), repeat=2):
            product.addcmul_(signals[:, :, :, a, :, b], wavelets[:, a, :, b])
        folded = torch.view_as_complex(product.reshape(n, p * self.L, h // fold, w // fold, 2))
        response: Tensor = torch.fft.ifft2(folded)
        return response

    def _averages(self, U: Tensor, j: int) -> Tensor:
        """Signals known at every 2^j-th place, (n, p, h, w), averaged: (n, p, rows, columns)."""
        rows, columns = (weights.to(U.device) for weights in self._averaging[j])
        return rows @ (U @ columns.mT)


def wavelets(shape: tuple[int, int], L: int, j: int, stride: int) -> Tensor:
    """Fourier transforms, (L, h, 2w), of wavelets of scale j, known at every ``stride``-th place.

    Of wavelets in whole numbers. They are real, as ψ(−u) = conj ψ(u), and stand there twice,
    beside the real and the imaginary parts of a spectrum.
    """
    h, w = shape
    # As many places on either side of zero, so that rounding keeps the symmetry.
    y, x = (torch.arange(1 - side // 2, side // 2, dtype=torch.float64) * stride for side in (h, w))
    sigma, xi = 0.8 * 2**j, 0.75 * math.pi / 2**j
    out = torch.zeros(L, h, w, dtype=torch.complex128)
    for index in range(L):
        cos, sin = math.cos(math.pi * index / L), math.sin(math.pi * index / L)
        along, across = x * cos + y[:, None] * sin, y[:, None] * cos - x * sin
        envelope = torch.exp(-(along**2 + (4 / L * across) ** 2) / (2 * sigma**2))
        wave = torch.polar(envelope, xi * along)
        mean = math.fsum(wave.real.flatten().tolist()) / math.fsum(envelope.flatten().tolist())
        wave -= mean * envelope
        wave *= 4 / L / (2 * math.pi * sigma**2) * stride**2 * WAVELET_GRID
        out[index, : h - 1, : w - 1] = torch.complex(wave.real.round(), wave.imag.round())
    centred = out.roll((1 - h // 2, 1 - w // 2), dims=(1, 2))
    spectra: Tensor = torch.fft.fft2(centred).real
    return spectra.repeat_interleave(2, dim=2)


def windows(side: int, whole: int, J: int, stride: int, pool: int) -> Tensor:
    """Weights of places along a side in each cell: Tensor of shape (cells, places), whole."""
    n = math.ceil(side / 2**J)
    centres = (torch.arange(n, dtype=torch.float64) + 0.5) * side / n - 0.5
    places = torch.arange(0, whole, stride, dtype=torch.float64) - (whole - side) // 2
    windows = torch.exp(-((places - centres[:, None]) ** 2) / (2 * (0.8 * 2 ** (J - 1)) ** 2))
    windows /= windows.sum(dim=1, keepdim=True)
    return (windows.reshape(-1, pool, len(places)).mean(dim=1) * WINDOW_GRID).round()
