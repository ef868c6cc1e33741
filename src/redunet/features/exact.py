"""Operations of feature maps that give the same bits in every batch and on every device.

A program without this package cannot have all of them: `redunet.export` puts a plain operation
in the place of each function here. So a map's ``vectors`` calls them as ``exact.unit_rows(X)``.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.nn import functional

from redunet.core import grid

_TERMS = 9
"""Of the series of the sine within a quarter turn; what is left out is below 6·10⁻¹⁴."""

_CACHED = 2**18
"""Values treated at a time, few enough to stay in the processor's cache."""


def unit_rows(Z: Tensor) -> Tensor:
    """Vectors, (n, d), scaled to length 1, in float64; a zero row stays zero."""
    return grid.unit_rows(Z)


def beside(tensor: Tensor, X: Tensor) -> Tensor:
    """A tensor on the device of samples."""
    return tensor.to(X.device)


def rounded_root(squares: Tensor) -> Tensor:
    """√x of whole numbers x from 0 on, rounded to whole numbers, the same on every device."""
    # Roots may be an ulp off, and not alike on all devices, but no half-integer has a whole square:
    # with r = ⌊√x⌋, x lies beyond r + ½ if and only if it is greater than r (r + 1), and that holds
    # as well of an r that is one off because √x is close to a whole number. The product is exact
    # for x < 2⁵³, that is for features below 2²¹. Beyond it the root might be rounded to the other
    # side of a half, but alike everywhere.
    root = squares.sqrt().floor_()
    root += root * (root + 1) < squares
    return root


def cosine(turns: Tensor) -> Tensor:
    """cos(2π t) in place of t, (n, d), by additions and multiplications of single numbers.

    Libraries' cosines differ in last bits, even between places of one tensor.
    """
    cached = max(1, _CACHED // turns.shape[1]) if turns.device.type == "cpu" else len(turns)
    for some in torch.split(turns, max(1, cached)):
        _cosine_(some)
    return turns


def _cosine_(turns: Tensor) -> None:
    # cos(2π t) = sin(2π w) with w = 1/4 − |t|, once t is brought to within half a turn.
    turns.sub_(turns.round())
    turns.abs_().neg_().add_(0.25)
    square = turns * turns
    first, *others = reversed(_sine_series())
    total = torch.full_like(turns, first)
    for term in others:
        total.mul_(square).add_(term)
    turns.mul_(total)


def _sine_series() -> list[float]:
    """Of sin(2πw) by powers of w: the first, the third, the fifth, ..."""
    turn = 2 * math.pi
    terms = [turn]
    for order in range(1, _TERMS):
        terms.append(-terms[-1] * (turn * turn) / (2 * order * (2 * order + 1)))
    return terms


def beyond(X: Tensor, threshold: int) -> Tensor:
    """By how much values lie beyond a threshold on either side, with their sign; else 0."""
    return functional.softshrink(X, threshold)


def patches(X: Tensor, input_shape: tuple[int, ...], size: int, padding: int) -> Tensor:
    """All patches of images, (n, values, places); values of one channel come one after another."""
    # A copy of rows, several times as fast as torch.nn.functional.unfold.
    padded = functional.pad(_planes(X, input_shape), (padding,) * 4)
    every = padded.unfold(2, size, 1).unfold(3, size, 1)
    return every.permute(0, 1, 4, 5, 2, 3).flatten(4).flatten(1, 3)


def patch_sums(X: Tensor, input_shape: tuple[int, ...], size: int, padding: int) -> Tensor:
    """Sums of the values of each patch, (n, 1, places); parameters as for `patches`."""
    grey = _planes(X, input_shape).sum(dim=1, keepdim=True)
    grey = functional.pad(grey, (padding,) * 4)  # of which pooling takes half a patch at most
    return functional.avg_pool2d(grey, size, stride=1, divisor_override=1).flatten(2)


def _planes(X: Tensor, input_shape: tuple[int, ...]) -> Tensor:
    """Images as planes, (n, channels, height, width)."""
    height, width, channels = (*input_shape, 1)[:3]
    return X.reshape(-1, height, width, channels).permute(0, 3, 1, 2)
