"""Correlations of channels over all circular shifts, as exact integers.

A[c, c', t] = Σ_p x_c(p) x_c'(p + t), summed over samples, is a product in the Fourier domain. To be
exact, the transform is not over the complex numbers but modulo primes q that are 1 modulo the
lengths of all axes, so that the field of q elements has roots of unity of these orders. All of it
are matrix products of small whole numbers in float64, none above 2⁵³, so they are exact on any
device and in any order; three primes tell the integers, as `redunet.core.residues` says.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import cast

import torch
from torch import Tensor

from redunet.core.residues import Primes, balanced, integers, product, reduce_
from redunet.core.shifts.layout import Layout
from redunet.errors import DataError

_TERMS = 2**9
"""Samples whose products are added before remainders are taken: at most 2⁵¹."""

_CACHED = 2**22
"""Numbers of all transformed samples at a time, about."""


class Correlator:
    """Sums correlations of samples, batch after batch, in memory that does not grow.

    Parameters
    ----------
    layout : Layout
    device : str, default="cpu"
        Where products are computed; results are the same to the last bit on every device.
    """

    def __init__(self, layout: Layout, device: str = "cpu") -> None:
        self._layout, self._device = layout, device
        self._primes = primes_for(layout.positions)
        self._forward = [_powers(n, self._primes, 1).to(device) for n in layout.positions]
        # Of each pair of opposite frequencies, one has the products of the other, transposed.
        self._half = layout.frequencies.to(device)
        self._other = layout.opposite[layout.frequencies].to(device)
        C = layout.channels
        shape = (len(self._primes), len(self._half), C, C)
        self._products = torch.zeros(shape, dtype=torch.float64, device=device)

    @property
    def rows_at_once(self) -> int:
        """Samples to add at a time."""
        return max(1, min(_TERMS, _CACHED // (3 * self._layout.d)))

    def add(self, X: Tensor) -> None:
        """Add the correlations of samples.

        Parameters
        ----------
        X : Tensor of shape (rows, d), float64
            Whole numbers of at most 2²⁰ in size; at most `rows_at_once` of them.
        """
        rows, C = len(X), self._layout.channels
        planes = X.to(self._device).reshape(rows * C, *self._layout.positions)
        spectrum = self._transformed(planes.expand(3, *planes.shape), self._forward)
        spectrum = spectrum.reshape(3, rows, C, -1).permute(0, 3, 2, 1)
        left, right = spectrum[:, self._other], spectrum[:, self._half]
        self._products += left @ right.mT
        reduce_(self._products, self._primes)

    def finish(self) -> Tensor:
        """The correlations of all samples added.

        Returns
        -------
        Tensor of shape (C (C + 1) / 2, n), int64, on the CPU
            Of channels c <= c', row after row; `Layout.pairs` has their order.
        """
        layout, n = self._layout, self._layout.n
        first, second = layout.pairs.to(self._device)
        whole = self._products.new_empty(3, len(first), n)
        whole[..., self._half] = self._products[:, :, first, second].mT
        whole[..., self._other] = self._products[:, :, second, first].mT
        backward = [_powers(size, self._primes, -1).to(self._device) for size in layout.positions]
        shaped = whole.reshape(3, len(first), *layout.positions)
        scale = [balanced(pow(n, -1, q), q) for q in self._primes]
        found = self._transformed(shaped, backward).reshape(whole.shape)
        found = reduce_(found * found.new_tensor(scale)[:, None, None], self._primes)
        return integers(found, self._primes).cpu()

    def _transformed(self, planes: Tensor, powers: list[Tensor]) -> Tensor:
        """Each plane, (3, m, *positions), transformed along all of its axes."""
        m = planes.shape[1]
        for W in reversed(powers):  # the last axis is transformed and becomes the first
            turned = product(planes.reshape(3, -1, len(W[0])), W, self._primes)
            planes = turned.reshape(planes.shape).movedim(-1, 2)
        return planes.reshape(3, m, *self._layout.positions)


@lru_cache
def primes_for(positions: tuple[int, ...]) -> Primes:
    """The three largest primes below 2²² that are 1 modulo every length.

    Parameters
    ----------
    positions : tuple of int
        Lengths of the axes.
    """
    order = math.lcm(*positions)
    found: list[int] = []
    for q in range((2**22 - 2) // order * order + 1, order, -order):
        if all(q % p for p in range(2, math.isqrt(q) + 1)):
            found.append(q)
        if len(found) == 3:
            break
    if math.prod(found) < 2**64:  # so they do not tell all integers of 64 bits
        raise DataError(
            f"expected axes whose lengths have a small common multiple, got {positions}: "
            f"use fewer positions, or axes of equal length"
        )
    return cast(Primes, tuple(found))


@lru_cache
def _powers(n: int, primes: Primes, sign: int) -> Tensor:
    """w^(sign i j) with w a root of unity of order n, for each prime: (3, n, n), float64."""
    exponents = torch.arange(n)[:, None] * torch.arange(n) * sign % n
    tables = []
    for q in primes:
        w = pow(_generator(q), (q - 1) // n, q)
        table = torch.tensor([balanced(pow(w, i, q), q) for i in range(n)], dtype=torch.float64)
        tables.append(table[exponents])
    return torch.stack(tables)


@lru_cache
def _generator(q: int) -> int:
    """A number whose powers are all numbers but 0 modulo a prime."""
    factors, left, p = set(), q - 1, 2
    while p * p <= left:
        if left % p:
            p += 1
        else:
            factors.add(p)
            left //= p
    factors.add(left)
    return next(g for g in range(2, q) if all(pow(g, (q - 1) // p, q) != 1 for p in factors))
