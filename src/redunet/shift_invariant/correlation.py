"""Correlations of channels over all circular shifts, as exact integers.

A[c, c', t] = Σ_p x_c(p) x_c'(p + t), summed over samples, is a product in the Fourier domain. To be
exact, the transform is not over the complex numbers but modulo primes q that are 1 modulo the
lengths of all axes, so that the field of q elements has roots of unity of these orders. All of it
are matrix products of small whole numbers in float64, none above 2⁵³, so they are exact on any
device and in any order; three primes tell the integers, as `redunet.core.residues` says.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import cast

import torch
from torch import Tensor

from redunet.core.residues import Primes, balanced, integers, reduce_one_
from redunet.errors import DataError
from redunet.shift_invariant.layout import Layout

_TERMS = 2**10
"""Products added before remainders are taken: a sum of at most 2⁵², exact in float64."""

_CACHED = 2**19
"""Numbers of samples transformed at a time, about."""


class Correlator:
    """Sums correlations of samples, batch after batch, in memory that does not grow."""

    def __init__(self, layout: Layout, device: str = "cpu") -> None:
        self._layout, self._device = layout, device
        self._primes = primes_for(layout.positions)
        self._forward = [_powers(layout.positions, q, 1, device) for q in self._primes]
        # Of each pair of opposite frequencies, one has the products of the other, transposed.
        self._half = layout.frequencies.to(device)
        self._other = layout.opposite[layout.frequencies].to(device)
        C = layout.channels
        shape = (len(self._primes), len(self._half), C, C)
        self._products = torch.zeros(shape, dtype=torch.float64, device=device)

    @property
    def rows_at_once(self) -> int:
        """Samples to add at a time."""
        return max(1, min(_TERMS, _CACHED // self._layout.d))

    def add(self, X: Tensor) -> None:
        """Add samples, (rows, d), whole numbers of at most 2²⁰; at most `rows_at_once` of them."""
        X = X.to(self._device).reshape(-1, self._layout.n)
        for products, powers, q in zip(self._products, self._forward, self._primes, strict=True):
            spectrum = transformed(X, powers, q).reshape(-1, self._layout.channels, self._layout.n)
            spectrum = spectrum.permute(2, 1, 0)
            products += spectrum[self._other] @ spectrum[self._half].mT
            reduce_one_(products, q)

    def finish(self) -> Tensor:
        """Correlations of all samples, (C (C + 1) / 2, n), int64; `Layout.pairs` has the order."""
        layout, n = self._layout, self._layout.n
        first, second = layout.pairs.to(self._device)
        whole = self._products.new_empty(3, len(first), n)
        whole[..., self._half] = self._products[:, :, first, second].mT
        whole[..., self._other] = self._products[:, :, second, first].mT
        for planes, q in zip(whole, self._primes, strict=True):
            back = transformed(planes, _powers(layout.positions, q, -1, self._device), q)
            planes.copy_(reduce_one_(back.mul_(balanced(pow(n, -1, q), q)), q))
        return integers(whole, self._primes).cpu()


def transformed(planes: Tensor, powers: Sequence[Tensor], q: int) -> Tensor:
    """Planes, (m, n), of at most 2²¹ in size, transformed along all axes modulo a prime."""
    out, after = planes, 1  # positions along later axes
    for W in reversed(powers):
        size = len(W)
        if after == 1:
            out = _product(out.reshape(-1, size), W, q)
        else:
            out = _product(W, out.reshape(-1, size, after), q)
        after *= size
    return out.reshape(planes.shape)


def _product(A: Tensor, B: Tensor, q: int) -> Tensor:
    """A B modulo a prime, of stacks of matrices."""
    out = reduce_one_(A[..., :_TERMS] @ B[..., :_TERMS, :], q)
    for start in range(_TERMS, A.shape[-1], _TERMS):
        part = slice(start, start + _TERMS)
        out = reduce_one_(out.add_(A[..., part] @ B[..., part, :]), q)
    return out


@lru_cache
def primes_for(positions: tuple[int, ...]) -> Primes:
    """The three largest primes below 2²² that are 1 modulo every length."""
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


@lru_cache(maxsize=12)  # of two grids: three primes, and a transform there and back
def _powers(positions: tuple[int, ...], q: int, sign: int, device: str) -> tuple[Tensor, ...]:
    """w^(sign i j) with w a root of unity of order n modulo q, (n, n), for each axis."""
    tables = []
    for n in positions:
        w = pow(_generator(q), sign * (q - 1) // n, q)
        powers = torch.tensor([balanced(pow(w, i, q), q) for i in range(n)], dtype=torch.float64)
        tables.append(powers[torch.arange(n)[:, None] * torch.arange(n) % n].to(device))
    return tuple(tables)


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
