"""What is remembered where all circular shifts of a sample count: correlations, as integers."""

from __future__ import annotations

import builtins
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from redunet.core.accumulator import rows_on_grid, some_rows, wrong_width
from redunet.core.allocation import Allocate, copied, in_memory
from redunet.core.grid import GRID, OnGrid, unit_grid
from redunet.core.labels import Label, check_labels
from redunet.core.moment import Moment
from redunet.core.moments import ClassMoments
from redunet.core.shifts.correlation import Correlator
from redunet.core.shifts.layout import Layout
from redunet.errors import DataError

NAMES = ("counts", "sums", "correlations", "positions")
"""Of the tensors of a table."""

MAX_COUNT = 2**22 - 1
"""Most samples of one class: below 2²², no correlation of vectors of at most 2^20.5 can exceed
2⁶³."""


class ShiftMoment(Moment):
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

    def __init__(
        self,
        layout: Layout,
        count: int,
        sum: Tensor,  # noqa: A002 - what it is
        correlations: Tensor,
    ) -> None:
        if not 0 < count <= MAX_COUNT:
            raise DataError(
                f"expected 1 to {MAX_COUNT:,} samples in a class, got {count:,}: "
                f"the grid holds no more, so split the class"
            )
        self.layout, self.count, self.sum, self.correlations = layout, count, sum, correlations
        energies = self._energies.tolist()  # added as Python's integers, they cannot overflow
        if min(energies) < 0 or builtins.sum(energies) > 2 * count * GRID**2:
            raise DataError(
                f"expected samples on the unit sphere, but the correlations of a class of "
                f"{count:,} samples are not of such: put the samples on the unit sphere first"
            )

    @property
    def _energies(self) -> Tensor:
        """Of each channel, summed over positions and samples: Tensor of shape (C,), int64."""
        first, second = self.layout.pairs
        return self.correlations[first == second, 0]

    @property
    def second_moment(self) -> Tensor:
        """S of all shifts: Tensor of shape (d, d), int64; computed each time, for small d."""
        layout = self.layout
        first, second = layout.pairs
        whole = self.correlations.new_empty(layout.channels, layout.channels, layout.n)
        whole[second, first] = self.correlations[:, layout.opposite]
        whole[first, second] = self.correlations
        places = layout.differences.mT  # p' − p
        return whole[..., places].transpose(1, 2).reshape(layout.d, layout.d)

    @property
    def diagonal(self) -> Tensor:
        """The diagonal of the second moment: Tensor of shape (d,), int64."""
        return self._energies.repeat_interleave(self.layout.n)

    def blocks(self) -> Tensor:
        """The second moment at each frequency, scaled to trace count · n over all of them.

        Returns
        -------
        Tensor of shape (F, C, C), complex128
        """
        scale = self.count * self.layout.n / self.trace()
        return self.layout.blocks(self.correlations).mul_(scale)

    def Sigma(self) -> Tensor:
        """Second moment of all shifts, scaled to trace count · n: (d, d), float64."""
        return self.second_moment.to(torch.float64) * (self.count * self.layout.n / self.trace())

    def mean(self) -> Tensor:
        """Mean of all shifts in the scale of `Sigma`: Tensor of shape (d,), float64."""
        scale = (self.count * self.layout.n * self.trace()) ** -0.5
        return self.sum.to(torch.float64).mul_(scale).repeat_interleave(self.layout.n)

    def __add__(self, other: Moment) -> ShiftMoment:
        other = self._alike(other)
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

    __hash__ = None

    def without(self, other: Moment) -> ShiftMoment | None:
        """Withdraw what ``other`` added; None where nothing is left.

        As for `Moment.without`, only necessary conditions can be checked: the count, and that
        second moments stay positive semi-definite at each frequency.
        """
        other = self._alike(other)
        count, total = self.count - other.count, self.sum - other.sum
        correlations = self.correlations - other.correlations
        if count == 0 and not total.any() and not correlations.any():
            return None
        if count > 0 and self._possible(count, total, correlations):
            return ShiftMoment(self.layout, count, total, correlations)
        raise DataError(
            f"expected samples that were learnt before, but withdrawing these {other.count:,} "
            f"from a class of {self.count:,} leaves moments that no samples have: "
            f"withdraw only what was learnt, with the label it was learnt under"
        )

    def _possible(self, count: int, total: Tensor, correlations: Tensor) -> bool:
        """Whether samples can have these moments, as far as eigenvalues tell."""
        blocks = self.layout.blocks(correlations)
        s = total.to(torch.float64)
        blocks[0] -= torch.outer(s, s) / count  # the first frequency is the sum over positions
        lowest = torch.linalg.eigvalsh(blocks).amin()
        return float(lowest) >= -self.layout.d * 2.0**-50 * float(blocks.abs().amax())

    def _alike(self, other: Moment) -> ShiftMoment:
        if isinstance(other, ShiftMoment) and other.layout == self.layout:
            return other
        raise DataError("expected moments of shifts on the same grid: use the same positions")

    def placed(self, allocate: Allocate) -> ShiftMoment:
        """The same with its correlations in memory from ``allocate``."""
        if allocate == in_memory:
            return self
        return self._with(correlations=copied(self.correlations, allocate))

    def to(self, device: str) -> ShiftMoment:
        """The same integers on a device."""
        return self._with(sum=self.sum.to(device), correlations=self.correlations.to(device))

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__

    def _with(self, **changed: Any) -> ShiftMoment:
        other = ShiftMoment.__new__(ShiftMoment)
        other.__dict__ |= self.__dict__ | changed
        return other


