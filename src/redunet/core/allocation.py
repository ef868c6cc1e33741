"""Where large tensors are: in memory, or wherever a caller's own function puts them.

Second moments, and all that layers are made of, take k d² numbers. The functions of this package
take the memory for these from an `Allocate`, and treat one class after the other.
"""

from __future__ import annotations

from typing import Protocol

import torch
from torch import Tensor


class Allocate(Protocol):
    """Gives memory on the CPU that nobody else uses; what is in it at first has no meaning."""

    def __call__(self, shape: tuple[int, ...], /, *, dtype: torch.dtype) -> Tensor:
        """A tensor of a given shape and dtype."""


in_memory: Allocate = torch.empty
"""Gives a tensor in ordinary memory."""


def on_device(
    allocate: Allocate, shape: tuple[int, ...], dtype: torch.dtype, device: str | torch.device
) -> Tensor:
    """Give a tensor on a device: on the CPU from ``allocate``."""
    if torch.device(device).type == "cpu":
        return allocate(shape, dtype=dtype)
    return torch.empty(shape, dtype=dtype, device=device)


def copied(tensor: Tensor, allocate: Allocate) -> Tensor:
    """Copy a tensor, in memory from ``allocate`` where it is on the CPU."""
    return on_device(allocate, tuple(tensor.shape), tensor.dtype, tensor.device).copy_(tensor)
