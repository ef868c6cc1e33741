"""Count, sums and correlations of each class, where all circular shifts of a sample count."""

from __future__ import annotations

import builtins
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor

from redunet.core.accumulate import rows_by_label, some_rows, wrong_width
from redunet.core.allocation import Allocate, in_memory
from redunet.core.grid import GRID, unit_grid
from redunet.core.labels import Label, check_labels, known_labels, named
from redunet.core.moment import never_learnt
from redunet.core.possible import check_lengths, impossible
from redunet.errors import DataError
from redunet.shift_invariant.correlation import Correlator
from redunet.shift_invariant.layout import Layout
from redunet.shift_invariant.possible import check_correlations

MAX_COUNT = 2**22 - 1
"""Most samples of one class: below 2²², no correlation of vectors of at most 2^20.5 can exceed
2⁶³."""

Embed = Callable[[Any], Tensor]


@dataclass(frozen=True, eq=False)
class ShiftMoment:
    """Count, sums and correlations of one class, on the grid: a value, never changed.

    The second moment of all shifts of all samples is S[(c, p), (c', p')] = A[c, c', p' − p].

    Parameters
    ----------
    layout : Layout
    count : int
        Samples, not shifts of them.
    sum : Tensor of shape (C,), int64
        Of all values of a channel.
    correlations : Tensor of shape (C (C + 1) / 2, n), int64
        A[c, c', t] of channels c <= c', in the order of `Layout.pairs`.
    """

    layout: Layout
    count: int
    sum: Tensor
    correlations: Tensor

    def __post_init__(self) -> None:
        if not 0 < self.count <= MAX_COUNT:
            raise DataError(
                f"expected 1 to {MAX_COUNT:,} samples in a class, got {self.count:,}: "
                f"the grid holds no more, so split the class"
            )
        energies = self.energies.tolist()  # added as Python's integers, they cannot overflow
        if min(energies) < 0 or builtins.sum(energies) > 2 * self.count * GRID**2:
            raise DataError(
                f"expected samples on the unit sphere, but the correlations of a class of "
                f"{self.count:,} samples are not of such: put the samples on the unit sphere first"
            )

    @property
    def energies(self) -> Tensor:
        """Of each channel, summed over positions and samples: Tensor of shape (C,), int64."""
        first, second = self.layout.pairs
        return self.correlations[first == second, 0]

    def trace(self) -> int:
        """The trace of the second moment, exactly; an error where it is 0."""
        trace: int = self.layout.n * builtins.sum(self.energies.tolist())
        if trace == 0:
            raise DataError(
                "expected at least one sample that is not zero in each class, but a class has "
                "zero vectors only: learn more samples of it, or forget it"
            )
        return trace

    def blocks(self) -> Tensor:
        """The second moment at each frequency, (F, C, C), of trace count · n over all of them."""
        scale = self.count * self.layout.n / self.trace()
        return self.layout.blocks(self.correlations).mul_(scale)

    def __add__(self, other: ShiftMoment) -> ShiftMoment:
        return ShiftMoment(
            self.layout,
            self.count + other.count,
            self.sum + other.sum,
            self.correlations + other.correlations,
        )

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, ShiftMoment):
            return NotImplemented
        return (
            self.layout == other.layout
            and self.count == other.count
            and torch.equal(self.sum, other.sum)
            and torch.equal(self.correlations, other.correlations)
        )

    __hash__ = None  # type: ignore[assignment]

    def without(self, other: ShiftMoment) -> ShiftMoment | None:
        """Withdraw what ``other`` added; None where nothing is left.

        Only necessary conditions can be checked: the count, and that second moments stay
        positive semi-definite at each frequency.
        """
        count, total = self.count - other.count, self.sum - other.sum
        correlations = self.correlations - other.correlations
        if count == 0 and not total.any() and not correlations.any():
            return None
        try:
            left = ShiftMoment(self.layout, count, total, correlations)
            left.check()
        except DataError:
            raise never_learnt(self.count, other.count) from None
        return left

    def check(self) -> None:
        """Raise a DataError unless samples can have these moments."""
        check_correlations(self.layout, self.count, self.sum, self.correlations)

    def check_values(self, values: tuple[int, int] | None) -> None:
        """Raise a DataError unless vectors of length 1, or of values in a range, can have them."""
        if values is None:
            check_lengths(self.count, builtins.sum(self.energies.tolist()), self.layout.d)
            return
        (low, high), n = values, self.count * self.layout.n
        pairs = zip(self.sum.tolist(), self.energies.tolist(), strict=True)
        for c, (s, energy) in enumerate(pairs):
            if not n * low <= s <= n * high or energy > (low + high) * s - n * low * high:
                raise impossible(f"values of channel {c} outside of their range")


