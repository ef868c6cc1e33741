"""Exact arithmetic and elimination with 64-bit integers, as matrix products of their residues.

An integer below 2⁶³ in size is known by its remainders modulo three primes just below 2²², whose
product is above 2⁶⁵. Remainders are held in float64 as whole numbers of at most 2²¹ in size, so
that the products of two of them are at most 2⁴² and a float64 sum of 2¹⁰ such products is exact,
in any order and on any device: what is computed modulo the primes are ordinary matrix products.

Where roots of unity are needed, other primes below 2²² take the place of these three: see
`redunet.shift_invariant.correlation`.

A remainder has one form except next to half a prime, where it may be on either side; zero is
always 0.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TypeAlias

import torch
from torch import Tensor

Primes: TypeAlias = tuple[int, int, int]

PRIMES: Primes = (4194301, 4194287, 4194277)
"""The three largest primes below 2²²."""

_TERMS = 2**10
"""Products added before a remainder is taken: a sum of at most 2⁵², exact in float64."""

BLOCK = 64
"""Rows that are eliminated one by one before products take them to the others."""

_WHOLE = 1.5 * 2.0**52
"""Added and subtracted again, it rounds what is below 2⁵¹ in size to whole numbers; PyTorch's own
rounding starts threads for a few numbers, and waits for them."""


def balanced(value: int, prime: int) -> float:
    """The remainder of a whole number that is nearest to zero."""
    remainder = value % prime
    return float(remainder if remainder <= prime // 2 else remainder - prime)


def reduce_(x: Tensor) -> Tensor:
    """Take the remainders of whole numbers in place, and return them.

    x / q is at most 2³¹ and computed within 2⁻²¹, so it is rounded to a whole number k no further
    away than ½ + 2⁻²¹. k q and x − k q are whole numbers within 2⁵³, hence exact, and the latter
    is at most q / 2 + 2 in size: 2²¹, as it is whole.

    Parameters
    ----------
    x : Tensor of shape (3, ...), float64
        Of at most 2⁵³ − 2²² in size; the first index is that of the prime.
    """
    q, reciprocals = _over_primes(x.ndim, x.device)
    return x.sub_((x * reciprocals).add_(_WHOLE).sub_(_WHOLE).mul_(q))


def product(A: Tensor, B: Tensor) -> Tensor:
    """A B modulo the primes.

    Parameters
    ----------
    A : Tensor of shape (3, m, n), float64, reduced
    B : Tensor of shape (3, n, p), float64, reduced

    Returns
    -------
    Tensor of shape (3, m, p), float64, reduced
    """
    out = reduce_(A[..., :_TERMS] @ B[:, :_TERMS])
    for start in range(_TERMS, A.shape[-1], _TERMS):
        part = slice(start, start + _TERMS)
        out = reduce_(out.baddbmm_(A[..., part], B[:, part]))
    return out


def scaled(A: Tensor, factors: Tensor) -> Tensor:
    """The rows of A, (3, m, n), times factors, (3, m), modulo the primes."""
    return reduce_(A * factors[..., None])


def inverses(values: list[float]) -> list[float]:
    """1 / x modulo the primes, of one remainder other than 0 for each."""
    return [balanced(pow(int(x), -1, q), q) for x, q in zip(values, PRIMES, strict=True)]


def residues(whole: Tensor) -> Tensor:
    """The remainders of integers.

    Parameters
    ----------
    whole : Tensor of shape (...), int64

    Returns
    -------
    Tensor of shape (3, ...), float64, reduced
    """
    # In two halves of 32 bits; the upper one times 2³² modulo a prime is at most 2⁵².
    upper, lower = (whole >> 32).to(torch.float64), (whole & 0xFFFFFFFF).to(torch.float64)
    shift = lower.new_tensor([balanced(2**32, q) for q in PRIMES]).view(-1, *[1] * lower.ndim)
    return reduce_(upper * shift + lower)


def integers(R: Tensor, primes: Primes = PRIMES) -> Tensor:
    """The integers of given remainders, by the Chinese remainder theorem.

    They are x = a + q₁ (b + q₂ c), with a, b and c nearest to zero, so hardly more than half the
    product of the primes in size. An integer of 64 bits with these remainders is less than a
    seventh of that product and differs from x by a multiple of it: it is x. Where there is none,
    the result is x modulo 2⁶⁴.

    Parameters
    ----------
    R : Tensor of shape (3, ...), float64, reduced
    primes : tuple of three int, default=PRIMES
        Just below 2²².

    Returns
    -------
    Tensor of shape (...), int64
    """
    (first, second, third), a = primes, R[0]
    b = reduce_one_((R[1] - a) * balanced(pow(first, -1, second), second), second)
    c = reduce_one_((R[2] - a) * balanced(pow(first, -1, third), third) - b, third)
    c = reduce_one_(c.mul_(balanced(pow(second, -1, third), third)), third)
    high = c.mul_(second).add_(b)  # at most 2⁴³
    return high.to(torch.int64).mul_(first).add_(a.to(torch.int64))


def fits(R: Tensor) -> bool:
    """Whether integers of 64 bits have the remainders R, (3, n)."""
    return bool((reduce_(residues(integers(R)) - R) == 0).all())


def reduce_one_(x: Tensor, prime: int) -> Tensor:
    """Take the remainders by one prime in place; x may have any shape."""
    # The product with the prime is exact, so it makes no difference whether it is fused.
    return x.sub_((x * (1 / prime)).add_(_WHOLE).sub_(_WHOLE), alpha=prime)


@lru_cache
def _over_primes(ndim: int, device: torch.device) -> tuple[Tensor, Tensor]:
    """The primes and their reciprocals, to combine with a tensor of shape (3, ...)."""
    q = torch.tensor(PRIMES, dtype=torch.float64, device=device).view(-1, *[1] * (ndim - 1))
    return q, 1 / q


class Elimination:
    """M with M B Mᵀ = V⁻¹ modulo the primes, M unit lower triangular and V diagonal.

    B, a regular block of a symmetric matrix, grows by some rows at a time.

    Parameters
    ----------
    size : int
        The most rows that B is going to have.
    """

    def __init__(self, size: int) -> None:
        self.rank = 0
        self._M = torch.zeros(len(PRIMES), size, size, dtype=torch.float64)
        self._v = self._M.new_zeros(len(PRIMES), size)

    @property
    def M(self) -> Tensor:
        """Tensor of shape (3, r, r)."""
        return self._M[:, : self.rank, : self.rank]

    @property
    def v(self) -> Tensor:
        """The diagonal of V: Tensor of shape (3, r)."""
        return self._v[:, : self.rank]

    def extend(self, block: Tensor, beside: Tensor, most: int) -> list[int]:
        """Take rows, from the first on, whose Schur complement is other than 0 modulo each prime.

        Parameters
        ----------
        block : Tensor of shape (3, b, b)
            The rows that may be taken, symmetric, no more than `BLOCK`.
        beside : Tensor of shape (3, r, b)
            Their entries in the columns of those that were taken before.
        most : int
            How many to take at most.

        Returns
        -------
        list of int
            Which of the b rows were taken.
        """
        r, complement = self.rank, block
        if r:
            Y = product(self.M, beside)
            L = scaled(Y, self.v)
            complement = reduce_(block - product(L.mT, Y))
        taken, N, v = _taken(complement, most)
        new = slice(r, r + len(taken))
        if r and taken:
            below = product(product(N, L[..., indices(taken)].mT), self.M)
            self._M[:, new, :r] = below.neg_()
        self._M[:, new, new] = N
        self._v[:, new] = v
        self.rank += len(taken)
        return taken


def _taken(T: Tensor, most: int) -> tuple[list[int], Tensor, Tensor]:
    """Which rows of a Schur complement are taken.

    Parameters
    ----------
    T : Tensor of shape (3, b, b)
    most : int

    Returns
    -------
    taken : list of n int
    N : Tensor of shape (3, n, n)
        M of the rows taken.
    v : Tensor of shape (3, n)
    """
    b, taken = T.shape[-1], list[int]()
    v: list[list[float]] = []
    if bool(T.any()):
        identity = torch.eye(b, dtype=T.dtype).expand_as(T)
        T = torch.cat([T, identity], dim=2)
        for j in range(b):
            row = reduce_(T[:, j])  # only here: till now it is a sum of at most b products
            pivot = row[:, j].tolist()
            if not all(pivot):
                continue
            taken.append(j)
            v.append(inverses(pivot))
            if len(taken) == most:
                break
            factors = reduce_(row[:, j + 1 : b] * row.new_tensor(v[-1])[:, None])
            T[:, j + 1 :].addcmul_(factors[..., None], row[:, None], value=-1)
    of = indices(taken)
    N = T[..., -b:][:, of][..., of]
    return taken, N, T.new_tensor(v).reshape(len(taken), len(PRIMES)).mT


def indices(of: list[int]) -> slice | list[int]:
    """Indices, as a slice where they follow each other: taking these copies nothing."""
    if of and of == list(range(of[0], of[-1] + 1)):
        return slice(of[0], of[-1] + 1)
    return of
