"""Experience replay: each batch is trained on together with one from a reservoir."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor

from redunet_lab.baselines.reservoir import Reservoir
from redunet_lab.baselines.training import GradientLearner


@dataclass(kw_only=True, eq=False)
class ExperienceReplay(GradientLearner):
    """Cross-entropy over all outputs, on new and replayed images in one batch.

    Parameters
    ----------
    n_exemplars : int, default=200
    replay_size : int
        Images replayed with each batch.
    """

    kind: ClassVar[str] = "er"
    title: ClassVar[str] = "ER"
    color: ClassVar[str] = "#a89c00"
    marker: ClassVar[str] = "D"
    published: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        "mnist": {"lr": 0.01, "n_exemplars": 200, "replay_size": 10},
        "cifar10": {"lr": 0.1, "n_exemplars": 200, "replay_size": 32},
    }

    kept: ClassVar[tuple[str, ...]] = ("images", "targets")
    """Kinds of items in the reservoir."""

    n_exemplars: int = 200
    replay_size: int

    def __post_init__(self) -> None:
        super().__post_init__()
        self.reservoir = Reservoir(self.n_exemplars)

    def inputs(self, x: Tensor, targets: Tensor, rows: Tensor) -> tuple[Tensor, ...]:
        """The batch, and after it the replayed one."""
        if not len(self.reservoir):
            return x, targets
        images, known = self.reservoir.draw(self.rng, self.replay_size)
        return torch.cat([x, self.replayed(images)]), torch.cat([targets, known])

    def after_step(self, images: Tensor, targets: Tensor, outputs: Tensor) -> None:
        """Let the batch go by the reservoir."""
        self.reservoir.add(self.rng, images, targets)

    def state(self) -> dict[str, Tensor]:
        """The reservoir."""
        return self.reservoir.state(*self.kept)

    def restore(self, state: dict[str, Tensor]) -> None:
        """The reservoir as it was."""
        self.reservoir.restore(state, *self.kept)
