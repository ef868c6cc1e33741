"""Images on their way into a network: scaled, and shifted and mirrored at random."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import pad

PADDING = 4
COLOUR_MEAN = (0.4914, 0.4822, 0.4465)
COLOUR_DEVIATION = (0.2470, 0.2435, 0.2615)
"""CIFAR-10's, as published with the benchmark; fixed in advance."""


def send(numbers: NDArray[Any], device: torch.device) -> Tensor:
    """Numbers as a tensor on a device, without waiting for what is under way there."""
    tensor = torch.from_numpy(numbers)
    return tensor.pin_memory().to(device, non_blocking=True) if device.type == "cuda" else tensor


@cache
def _colours(device: torch.device) -> tuple[Tensor, Tensor]:
    return torch.tensor(COLOUR_MEAN, device=device), torch.tensor(COLOUR_DEVIATION, device=device)


@dataclass(frozen=True)
class Pictures:
    """Turns pixels into inputs of a network.

    Parameters
    ----------
    white : float
        The largest pixel value.
    augment : bool
        Whether training images are cropped at random from a border of 4 zeros
        and mirrored half of the time.
    """

    white: float
    augment: bool

    def plain(self, images: Tensor) -> Tensor:
        """Inputs, (n, channels, height, width) in float32, of images, (n, height, width, …)."""
        x = images.to(torch.float32) / self.white
        if x.ndim == 3:
            return x[:, None]
        if x.shape[3] == 3:
            mean, deviation = _colours(x.device)
            x = (x - mean) / deviation
        # Channels stay the fastest in memory, which is what convolutions like best.
        return x.permute(0, 3, 1, 2)

    def moves(self, rng: np.random.RandomState, n: int, device: torch.device) -> Tensor | None:
        """For n images each its shift down, its shift right and whether it is mirrored."""
        if not self.augment:
            return None
        drawn = rng.randint(0, (2 * PADDING + 1, 2 * PADDING + 1, 2), size=(n, 3))
        return send(drawn, device)

    def moved(self, images: Tensor, moves: Tensor | None) -> Tensor:
        """Images, (n, height, width, …), shifted and mirrored."""
        if moves is None:
            return images
        n, height, width = images.shape[:3]
        border = (0, 0) * (images.ndim - 3) + (PADDING,) * 4
        rows = moves[:, 0, None] + torch.arange(height, device=images.device)
        columns = torch.arange(width, device=images.device).expand(n, width)
        columns = torch.where(moves[:, 2, None] > 0, width - 1 - columns, columns)
        columns = columns + moves[:, 1, None]
        which = torch.arange(n, device=images.device)[:, None, None]
        return pad(images, border)[which, rows[:, :, None], columns[:, None, :]]
