"""What is remembered where features come in groups: the moments of each group, none across groups.

Each group is put on the unit sphere by itself and has a table of its own, so M groups of d features
take M d² numbers a class in place of (M d)². Everything that is exact of a table is exact here.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias, cast

import torch
from torch import Tensor

from redunet.core.accumulate import rows_at_once, rows_by_label, some_rows, wrong_width
from redunet.core.allocation import Allocate, in_memory
from redunet.core.grid import unit_grid
from redunet.core.labels import Label, check_labels
from redunet.core.moment import Moment
from redunet.core.moments import ClassMoments
from redunet.core.waiting import Waiting
from redunet.errors import DataError

_BLOCK_BYTES = {"cpu": 2**30, "cuda": 2**32}
"""What feature vectors of one class, of all groups, may take at a time."""

_WAITING = 2**29
"""Bytes of samples that may wait to be learnt."""


Embedded: TypeAlias = tuple[Tensor, Callable[[Any], Tensor]]
"""Feature vectors, and the function that puts those of a group on the grid."""


def _as_given(samples: Any) -> Embedded:
    return torch.as_tensor(samples), unit_grid


class GroupedMoment(Moment):
    """Count, sums and second moments of one class, group by group: a value, never changed.

    Parameters
    ----------
    groups : sequence of Moment
        Of the same samples.
    """

    def __init__(self, groups: Sequence[Moment]) -> None:
        self.groups = tuple(groups)
        if len({group.count for group in groups}) != 1:
            raise DataError("expected groups of features of the same samples")
        self.count = self.groups[0].count
        self.sum = torch.cat([group.sum for group in self.groups])

    @property
    def second_moment(self) -> Tensor:
        """S with zeros across groups: Tensor of shape (d, d), int64; computed each time."""
        out = self.sum.new_zeros(len(self.sum), len(self.sum))
        start = 0
        for group in self.groups:
            end = start + len(group.sum)
            out[start:end, start:end] = group.second_moment
            start = end
        return out

    @property
    def storage(self) -> Tensor:
        """The second moment, as it is never held by columns."""
        return self.second_moment

    @property
    def diagonal(self) -> Tensor:
        """The diagonal of the second moment: Tensor of shape (d,), int64."""
        return torch.cat([group.diagonal for group in self.groups])

    def __add__(self, other: Moment) -> GroupedMoment:
        pairs = zip(self.groups, self._alike(other).groups, strict=True)
        return GroupedMoment([mine + theirs for mine, theirs in pairs])

    def __eq__(self, other: object) -> bool:
        return isinstance(other, GroupedMoment) and self.groups == other.groups

    __hash__ = None

    def without(self, other: Moment) -> GroupedMoment | None:
        """Withdraw what ``other`` added; None where nothing is left."""
        pairs = zip(self.groups, self._alike(other).groups, strict=True)
        left = [mine.without(theirs) for mine, theirs in pairs]
        kept = [group for group in left if group is not None]
        return GroupedMoment(kept) if kept else None  # of equal counts: all of them, or none

    def check(self) -> None:
        """As `Moment.check`, group by group."""
        for group in self.groups:
            group.check()

    def check_values(self, values: tuple[int, int] | None) -> None:
        """As `Moment.check_values`: each group has a length of its own."""
        for group in self.groups:
            group.check_values(values)

    def to_storage(self, allocate: Allocate) -> GroupedMoment:
        """The same with its second moments in memory from ``allocate``."""
        return GroupedMoment([group.to_storage(allocate) for group in self.groups])

    def to(self, device: str) -> GroupedMoment:
        """The same integers on a device."""
        return GroupedMoment([group.to(device) for group in self.groups])

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__

    def _alike(self, other: Moment) -> GroupedMoment:
        if isinstance(other, GroupedMoment) and len(other.groups) == len(self.groups):
            return other
        raise DataError("expected moments of the same groups of features")


class GroupedMoments(ClassMoments):
    """The moments of each class in each group of features.

    A value, never changed in place, with the arithmetic of `ClassMoments`.

    Parameters
    ----------
    sizes : sequence of int
        How many features each group has.
    table : mapping from label to GroupedMoment, default=()
    allocate : Allocate, default=in_memory

    Examples
    --------
    >>> import torch
    >>> moments = GroupedMoments((2, 1)).update(torch.tensor([[3.0, 4.0, 7.0]]), ["a"])
    >>> (moments["a"].sum / 2**20).tolist()  # each group on the unit sphere
    [0.6000003814697266, 0.8000001907348633, 1.0]
    >>> moments.groups[0]
    ClassMoments(1 classes, 1 samples, 2 features)
    """

    of_what = "moments of groups of features"

    def __init__(
        self,
        sizes: Sequence[int],
        table: Mapping[Label, Moment] | None = None,
        allocate: Allocate = in_memory,
    ) -> None:
        table = table or {}
        check_labels(table)
        self.sizes, self.n_features, self.allocate = tuple(sizes), sum(sizes), allocate
        self._table = {label: table[label].to_storage(allocate) for label in sorted(table)}
        for moment in self._table.values():
            groups = getattr(moment, "groups", ())
            if tuple(len(group.sum) for group in groups) != self.sizes:
                raise _other_groups(self.sizes, groups)

    @classmethod
    def of_groups(
        cls, tables: Sequence[ClassMoments], allocate: Allocate = in_memory
    ) -> GroupedMoments:
        """The table of groups that have learnt the same samples."""
        merged = {label: GroupedMoment([one[label] for one in tables]) for label in tables[0]}
        return cls([one.n_features for one in tables], merged, allocate)

    @property
    def groups(self) -> tuple[ClassMoments, ...]:
        """The tables of the groups; they share their memory with this one."""
        return tuple(
            ClassMoments(
                size, {label: self[label].groups[g] for label in self._table}, self.allocate
            )
            for g, size in enumerate(self.sizes)
        )

    def check_not_zero(self) -> None:
        """As `ClassMoments.check_not_zero`, of each group: each has a network of its own."""
        for table in self.groups:
            table.check_not_zero()

    def parts(self, vectors: Tensor) -> tuple[Tensor, ...]:
        """Feature vectors, (n, d), group by group."""
        return torch.split(vectors, list(self.sizes), dim=1)

    def update(
        self,
        X: Any,
        y: Any,
        embed: Callable[[Any], Embedded] = _as_given,  # type: ignore[override]
        device: str = "cpu",
    ) -> GroupedMoments:
        """The table after learning samples, as `ClassMoments.update`."""
        return self.update_from([(X, y)], embed, device)

    def update_from(
        self,
        batches: Iterable[tuple[Any, Any]],
        embed: Callable[[Any], Embedded] = _as_given,  # type: ignore[override]
        device: str = "cpu",
    ) -> GroupedMoments:
        """The table after learning batches, as `ClassMoments.update_from`."""
        tables = list(self.groups)
        most = max(1, _BLOCK_BYTES.get(torch.device(device).type, 2**30) // (8 * self.n_features))

        def learn(label: Label, waiting: list[Any]) -> None:
            for vectors, put in self._blocks(waiting, most, embed, device):
                labels = [label] * len(vectors)
                for g, group in enumerate(self.parts(vectors)):
                    tables[g] = tables[g].update(group, labels, put, device)

        waiting = Waiting(learn, _WAITING)
        for X, y in batches:
            rows_of = rows_by_label(X, y)
            check_labels((*tables[0].labels, *waiting, *rows_of))
            for label, rows in rows_of.items():
                waiting.add(label, some_rows(X, rows), most)
        waiting.learn_all()
        return GroupedMoments.of_groups(tables, self.allocate)

    def _blocks(
        self,
        waiting: Sequence[Any],
        most: int,
        embed: Callable[[Any], Embedded],
        device: str,
    ) -> Iterator[Embedded]:
        """Feature vectors, about ``most`` at a time, and how each group is put on the grid."""
        step, parts, rows = rows_at_once(self.n_features, device), list[Tensor](), 0
        put: Callable[[Any], Tensor] = unit_grid
        for samples in waiting:
            for start in range(0, len(samples), step):
                part, put = embed(samples[start : start + step])
                if part.shape[1] != self.n_features:
                    raise wrong_width(self.n_features, part.shape[1])
                parts.append(part)
                rows += len(part)
                if rows >= most:
                    yield torch.cat(parts), put
                    parts, rows = [], 0
        if parts:
            yield torch.cat(parts), put

    def __getitem__(self, label: Label) -> GroupedMoment:
        return cast(GroupedMoment, super().__getitem__(label))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, ClassMoments):
            return NotImplemented
        same = isinstance(other, GroupedMoments) and self.sizes == other.sizes
        return same and self._table == other._table

    __hash__ = None

    def to_storage(self, allocate: Allocate) -> GroupedMoments:
        """The same with second moments in memory from ``allocate``."""
        return GroupedMoments(self.sizes, self._table, allocate)

    def to_tensors(self) -> dict[str, Tensor]:
        """The tensors of all groups, as `ClassMoments.to_tensors`, under ``groups.G.NAME``."""
        return {
            f"{PREFIX}{g}.{name}": tensor
            for g, table in enumerate(self.groups)
            for name, tensor in table.to_tensors().items()
        }

    @classmethod
    def from_tensors(
        cls,
        labels: Sequence[Label],
        tensors: Mapping[str, Tensor],
        allocate: Allocate = in_memory,
    ) -> GroupedMoments:
        """The table that `to_tensors` took apart."""
        tables = []
        for g in itertools.count():
            start = f"{PREFIX}{g}."
            own = {n.removeprefix(start): t for n, t in tensors.items() if n.startswith(start)}
            if not own:
                break
            tables.append(ClassMoments.from_tensors(labels, own, allocate))
        return cls.of_groups(tables, allocate)

    def _with(self, table: Mapping[Label, Moment]) -> GroupedMoments:
        return GroupedMoments(self.sizes, table, self.allocate)

    def _few_fit(self, labels: Any) -> bool:
        return all(table._few_fit(labels) for table in self.groups)

    def _held(self, moment: Moment, few_fit: bool) -> Moment:
        groups = cast(GroupedMoment, moment).groups
        pairs = zip(self.groups, groups, strict=True)
        return GroupedMoment([table._held(group, few_fit) for table, group in pairs])

    def _check_same_features(self, other: ClassMoments) -> None:
        sizes = getattr(other, "sizes", None)
        if sizes != self.sizes:
            raise _other_groups(self.sizes, next(iter(other._table.values()), None))


PREFIX = "groups."
"""What the names of tensors begin with."""


def _other_groups(expected: tuple[int, ...], got: Any) -> DataError:
    """The error that moments are of other groups."""
    groups = getattr(got, "groups", got)
    sizes = [len(g.sum) for g in groups] if isinstance(groups, tuple) and groups else "none"
    return DataError(
        f"expected moments of groups of {list(expected)} features, got {sizes}: "
        f"use the same features throughout"
    )
