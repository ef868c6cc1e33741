"""Holding weights near where they were: what EWC and SI have in common."""

from __future__ import annotations

import torch
from torch import Tensor, nn


class Anchor:
    """Weights θ* to return to, and how important each is.

    Parameters
    ----------
    network : Module
        Whose weights are meant; to begin with none is important.
    """

    def __init__(self, network: nn.Module) -> None:
        self._names = [name for name, _ in network.named_parameters()]
        self.importance = [torch.zeros_like(p) for p in network.parameters()]
        self.drop_here(network)

    def drop_here(self, network: nn.Module) -> None:
        """Take the weights as they are now for θ*."""
        self.weights = [p.detach().clone() for p in network.parameters()]

    @torch.no_grad()
    def pull(self, network: nn.Module, strength: float) -> None:
        """Add the gradient of strength · Σ importance (θ − θ*)² to the weights' gradients."""
        for p, there, important in zip(
            network.parameters(), self.weights, self.importance, strict=True
        ):
            if p.grad is not None:
                p.grad.addcmul_(important, p - there, value=2 * strength)

    def state(self) -> dict[str, Tensor]:
        """Tensors that are kept between tasks."""
        weights = zip(self._names, self.weights, strict=True)
        importance = zip(self._names, self.importance, strict=True)
        return {
            **{f"parameters.anchor.{name}": tensor for name, tensor in weights},
            **{f"parameters.importance.{name}": tensor for name, tensor in importance},
        }

    def restore(self, state: dict[str, Tensor]) -> None:
        """Take back what `state` gave."""
        self.weights = [state[f"parameters.anchor.{name}"] for name in self._names]
        self.importance = [state[f"parameters.importance.{name}"] for name in self._names]
