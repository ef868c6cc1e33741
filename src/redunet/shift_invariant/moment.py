"""Count, sums and correlations of one class, as integers."""

from __future__ import annotations

import builtins
from typing import Any

import torch
from torch import Tensor

from redunet.core.allocation import Allocate, copied, in_memory
from redunet.core.grid import GRID
from redunet.core.moment import Moment, never_learnt
from redunet.core.possible import check_lengths, impossible
from redunet.errors import DataError
from redunet.shift_invariant.layout import Layout
from redunet.shift_invariant.possible import check_correlations

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
    def held(self) -> Tensor:
        """The second moment, as it is never held by columns."""
        return self.second_moment

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
        try:
            left = ShiftMoment(self.layout, count, total, correlations)
            left.check()
        except DataError:
            raise never_learnt(self.count, other.count) from None
        return left

    def check(self) -> None:
        """As `Moment.check`, for correlations: see `redunet.shift_invariant.possible`."""
        check_correlations(self.layout, self.count, self.sum, self.correlations)

    def check_values(self, values: tuple[int, int] | None) -> None:
        """As `Moment.check_values`."""
        if values is None:
            check_lengths(self.count, sum(self._energies.tolist()), self.layout.d)
            return
        (low, high), n = values, self.count * self.layout.n
        pairs = zip(self.sum.tolist(), self._energies.tolist(), strict=True)
        for c, (s, energy) in enumerate(pairs):
            if not n * low <= s <= n * high or energy > (low + high) * s - n * low * high:
                raise impossible(f"values of channel {c} outside of their range")

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
