"""Necessary conditions on moments from outside, checked in exact integers where that matters.

Sums over samples x of whole numbers fulfil, besides the bounds that `Moment` always checks:

- S_ii and s_i are both even or both odd, as x² and x are;
- S_ii is at least what values as equal as whole numbers can be give: with s_i = q n + r and
  0 <= r < n, n q² + r (2 q + 1). So s_i² <= n S_ii, in integers;
- S_ij² <= S_ii S_jj;
- [[n, sᵀ], [s, S]] is positive semi-definite, and of a rank of at most n.

Moments that fulfil all of them may still be of no samples: that cannot be decided in general.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from redunet.core.exact_columns import Columns, Expansion
from redunet.core.grid import GRID
from redunet.core.linalg import is_semidefinite, is_surely_definite
from redunet.core.residues import BLOCK, Elimination, indices, residues
from redunet.errors import DataError

RANKED = 2**8
"""Most features of which ranks are computed: of twice as many it takes longer than all the rest."""

_FACTORED = 2**10
"""Features of a block that is factorised: of twice as many it takes four times as long for each
entry, and longer than to read them from a file."""

_MARGIN = 2.0**-48
"""S_ij / √(S_ii S_jj) in float64 is within this of what it is: six roundings of 2⁻⁵³ each, with
room for a reciprocal root that is a few off."""

_NOTHING = 2.0**-200
"""In place of a diagonal entry of 0, so that anything beside it is far too large."""


def check(count: int, total: Tensor, S: Tensor, factored: int = _FACTORED) -> None:
    """Raise a DataError unless samples can have these moments, as far as the conditions tell.

    Parameters
    ----------
    count : int, from 1
    total : Tensor of shape (d,), int64
        Of at most count · 2²⁰ in size.
    S : Tensor of shape (d, d), int64, symmetric
        With a diagonal from 0 to count · 2⁴⁰.
    factored : int, default=2¹⁰
        Most features whose eigenvalues are looked at together; those of more are in blocks.
    """
    d = len(total)
    check_diagonal(count, total, S.diagonal())
    _check_pairs(S)
    for start in range(0, d, factored):
        _check_definite(count, total, S, slice(start, min(start + factored, d)))
    if count <= d <= RANKED:
        _check_rank(count, total, S)
    elif count < min(d, factored):  # where it is regular, a block of more features has their rank
        largest = S.diagonal().topk(count + 1).indices
        if is_surely_definite(S[largest][:, largest].to(torch.float64)):
            raise _rank_above(count)


def check_columns(count: int, total: Tensor, columns: Columns, expansion: Expansion) -> None:
    """Check a second moment that is stored by columns; its rank and the sums are checked exactly.

    Parameters
    ----------
    count, total
        As for `check`.
    columns : Columns
    expansion : Expansion
        Of the columns with one row more, the entries of ``total`` at the pivots.
    """
    d = len(total)
    check_rank_of(columns, count)
    # As S = XᵀX and s = Xᵀ1, s = C B⁻¹ s_p. With independent samples also n = s_pᵀ B⁻¹ s_p.
    border = expansion.residues(slice(d, d + 1), slice(None))[:, 0]
    wanted = residues(torch.cat([total, total.new_tensor([count])]))
    differs = ((border - wanted) != 0).any(dim=0)
    if columns.rank < count:
        differs[d] = False
    if bool(differs.any()):
        i = int(differs.nonzero()[0, 0])
        what = f"sum[{i}] = {int(total[i]):,}" if i < d else f"a count of {count:,}"
        raise impossible(f"{what}, which does not go with a second moment of rank {columns.rank:,}")
    check(count, total, Expansion(expansion.W[..., :d], expansion.VW[..., :d]).dense())


def check_diagonal(count: int, total: Tensor, diagonal: Tensor) -> None:
    """The part of `check` about single features, of ``count`` values each.

    No number here leaves 64 bits: q is at most 2²⁰, and by n q² + r (2 q + 1) values as equal as
    possible have squares of together at most n 2⁴⁰ < 2⁶³.
    """
    _check_all(
        (diagonal - total) % 2 == 0,
        "is even where sum[{0}] is odd, or odd where it is even",
        diagonal,
    )
    q = total.div(count, rounding_mode="floor")
    least = count * q * q + (total - count * q) * (2 * q + 1)
    _check_all(diagonal >= least, "is too small for the sum of its values, sum[{0}]", diagonal)


def check_lengths(count: int, trace: int, d: int) -> None:
    """Raise a DataError unless vectors of length 1 or 0, on the grid, can have this trace.

    Rounding to the grid changes the length of a vector of d features by at most √d / 2, and that
    it is brought to length 1 with is off by less than one step.
    """
    slack = math.ceil(math.sqrt(d) / 2) + 1
    shortest, longest = max(GRID - slack, 0) ** 2, (GRID + slack) ** 2
    at_least = -(-trace // longest)  # so many of them are not zero
    if at_least > count or at_least * shortest > trace:
        raise impossible(
            f"a second moment of trace {trace / GRID**2:.6g}, which {count:,} samples on the unit "
            f"sphere do not have"
        )


def check_range(count: int, total: Tensor, diagonal: Tensor, low: int, high: int) -> None:
    """Raise a DataError unless ``count`` values from low to high can have these moments.

    Besides the sums: (x − low) (high − x) >= 0, so S_ii <= (low + high) s_i − n low high, which is
    at most n 2⁴⁰: what overflows on the way there comes back.
    """
    inside = (total >= count * low) & (total <= count * high)
    _check_all(inside, "is outside of the range of the values", total, "sum[{0}]")
    most = (low + high) * total - count * low * high
    _check_all(diagonal <= most, "is too large for values of this range", diagonal)


def least_squares(n: int, total: int) -> int:
    """The least sum of squares of n whole numbers with this sum: those as equal as possible."""
    q, r = divmod(total, n)
    return n * q * q + r * (2 * q + 1)


def pair_above(entries: Tensor, first: Tensor, second: Tensor) -> tuple[int, int] | None:
    """Where an entry's square is above the product of two others, all int64; None if nowhere.

    In float64, and in integers of any size where that does not decide.

    Parameters
    ----------
    entries : Tensor of shape (m, n)
    first, second : Tensor, to be combined with it
        From 0.
    """
    scales = (one.to(torch.float64).clamp_(min=_NOTHING).rsqrt_() for one in (first, second))
    size = entries.to(torch.float64).abs_().mul_(next(scales)).mul_(next(scales))
    if not size.numel() or float(size.amax()) <= 1 - _MARGIN:
        return None
    close = (size > 1 - _MARGIN).nonzero()
    exact = (
        one.expand(entries.shape)[tuple(close.mT)].tolist() for one in (entries, first, second)
    )
    for (i, j), entry, one, other in zip(close.tolist(), *exact, strict=True):
        if entry * entry > one * other:
            return i, j
    return None


def _check_pairs(S: Tensor) -> None:
    """S_ij² <= S_ii S_jj."""
    diagonal = S.diagonal()
    above = pair_above(S.tril(-1), diagonal[:, None], diagonal)
    if above is not None:
        i, j = above
        raise impossible(
            f"second_moment[{i}, {j}] = {int(S[i, j]):,}, whose square is above second_moment[{i}, "
            f"{i}] · second_moment[{j}, {j}] = {int(S[i, i]):,} · {int(S[j, j]):,}"
        )


def _check_definite(count: int, total: Tensor, S: Tensor, block: slice) -> None:
    """That [[n, sᵀ], [s, S]] of some features has no negative eigenvalue, up to rounding."""
    s = total[block].to(torch.float64) * GRID
    A = torch.empty(len(s) + 1, len(s) + 1, dtype=torch.float64)
    A[0, 0] = float(count * GRID**2)
    A[0, 1:] = A[1:, 0] = s
    A[1:, 1:] = S[block, block]
    if not is_semidefinite(A):
        where = "" if len(s) == len(total) else f" of features {block.start} to {block.stop - 1}"
        raise impossible(f"a second moment{where} with a negative eigenvalue, or too large sums")


def _check_all(
    fine: Tensor, what: str, values: Tensor, name: str = "second_moment[{0}, {0}]"
) -> None:
    """Raise a DataError about the first feature that is not fine, with its index in the text."""
    if not bool(fine.all()):
        i = int(fine.logical_not().nonzero()[0, 0])
        raise impossible(f"{name} = {int(values[i]):,}, which {what}".replace("{0}", str(i)))


def _check_rank(count: int, total: Tensor, S: Tensor) -> None:
    """Check that [[S, s], [sᵀ, n]] has no more independent columns than there are samples."""
    d = len(total)
    A = S.new_empty(d + 1, d + 1)
    A[:d, :d], A[d, :d], A[:d, d], A[d, d] = S, total, total, count
    elimination, pivots = Elimination(d + 1), list[int]()
    for start in range(0, d + 1, BLOCK):
        part = slice(start, min(start + BLOCK, d + 1))
        taken = elimination.extend(
            residues(A[part, part]), residues(A[indices(pivots), part]), d + 1
        )
        pivots += [start + j for j in taken]
        if len(pivots) > count:
            raise _rank_above(count)


def check_rank_of(columns: Columns | None, count: int) -> None:
    """Raise a DataError where a second moment has more independent columns than samples."""
    if columns is not None and columns.rank > count:
        raise _rank_above(count)


def _rank_above(count: int) -> DataError:
    return impossible(f"moments of a rank above the number of samples, {count:,}")


def impossible(got: str) -> DataError:
    """The error that no samples have such moments."""
    return DataError(
        f"expected moments that samples can have, got {got}: take another copy of the file, or "
        f"learn the samples again"
    )
