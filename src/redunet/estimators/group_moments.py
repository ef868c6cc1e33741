"""Moments of groups of features: a table of the same classes for each group, and nothing across."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor

from redunet.core.allocation import Allocate, in_memory
from redunet.core.grid import unit_grid
from redunet.core.moments import ClassMoments, Label
from redunet.errors import DataError

PREFIX = "groups."
"""The names of tensors begin with this and the number of the group."""

_ROWS = 512
"""Samples whose features are computed at a time, as for the moments of one group."""


@dataclass(frozen=True)
class GroupMoments:
    """A table of classes for each group of features, of the same samples; a value like each.

    Parameters
    ----------
    groups : tuple of ClassMoments
        At least one.

    Examples
    --------
    >>> moments = GroupMoments.empty((2, 1))
    >>> moments = moments.update_from([(torch.tensor([[3.0, 4.0, 7.0]]), ["a"])], lambda X: X)
    >>> [(one["a"].sum / 2**20).tolist() for one in moments.groups]  # each of unit length
    [[0.6000003814697266, 0.8000001907348633], [1.0]]
    """

    groups: tuple[ClassMoments, ...]

    of_what: ClassVar[str] = "moments of groups of features"

    def __post_init__(self) -> None:
        if len({(one.labels, one.counts) for one in self.groups}) != 1:
            raise DataError("expected the same samples of each class in every group of features")

    @classmethod
    def empty(cls, sizes: Sequence[int], allocate: Allocate = in_memory) -> GroupMoments:
        """Tables of no class yet, for groups of so many features."""
        return cls(tuple(ClassMoments(size, allocate=allocate) for size in sizes))

    @property
    def sizes(self) -> tuple[int, ...]:
        """The number of features of each group."""
        return tuple(one.n_features for one in self.groups)

    @property
    def n_features(self) -> int:
        """The features of all groups."""
        return sum(self.sizes)

    @property
    def labels(self) -> tuple[Label, ...]:
        """The classes, sorted."""
        return self.groups[0].labels

    @property
    def counts(self) -> tuple[int, ...]:
        """Samples of each class, in the order of the labels."""
        return self.groups[0].counts

    def __len__(self) -> int:
        return len(self.groups[0])

    def __iter__(self) -> Iterator[Label]:
        return iter(self.groups[0])

    def __contains__(self, label: object) -> bool:
        return label in self.groups[0]

    def __add__(self, other: GroupMoments) -> GroupMoments:
        pairs = self._pairs(other)
        return GroupMoments(tuple(mine + theirs for mine, theirs in pairs))

    def __sub__(self, other: GroupMoments) -> GroupMoments:
        pairs = self._pairs(other)
        return GroupMoments(tuple(mine - theirs for mine, theirs in pairs))

    def drop(self, labels: Iterable[Label]) -> GroupMoments:
        """The tables without some classes."""
        gone = list(labels)
        return GroupMoments(tuple(one.drop(gone) for one in self.groups))

    def select(self, labels: Iterable[Label]) -> GroupMoments:
        """The tables of some classes alone."""
        kept = list(labels)
        return GroupMoments(tuple(one.select(kept) for one in self.groups))

    def to_storage(self, allocate: Allocate) -> GroupMoments:
        """The tables with second moments in memory from ``allocate``."""
        return GroupMoments(tuple(one.to_storage(allocate) for one in self.groups))

    def parts(self, vectors: Tensor) -> tuple[Tensor, ...]:
        """Feature vectors, (n, d), group by group."""
        return torch.split(vectors, list(self.sizes), dim=1)

    def update_from(
        self,
        batches: Iterable[tuple[Any, Any]],
        embed: Callable[[Any], Tensor],
        device: str = "cpu",
    ) -> GroupMoments:
        """The tables after learning batches.

        Parameters
        ----------
        batches : iterable of pairs
            Samples, and a list of their labels.
        embed : callable
            From samples to feature vectors, (n, d), which are put on the unit sphere by groups.
        device : str, default="cpu"
        """
        learning = [one.learning(unit_grid, device) for one in self.groups]
        for X, y in batches:
            for start in range(0, len(X), _ROWS):
                labels = y[start : start + _ROWS]
                vectors = self._checked(embed(X[start : start + _ROWS]))
                for one, part in zip(learning, self.parts(vectors), strict=True):
                    one.add(part, labels)
        return GroupMoments(tuple(one.moments() for one in learning))

    def check(self) -> None:
        """Raise a DataError where samples cannot have such moments."""
        for one in self.groups:
            one.check()

    def check_values(self, values: tuple[int, int] | None) -> None:
        """Raise a DataError where feature vectors of given values cannot have such moments."""
        for one in self.groups:
            one.check_values(values)

    def check_not_zero(self) -> None:
        """Raise a DataError where a class has zero vectors only in some group."""
        for one in self.groups:
            one.check_not_zero()

    def to_tensors(self) -> dict[str, Tensor]:
        """The tensors of all groups, under ``groups.G.NAME``."""
        return {
            f"{PREFIX}{g}.{name}": tensor
            for g, one in enumerate(self.groups)
            for name, tensor in one.to_tensors().items()
        }

    @classmethod
    def from_tensors(
        cls,
        labels: Sequence[Label],
        tensors: Mapping[str, Tensor],
        allocate: Allocate = in_memory,
    ) -> GroupMoments:
        """The tables that `to_tensors` took apart."""
        by_group: dict[str, dict[str, Tensor]] = {}
        for name, tensor in tensors.items():
            if name.startswith(PREFIX):
                group, _, own = name.removeprefix(PREFIX).partition(".")
                by_group.setdefault(group, {})[own] = tensor
        ordered = [by_group[group] for group in map(str, range(len(by_group)))]
        return cls(tuple(ClassMoments.from_tensors(labels, own, allocate) for own in ordered))

    def _pairs(self, other: Any) -> list[tuple[ClassMoments, ClassMoments]]:
        if getattr(other, "sizes", None) != self.sizes:
            raise DataError(
                f"expected moments of groups of {list(self.sizes)} features, got "
                f"{list(getattr(other, 'sizes', ()))}: use the same features throughout"
            )
        return list(zip(self.groups, other.groups, strict=True))

    def _checked(self, vectors: Tensor) -> Tensor:
        if vectors.shape[1] != self.n_features:
            raise DataError(
                f"expected vectors of {self.n_features} features, got {vectors.shape[1]}: "
                f"use the same features throughout"
            )
        return vectors
