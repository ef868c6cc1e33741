"""Fusions: short networks that answer for a long one.

Layers of small steps are a flow, so a block of them is nearly one layer: the one in its
middle, with the step of the whole block. A fusion has a few such layers, maybe in fewer
dimensions, with fewer directions of each class and in a dtype of fewer bits. How far it can be
trusted is told by `redunet.core.fused_network`.

A fusion also tells which classes have no share in a sample anywhere on its way. Residuals are
measured where a block begins, with the operators of its middle. Let the sample move by ℓ within
the block, and take it that operators move residuals no more than it does. Then a residual is off
by at most s + |s − ℓ/2| after a part s of the way, so at most by 3ℓ/2; and by at most
2(ℓ − s) + ℓ/2 from what is measured where the next block begins. One of the two is at most ℓ.
So the difference of two residuals is nowhere less than the lesser one of both ends by more than
2ℓ, and in the last block, which has one end, by more than 3ℓ.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from redunet.core.layer import AbstractLayer, row_norms
from redunet.core.leading import Leading
from redunet.core.memberships import Confidence, sharpness_of

BATCH_BYTES, CACHE_BYTES = 2**28, 2**22
"""About how much memory a batch of samples may take within a fusion, and within one of few
dimensions on a CPU, which is fastest within the processor's cache."""


@dataclass(frozen=True, eq=False)
class Fusion:
    """A few layers that stand for all of a network's.

    Parameters
    ----------
    layers : tuple of layers
        One for each block.
    reach : tuple of float
        Of each block, how much of the distance from its begin to its end lies within it:
        0 if it is one layer, nearly 1 if it is many.
    space : Leading, or None
        The directions that the layers keep of the network's own (reduced) space.
    dtype : torch.dtype
    share : float, default=0.0
        A class that cannot have a larger share in a sample is left out of it.
    whole : bool, default=False
        Whether it has all of the network's layers, in at least float32: then only rounding, and
        classes that are left out, keep it from the network.
    """

    layers: tuple[AbstractLayer, ...]
    reach: tuple[float, ...]
    space: Leading | None
    dtype: torch.dtype
    share: float = 0.0
    whole: bool = False

    def cost(self, considered: float, relevant: float) -> float:
        """Products in float64 that take as long as those of one sample.

        The parameters are those of `AbstractLayer.products`.
        """
        device = self.layers[0].E.device.type
        width = 0 if self.space is None else self.space.in_all.numel()
        products = sum(layer.products(considered, relevant) for layer in self.layers)
        return (products + width) * rate(self.dtype, device)

    @property
    def n_bytes(self) -> int:
        """Memory."""
        return sum(layer.n_bytes for layer in self.layers)

    @property
    def negligible(self) -> float:
        """A class so many nats behind the likeliest one is left out of a sample."""
        return -math.log(self.share) if self.share else math.inf

    @property
    def path(self) -> tuple[float, ...]:
        """τ, the relative step of each block."""
        return tuple(layer.step * layer.coding.alpha for layer in self.layers)

    @property
    def wide(self) -> torch.dtype:
        """The dtype of samples before and after the layers: at least float32."""
        return torch.promote_types(self.dtype, torch.float32)

    def move(self, start: Tensor, sharpness: Confidence, among: Tensor | None = None) -> Moves:
        """Samples after the layers.

        Parameters
        ----------
        start : Tensor of shape (n, w)
            In the dimensions of the fusion, in the dtype ``wide``.
        sharpness : Sharpness or float
        among : Tensor of shape (n, k), bool, default=None
            The classes to consider; None means all.

        Returns
        -------
        Moves
        """
        batch_bytes = BATCH_BYTES
        if start.device.type == "cpu" and self.space is not None:
            batch_bytes = CACHE_BYTES
        rows = max(1, batch_bytes // self.layers[0].sample_space(1).nbytes)
        parts = torch.split(start, rows)
        masks = [None] * len(parts) if among is None else torch.split(among, rows)
        memory = self.layers[0].sample_space(len(parts[0]))
        passed = [
            self._move(part, sharpness, mask, memory)
            for part, mask in zip(parts, masks, strict=True)
        ]
        return Moves.cat([Moves(self, *one) for one in passed])

    def _move(
        self, start: Tensor, sharpness: Confidence, among: Tensor | None, memory: Tensor
    ) -> tuple[Tensor, ...]:
        moving = start.to(self.dtype, copy=True)
        coding = self.layers[0].coding
        c = max(sharpness_of(sharpness).of_classes(coding))
        doubts, behinds, lengths = [], [], []
        for layer, reach in zip(self.layers, self.reach, strict=True):
            before = moving.to(self.wide, copy=True) if reach else moving
            moved = layer.move_samples_(moving, sharpness, memory, among)
            doubts.append(torch.minimum(moved.spread.log(), moved.doubt + math.log(2)).double())
            behinds.append(moved.behind.float())
            length = reach * row_norms(moving - before) if reach else moved.spread.new_zeros(())
            lengths.append(length.float()[..., None])
        rounding = c * torch.finfo(self.dtype).eps
        slacks = [2 * torch.maximum(*pair) for pair in itertools.pairwise(lengths)]
        slacks.append(3 * lengths[-1])
        least = (one - c * slack for one, slack in zip(behinds, slacks, strict=True))
        behind = functools.reduce(torch.minimum, least) - rounding
        return start, moving.to(self.wide), torch.stack(doubts, dim=1), behind


@dataclass(frozen=True, eq=False)
class Moves:
    """How samples moved through a fusion.

    Parameters
    ----------
    fusion : Fusion
    start, end : Tensor of shape (n, w)
        Before and after its layers, in the fusion's dimensions, in at least float32.
    doubts : Tensor of shape (n, blocks), float64
        log(s) at the begin of each block.
    behind : Tensor of shape (n, k), float32
        By how many nats a class stays behind the likeliest one, everywhere on the way.
    """

    fusion: Fusion
    start: Tensor
    end: Tensor
    doubts: Tensor
    behind: Tensor

    def where(self, rows: Tensor) -> Moves:
        """Some of the samples: a mask, (n,)."""
        fields = (self.start, self.end, self.doubts, self.behind)
        return Moves(self.fusion, *(one[rows] for one in fields))

    @classmethod
    def cat(cls, parts: Sequence[Moves]) -> Moves:
        """Samples of several parts, one after another; there is at least one part."""
        if len(parts) == 1:
            return parts[0]
        names = ("start", "end", "doubts", "behind")
        joined = (torch.cat([getattr(one, name) for one in parts]) for name in names)
        return cls(parts[0].fusion, *joined)

    def distance(self, after: Moves) -> Tensor:
        """From the end of these samples to that of a finer fusion: (n,), float64."""
        end, space, wider = self.end, self.fusion.space, after.fusion.space
        if space is not None and space is not wider:
            end = space.widened(self.start, self.end, after.start, wider)
        return row_norms(after.end - end).double()


def rate(dtype: torch.dtype, device: str) -> float:
    """How long a product of two numbers takes, with one in float64 as the unit."""
    if device == "cpu":
        return {torch.float64: 1.0, torch.float32: 0.5}.get(dtype, 0.25)
    return 1.0 if dtype in (torch.float64, torch.float32) else 0.1