class ShiftMoments:
    """The moments of each class where all circular shifts of a sample count as samples.

    A value, never changed in place, with the arithmetic of `redunet.core.moments.ClassMoments`.

    Parameters
    ----------
    layout : Layout
    table : mapping from label to ShiftMoment, default=()

    Examples
    --------
    The shifts of a sample are learnt with it, so each of them is the same to the model:

    >>> import torch
    >>> empty = ShiftMoments(Layout(1, (4,)))
    >>> one = empty.update(torch.tensor([[1.0, 2.0, 0.0, 0.0]]), ["a"])
    >>> one == empty.update(torch.tensor([[0.0, 1.0, 2.0, 0.0]]), ["a"])
    True
    >>> one == empty.update(torch.tensor([[2.0, 0.0, 1.0, 0.0]]), ["a"])
    False
    """

    of_what: ClassVar[str] = "moments of shifts"

    def __init__(self, layout: Layout, table: Mapping[Label, ShiftMoment] | None = None) -> None:
        table = table or {}
        check_labels(table)
        self.layout, self.n_features = layout, layout.d
        self._table = {label: table[label] for label in sorted(table)}
        for moment in self._table.values():
            self._check_same_grid(moment)

    @property
    def labels(self) -> tuple[Label, ...]:
        """The classes, sorted."""
        return tuple(self._table)

    @property
    def counts(self) -> tuple[int, ...]:
        """Samples of each class, in the order of the labels."""
        return tuple(moment.count for moment in self._table.values())

    def __len__(self) -> int:
        return len(self._table)

    def __iter__(self) -> Iterator[Label]:
        return iter(self._table)

    def __getitem__(self, label: Label) -> ShiftMoment:
        return self._table[known_labels([label], self._table)[0]]

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, ShiftMoments):
            return NotImplemented
        return self.layout == other.layout and self._table == other._table

    __hash__ = None  # type: ignore[assignment]

    def update(self, X: Any, y: Any, embed: Embed = unit_grid, device: str = "cpu") -> ShiftMoments:
        """The table after learning samples, X with n rows, of classes y."""
        return self.update_from([(X, y)], embed, device)

    def update_from(
        self, batches: Iterable[tuple[Any, Any]], embed: Embed = unit_grid, device: str = "cpu"
    ) -> ShiftMoments:
        """The table after learning batches, pairs of X and y, that come one after another."""
        learning: dict[Label, _Learning] = {}
        for X, y in batches:
            rows_of = rows_by_label(X, y)
            check_labels((*self._table, *learning, *rows_of))
            for label, rows in rows_of.items():
                if label not in learning:
                    learning[label] = _Learning(self.layout, device)
                learning[label].add(X, rows, embed)
        learnt = {label: learning.pop(label).finish() for label in [*learning]}
        return self + ShiftMoments(self.layout, learnt)

    def __add__(self, other: ShiftMoments) -> ShiftMoments:
        self._check_same_grid(other)
        table = dict(self._table)
        for label, moment in other._table.items():
            table[label] = table[label] + moment if label in table else moment
        return ShiftMoments(self.layout, table)

    def __sub__(self, other: ShiftMoments) -> ShiftMoments:
        self._check_same_grid(other)
        table = dict(self._table)
        for label in known_labels(other.labels, table):
            left = table.pop(label).without(other[label])
            if left is not None:
                table[label] = left
        return ShiftMoments(self.layout, table)

    def drop(self, labels: Iterable[Label]) -> ShiftMoments:
        """The table without some classes, as if they had never been seen."""
        gone = set(known_labels(labels, self._table))
        return self.select(label for label in self._table if label not in gone)

    def select(self, labels: Iterable[Label]) -> ShiftMoments:
        """The table of some classes only."""
        known = known_labels(labels, self._table)
        return ShiftMoments(self.layout, {label: self._table[label] for label in known})

    def to_storage(self, allocate: Allocate) -> ShiftMoments:
        """Return the table itself: correlations are small, and stay in memory."""
        return self

    placed = to_storage

    def blocks(self) -> Tensor:
        """Second moments of all classes at each frequency: (k, F, C, C), complex128.

        Each has the trace n_j n over all frequencies, as the second moment of all shifts has.
        """
        out = []
        for label, moment in self._table.items():
            with named(label):
                out.append(moment.blocks())
        return torch.stack(out)

    def check_not_zero(self) -> None:
        """Raise a DataError where a class has zero vectors only: no network can be built of it."""
        for label, moment in self._table.items():
            with named(label):
                moment.trace()

    def check_values(self, values: tuple[int, int] | None) -> None:
        """Raise a DataError unless vectors can have them: see `ShiftMoment.check_values`."""
        for label, moment in self._table.items():
            with named(label):
                moment.check_values(values)

    def to_tensors(self) -> dict[str, Tensor]:
        """Everything but the labels, in int64.

        ``counts`` (k,), ``sums`` (k, C), ``positions`` (axes,) and ``correlations`` (k, entries):
        without those of one channel that A[c, c, t] = A[c, c, −t] repeats.
        """
        table, needed = [*self._table.values()], _needed(self.layout)
        return {
            "counts": torch.tensor(self.counts),
            "sums": torch.stack([moment.sum for moment in table]),
            "positions": torch.tensor(self.layout.positions),
            "correlations": torch.stack([moment.correlations[needed] for moment in table]),
        }

    @classmethod
    def from_tensors(
        cls,
        labels: Sequence[Label],
        tensors: Mapping[str, Tensor],
        allocate: Allocate = in_memory,
    ) -> ShiftMoments:
        """The table that `to_tensors` took apart, checked."""
        names = ("counts", "sums", "correlations", "positions")
        counts, sums, held, positions = (tensors[name] for name in names)
        if any(tensors[name].dtype != torch.int64 for name in names):
            raise DataError("expected counts, sums and correlations in int64")
        if list(labels) != sorted(set(labels)):
            raise DataError("expected labels in order, each once")
        k = len(labels)
        if counts.shape != (k,) or sums.ndim != 2 or len(sums) != k or positions.ndim != 1:
            raise DataError("expected counts, sums and correlations of the same classes")
        layout = Layout(sums.shape[1], tuple(positions.tolist()))
        # By arithmetic first: a file of a few bytes must not ask for a large grid.
        if not k or layout.n > 2 * held.numel() or held.shape != (k, _n_entries(layout)):
            raise DataError("expected counts, sums and correlations of the same classes")
        needed, opposite = _needed(layout), layout.opposite
        own = layout.pairs[0] == layout.pairs[1]
        table = {}
        for label, count, total, entries in zip(labels, counts.tolist(), sums, held, strict=True):
            whole = torch.zeros(needed.shape, dtype=torch.int64)
            whole[needed] = entries
            whole[own] = torch.where(needed[own], whole[own], whole[own][:, opposite])
            with named(label):
                table[label] = ShiftMoment(layout, count, total.clone(), whole)
                table[label].check()
        return cls(layout, table)

    def _check_same_grid(self, other: Any) -> None:
        expected, got = self.layout, getattr(other, "layout", None)
        if got != expected:
            raise DataError(
                f"expected moments of {expected.channels} channels on a grid of "
                f"{expected.positions}, got "
                f"{f'{got.channels} on {got.positions}' if got else 'moments without shifts'}: "
                f"use the same features throughout"
            )


