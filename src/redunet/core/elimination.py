"""Elimination in a symmetric matrix modulo the primes of `residues`, by matrix products."""

from __future__ import annotations

import torch
from torch import Tensor

from redunet.core.residues import PRIMES, inverses, product, reduce_, scaled

BLOCK = 64
"""Rows that are eliminated one by one before products take them to the others."""


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
            below = product(product(N, L[..., places(taken)].mT), self.M)
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
    of = places(taken)
    N = T[..., -b:][:, of][..., of]
    return taken, N, T.new_tensor(v).reshape(len(taken), len(PRIMES)).mT


def places(of: list[int]) -> slice | list[int]:
    """Indices, as a slice where they follow each other: taking these copies nothing."""
    if of and of == list(range(of[0], of[-1] + 1)):
        return slice(of[0], of[-1] + 1)
    return of
