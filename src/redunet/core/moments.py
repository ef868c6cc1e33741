"""The memory of a model: count, sum and second moment of each class, as integers.

A feature vector is put on the grid of step 2⁻²⁰, x̃ = round(2²⁰ x), and what is
summed are integers. Integer sums do not depend on their order, so learning,
withdrawing, merging and reordering are exact to the last bit, and two tables
can be compared with ``==``.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, ClassVar, final

import torch
from torch import Tensor

from redunet.core.accumulate import Accumulator, rows_by_label
from redunet.core.allocation import Allocate, in_memory, on_device
from redunet.core.eigenvectors import columns_factor, sketched_factor
from redunet.core.grid import unit_grid
from redunet.core.labels import Label as Label
from redunet.core.labels import check_labels as check_labels
from redunet.core.labels import known_labels, named
from redunet.core.moment import Moment, few
from redunet.core.packing import pack, unpack
from redunet.errors import DataError

_ROOM = 2**29
"""Bytes that second moments may take as matrices although their columns would do: to add columns
takes ten times as long. Half a GiB is little on machines that learn so many features, and enough
for 16 classes of 2,048."""


@final
class ClassMoments:
    """The moments of each class: a value, never changed in place.

    Parameters
    ----------
    n_features : int
        d, the length of a feature vector.
    table : mapping from label to Moment, default=()
        Labels are all int or all str.
    allocate : Allocate, default=in_memory
        Memory for second moments, also for those of tables made of this one.

    Examples
    --------
    >>> import torch
    >>> first = ClassMoments(2).update(torch.tensor([[3.0, 4.0]]), [0])
    >>> both = first.update(torch.tensor([[0.0, 2.0], [1.0, 0.0]]), [1, 0])
    >>> both.labels, both.counts
    ((0, 1), (2, 1))
    >>> both - both.select([1]) == both.drop([1])
    True
    """

    of_what: ClassVar[str] = "moments of vectors"
    """For messages."""

    def __init__(
        self,
        n_features: int,
        table: Mapping[Label, Moment] | None = None,
        allocate: Allocate = in_memory,
    ) -> None:
        self.n_features, self.allocate = n_features, allocate
        table = table or {}
        check_labels(table)
        self._table = {label: table[label].to_storage(allocate) for label in sorted(table)}
        for moment in self._table.values():
            if moment.sum.shape != (n_features,):
                raise DataError(
                    f"expected moments of {n_features} features, got {len(moment.sum)}: "
                    f"use the same features throughout"
                )

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

    def __contains__(self, label: object) -> bool:
        return label in self._table

    def __getitem__(self, label: Label) -> Moment:
        return self._table[self._known([label])[0]]

    def __repr__(self) -> str:
        return (
            f"ClassMoments({len(self)} classes, {sum(self.counts):,} samples, "
            f"{self.n_features} features)"
        )

    def update(
        self,
        X: Any,
        y: Any,
        embed: Callable[[Any], Tensor] = unit_grid,
        device: str = "cpu",
    ) -> ClassMoments:
        """The table after learning samples, of new classes or of old ones.

        Parameters
        ----------
        X : array or Tensor with n rows
            Indexed by lists of row numbers, so a memory-mapped file will do.
        y : sequence of n labels, int or str
        embed, device
            As for `update_from`.

        Returns
        -------
        ClassMoments
        """
        return self.update_from([(X, y)], embed, device)

    def update_from(
        self,
        batches: Iterable[tuple[Any, Any]],
        embed: Callable[[Any], Tensor] = unit_grid,
        device: str = "cpu",
    ) -> ClassMoments:
        """The table after learning batches that come one after another.

        Beyond one batch and the result, some samples of each class are held, no more than its
        second moment takes, and one d × d product.

        Parameters
        ----------
        batches : iterable of pairs
            X and y as for `update`, with classes mixed in any way.
        embed : callable, default=unit_grid
            From a chunk of X to feature vectors on the grid, (rows, d), as `grid.unit_grid` and
            `grid.on_grid` give them; they must not depend on how the rows are chunked.
        device : str, default="cpu"
            Where products are computed; the result is the same to the last bit
            on every device, and is kept on the CPU.

        Returns
        -------
        ClassMoments
        """
        learning = self.learning(embed, device)
        for X, y in batches:
            learning.add(X, y)
        return learning.moments()

    def learning(self, embed: Callable[[Any], Tensor] = unit_grid, device: str = "cpu") -> Learning:
        """Something to add batches to; parameters as for `update_from`.

        Examples
        --------
        >>> import torch
        >>> learning = ClassMoments(2).learning()
        >>> learning.add(torch.tensor([[3.0, 4.0]]), ["a"])
        >>> learning.moments()
        ClassMoments(1 classes, 1 samples, 2 features)
        """
        return Learning(self, Accumulator(self.n_features, embed, device, self.allocate))

    def _room_for(self, labels: Collection[Label]) -> bool:
        """Whether there is room for the second moments of so many classes as matrices."""
        return 8 * len(labels) * self.n_features**2 <= _ROOM

    def _stored(self, moment: Moment, room: bool) -> Moment:
        """A moment, by its columns if it is of few samples and there is no room for a matrix."""
        if not room and moment.count <= few(self.n_features):
            moment.columns  # noqa: B018 - stored so from now on
        return moment.to_storage(self.allocate)

    def _with(self, table: Mapping[Label, Moment]) -> ClassMoments:
        """Another table of the same features and kinds of labels, which are not checked again."""
        other = ClassMoments.__new__(ClassMoments)
        other.n_features, other.allocate = self.n_features, self.allocate
        other._table = {label: table[label] for label in sorted(table)}
        return other

    def __add__(self, other: ClassMoments) -> ClassMoments:
        self._check_same_features(other)
        check_labels((*self._table, *other._table))
        table = dict(self._table)
        room = self._room_for({*table, *other._table})
        for label, moment in other._table.items():
            table[label] = self._stored(table[label] + moment if label in table else moment, room)
        return self._with(table)

    def __sub__(self, other: ClassMoments) -> ClassMoments:
        self._check_same_features(other)
        table = dict(self._table)
        room = self._room_for(table)
        for label in self._known(other.labels):
            left = table.pop(label).without(other[label])
            if left is not None:
                table[label] = self._stored(left, room)
        return self._with(table)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, ClassMoments):
            return NotImplemented
        return self.n_features == other.n_features and self._table == other._table

    __hash__ = None  # type: ignore[assignment]

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"allocate": in_memory}

    def drop(self, labels: Iterable[Label]) -> ClassMoments:
        """The table without some classes, as if they had never been seen."""
        gone = set(self._known(labels))
        return self.select(label for label in self._table if label not in gone)

    def select(self, labels: Iterable[Label]) -> ClassMoments:
        """The table of some classes only."""
        return self._with({label: self._table[label] for label in self._known(labels)})

    def to_storage(self, allocate: Allocate) -> ClassMoments:
        """Copy second moments into memory from ``allocate``, unless they are there."""
        return ClassMoments(self.n_features, self._table, allocate)

    def widened(self, n_more: int) -> ClassMoments:
        """The moments that the same samples have with ``n_more`` features at the end, all 0.

        Examples
        --------
        >>> import torch
        >>> narrow = ClassMoments(2).update(torch.tensor([[3.0, 4.0]]), [0])
        >>> narrow.widened(1) == ClassMoments(3).update(torch.tensor([[3.0, 4.0, 0.0]]), [0])
        True
        """
        table = {label: moment.widened(n_more) for label, moment in self._table.items()}
        return ClassMoments(self.n_features + n_more, table, self.allocate)

    def Sigma(self, dtype: torch.dtype = torch.float64, device: str = "cpu") -> Tensor:
        """Second moments of all classes, each scaled to trace n_j.

        Returns
        -------
        Tensor of shape (k, d, d)
        """
        d = self.n_features
        out = on_device(self.allocate, (len(self), d, d), dtype, device)
        for out_j, Sigma_j in zip(out, self.each_Sigma(device), strict=True):
            out_j.copy_(Sigma_j)
        return out

    def each_Sigma(self, device: str = "cpu") -> Iterator[Tensor]:
        """Second moments in the scale of `Sigma`, one by one: Tensors of shape (d, d), float64."""
        for label in self._table:
            yield self.Sigma_of(label, device)

    def Sigma_of(self, label: Label, device: str = "cpu") -> Tensor:
        """The second moment of one class, scaled to trace n_j: Tensor of shape (d, d), float64."""
        with named(label):
            return self[label].Sigma(device)

    def rank_at_most(self, label: Label, device: str = "cpu") -> int:
        """A bound on the rank of Σ_j: the number of samples or, on a CPU, of columns.

        To find the columns takes many small steps, which a GPU has no use for.
        """
        moment = self[label]
        columns = moment.columns if torch.device(device).type == "cpu" else None
        return moment.count if columns is None else columns.rank

    def factor_of(self, label: Label, most: int, device: str = "cpu") -> Tensor | None:
        """F with F Fᵀ = Σ_j up to rounding, of a class of a rank of at most ``most``.

        Returns
        -------
        Tensor of shape (d, r), float64, or None
            None where the rank is not known to be as low, or where rounding does not allow it.
        """
        if torch.device(device).type != "cpu":
            rank = self.rank_at_most(label, device)
            return None if rank > most else sketched_factor(self.Sigma_of(label, device), rank)
        moment = self[label]
        columns = moment.columns
        if columns is None or columns.rank > most:
            return None
        with named(label):
            scale = moment.count / moment.trace()
        F = columns_factor(columns)
        return None if F is None else F.mul_(scale**0.5)

    def means(self, dtype: torch.dtype = torch.float64, device: str = "cpu") -> Tensor:
        """Means of all classes, in the scale of `Sigma`: Tensor of shape (k, d)."""
        return torch.stack([moment.mean() for moment in self._table.values()]).to(device, dtype)

    def to_tensors(self) -> dict[str, Tensor]:
        """Everything but the labels, in int64, as `redunet.core.packing` describes it."""
        return pack([*self._table.values()], self.allocate)

    @classmethod
    def from_tensors(
        cls,
        labels: Sequence[Label],
        tensors: Mapping[str, Tensor],
        allocate: Allocate = in_memory,
    ) -> ClassMoments:
        """The table that `to_tensors` took apart."""
        check_labels(labels)
        moments, table = unpack(tensors), dict[Label, Moment]()
        if list(labels) != sorted(set(labels)):
            raise DataError("expected labels in order, each once")
        if len(labels) != len(tensors["counts"]):
            raise DataError("expected counts, sums and second moments of the same classes")
        for label in labels:
            with named(label):
                table[label] = next(moments).to_storage(allocate)
        return cls(tensors["sums"].shape[1], table, allocate)

    def check(self) -> None:
        """Raise a DataError unless samples can have these moments: see `redunet.core.possible`."""
        for label, moment in self._table.items():
            with named(label):
                moment.check()

    def check_not_zero(self) -> None:
        """Raise a DataError where a class has zero vectors only: no network can be built of it."""
        for label, moment in self._table.items():
            with named(label):
                moment.trace()

    def check_values(self, values: tuple[int, int] | None) -> None:
        """Raise a DataError unless vectors on the grid can have them: see `Moment.check_values`."""
        for label, moment in self._table.items():
            with named(label):
                moment.check_values(values)

    def _known(self, labels: Iterable[Label]) -> list[Label]:
        return known_labels(labels, self._table)

    def _check_same_features(self, other: ClassMoments) -> None:
        if self.n_features != other.n_features:
            raise DataError(
                f"expected moments of {self.n_features} features, got {other.n_features}: "
                f"use the same features throughout"
            )


class Learning:
    """Adds batches to a table, which itself does not change.

    Parameters
    ----------
    start : ClassMoments
    accumulator : Accumulator
        That nothing has been added to.
    """

    def __init__(self, start: ClassMoments, accumulator: Accumulator) -> None:
        self._start, self._accumulator = start, accumulator

    def add(self, X: Any, y: Any) -> None:
        """Add a batch, as `ClassMoments.update` takes it."""
        rows_of = rows_by_label(X, y)
        known = {*self._start, *self._accumulator.labels}
        kinds = set(map(type, known))
        if not all(label in known and type(label) in kinds for label in rows_of):
            check_labels((*known, *rows_of))
        for label, rows in rows_of.items():
            self._accumulator.add(label, X, rows)

    def moments(self) -> ClassMoments:
        """The table with all batches, after which no more can be added."""
        start, accumulator = self._start, self._accumulator
        table = dict(start._table)
        room = start._room_for({*table, *accumulator.labels})
        for label in accumulator.labels:
            old = table.get(label)
            by_columns = not room and (old is None or old.dense is None)
            new = accumulator.finish(label, few(start.n_features) if by_columns else 0)
            table[label] = start._stored(new if old is None else old + new, room)
        return start._with(table)
