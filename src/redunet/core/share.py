"""Which classes of a model are in which process, so that all have about as much to do."""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass

from torch import Tensor

from redunet.core.moments import ClassMoments, Label
from redunet.core.ranks import ALONE, Ranks
from redunet.errors import SettingsError

FACTORED_UP_TO = 0.4
"""A class of a rank up to this share of d is built and applied faster as a factor. By operations
alone it would be 0.69 in layers and 0.5 in answers (see `cost`); chosen by hand below both."""


@dataclass(frozen=True, eq=False)
class Share:
    """The classes of one process, among those of all.

    Parameters
    ----------
    labels : tuple of k labels, sorted
        Of all processes together.
    counts : tuple of k int
    own : tuple of int
        The places, in the order of the labels, of the classes that are in this process.
    ranks : Ranks
    """

    labels: tuple[Label, ...]
    counts: tuple[int, ...]
    own: tuple[int, ...]
    ranks: Ranks

    @classmethod
    def of(cls, moments: ClassMoments, ranks: Ranks = ALONE) -> Share:
        """The share of this process in classes that every process knows."""
        if ranks.size == 1:
            return cls(moments.labels, moments.counts, tuple(range(len(moments))), ranks)
        d, held = moments.n_features, (moments[label].columns for label in moments)
        own = split([d if one is None else one.rank for one in held], d, ranks.size)[ranks.rank]
        return cls(moments.labels, moments.counts, own, ranks)

    @property
    def own_labels(self) -> tuple[Label, ...]:
        """The labels of the classes that are in this process."""
        return tuple(self.labels[j] for j in self.own)

    def rows(self, own: Tensor) -> Tensor:
        """Rows for all classes, (k, ...), of those of this process; zeros for others."""
        if len(self.own) == len(self.labels):
            return own
        every = own.new_zeros(len(self.labels), *own.shape[1:])
        every[list(self.own)] = own
        return every


def split(ranks: Sequence[int], d: int, size: int) -> list[tuple[int, ...]]:
    """Classes split over processes.

    The most costly class goes to the process with the least to do, then the next one.

    Parameters
    ----------
    ranks : sequence of k int
        The rank of each class's second moment, or d.
    d : int
        Features.
    size : int
        Processes.

    Returns
    -------
    list of ``size`` tuples of int
        The places of the classes of each process, ascending.

    Examples
    --------
    >>> split([64, 64, 4, 4, 4, 64], 64, 2)
    [(0, 5), (1, 2, 3, 4)]
    """
    if size > len(ranks):
        raise SettingsError(
            f"expected at most as many processes as classes, {len(ranks):,}, got {size:,}: "
            f"start fewer processes"
        )
    parts: list[list[int]] = [[] for _ in range(size)]
    least_to_do = [(0.0, rank) for rank in range(size)]
    costs = [cost(r, d) for r in ranks]
    for j in sorted(range(len(costs)), key=lambda j: (-costs[j], j)):
        busy, rank = heapq.heappop(least_to_do)
        parts[rank].append(j)
        heapq.heappush(least_to_do, (busy + costs[j], rank))
    return [tuple(sorted(part)) for part in parts]


def cost(rank: int, d: int) -> float:
    """Operations that a class takes in a layer, in units of d².

    4 d for one that has a matrix: an inverse, and L Σ Lᵀ of symmetric matrices. For one with a
    factor B, (r, d): its part in the sum, r; B E, 2 r; B Bᵀ, M and M B, 4 r² / d. In answers it
    is d to 2 r for each sample, and in memory d to r, so nearly the same shares.
    """
    return 4.0 * d if rank > int(FACTORED_UP_TO * d) else 3.0 * rank + 4.0 * rank**2 / d
