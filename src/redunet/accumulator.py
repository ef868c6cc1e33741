"""Exact sums over the rows of one class: as they come, in memory that does not grow.

For at most 8,192 rows on the grid every entry of their product is at most 2⁵³,
so a float64 product gives it exactly, in any order and on any device; then it
is added to integers. Only one triangle is computed.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from itertools import groupby
from typing import Any, TypeVar

import torch
from torch import Tensor

from redunet.errors import DataError
from redunet.grid import GRID, OnGrid
from redunet.linalg import lower_product_, mirror_

Label = TypeVar("Label")

EXACT_ROWS = 2**13
"""Most rows whose product has entries of at most 2⁵³, exact in float64."""

_CARRIED = 64
"""Rows of a product turned into integers at a time."""


def rows_at_once(d: int) -> int:
    """Rows to treat at a time: few enough for the processor's cache, many enough for products."""
    return min(EXACT_ROWS, max(1024, 2**21 // d))


def some_rows(X: Any, rows: list[int]) -> Any:
    """Some rows of an array or Tensor, a copy."""
    if not isinstance(X, Tensor):
        return X[rows]
    # Indexing would take one value after another, this takes one row after another.
    return X.index_select(0, torch.frombuffer(array("q", rows), dtype=torch.int64).to(X.device))


def on_grid(vectors: Tensor | OnGrid, d: int, device: str) -> Tensor:
    """Grid values of feature vectors, (n, d), as whole numbers in float64, on a device."""
    given = vectors.values if isinstance(vectors, OnGrid) else vectors
    if given.shape[1] != d:
        raise DataError(
            f"expected {d} features, got {given.shape[1]}: use the same features throughout"
        )
    if isinstance(vectors, OnGrid):
        return given.to(device)
    grid = given.to(device, torch.float64).mul(GRID).round_()
    if grid.numel():
        low, high = grid.aminmax()
        if not bool((low >= -GRID) & (high <= GRID)):  # NaN is neither
            raise DataError(
                "expected feature values within [-1, 1], got larger ones or NaN: "
                "put the samples on the unit sphere first"
            )
    return grid


def runs(labels: list[Label], grid: Tensor) -> Iterator[tuple[Label, Tensor]]:
    """The rows of each label, where equal labels stand together."""
    start = 0
    for label, run in groupby(labels):
        stop = start + len(list(run))
        # A copy where the rows are part of more: they may wait long for others.
        yield label, grid if stop - start == len(grid) else grid[start:stop].clone()
        start = stop


class Accumulator:
    """Count, sum and second moment of rows, added as they come.

    Parameters
    ----------
    d : int
    device : str
        Where products are computed.
    start : (int, Tensor of shape (d,), Tensor of shape (d, d)), default=None
        Count, sum and second moment to go on from, in int64; none of it is changed.
    product : Tensor of shape (d, d), float64, default=None
        Memory to work in, on the device; None takes new memory.
    """

    def __init__(
        self,
        d: int,
        device: str,
        start: tuple[int, Tensor, Tensor] | None = None,
        product: Tensor | None = None,
    ) -> None:
        self._count = 0
        self._total = torch.zeros(d, dtype=torch.int64)
        self._second_moment: Tensor | None = None
        if start is not None:
            count, total, second_moment = start
            self._count, self._total = count, total.clone()
            self._second_moment = second_moment.to(device, copy=True)
        if product is None:
            product = torch.empty(d, d, dtype=torch.float64, device=device)
        self._product = product
        self._in_product = 0
        self._waiting: list[Tensor] = []
        self._rows_waiting = 0

    def add(self, grid: Tensor) -> None:
        """Add rows of whole numbers, (n, d); few wait for more, at most max(512, d)."""
        d = grid.shape[1]
        self._count += len(grid)
        self._waiting.append(grid)
        self._rows_waiting += len(grid)
        if self._rows_waiting >= min(rows_at_once(d), max(512, d)):
            self._multiply()

    def finish(self) -> tuple[int, Tensor, Tensor]:
        """Count, sum and second moment of everything added and gone on from."""
        self._multiply()
        return self._count, self._total, mirror_(self._carry_over()).cpu()

    def _multiply(self) -> None:
        if not self._waiting:
            return
        rows = torch.cat(self._waiting) if len(self._waiting) > 1 else self._waiting[0]
        self._waiting, self._rows_waiting = [], 0
        for part in torch.split(rows, EXACT_ROWS):
            if self._in_product + len(part) > EXACT_ROWS:
                self._carry_over()
            self._total += part.sum(dim=0).to("cpu", torch.int64)
            lower_product_(self._product, part.mT, part.mT, beta=float(self._in_product > 0))
            self._in_product += len(part)

    def _carry_over(self) -> Tensor:
        """Move the exact product into the integers; only their lower triangle has a meaning."""
        if self._second_moment is None:
            self._second_moment = self._product.to(torch.int64)
        elif self._in_product:
            # A few rows at a time: their integers stay in the processor's cache.
            for sums, more in zip(
                torch.split(self._second_moment, _CARRIED),
                torch.split(self._product, _CARRIED),
                strict=True,
            ):
                sums += more.to(torch.int64)
        self._in_product = 0
        return self._second_moment