class _Learning:
    """Sums of the samples of one class, batch after batch."""

    def __init__(self, layout: Layout, device: str) -> None:
        self._layout, self._correlator = layout, Correlator(layout, device)
        self._count = 0
        self._sum = torch.zeros(layout.channels, dtype=torch.int64)

    def add(self, X: Any, rows: list[int], embed: Embed) -> None:
        """Add some rows of X."""
        layout, step = self._layout, self._correlator.rows_at_once
        for start in range(0, len(rows), step):
            part = embed(some_rows(X, rows[start : start + step]))
            if part.shape[1] != layout.d:
                raise wrong_width(layout.d, part.shape[1])
            part = part.cpu()
            self._correlator.add(part)
            each = part.reshape(-1, layout.channels, layout.n).sum(dim=(0, 2))
            self._sum += each.to(torch.int64)
            self._count += len(part)

    def finish(self) -> ShiftMoment:
        """The moment of all rows added."""
        return ShiftMoment(self._layout, self._count, self._sum, self._correlator.finish())


def _needed(layout: Layout) -> Tensor:
    """A mask of correlations that are not repeated by others: (C (C + 1) / 2, n), bool."""
    first, second = layout.pairs
    once = torch.arange(layout.n) <= layout.opposite
    return torch.logical_or((first != second)[:, None], once)


def _n_entries(layout: Layout) -> int:
    """The number of correlations that are not repeated."""
    C, n = layout.channels, layout.n
    return C * (C - 1) // 2 * n + C * len(layout.frequencies)
