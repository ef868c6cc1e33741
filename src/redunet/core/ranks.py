"""Processes that share the classes of one model: what they tell each other.

The construction and the answers need few things of other classes: sums over all of them, and
the largest of some numbers. One process alone has these at hand; `redunet.distributed.group`
gives ranks that ask the others.
"""

from __future__ import annotations

from typing import Protocol

import torch
from torch import Tensor


class Ranks(Protocol):
    """The processes of a group, as one of them sees them.

    All of them have to call the same methods in the same order, with tensors of the same shape
    and dtype, and all get the same result.
    """

    @property
    def rank(self) -> int:
        """The number of this process, from 0 on."""

    @property
    def size(self) -> int:
        """How many processes there are."""

    def sum_(self, part: Tensor) -> Tensor:
        """Turn the part of this process into the sum over all processes, in place."""

    def max_(self, part: Tensor) -> Tensor:
        """Turn the part of this process into the largest of all processes, in place."""


class Alone:
    """One process that has all classes."""

    rank = 0
    size = 1

    def sum_(self, part: Tensor) -> Tensor:
        """The part, which is all."""
        return part

    def max_(self, part: Tensor) -> Tensor:
        """The same."""
        return part


ALONE = Alone()


def largest(ranks: Ranks, value: int) -> int:
    """The largest number that a process has."""
    return int(ranks.max_(torch.tensor([value])))


def smallest(ranks: Ranks, value: int) -> int:
    """The smallest number that a process has."""
    return -largest(ranks, -value)
