"""Count, sum and second moment of one class, as integers."""

from __future__ import annotations

from typing import Any, final

import torch
from torch import Tensor
from torch.nn.functional import pad

from redunet.core.allocation import Allocate, copied, in_memory
from redunet.core.exact_columns import Columns, Gram, compress
from redunet.core.grid import GRID
from redunet.core.possible import check, check_lengths, check_range
from redunet.errors import DataError

MAX_COUNT = 2**23 - 1
"""Most samples of one class: below 2²³ no entry of a second moment can exceed 2⁶³."""

EXACT_ROWS = 2**13
"""Most rows on the grid whose product has entries of at most 2⁵³, exact in float64."""


def few(d: int) -> int:
    """The most samples of a class of few, whose columns take at most a quarter of a matrix.

    Columns save memory and files, not time: to find them takes about as long as learning so
    many samples, and to add two classes stored so takes ten times that.
    """
    return min(d // 4, EXACT_ROWS)


@final
class Moment:
    """Count, sum and second moment of one class, on the grid: a value, never changed.

    A second moment of a rank below d / 2 is saved by some of its columns, exactly;
    `redunet.core.exact_columns` says which. This is found out when it is first asked for, as when a
    model is saved, since it takes time. From then on the columns of a class of `few` samples are
    all that is stored of it; to compute the matrix again takes long, so that of more samples is
    kept beside them.

    Parameters
    ----------
    count : int
    sum : Tensor of shape (d,), int64
    storage : Tensor of shape (d, d), int64, or Columns
        The second moment.
    rank_at_most : int, default=None
        A bound on the rank of the second moment, if one is known.
    allocate : Allocate, default=in_memory
        Where the memory of the second moment is from.
    """

    def __init__(
        self,
        count: int,
        sum: Tensor,  # noqa: A002 - what it is
        storage: Tensor | Columns,
        rank_at_most: int | None = None,
        allocate: Allocate = in_memory,
    ) -> None:
        if not 0 < count <= MAX_COUNT:
            raise DataError(
                f"expected 1 to {MAX_COUNT:,} samples in a class, got {count:,}: "
                f"the grid holds no more, so split the class"
            )
        self.count, self.sum = count, sum
        self._storage, self._rank_at_most, self._allocate = storage, rank_at_most, allocate
        self._columns = storage if isinstance(storage, Columns) else None
        self._settled = self._columns is not None
        low, high = self.diagonal.aminmax()
        if (
            max(map(abs, sum.tolist())) > count * GRID
            or int(high) > count * GRID**2
            or int(low) < 0
        ):
            raise DataError(
                f"expected grid values of at most {GRID:,} in size, but the moments of a class "
                f"of {count:,} samples exceed that: put the samples on the unit sphere first"
            )

    @classmethod
    def of_few_rows(cls, X: Tensor) -> Moment:
        """Sum rows on the grid, (n, d) in float64 on the CPU, at most `few` of them.

        Where they are independent, or nearly so, no (d, d) matrix is made.
        """
        total, diagonal = X.sum(dim=0).to(torch.int64), X.square().sum(dim=0).to(torch.int64)
        columns = compress(Gram(X), diagonal, len(X))
        return cls(len(X), total, Gram(X).rows(slice(None)) if columns is None else columns)

    @property
    def second_moment(self) -> Tensor:
        """S: Tensor of shape (d, d), int64; computed each time where only columns are stored."""
        return _dense(self._storage)

    @property
    def storage(self) -> Tensor | Columns:
        """The second moment, or the columns that stand for it; nothing is computed."""
        return self._storage

    @property
    def dense(self) -> Tensor | None:
        """The second moment if the matrix itself is stored; nothing is computed."""
        return None if isinstance(self.storage, Columns) else self.storage

    @property
    def rank_at_most(self) -> int | None:
        """A bound on the rank of the second moment modulo each prime, where one is known."""
        return self._rank_at_most if self._columns is None else self._columns.rank

    @property
    def columns(self) -> Columns | None:
        """The columns that the second moment is saved by; None if it is saved as a matrix."""
        if not self._settled and isinstance(dense := self._storage, Tensor):
            diagonal = dense.diagonal().clone()
            found = compress(dense, diagonal, self._rank_at_most)
            if found is not None:
                self._columns = found.to_storage(self._allocate)
                if found.rank <= few(len(diagonal)):
                    self._storage = self._columns
        self._settled = True
        return self._columns

    @property
    def diagonal(self) -> Tensor:
        """The diagonal of the second moment: Tensor of shape (d,), int64."""
        storage = self._storage
        return storage.diagonal if isinstance(storage, Columns) else storage.diagonal()

    def to_storage(self, allocate: Allocate) -> Moment:
        """Copy the second moment into memory from ``allocate``, unless it is there."""
        if allocate == self._allocate:
            return self
        storage = self._storage
        columns = None if self._columns is None else self._columns.to_storage(allocate)
        moved = copied(storage, allocate) if isinstance(storage, Tensor) else columns
        other = Moment.__new__(Moment)  # not checked again
        other.__dict__ |= self.__dict__
        other.__dict__ |= {"_storage": moved, "_columns": columns, "_allocate": allocate}
        return other

    def to(self, device: str) -> Moment:
        """Copy the moment to a device."""
        storage = self._storage.to(device)
        return Moment(self.count, self.sum.to(device), storage, self.rank_at_most)

    def __add__(self, other: Moment) -> Moment:
        count, total = self.count + other.count, self.sum + other.sum
        rank = None
        if self.rank_at_most is not None and other.rank_at_most is not None:
            rank = self.rank_at_most + other.rank_at_most
        if not isinstance(self._storage, Columns) or not isinstance(other._storage, Columns):
            mine, theirs = self.second_moment, other.second_moment
            out = self._allocate(tuple(mine.shape), dtype=torch.int64)
            return Moment(count, total, torch.add(mine, theirs, out=out), rank, self._allocate)
        both, columns = self._storage.expansion() + other._storage.expansion(), None
        if both.rank_at_most <= few(len(total)):
            columns = compress(both, self.diagonal + other.diagonal, both.rank_at_most)
        return Moment(count, total, both.dense() if columns is None else columns, rank)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Moment):
            return NotImplemented
        return (
            self.count == other.count
            and torch.equal(self.sum, other.sum)
            and torch.equal(self.diagonal, other.diagonal)
            and self._same_second_moment(other)
        )

    def _same_second_moment(self, other: Moment) -> bool:
        if isinstance(self._storage, Tensor) and isinstance(other._storage, Tensor):
            return torch.equal(self._storage, other._storage)
        mine, theirs = self.columns, other.columns
        # Equal matrices have equal columns.
        return (
            mine is not None
            and theirs is not None
            and torch.equal(mine.pivots, theirs.pivots)
            and torch.equal(mine.columns, theirs.columns)
        )

    __hash__ = None  # type: ignore[assignment]

    def without(self, other: Moment) -> Moment | None:
        """Withdraw what ``other`` added; None where nothing is left.

        Only necessary conditions can be checked, those of `redunet.core.possible`:
        above all, the count does not fall below zero, and [[n, sᵀ], [s, S]] stays
        positive semi-definite. They catch every sample that was never learnt where
        a class has fewer samples than features; with more samples, one may go
        undetected.
        """
        count = self.count - other.count
        total = self.sum - other.sum
        if isinstance(self._storage, Columns) and isinstance(other._storage, Columns):
            second_moment = (self._storage.expansion() - other._storage.expansion()).dense()
        else:
            second_moment = self.second_moment - other.second_moment
        if count == 0 and not total.any() and not second_moment.any():
            return None
        try:
            left = Moment(count, total, second_moment)
            check(count, total, second_moment, factored=len(total))
        except DataError:
            raise never_learnt(self.count, other.count) from None
        return left

    def widened(self, n_more: int) -> Moment:
        """Give the moment that the same samples have with ``n_more`` features that are all 0.

        A feature that is 0 leaves a vector on the unit sphere as it is, and adds a zero to its sum
        and a row and a column of zeros to its second moment: nothing has to be learnt again.
        """
        storage = self._storage
        wide: Tensor | Columns
        if isinstance(storage, Columns):
            columns, diagonal = pad(storage.columns, (0, 0, 0, n_more)), storage.diagonal
            wide = Columns(storage.pivots, columns, pad(diagonal, (0, n_more)))
        else:
            wide = pad(storage, (0, n_more, 0, n_more))
        return Moment(self.count, pad(self.sum, (0, n_more)), wide, self.rank_at_most)

    def check(self) -> None:
        """Raise a DataError unless samples can have these moments: see `redunet.core.possible`."""
        check(self.count, self.sum, self.second_moment)

    def check_values(self, values: tuple[int, int] | None) -> None:
        """Raise a DataError unless vectors on the grid, all alike in size, can have these moments.

        Parameters
        ----------
        values : (int, int), or None
            The least and the largest value of a feature; None of vectors on the unit sphere.
        """
        if values is None:
            check_lengths(self.count, sum(self.diagonal.tolist()), len(self.sum))
        else:
            check_range(self.count, self.sum, self.diagonal, *values)

    def __deepcopy__(self, memo: dict[int, Any]) -> Moment:
        return self  # a value

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_allocate": in_memory}

    def Sigma(self, device: str = "cpu") -> Tensor:
        """Second moment scaled to trace ``count``: Tensor of shape (d, d), float64."""
        S = _dense(self._storage.to(device)).to(torch.float64)
        return S.mul_(self.count / self.trace())

    def mean(self) -> Tensor:
        """Mean in the scale of `Sigma`: Tensor of shape (d,), float64."""
        return self.sum.to(torch.float64).mul_((self.count * self.trace()) ** -0.5)

    def trace(self) -> int:
        """The trace of the second moment, exactly; an error where it is 0."""
        trace: int = sum(self.diagonal.tolist())
        if trace == 0:
            raise DataError(
                "expected at least one sample that is not zero in each class, but a class has "
                "zero vectors only: learn more samples of it, or forget it"
            )
        return trace


def _dense(storage: Tensor | Columns) -> Tensor:
    return storage.expansion().dense() if isinstance(storage, Columns) else storage


def never_learnt(of: int, gone: int) -> DataError:
    """The error that samples cannot have been among those of a class."""
    return DataError(
        f"expected samples that were learnt before, but withdrawing these {gone:,} from a class of "
        f"{of:,} leaves moments that no samples have: withdraw only what was learnt, with the "
        f"label it was learnt under"
    )