class ShiftMoments(ClassMoments):
    """The moments of each class where all circular shifts of a sample count as samples.

    A value, never changed in place, with the arithmetic of `ClassMoments`.

    Parameters
    ----------
    layout : Layout
    table : mapping from label to ShiftMoment, default=()
    allocate : Allocate, default=in_memory

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

    def __init__(
        self,
        layout: Layout,
        table: Mapping[Label, Moment] | None = None,
        allocate: Allocate = in_memory,
    ) -> None:
        table = table or {}
        check_labels(table)
        self.layout, self.n_features, self.allocate = layout, layout.d, allocate
        self._table = {label: table[label].placed(allocate) for label in sorted(table)}
        for moment in self._table.values():
            if not isinstance(moment, ShiftMoment) or moment.layout != layout:
                raise _other_grid(layout, getattr(moment, "layout", None))

    def update(
        self,
        X: Any,
        y: Any,
        embed: Callable[[Any], Tensor | OnGrid] = unit_grid,
        device: str = "cpu",
    ) -> ShiftMoments:
        """The table after learning samples, as `ClassMoments.update`."""
        return self.update_from([(X, y)], embed, device)

    def update_from(
        self,
        batches: Iterable[tuple[Any, Any]],
        embed: Callable[[Any], Tensor | OnGrid] = unit_grid,
        device: str = "cpu",
    ) -> ShiftMoments:
        """The table after learning batches, as `ClassMoments.update_from`."""
        learning: dict[Label, _Learning] = {}
        for X, y in batches:
            rows_of = self._rows_of(X, y)
            check_labels((*self._table, *learning, *rows_of))
            for label, rows in rows_of.items():
                if label not in learning:
                    learning[label] = _Learning(self.layout, device)
                learning[label].add(X, rows, embed)
        table = dict(self._table)
        for label in [*learning]:
            new = learning.pop(label).finish()
            table[label] = table[label] + new if label in table else new
        return self._with(table)

    def blocks(self) -> Tensor:
        """Second moments of all classes at each frequency: (k, F, C, C), complex128.

        Each has the trace n_j n over all frequencies, as the second moment of all shifts has.
        """
        out = []
        for label in self._table:
            with self._named(label):
                out.append(self[label].blocks())
        return torch.stack(out)

    def __getitem__(self, label: Label) -> ShiftMoment:
        moment = super().__getitem__(label)
        assert isinstance(moment, ShiftMoment)  # noqa: S101 - for the type
        return moment

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, ClassMoments):
            return NotImplemented
        same = isinstance(other, ShiftMoments) and self.layout == other.layout
        return same and self._table == other._table

    __hash__ = None

    def placed(self, allocate: Allocate) -> ShiftMoments:
        """The same with correlations in memory from ``allocate``."""
        return ShiftMoments(self.layout, self._table, allocate)

    def to_tensors(self) -> dict[str, Tensor]:
        """Everything but the labels, in int64.

        Returns
        -------
        dict
            ``counts`` (k,), ``sums`` (k, C), ``positions`` (axes,) and ``correlations``
            (k, entries): of channels c <= c' and all shifts t, without those of one channel that
            A[c, c, t] = A[c, c, −t] repeats.
        """
        table, needed = [*self._table.values()], _needed(self.layout)
        held = [self[label].correlations[needed] for label in self._table]
        return {
            "counts": torch.tensor([moment.count for moment in table]),
            "sums": torch.stack([moment.sum for moment in table]),
            "positions": torch.tensor(self.layout.positions),
            "correlations": torch.stack(held),
        }

    @classmethod
    def from_tensors(
        cls,
        labels: Sequence[Label],
        tensors: Mapping[str, Tensor],
        allocate: Allocate = in_memory,
    ) -> ShiftMoments:
        """The table that `to_tensors` took apart."""
        counts, sums, held, positions = (tensors[name] for name in NAMES)
        if any(tensors[name].dtype != torch.int64 for name in NAMES):
            raise DataError("expected counts, sums and correlations in int64")
        if list(labels) != sorted(set(labels)):
            raise DataError("expected labels in order, each once")
        k = len(labels)
        if counts.shape != (k,) or sums.ndim != 2 or len(sums) != k or positions.ndim != 1:
            raise DataError("expected counts, sums and correlations of the same classes")
        layout = Layout(sums.shape[1], tuple(positions.tolist()))
        # By arithmetic first: a file of a few bytes must not ask for a large grid.
        if not k or layout.n > held.numel() or held.shape != (k, _n_entries(layout)):
            raise DataError("expected counts, sums and correlations of the same classes")
        needed, opposite = _needed(layout), layout.opposite
        own = layout.pairs[0] == layout.pairs[1]
        table = {}
        for label, count, total, entries in zip(labels, counts.tolist(), sums, held, strict=True):
            whole = torch.zeros(needed.shape, dtype=torch.int64)
            whole[needed] = entries
            whole[own] = torch.where(needed[own], whole[own], whole[own][:, opposite])
            table[label] = ShiftMoment(layout, count, total.clone(), whole)
        return cls(layout, table, allocate)

    def _with(self, table: Mapping[Label, Moment]) -> ShiftMoments:
        return ShiftMoments(self.layout, table, self.allocate)

    def _few_fit(self, labels: Collection[Label]) -> bool:
        return True

    def _held(self, moment: Moment, few_fit: bool) -> Moment:
        return moment.placed(self.allocate)

    def _check_same_features(self, other: ClassMoments) -> None:
        layout = getattr(other, "layout", None)
        if layout != self.layout:
            raise _other_grid(self.layout, layout)


class _Learning:
    """Sums of the samples of one class, on their way."""

    def __init__(self, layout: Layout, device: str) -> None:
        self._layout, self._correlator = layout, Correlator(layout, device)
        self._count = 0
        self._sum = torch.zeros(layout.channels, dtype=torch.int64)

    def add(self, X: Any, rows: list[int], embed: Callable[[Any], Tensor | OnGrid]) -> None:
        """Add some rows of X."""
        layout, step = self._layout, self._correlator.rows_at_once
        for start in range(0, len(rows), step):
            part = embed(some_rows(X, rows[start : start + step]))
            if part.shape[1] != layout.d:
                raise wrong_width(layout.d, part.shape[1])
            on_grid = rows_on_grid([part], len(part), layout.d)
            self._correlator.add(on_grid)
            each = on_grid.reshape(-1, layout.channels, layout.n).sum(dim=(0, 2))
            self._sum += each.to(torch.int64)
            self._count += len(part)

    def finish(self) -> ShiftMoment:
        """The moment of all rows added."""
        return ShiftMoment(self._layout, self._count, self._sum, self._correlator.finish())


def _needed(layout: Layout) -> Tensor:
    """Which correlations are not repeated by others: (C (C + 1) / 2, n), bool."""
    first, second = layout.pairs
    once = torch.arange(layout.n) <= layout.opposite
    return torch.logical_or((first != second)[:, None], once)


def _n_entries(layout: Layout) -> int:
    """How many there are."""
    C, n = layout.channels, layout.n
    return C * (C - 1) // 2 * n + C * len(layout.frequencies)


def _other_grid(expected: Layout, got: Layout | None) -> DataError:
    """The error that moments are of another grid."""
    return DataError(
        f"expected moments of {expected.channels} channels on a grid of {expected.positions}, got "
        f"{'moments without shifts' if got is None else f'{got.channels} on {got.positions}'}: "
        f"use the same features throughout"
    )
