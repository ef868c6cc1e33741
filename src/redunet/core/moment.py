"""Count, sum and second moment of one class, as integers."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from redunet.core.grid import GRID
from redunet.core.linalg import is_semidefinite
from redunet.errors import DataError

MAX_COUNT = 2**23 - 1
"""Most samples of one class: below 2²³ no entry of a second moment can exceed 2⁶³."""


@dataclass(frozen=True, eq=False)
class Moment:
    """Count, sum and second moment of one class, on the grid.

    Parameters
    ----------
    count : int
    sum : Tensor of shape (d,), int64
    second_moment : Tensor of shape (d, d), int64
    """

    count: int
    sum: Tensor
    second_moment: Tensor

    def __post_init__(self) -> None:
        if not 0 < self.count <= MAX_COUNT:
            raise DataError(
                f"expected 1 to {MAX_COUNT:,} samples in a class, got {self.count:,}: "
                f"the grid holds no more, so split the class"
            )
        n = self.count
        diagonal = self.second_moment.diagonal()
        if (
            max(map(abs, self.sum.tolist())) > n * GRID
            or int(diagonal.max()) > n * GRID**2
            or int(diagonal.min()) < 0
        ):
            raise DataError(
                f"expected grid values of at most {GRID:,} in size, but the moments of a class "
                f"of {n:,} samples exceed that: put the samples on the unit sphere first"
            )

    def __add__(self, other: Moment) -> Moment:
        return Moment(
            self.count + other.count,
            self.sum + other.sum,
            self.second_moment + other.second_moment,
        )

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Moment):
            return NotImplemented
        return (
            self.count == other.count
            and torch.equal(self.sum, other.sum)
            and torch.equal(self.second_moment, other.second_moment)
        )

    __hash__ = None  # type: ignore[assignment]

    def without(self, other: Moment) -> Moment | None:
        """Withdraw what ``other`` added; None where nothing is left.

        Only necessary conditions can be checked: the count does not fall below
        zero, and [[n, sᵀ], [s, S]] stays positive semi-definite. They catch
        every sample that was never learnt where a class has fewer samples than
        features; with more samples, one may go undetected.
        """
        count = self.count - other.count
        total = self.sum - other.sum
        second_moment = self.second_moment - other.second_moment
        if count == 0 and not total.any() and not second_moment.any():
            return None
        if count > 0:
            d = len(total)
            block = torch.empty(d + 1, d + 1, dtype=torch.float64)
            block[0, 0] = float(count * GRID**2)
            block[0, 1:] = block[1:, 0] = total.to(torch.float64) * GRID
            block[1:, 1:] = second_moment.to(torch.float64)
            if is_semidefinite(block, d * 2.0**-50):
                return Moment(count, total, second_moment)
        raise DataError(
            f"expected samples that were learnt before, but withdrawing these {other.count:,} "
            f"from a class of {self.count:,} leaves moments that no samples have: "
            f"withdraw only what was learnt, with the label it was learnt under"
        )

    def to(self, device: str) -> Moment:
        """The same integers on a device."""
        return replace(self, sum=self.sum.to(device), second_moment=self.second_moment.to(device))

    def Sigma(self) -> Tensor:
        """Second moment scaled to trace ``count``: Tensor of shape (d, d), float64."""
        return self.second_moment.to(torch.float64).mul_(self.count / self._trace())

    def mean(self) -> Tensor:
        """Mean in the scale of `Sigma`: Tensor of shape (d,), float64."""
        return self.sum.to(torch.float64).mul_((self.count * self._trace()) ** -0.5)

    def _trace(self) -> int:
        trace: int = sum(self.second_moment.diagonal().tolist())
        if trace == 0:
            raise DataError(
                "expected at least one sample that is not zero in each class, but a class has "
                "zero vectors only: learn more samples of it, or forget it"
            )
        return trace
