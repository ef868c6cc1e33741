"""Coarse networks: few layers, in float32, that stand for all layers of a network.

Layers of small steps are a flow, so a block of them is nearly one layer: the one in its middle,
with the step of the whole block. How far such a network can be trusted is told by
`redunet.core.cascade`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from redunet.core.coarse_low_rank import CoarseLowRankLayer
from redunet.core.layer import AbstractLayer, Confidence, Layer
from redunet.core.low_rank import LowRankLayer
from redunet.core.network import ReduNet

BLOCK_PATH = 0.4
"""The longest path Σ τ of a block in the coarsest network: that of all 200 layers of the paper's
network for MNIST, where one block leaves all of 10,000 labels as they are."""

MOST_BLOCKS = 0.6
"""How many blocks all coarse networks together may have, as a share of the layers: just enough for
2, 4, 8 and 16 of 50 layers. In float32 they take less than a third of the network's time."""

LARGEST_STEP = torch.finfo(torch.float32).max
"""Steps η = τ/α beyond are no numbers of float32: there are no coarse networks then."""


class Block(NamedTuple):
    """Consecutive layers that become one."""

    middle: int  # The index of the layer in the middle of their path
    path: float  # Σ τ of the layers


@dataclass(frozen=True, eq=False)
class Trajectory:
    """Samples that moved through a coarse network."""

    network: CoarseNetwork
    end: Tensor  # (n, s): after its layers
    # (n, blocks): log(s) at the begin of each block, with s as in `redunet.core.cascade`
    doubts: Tensor

    def where(self, rows: Tensor) -> Trajectory:
        """Some of the samples: a mask, (n,)."""
        return Trajectory(self.network, self.end[rows], self.doubts[rows])


@dataclass(frozen=True, eq=False)
class CoarseNetwork:
    """A few layers in float32 that stand for all layers of a network."""

    # One for each block, within the network's reduced space
    layers: tuple[Layer | CoarseLowRankLayer, ...]
    # Whether these are all of the network's layers: then only rounding, and classes of a negligible
    # share, keep it from the network
    complete: bool

    @property
    def path(self) -> tuple[float, ...]:
        """τ, the relative step of each block."""
        return tuple(layer.step * layer.coding.alpha for layer in self.layers)

    def move(self, start: Tensor, sharpness: Confidence) -> Trajectory:
        """Move samples, (n, s), within the network's reduced space, through the layers."""
        moving = start.to(torch.float32, copy=True)
        memory = self.layers[0].sample_space(len(moving))
        doubts = []
        for layer in self.layers:
            moved = layer.move_samples_(moving, sharpness, memory)
            doubts.append(torch.minimum(moved.spread.log(), moved.doubt + math.log(2)).double())
        return Trajectory(self, moving, torch.stack(doubts, dim=1))


def coarse_networks(network: ReduNet, memory: int) -> list[CoarseNetwork]:
    """Coarse networks of growing accuracy: two or more, a complete one alone, or none.

    Makes a pass through the layers. A network of few layers, which is not cut into blocks, has a
    complete one where that saves most of the time: on a CPU, for classes of low rank.
    """
    layers, steps = network.layers, network.layers.steps
    each = layers.layer_numbers * torch.float32.itemsize
    plans = [blocks(steps, size) for size in sizes(sum(steps), len(steps))]
    complete = bool(steps) and not plans and layers.low_rank
    while sum(map(len, plans)) * each > memory:
        plans.pop()
    if complete and len(steps) * each <= memory:
        plans = [[Block(index, step) for index, step in enumerate(steps)]]
    if not each or layers.first_means is None or len(plans) < (1 if complete else 2):
        return []
    made: list[list[Layer | CoarseLowRankLayer]] = [[] for _ in plans]
    for index, layer in enumerate(layers.iter_reusing_memory()):
        for plan, chosen in zip(plans, made, strict=True):
            for block in plan:
                if block.middle == index:
                    chosen.append(_coarse(layer, block.path / layer.coding.alpha))
    if made[0][0].step > LARGEST_STEP:
        return []
    return [CoarseNetwork(tuple(chosen), complete) for chosen in made]


def _coarse(layer: AbstractLayer, step: float) -> Layer | CoarseLowRankLayer:
    """A layer in float32, with another step."""
    if isinstance(layer, LowRankLayer):
        return CoarseLowRankLayer.of(layer, step)
    E, C = (A.to(torch.float32, copy=True) for A in (layer.E, layer.C))
    return Layer(E, C, layer.coding, step, layer.rate)


def sizes(path: float, n_layers: int) -> list[int]:
    """The numbers of blocks of the coarse networks to try, each twice the one before.

    None for a network of few layers, which is not cut into blocks.
    """
    found = [max(1, math.ceil(path / BLOCK_PATH))]
    while sum(found) + 2 * found[-1] <= MOST_BLOCKS * n_layers:
        found.append(2 * found[-1])
    return found if len(found) > 1 else []


def blocks(steps: Sequence[float], n_blocks: int) -> list[Block]:
    """Layers cut into at most so many blocks of about equal path; ``steps`` has τ of each."""
    total, done = sum(steps) or 1.0, 0.0
    of_block: dict[int, list[tuple[int, float]]] = {}
    for index, step in enumerate(steps):
        at = (done + step / 2) / total * n_blocks  # where the layer lies on the way
        of_block.setdefault(min(int(at), n_blocks - 1), []).append((index, at))
        done += step
    return [
        Block(
            min(inside, key=lambda one: abs(one[1] - block - 0.5))[0],
            sum(steps[index] for index, _ in inside),
        )
        for block, inside in of_block.items()
    ]
