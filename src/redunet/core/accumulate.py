"""Exact sums over the samples of each class, batch after batch, in memory that does not grow.

For at most 8,192 rows on the grid every entry of their product is at most 2⁵³,
so a float64 product gives it exactly, in any order and on any device; then it
is added to integers. Only one triangle is computed.
"""

from __future__ import annotations

import itertools
import math
from array import array
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any, cast

import torch
from torch import Tensor

from redunet.core.allocation import Allocate, copied, in_memory
from redunet.core.labels import Label
from redunet.core.linalg import lower_product_, mirror_
from redunet.core.moment import EXACT_ROWS, Moment
from redunet.errors import DataError

_MULTIPLIED = 2**12
"""Rows multiplied at a time: a product of fewer is slower."""

_CARRIED = 256
"""Rows of a product turned into integers at a time; these stay in the processor's cache."""

_LINE = 8
"""Numbers in a line of the processor's cache."""

_WAITING = 2**28
"""Bytes of samples that wait at most: beside a second moment of many features it is little, and
100 classes of 784 pixels have 3,400 samples each in it."""


class Accumulator:
    """Sums over the samples of classes that come mixed, in batches.

    Products of few rows are slow, so samples of a class wait until there are enough of them.

    Parameters
    ----------
    n_features : int
        d.
    embed : callable
        From samples to rows on the grid, (n, d).
    device : str
        Where products are computed.
    allocate : Allocate, default=in_memory
        Memory for second moments.
    """

    def __init__(
        self,
        n_features: int,
        embed: Callable[[Any], Tensor],
        device: str = "cpu",
        allocate: Allocate = in_memory,
    ) -> None:
        self._d, self._embed, self._step = n_features, embed, rows_at_once(n_features, device)
        self._workspace = _Workspace(n_features, device, allocate)
        self._sums: dict[Label, _Sums] = {}
        self._waiting: dict[Label, list[Any]] = defaultdict(list)
        self._rows, self._bytes = Counter[Label](), 0

    @property
    def labels(self) -> list[Label]:
        """The classes that samples were added of."""
        return [*{**self._sums, **self._waiting}]

    def add(self, label: Label, X: Any, rows: list[int]) -> None:
        """Add some samples of X, which are of one class."""
        if self._rows[label] + len(rows) >= _enough(self._d, X[:1].nbytes):
            starts = range(0, len(rows), self._step)
            self._sum(label, (some_rows(X, rows[i : i + self._step]) for i in starts))
            return
        samples = some_rows(X, rows)
        self._waiting[label].append(samples)
        self._rows[label] += len(rows)
        self._bytes += samples.nbytes
        while self._bytes > _WAITING:
            [(longest, _)] = self._rows.most_common(1)
            self._sum(longest)

    def finish(self, label: Label, few: int) -> Moment:
        """The moment of all samples of a class, which are then forgotten here.

        Parameters
        ----------
        label : int or str
        few : int
            Of at most so many samples the second moment is stored by columns, if it can be.
        """
        if label not in self._sums and self._rows[label] <= few:
            return Moment.of_few_rows(torch.cat([*self._on_grid(self._taken(label))]).cpu())
        self._sum(label)
        return self._sums.pop(label).moment()

    def _sum(self, label: Label, more: Iterable[Any] = ()) -> None:
        """Sum the samples of a class that wait, and more."""
        sums = self._sums.setdefault(label, _Sums(self._workspace))
        sums.add(self._on_grid(itertools.chain(self._taken(label), more)))

    def _on_grid(self, parts: Iterable[Any]) -> Iterator[Tensor]:
        for part in parts:
            rows = self._embed(part)
            if rows.shape[1] != self._d:
                raise wrong_width(self._d, rows.shape[1])
            if not torch.equal(rows, rows.round()):
                raise DataError(
                    "expected feature vectors in whole steps of the grid, got fractions or NaN: "
                    "put them on it by unit_grid or on_grid"
                )
            yield rows

    def _taken(self, label: Label) -> Iterator[Any]:
        """The samples of a class that wait, and wait no more, some at a time."""
        for samples in self._waiting.pop(label, ()):
            self._rows[label] -= len(samples)
            self._bytes -= samples.nbytes
            for start in range(0, len(samples), self._step):
                yield samples[start : start + self._step]


