"""Checks of feature maps' own values, when they are made and when they are read, and of pixels."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from redunet.errors import DataError, SettingsError

MOST_VALUES = 2**24
"""Values of one sample, and of the kernels of one map."""

MOST_NESTED = 8
"""Maps within one another: each mirrored one doubles the work."""


def check_shape(input_shape: Any, *lengths: int) -> None:
    """Raise a SettingsError unless it is the shape of a sample, of one of the lengths given."""
    if (
        not isinstance(input_shape, tuple)
        or not input_shape
        or (lengths and len(input_shape) not in lengths)
        or any(type(side) is not int or side < 1 for side in input_shape)
        or math.prod(input_shape) > MOST_VALUES
    ):
        example = {2: "(28, 28)", 3: "(28, 28, 1)"}.get(max(lengths, default=0), "(64,)")
        raise SettingsError(
            f"expected samples of shape such as {example}, of at most {MOST_VALUES:,} values, "
            f"got {input_shape!r}"
        )


def check_tensor(name: str, tensor: Any, *shapes: tuple[int, ...]) -> None:
    """Raise a SettingsError unless it is a finite Tensor in float64 of one of the shapes."""
    if (
        not isinstance(tensor, Tensor)
        or tensor.dtype != torch.float64
        or tuple(tensor.shape) not in shapes
        or not bool(tensor.isfinite().all())
    ):
        found = (
            f"{str(tensor.dtype).removeprefix('torch.')} of shape {tuple(tensor.shape)}"
            if isinstance(tensor, Tensor)
            else repr(tensor)
        )
        raise SettingsError(
            f"expected {name} as a finite Tensor in float64 of shape "
            f"{' or '.join(map(str, shapes))}, got {found}"
        )


def check_nesting(features: Any) -> None:
    """Raise a SettingsError where more maps lie within one another than any use has."""
    depth, level = 0, [features]
    while level:
        depth += 1
        if depth > MOST_NESTED:
            raise SettingsError(
                f"expected at most {MOST_NESTED} feature maps within one another, got more"
            )
        level = [part for one in level for part in getattr(one, "parts", ())]


def whole_pixels(X: Tensor, largest: int) -> Tensor:
    """Pixel values in float64; an error where one is a fraction or beyond ± ``largest``.

    Sums and products of whole numbers are exact in any order.
    """
    X = X.to(torch.float64)
    if X.numel() and (not torch.equal(X, X.round()) or float(X.abs().max()) > largest):
        raise DataError(
            "expected whole pixel values such as 0 to 255, got fractions or very large ones: "
            "pass the images as uint8"
        )
    return X
