"""Synaptic Intelligence (Zenke et al., 2017): a weight is important if it lowered the loss."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor

from redunet_lab.baselines.anchor import Anchor
from redunet_lab.baselines.training import GradientLearner


@dataclass(kw_only=True, eq=False)
class SynapticIntelligence(GradientLearner):
    """Cross-entropy plus ``strength`` · Σ Ω (θ − θ*)².

    Along a task's path each weight earns −gradient · change, with the gradient
    of the task's own loss; at its end Ω grows by what was earned over the
    square of the whole change plus ``damping``.

    Parameters
    ----------
    strength : float
        c.
    damping : float
        ξ.
    """

    kind: ClassVar[str] = "si"
    title: ClassVar[str] = "SI"
    color: ClassVar[str] = "#CC79A7"
    marker: ClassVar[str] = "X"
    published: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        "mnist": {"lr": 0.1, "strength": 1.0, "damping": 0.9},
        "cifar10": {"lr": 0.03, "strength": 0.5, "damping": 1.0},
    }

    strength: float
    damping: float

    def __post_init__(self) -> None:
        super().__post_init__()
        self.anchor = Anchor(self.network)

    def begin(self, images: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
        """Nothing is earned yet."""
        self._earned = [torch.zeros_like(p) for p in self.network.parameters()]
        return images, targets

    @torch.no_grad()
    def regularize(self) -> None:
        """Note what the step about to be taken earns, and pull the weights back to θ*."""
        parameters = list(self.network.parameters())
        own = [torch.zeros_like(p) if p.grad is None else p.grad.clone() for p in parameters]
        self.anchor.pull(self.network, self.strength)
        for earned, gradient, p in zip(self._earned, own, parameters, strict=True):
            if p.grad is not None:
                change = -self.lr * (p.grad + self.weight_decay * p)
                earned.addcmul_(gradient, change, value=-1)

    def end(self, images: Tensor, targets: Tensor) -> None:
        """Turn what was earned into importance, and take the weights as the new θ*."""
        for important, earned, p, there in zip(
            self.anchor.importance,
            self._earned,
            self.network.parameters(),
            self.anchor.weights,
            strict=True,
        ):
            important += earned / ((p.detach() - there).square() + self.damping)
        self.anchor.drop_here(self.network)

    def state(self) -> dict[str, Tensor]:
        """θ* and Ω."""
        return self.anchor.state()

    def restore(self, state: dict[str, Tensor]) -> None:
        """θ* and Ω as they were."""
        self.anchor.restore(state)
