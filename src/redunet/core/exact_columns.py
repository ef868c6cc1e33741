"""Integer second moments of low rank, stored by few of their columns, exactly.

A symmetric S of rank r is determined by r independent columns of it: with p their indices,
C = S[:, p] and B = S[p, p],

    S = C B⁻¹ Cᵀ

over the rationals, and so modulo every prime that does not divide det B. Modulo the three primes
of `residues` this is evaluated by matrix products, and the remainders give S back: r d numbers
instead of d (d + 1) / 2.

**Which columns.** From the first column to the last, column c joins p when the Schur complement at
(c, c), S_cc − S_cp B⁻¹ S_pc with the columns that joined before, is other than 0 modulo each of the
primes. So B is regular modulo each. *S is stored by columns where 2 |p| < d and S ≡ C B⁻¹ Cᵀ modulo
each prime*; otherwise it is stored whole. Both are functions of S alone, however S came about:
equal matrices are stored in equal form. And the columns give S back, as that is the condition.

**How the condition is checked.** Where the rank of S modulo each prime is known to be at most u,
and u columns have joined, B has all of that rank: the condition holds, and no later column can
join, as all Schur complements are 0. So it is with u samples, S = XᵀX, that are independent, and
with the sum of two matrices that have u columns together. Where a block of half the size
is proven to be positive definite, by a factorisation in float64 that allows for rounding, the
rank is at least d / 2 and S is stored whole. (Only a matrix made on purpose could have that rank
and a lower one modulo all three primes.) Otherwise the condition is evaluated for all of S.

**Which rank.** Where S is a moment of samples, positive semi-definite, a Schur complement of 0 on
the diagonal is one of 0 in its row. So p are the first independent columns over the rationals, and
|p| is the rank, unless one of the primes divides the numerator of a Schur complement that is not
0, which happens about once in a million columns. Then a later column joins in place of that one;
if none can, S is stored whole.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from redunet.core.allocation import Allocate, copied
from redunet.core.linalg import is_surely_definite
from redunet.core.residues import (
    BLOCK,
    Elimination,
    fits,
    indices,
    integers,
    product,
    reduce_,
    residues,
    scaled,
)
from redunet.errors import DataError

_CACHED, _LEAST_ROWS = 2**16, 256
"""Values expanded at a time, few enough to stay in the processor's cache, but no fewer rows, as
products of few rows are slow."""


def most_columns(d: int) -> int:
    """The largest number of columns that stand for a (d, d) matrix: fewer than half of them."""
    return (d - 1) // 2


@dataclass(frozen=True, eq=False)
class Columns:
    """A symmetric integer matrix S, given by r of its columns.

    Parameters
    ----------
    pivots : Tensor of shape (r,), int64
        p, ascending.
    columns : Tensor of shape (d, r), int64
        S[:, p].
    diagonal : Tensor of shape (d,), int64
        Of S; it follows from the columns.
    """

    pivots: Tensor
    columns: Tensor
    diagonal: Tensor

    @property
    def rank(self) -> int:
        """The number of columns, r."""
        return len(self.pivots)

    def expansion(self) -> Expansion:
        """Prepare the whole matrix, to be computed some rows at a time."""
        r, own = self.rank, indices(self.pivots.tolist())
        block = residues(self.columns[own].cpu())
        elimination = Elimination(r)
        for start in range(0, r, BLOCK):
            part = slice(start, min(start + BLOCK, r))
            elimination.extend(block[:, part, part], block[:, :start, part], r)
            if elimination.rank < part.stop:
                raise DataError("expected columns that are independent")
        return Expansion.of(elimination, self.columns)

    def to(self, device: str) -> Columns:
        """Copy all three to a device, unless they are there."""
        parts = (self.pivots, self.columns, self.diagonal)
        return Columns(*(part.to(device) for part in parts))

    def to_storage(self, allocate: Allocate) -> Columns:
        """Copy the columns into memory from ``allocate``."""
        return Columns(self.pivots, copied(self.columns, allocate), self.diagonal)

    @classmethod
    def checked(cls, pivots: Tensor, columns: Tensor, beside: Tensor) -> tuple[Columns, Expansion]:
        """Check columns from a file: an error unless they are the ones that `compress` finds.

        Parameters
        ----------
        pivots : Tensor of shape (r,), int64
        columns : Tensor of shape (d, r), int64
            With ``columns[pivots]`` symmetric.
        beside : Tensor of shape (r,), int64
            One row more, for the second result.

        Returns
        -------
        columns : Columns
        expansion : Expansion
            Of S with a row and a column more: of C B⁻¹ Cᵀ, with C the columns and that row.
        """
        d, r = columns.shape
        given = pivots.tolist()
        if r > most_columns(d) or given != sorted({*given} & {*range(d)}):
            raise DataError("expected fewer than half of the columns, by their indices in order")
        more = torch.cat([columns, beside[None]])
        expansion = cls(pivots, more, columns[:, :0]).expansion()
        # The terms of the diagonal: those before c joined have been subtracted from S_cc.
        terms = reduce_(expansion.W[..., :d] * expansion.VW[..., :d])
        left = reduce_((terms * (pivots[:, None] >= torch.arange(d))).sum(dim=1))
        joins = (left != 0).all(dim=0).nonzero()[:, 0]
        diagonal = reduce_(terms.sum(dim=1))
        if not torch.equal(joins, pivots) or not fits(diagonal):
            raise DataError("expected the first independent columns of a second moment")
        return cls(pivots, columns, integers(diagonal)), expansion


@dataclass(frozen=True, eq=False)
class Expansion:
    """A symmetric integer matrix S = Wᵀ V W modulo the primes, with V diagonal.

    Parameters
    ----------
    W, VW : Tensor of shape (3, r, d), float64
        Remainders.
    """

    W: Tensor
    VW: Tensor

    @classmethod
    def of(cls, elimination: Elimination, columns: Tensor) -> Expansion:
        """C B⁻¹ Cᵀ, by the elimination of B and the columns C, (d, r), int64."""
        M, v = elimination.M.to(columns.device), elimination.v.to(columns.device)
        W = M.new_empty(len(M), elimination.rank, len(columns))
        VW = torch.empty_like(W)
        for part in _blocks(len(columns)):
            W[..., part] = product(M, residues(columns[part]).mT)
            VW[..., part] = scaled(W[..., part], v)
        return cls(W, VW)

    def __add__(self, other: Expansion) -> Expansion:
        both = ((self.W, other.W), (self.VW, other.VW))
        return Expansion(*(torch.cat(parts, dim=1) for parts in both))

    def __sub__(self, other: Expansion) -> Expansion:
        return self + Expansion(other.W, -other.VW)

    @property
    def rank_at_most(self) -> int:
        """The number of terms, a bound on the rank modulo each prime."""
        return self.W.shape[1]

    def residues(self, rows: slice | list[int], columns: slice) -> Tensor:
        """Remainders of some rows in some columns: Tensor of shape (3, n, m)."""
        return product(self.VW[..., rows].mT, self.W[..., columns])

    def rows(self, rows: slice | list[int]) -> Tensor:
        """Some rows of S: Tensor of shape (n, d), int64."""
        return integers(self.residues(rows, slice(None)))

    def dense(self) -> Tensor:
        """S: Tensor of shape (d, d), int64."""
        d = self.W.shape[-1]
        out = torch.empty(d, d, dtype=torch.int64, device=self.W.device)
        for rows in _blocks(d):
            out[rows, rows.start :] = integers(self.residues(rows, slice(rows.start, d)))
            out[rows.stop :, rows] = out[rows, rows.stop :].mT
        return out


@dataclass(frozen=True, eq=False)
class Gram:
    """S = XᵀX of few rows X, as `compress` asks for it: entry by entry, never as a whole.

    Parameters
    ----------
    X : Tensor of shape (n, d), float64
        On the grid; no more rows than have an exact product.
    """

    X: Tensor

    def residues(self, rows: slice | list[int], columns: slice) -> Tensor:
        """Remainders of some rows in some columns: Tensor of shape (3, n, m)."""
        return residues(self._product(rows, columns))

    def rows(self, rows: slice | list[int]) -> Tensor:
        """Some rows of S: Tensor of shape (n, d), int64."""
        return self._product(rows, slice(None))

    def _product(self, rows: slice | list[int], columns: slice) -> Tensor:
        return (self.X[:, rows].mT @ self.X[:, columns]).to(torch.int64)


def compress(
    S: Tensor | Expansion | Gram, diagonal: Tensor, rank_at_most: int | None = None
) -> Columns | None:
    """Find the columns that a symmetric integer matrix is stored by; None if it is stored whole.

    Parameters
    ----------
    S : Tensor of shape (d, d), int64, or Expansion, or Gram
        On the CPU, as most of the work is in small steps.
    diagonal : Tensor of shape (d,), int64
        Of S.
    rank_at_most : int, default=d
        A bound on the rank of S modulo each prime, such as one on its rank.
    """
    d, most = len(diagonal), most_columns(len(diagonal))
    enough = d if rank_at_most is None else rank_at_most
    if enough > most and isinstance(S, Tensor) and _has_high_rank(S, diagonal, most + 1):
        return None
    elimination = Elimination(min(most + BLOCK, enough))
    pivots: list[int] = []
    for start in range(0, d, BLOCK):
        part = slice(start, start + BLOCK)
        taken = elimination.extend(
            _residues(S, part, part), _residues(S, indices(pivots), part), enough - len(pivots)
        )
        pivots += [start + j for j in taken]
        if len(pivots) > most:
            return None
        if len(pivots) == enough:
            break
    rows = S[indices(pivots)] if isinstance(S, Tensor) else S.rows(indices(pivots))
    found = Columns(diagonal.new_tensor(pivots), rows.mT.contiguous(), diagonal)
    known = len(pivots) == enough or _agree(S, found, elimination)
    return found if known else None


def _has_high_rank(S: Tensor, diagonal: Tensor, size: int) -> bool:
    """Whether a block of S of this size is proven to be regular, in much less time."""
    largest = diagonal.topk(size).indices.sort().values
    return is_surely_definite(S[largest][:, largest].to(torch.float64))


def _residues(S: Tensor | Expansion | Gram, rows: slice | list[int], columns: slice) -> Tensor:
    return residues(S[rows, columns]) if isinstance(S, Tensor) else S.residues(rows, columns)


def _agree(S: Tensor | Expansion | Gram, found: Columns, elimination: Elimination) -> bool:
    """Whether S ≡ C B⁻¹ Cᵀ modulo each prime."""
    d, expansion = len(found.diagonal), Expansion.of(elimination, found.columns)
    if isinstance(S, Expansion):
        # Enough, and less work: if W = W[:, p] Z with Z = B⁻¹ Cᵀ, then S = Zᵀ B Z = C B⁻¹ Cᵀ.
        Z = product(elimination.M.mT, expansion.VW)
        if not bool(reduce_(S.W - product(S.W[..., indices(found.pivots.tolist())], Z)).any()):
            return True
        return not any(bool(part.any()) for part in _upper(S - expansion, d))
    pairs = zip(_upper(S, d), _upper(expansion, d), strict=True)
    return not any(bool(reduce_(part - other).any()) for part, other in pairs)


def _upper(S: Tensor | Expansion | Gram, d: int) -> Iterator[Tensor]:
    """The remainders of S from the diagonal on, some rows at a time."""
    return (_residues(S, rows, slice(rows.start, d)) for rows in _blocks(d))


def _blocks(d: int) -> Iterator[slice]:
    """The rows of a (d, d) matrix, some at a time."""
    size = max(_LEAST_ROWS, _CACHED // d)
    return (slice(start, min(start + size, d)) for start in range(0, d, size))
