"""A sample of everything that went by, each item with the same chance (Vitter, 1985)."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from redunet_lab.baselines.pictures import send


class Reservoir:
    """At most ``size`` items of a stream, uniformly drawn, without knowing its length.

    Parameters
    ----------
    size : int
    """

    def __init__(self, size: int) -> None:
        self.size = size
        self.seen = 0
        self.items: tuple[Tensor, ...] = ()

    def __len__(self) -> int:
        return min(self.seen, self.size)

    def add(self, rng: np.random.RandomState, *items: Tensor) -> None:
        """Let a batch go by: tensors with one row an item, always the same kinds."""
        n = len(items[0])
        if not self.items:
            self.items = tuple(x.new_zeros(self.size, *x.shape[1:]) for x in items)
        numbers = self.seen + np.arange(n)
        places = np.where(numbers < self.size, numbers, rng.randint(0, numbers + 1))
        self.seen += n
        # Of two items for one place the later stays, as if they had come one by one.
        latest = {place: row for row, place in enumerate(places.tolist()) if place < self.size}
        if not latest:
            return
        to = send(np.array(list(latest)), items[0].device)
        rows = send(np.array(list(latest.values())), items[0].device)
        for kept, given in zip(self.items, items, strict=True):
            kept[to] = given[rows]

    def draw(self, rng: np.random.RandomState, n: int) -> tuple[Tensor, ...]:
        """At most n distinct items."""
        rows = rng.permutation(len(self))[:n]
        chosen = send(rows, self.items[0].device)
        return tuple(kept[chosen] for kept in self.items)

    def state(self, *names: str) -> dict[str, Tensor]:
        """Tensors that are kept between tasks, the kinds of items by name."""
        if not self.items:
            return {}
        kept = {f"exemplars.{k}": x[: len(self)] for k, x in zip(names, self.items, strict=True)}
        return {**kept, "exemplars.seen": torch.tensor(self.seen)}

    def restore(self, state: dict[str, Tensor], *names: str) -> None:
        """Take back what `state` gave."""
        if not state:
            return
        self.seen = int(state["exemplars.seen"])
        held = [state[f"exemplars.{name}"] for name in names]
        self.items = tuple(x.new_zeros(self.size, *x.shape[1:]) for x in held)
        for items, x in zip(self.items, held, strict=True):
            items[: len(x)] = x
