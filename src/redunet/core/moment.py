"""Count, sum and second moment of one class, as integers."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from redunet.core.accumulator import EXACT_ROWS
from redunet.core.allocation import Allocate, copied, in_memory
from redunet.core.columns import Columns, Gram, compress
from redunet.core.grid import GRID
from redunet.core.possible import check, check_lengths, check_range
from redunet.errors import DataError

MAX_COUNT = 2**23 - 1
"""Most samples of one class: below 2²³ no entry of a second moment can exceed 2⁶³."""


def few(d: int) -> int:
    """How many samples make a class one of few, whose columns take at most a quarter of the room.

    Columns save memory and files, not time: to find them takes about as long as learning so
    many samples, and to add two classes held so takes ten times that.
    """
    return min(d // 4, EXACT_ROWS)


class Moment:
    """Count, sum and second moment of one class, on the grid: a value, never changed.

    A second moment of a rank below d / 2 is saved by some of its columns, exactly;
    `redunet.core.columns` says which. This is found out when it is first asked for, as when a
    model is saved, since it takes time. From then on the columns of a class of `few` samples are
    all that is held of it; to compute the whole matrix again takes long, so those of more samples
    are held beside it.

    Parameters
    ----------
    count : int
    sum : Tensor of shape (d,), int64
    second_moment : Tensor of shape (d, d), int64, or Columns
    rank_at_most : int, default=None
        What is known for certain of the rank of the second moment.
    allocate : Allocate, default=in_memory
        Where the memory of the second moment is from.
    """

    # Of subclasses, which hold their moments in other ways: never by columns.
    _columns: Columns | None = None
    _rank_at_most: int | None = None
    _settled = True

    def __init__(
        self,
        count: int,
        sum: Tensor,  # noqa: A002 - what it is
        second_moment: Tensor | Columns,
        rank_at_most: int | None = None,
        allocate: Allocate = in_memory,
    ) -> None:
        if not 0 < count <= MAX_COUNT:
            raise DataError(
                f"expected 1 to {MAX_COUNT:,} samples in a class, got {count:,}: "
                f"the grid holds no more, so split the class"
            )
        self.count, self.sum = count, sum
        self._held, self._rank_at_most = second_moment, rank_at_most
        self._allocate = allocate
        self._columns = second_moment if isinstance(second_moment, Columns) else None
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
        """The moment of rows on the grid, (n, d) in float64, at most `few` of them.

        Where they are independent, or nearly so, no (d, d) matrix is made.
        """
        total, diagonal = X.sum(dim=0).to(torch.int64), X.square().sum(dim=0).to(torch.int64)
        held = compress(Gram(X), diagonal, len(X))
        return cls(len(X), total, Gram(X).rows(slice(None)) if held is None else held)

    @property
    def second_moment(self) -> Tensor:
        """S: Tensor of shape (d, d), int64; computed each time where it is held by columns."""
        if isinstance(self._held, Columns):
            return self._held.expansion().whole()
        return self._held

    @property
    def held(self) -> Tensor | Columns:
        """What holds the second moment at present, without asking for its rank."""
        return self._held

    @property
    def whole(self) -> Tensor | None:
        """The second moment where it is held whole at present, without asking for its rank."""
        return None if isinstance(self.held, Columns) else self.held

    @property
    def rank_at_most(self) -> int | None:
        """A bound on the rank of the second moment modulo each prime, where one is known."""
        return self._rank_at_most if self._columns is None else self._columns.rank

    @property
    def columns(self) -> Columns | None:
        """The columns that the second moment is saved by; None where it is saved whole."""
        self._settle()
        return self._columns

    @property
    def diagonal(self) -> Tensor:
        """The diagonal of the second moment: Tensor of shape (d,), int64."""
        held = self._held
        return held.diagonal if isinstance(held, Columns) else held.diagonal()

    def _settle(self) -> None:
        """Find out by what the second moment is to be saved; its value does not change."""
        if not self._settled and isinstance(whole := self._held, Tensor):
            diagonal = whole.diagonal().clone()
            found = compress(whole, diagonal, self._rank_at_most)
            if found is not None:
                self._columns = found.placed(self._allocate)
                if found.rank <= few(len(diagonal)):
                    self._held = self._columns
        self._settled = True

    def placed(self, allocate: Allocate) -> Moment:
        """The same with its second moment in memory from ``allocate``, now and later."""
        if allocate == self._allocate:
            return self
        columns = None if self._columns is None else self._columns.placed(allocate)
        held = copied(self._held, allocate) if isinstance(self._held, Tensor) else columns
        return self._with(_held=held, _columns=columns, _allocate=allocate)

    def __add__(self, other: Moment) -> Moment:
        count, total = self.count + other.count, self.sum + other.sum
        rank = None
        if self.rank_at_most is not None and other.rank_at_most is not None:
            rank = self.rank_at_most + other.rank_at_most
        if not isinstance(self._held, Columns) or not isinstance(other._held, Columns):
            return Moment(count, total, self.second_moment + other.second_moment, rank)
        both, held = self._held.expansion() + other._held.expansion(), None
        if both.rank_at_most <= few(len(total)):
            held = compress(both, self.diagonal + other.diagonal, both.rank_at_most)
        return Moment(count, total, both.whole() if held is None else held, rank)

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
        if isinstance(self._held, Tensor) and isinstance(other._held, Tensor):
            return torch.equal(self._held, other._held)
        mine, theirs = self.columns, other.columns
        # Equal matrices are held alike.
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
        second_moment = self._minus(other)
        if count == 0 and not total.any() and not second_moment.any():
            return None
        try:
            left = Moment(count, total, second_moment)
            check(count, total, second_moment, factored=len(total))
        except DataError:
            raise never_learnt(self.count, other.count) from None
        return left

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

    def _minus(self, other: Moment) -> Tensor:
        if isinstance(self._held, Columns) and isinstance(other._held, Columns):
            return (self._held.expansion() - other._held.expansion()).whole()
        return self.second_moment - other.second_moment

    def to(self, device: str) -> Moment:
        """The same integers on a device."""
        if isinstance(self._held, Columns):
            held = columns = self._held.to(device)
            return self._with(sum=self.sum.to(device), _held=held, _columns=columns)
        whole = self._held.to(device)
        return self._with(sum=self.sum.to(device), _held=whole, _columns=None, _settled=False)

    def __deepcopy__(self, memo: dict[int, Any]) -> Moment:
        return self  # a value

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_allocate": in_memory}

    def _with(self, **changed: Any) -> Moment:
        """A copy with other attributes, not checked again."""
        other = Moment.__new__(Moment)
        other.__dict__ |= self.__dict__ | changed
        return other

    def Sigma(self) -> Tensor:
        """Second moment scaled to trace ``count``: Tensor of shape (d, d), float64."""
        return self.second_moment.to(torch.float64).mul_(self.count / self.trace())

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


def never_learnt(of: int, gone: int) -> DataError:
    """The error that samples cannot have been among those of a class."""
    return DataError(
        f"expected samples that were learnt before, but withdrawing these {gone:,} from a class of "
        f"{of:,} leaves moments that no samples have: withdraw only what was learnt, with the "
        f"label it was learnt under"
    )
