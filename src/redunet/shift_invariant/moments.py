"""What is remembered where all circular shifts of a sample count: correlations, as integers."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, cast

import torch
from torch import Tensor

from redunet.core.accumulator import rows_on_grid, some_rows, wrong_width
from redunet.core.allocation import Allocate, in_memory
from redunet.core.grid import OnGrid, unit_grid
from redunet.core.labels import Label, check_labels, named
from redunet.core.moment import Moment
from redunet.core.moments import ClassMoments
from redunet.errors import DataError
from redunet.shift_invariant.correlation import Correlator
from redunet.shift_invariant.layout import Layout
from redunet.shift_invariant.moment import ShiftMoment

NAMES = ("counts", "sums", "correlations", "positions")
"""Of the tensors of a table."""


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

    of_what = "moments of shifts"

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
            with named(label):
                out.append(self[label].blocks())
        return torch.stack(out)

    def __getitem__(self, label: Label) -> ShiftMoment:
        return cast(ShiftMoment, super().__getitem__(label))

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