class _Workspace:
    """Memory to sum in, which classes use in turn."""

    def __init__(self, d: int, device: str, allocate: Allocate) -> None:
        # From row to row an odd number of cache lines: with an even one, the values of a column
        # share few places in the cache and evict each other.
        width = (math.ceil(d / _LINE) | 1) * _LINE
        self.rows = torch.empty(_MULTIPLIED, width, dtype=torch.float64, device=device)[:, :d]
        self.product = torch.empty(d, d, dtype=torch.float64, device=device)
        on_cpu = torch.device(device).type == "cpu"
        self.new = allocate if on_cpu else partial(torch.empty, device=device)
        self.allocate = allocate


class _Sums:
    """Count, sum and second moment of one class on their way, of the latter one triangle."""

    def __init__(self, workspace: _Workspace) -> None:
        self._workspace, self._count, self._in_product = workspace, 0, 0
        # float64 holds the sum exactly: with fewer than 2²³ rows it stays below 2⁴³.
        self._sum = torch.zeros_like(workspace.product[0])
        self._second_moment: Tensor | None = None

    def add(self, parts: Iterable[Tensor]) -> None:
        """Add rows on the grid."""
        rows, filled = self._workspace.rows, 0
        for part in parts:
            start = 0
            while start < len(part):
                free = rows[filled : filled + len(part) - start]
                free.copy_(part[start : start + len(free)])
                start, filled = start + len(free), filled + len(free)
                if filled == len(rows):
                    self._multiply(rows)
                    filled = 0
        if filled:
            self._multiply(rows[:filled])
        self._carry_over()

    def moment(self) -> Moment:
        """The moment of everything added."""
        second_moment = mirror_(cast(Tensor, self._second_moment))
        if second_moment.device.type != "cpu":
            second_moment = copied(second_moment.cpu(), self._workspace.allocate)
        total = self._sum.to("cpu", torch.int64)
        return Moment(self._count, total, second_moment, self._count, self._workspace.allocate)

    def _multiply(self, rows: Tensor) -> None:
        if self._in_product + len(rows) > EXACT_ROWS:
            self._carry_over()
        self._sum.addmv_(rows.mT, torch.ones_like(rows[:, 0]))  # faster than a sum
        product, before = self._workspace.product, float(self._in_product > 0)
        lower_product_(product, rows.mT, rows.mT, beta=before)
        self._in_product += len(rows)
        self._count += len(rows)

    def _carry_over(self) -> None:
        """Move the exact product into the integers."""
        if not self._in_product:
            return
        product, first = self._workspace.product, self._second_moment is None
        if self._second_moment is None:
            self._second_moment = self._workspace.new(tuple(product.shape), dtype=torch.int64)
        for start in range(0, len(product), _CARRIED):
            strip = slice(start, start + _CARRIED), slice(start + _CARRIED)
            if first:
                self._second_moment[strip] = product[strip]
            else:
                self._second_moment[strip] += product[strip].to(torch.int64)
        self._in_product = 0


def rows_at_once(d: int, device: str) -> int:
    """Rows to embed at a time: few enough for a processor's cache, many enough for a GPU."""
    if torch.device(device).type == "cpu":
        return min(EXACT_ROWS, max(256, 2**18 // d))
    return min(EXACT_ROWS, max(1024, 2**21 // d))


def rows_by_label(X: Any, y: Any) -> dict[Label, list[int]]:
    """The rows of each label, in the order in which labels first come."""
    rows_of: dict[Label, list[int]] = defaultdict(list)
    for row, label in enumerate(y.tolist() if hasattr(y, "tolist") else y):
        rows_of[label].append(row)
    if len(X) != sum(map(len, rows_of.values())):
        raise DataError(f"expected one label for each of {len(X)} samples, got {len(y)}")
    return rows_of


def some_rows(X: Any, rows: list[int]) -> Any:
    """Some rows of an array or Tensor, a copy."""
    if not isinstance(X, Tensor):
        return X[rows]
    # Indexing would take one value after another, this takes one row after another.
    return X.index_select(0, torch.frombuffer(array("q", rows), dtype=torch.int64).to(X.device))


def wrong_width(expected: int, got: int) -> DataError:
    """The error that feature vectors have another length than those before."""
    return DataError(f"expected {expected} features, got {got}: use the same features throughout")


def _enough(d: int, row_bytes: int) -> int:
    """Rows of a class to wait for: enough for products, but no more than its moment takes."""
    return min(_MULTIPLIED, max(256, 8 * d**2 // max(1, row_bytes)))
