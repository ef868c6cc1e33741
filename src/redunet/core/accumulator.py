"""Exact sums over the rows of one class, batch after batch, in memory that does not grow.

For at most 8,192 rows on the grid every entry of their product is at most 2⁵³,
so a float64 product gives it exactly, in any order and on any device; then it
is added to integers. Only one triangle is computed.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from redunet.core.allocation import Allocate, copied, in_memory, on_device
from redunet.core.grid import GRID, OnGrid, rows_in_cache, to_grid_
from redunet.core.linalg import lower_product_, mirror_
from redunet.errors import DataError

EXACT_ROWS = 2**13
"""Most rows whose product has entries of at most 2⁵³, exact in float64."""

_MULTIPLIED = 2**12
"""Rows multiplied at a time: a product of fewer is slower."""

_CARRIED = 256
"""Rows of a product turned into integers at a time."""

_LINE = 8
"""Numbers in a line of the processor's cache."""


def rows_at_once(d: int, device: str) -> int:
    """Rows to embed at a time: few enough for a processor's cache, many enough for a GPU."""
    if torch.device(device).type == "cpu":
        return min(EXACT_ROWS, max(256, 2**18 // d))
    return min(EXACT_ROWS, max(1024, 2**21 // d))


def rows_to_wait_for(d: int, row_bytes: int) -> int:
    """Rows of a class to collect: enough for products, but no more than its moment takes."""
    return min(_MULTIPLIED, max(256, 8 * d**2 // max(1, row_bytes)))


def some_rows(X: Any, rows: list[int]) -> Any:
    """Some rows of an array or Tensor, a copy."""
    if not isinstance(X, Tensor):
        return X[rows]
    # Indexing would take one value after another, this takes one row after another.
    return X.index_select(0, torch.frombuffer(array("q", rows), dtype=torch.int64).to(X.device))


def _on_grid_(out: Tensor, vectors: Tensor) -> None:
    """Turn ``out``, (n, d), into the grid values of feature vectors."""
    out.copy_(vectors).mul_(GRID).round_()
    if out.numel():
        low, high = out.aminmax()
        if not bool((low >= -GRID) & (high <= GRID)):  # NaN is neither
            raise DataError(
                "expected feature values within [-1, 1], got larger ones or NaN: "
                "put the samples on the unit sphere first"
            )


def rows_on_grid(parts: Iterable[Tensor | OnGrid], n: int, d: int) -> Tensor:
    """Parts of n feature vectors on the grid, one after another: (n, d), float64, on the CPU."""
    out, start = torch.empty(n, d, dtype=torch.float64), 0
    for part in parts:
        if part.shape[1] != d:
            raise wrong_width(d, part.shape[1])
        free = out[start : start + len(part)]
        if isinstance(part, Tensor):
            _on_grid_(free, part)
        else:
            to_grid_(free, part.samples, part.small_whole)
        start += len(part)
    return out


def wrong_width(expected: int, got: int) -> DataError:
    """The error that feature vectors have another length than those before."""
    return DataError(f"expected {expected} features, got {got}: use the same features throughout")


@dataclass(frozen=True, eq=False)
class Space:
    """Memory to sum in; classes can use it in turn.

    Parameters
    ----------
    rows : Tensor of shape (n, d), float64
        Where rows are collected until there are n of them, at most ``EXACT_ROWS``.
    product : Tensor of shape (d, d), float64
    """

    rows: Tensor
    product: Tensor

    @classmethod
    def of(cls, d: int, device: str) -> Space:
        """Space with rows enough for products at their full rate."""
        # From row to row an odd number of cache lines: with an even one, the values of a column
        # share few places in the cache and evict each other.
        width = (math.ceil(d / _LINE) | 1) * _LINE
        rows = torch.empty(_MULTIPLIED, width, dtype=torch.float64, device=device)[:, :d]
        return cls(rows, torch.empty(d, d, dtype=torch.float64, device=device))


class Accumulator:
    """Count, sum and second moment of rows, added as they come.

    Parameters
    ----------
    space : Space
        In use from `add` to `flush` or `finish`.
    start : (int, Tensor of shape (d,), Tensor of shape (d, d)), default=None
        Count, sum and second moment to start from, in int64; not changed.
    allocate : Allocate, default=in_memory
        Memory for the second moment.
    """

    def __init__(
        self,
        space: Space,
        start: tuple[int, Tensor, Tensor] | None = None,
        allocate: Allocate = in_memory,
    ) -> None:
        self._space, self._allocate = space, allocate
        self._waiting = self._in_product = 0
        # Of the rows that wait, the last ones may be samples that are not on the grid yet.
        self._not_on_grid, self._small_whole = 0, True
        self._second_moment: Tensor | None = None
        # float64 holds the sum exactly: with fewer than 2²³ rows it stays below 2⁴³.
        self._count, self._sum = 0, torch.zeros_like(space.product[0])
        if start is not None:
            self._count, total, second_moment = start
            self._sum.copy_(total)
            self._second_moment = self._new_second_moment().copy_(second_moment)

    def add(self, vectors: Tensor | OnGrid) -> None:
        """Add feature vectors, (n, d), with values in [-1, 1] or to be put on the grid."""
        d = self._space.rows.shape[1]
        if vectors.shape[1] != d:
            raise wrong_width(d, vectors.shape[1])
        if isinstance(vectors, Tensor):
            self._put_on_grid()
        for part, free in self._room_for(vectors):
            if isinstance(part, Tensor):
                _on_grid_(free, part)
            elif not self._not_on_grid and 2 * len(free) >= rows_in_cache(self._space.rows):
                to_grid_(free, part.samples, part.small_whole)
            else:  # later: of few samples it would take longer
                free.copy_(part.samples)
                self._not_on_grid += len(free)
                self._small_whole &= part.small_whole

    def _room_for(self, rows: Tensor | OnGrid) -> Iterator[tuple[Tensor | OnGrid, Tensor]]:
        """Parts of the rows, and for each the memory where the caller writes it."""
        start, most = 0, rows_in_cache(self._space.rows)
        while start < len(rows):
            free = self._space.rows[self._waiting :]
            free = free[: min(len(rows) - start, most - self._not_on_grid)]
            yield rows[start : start + len(free)], free
            start += len(free)
            self._waiting += len(free)
            if self._not_on_grid == most:
                self._put_on_grid()
            if self._waiting == len(self._space.rows):
                self._multiply()
        self._count += start

    def _put_on_grid(self) -> None:
        """Put the last rows on the grid, where they are samples still."""
        if self._not_on_grid:
            samples = self._space.rows[self._waiting - self._not_on_grid : self._waiting]
            to_grid_(samples, samples, self._small_whole)
        self._not_on_grid, self._small_whole = 0, True

    def flush(self) -> Tensor:
        """Free the space for others; only the lower triangle of the result has a meaning."""
        self._multiply()
        return self._carry_over()

    def finish(self) -> tuple[int, Tensor, Tensor]:
        """Count, sum and second moment of everything added, the start included."""
        second_moment = mirror_(self.flush())
        if second_moment.device.type != "cpu":
            second_moment = copied(second_moment.cpu(), self._allocate)
        return self._count, self._sum.to("cpu", torch.int64), second_moment

    def _new_second_moment(self) -> Tensor:
        product = self._space.product
        return on_device(self._allocate, tuple(product.shape), torch.int64, product.device)

    def _multiply(self) -> None:
        if not self._waiting:
            return
        self._put_on_grid()
        if self._in_product + self._waiting > EXACT_ROWS:
            self._carry_over()
        rows = self._space.rows[: self._waiting]
        self._sum.addmv_(rows.mT, torch.ones_like(rows[:, 0]))  # faster than a sum
        lower_product_(self._space.product, rows.mT, rows.mT, beta=float(self._in_product > 0))
        self._in_product += self._waiting
        self._waiting = 0

    def _carry_over(self) -> Tensor:
        """Move the exact product into the integers; only their lower triangle has a meaning."""
        product, first = self._space.product, self._second_moment is None
        if self._second_moment is None:
            self._second_moment = self._new_second_moment()
            if not self._in_product:
                self._second_moment.zero_()
        if self._in_product:
            # A few rows at a time: their integers stay in the processor's cache.
            for start in range(0, len(product), _CARRIED):
                strip = slice(start, start + _CARRIED), slice(start + _CARRIED)
                if first:
                    self._second_moment[strip] = product[strip]
                else:
                    self._second_moment[strip] += product[strip].to(torch.int64)
        self._in_product = 0
        return self._second_moment
