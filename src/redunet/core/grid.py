"""Feature vectors on the unit sphere, in whole steps of a grid.

What is learnt of a sample must not depend on its batch or its memory layout, to
the last bit. So squares are summed as integers, which is exact in any order,
and the square root is Python's, which is correctly rounded everywhere
(PyTorch's on the CPU is not). Rounding to the grid rarely needs such lengths:
where plain ones decide every value of a row, they are all that is computed.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Iterable, Iterator
from typing import Any, cast

import torch
from torch import Tensor

from redunet.errors import DataError

GRID = 2**20
"""Steps of the grid in one unit of length."""

_CACHED = 2**18
"""On a CPU, values treated at a time, few enough to stay in the processor's cache."""

_SMALL_WHOLE = (torch.uint8, torch.int8)
"""Dtypes of whole numbers whose squares, millions of them, float64 adds exactly."""

_ONE_STEP = 1000
"""Powers of two up to this exponent scale without leaving the range of a double."""

_SMALLEST_LENGTH = 2.0**-400
"""Rows of this length and more have squares that are normal doubles, or do not matter."""


def unit_rows(X: Any) -> Tensor:
    """Put each row on the unit sphere; a zero row stays zero.

    The bits of a row's result depend on the values in that row alone: not on
    the other rows, nor on memory layout, dtype (where it holds the same
    values) or device. Permuting the columns of X permutes those of the result,
    and scaling X by a power of two changes nothing, both to the last bit.

    Parameters
    ----------
    X : array or Tensor of shape (n, d), finite

    Returns
    -------
    Tensor of shape (n, d), float64

    Examples
    --------
    >>> unit_rows([[3.0, 4.0], [0.0, 0.0]]).tolist()
    [[0.6, 0.8], [0.0, 0.0]]
    """
    X = torch.as_tensor(X)
    out = torch.empty(X.shape, dtype=torch.float64, device=X.device)
    for part, unit in _in_cache(X, out):
        _scale_(unit.copy_(part), part.dtype in _SMALL_WHOLE, steps=1)
    return out


def unit_grid(X: Any) -> Tensor:
    """Round ``unit_rows(X)`` to the grid, in fewer passes.

    Parameters
    ----------
    X : array or Tensor of shape (n, d), finite

    Returns
    -------
    Tensor of shape (n, d), float64
        Steps of the grid: whole numbers of at most 2²⁰ in size.

    Examples
    --------
    >>> unit_grid([[3.0, 4.0], [0.0, 0.0]]).tolist()
    [[629146.0, 838861.0], [0.0, 0.0]]
    """
    X = torch.as_tensor(X)
    out = torch.empty(X.shape, dtype=torch.float64, device=X.device)
    for part, steps in _in_cache(X, out):
        if part.dtype in _SMALL_WHOLE:
            _scale_(steps.copy_(part), True, GRID)
        else:
            _quick_or_exact_(steps, part.to(torch.float64))
    return out


def on_grid(vectors: Tensor) -> Tensor:
    """Round vectors, (n, d), with values in [-1, 1] to steps of the grid: (n, d), float64."""
    steps = vectors.to(torch.float64).mul(GRID).round_()
    if steps.numel():
        low, high = steps.aminmax()
        if not bool((low >= -GRID) & (high <= GRID)):  # NaN is neither
            raise DataError(
                "expected feature values within [-1, 1], got larger ones or NaN: "
                "put the samples on the unit sphere first"
            )
    return steps


def _in_cache(X: Tensor, out: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
    """Rows of X and of ``out``, (n, d), some at a time on a CPU; on a GPU all of them."""
    if not X.numel():
        return iter(())
    rows = max(1, _CACHED // X.shape[1]) if X.device.type == "cpu" else len(X)
    return zip(torch.split(X, rows), torch.split(out, rows), strict=True)


def _quick_or_exact_(out: Tensor, X: Tensor) -> None:
    """Turn ``out`` into unit rows of X, (n, d), float64, in steps of the grid."""
    steps, certain = _quick_steps(X)
    torch.round(steps, out=out)
    if not bool(certain.all()):
        rows = certain.logical_not_().nonzero()[:, 0]
        exact = X[rows]
        _scale_(exact, False, GRID)
        out[rows] = exact


def _quick_steps(X: Tensor) -> tuple[Tensor, Tensor]:
    """Rows of X, (n, d), in steps of the grid by lengths that are not exact, not yet rounded.

    Also, (n,), of which rows all values certainly round as those of `_scale_` do: they are
    further from the middle between two steps than the two can differ. With x the largest value
    of a row in steps, at most 2²⁰, and u = 2⁻⁵³ they differ by less than the sum of

    - (d + 16) u x, by rounding, here and there and whatever the order of sums;
    - 2 d (x / 2²⁰)² 4^-bits x, by what `_norms_` leaves out: the squares of fractions, together
      at most d / 4, where the largest value is 2^(bits-1) or more.
    """
    d = X.shape[1]
    lengths = torch.linalg.vector_norm(X, dim=1)
    steps = X * lengths.reciprocal().mul_(GRID)[:, None]
    x, furthest = _largest(steps), _largest(steps.round().sub_(steps))
    by_fractions, by_rounding = 2 * d / 4 ** _bits(d) / GRID**2, (d + 16) * 2.0**-53
    certain = x.square().mul_(by_fractions).add_(by_rounding).mul_(x).add_(furthest) < 0.5
    # Squares of smaller values lose digits; of too large ones the sum is infinite, and x zero.
    return steps, certain.logical_and_(lengths > _SMALLEST_LENGTH).logical_and_(x > 0)


def _largest(X: Tensor) -> Tensor:
    """The largest absolute value in each row of X."""
    return torch.maximum(X.amax(dim=1), X.amin(dim=1).neg_())


def _scale_(X: Tensor, small_whole: bool, steps: int) -> None:
    norms = _whole_norms(X) if small_whole else _norms_(X)
    lengths = torch.frombuffer(array("d", norms), dtype=X.dtype).to(X.device)
    # A power of two in the divisor is one in the result, to the same bits.
    X.div_(lengths.div_(steps)[:, None])
    if steps > 1:
        X.round_()


def _whole_norms(X: Tensor) -> Iterable[float]:
    """Lengths of rows of small whole numbers, whose squares float64 adds exactly in any order.

    Of a zero row, here and below, 1.
    """
    # The norm may be an ulp off, but its square is next to a whole number, the sum.
    squares = torch.linalg.vector_norm(X, dim=1).square_().round_().clamp_(min=1.0)
    return map(math.sqrt, squares.tolist())


def _norms_(X: Tensor) -> list[float]:
    """Lengths of the rows of X, float64, after each row was scaled by a power of two, in place."""
    # The largest entry of each row is brought to between 2^(bits-1) and 2^bits, with bits such
    # that a sum of d products of two numbers of that size fits a signed 64-bit integer.
    bits = _bits(X.shape[1])
    largest = _largest(X)
    if not bool(largest.isfinite().all()):
        raise DataError(
            "expected finite values, got NaN or infinity: remove or impute these values first"
        )
    shift = bits - torch.frexp(largest).exponent.to(torch.int64)
    half = shift // 2  # in two steps: the whole shift may leave the range of a double
    if not bool((shift.abs() > _ONE_STEP).any()):
        half = torch.zeros_like(shift)
    else:
        X.mul_(_power_of_two(half)[:, None])
    X.mul_(_power_of_two(shift - half)[:, None])
    # x = high + low / 2^bits, so x² = high² + 2 high low / 2^bits up to less than a double holds.
    high = X.round()
    low = X - high
    mixed = [0] * len(X)
    if float(torch.dot(low.view(-1), low.view(-1))):  # anything but whole numbers
        mixed = _exact_sum(low.mul_(2.0**bits).round_().mul_(high))
    squares = _exact_sum(high.square_())
    return [
        math.ldexp(math.sqrt((square << bits) + 2 * mix), -bits // 2) or 1.0
        for square, mix in zip(squares, mixed, strict=True)
    ]


def _bits(d: int) -> int:
    return (63 - d.bit_length()) // 4 * 2


def _exact_sum(whole: Tensor) -> list[int]:
    """Sums of rows of whole numbers, the same in any order."""
    return cast("list[int]", whole.to(torch.int64).sum(dim=1).tolist())


def _power_of_two(exponent: Tensor) -> Tensor:
    """2^exponent as float64, made of its bits; exponent int64, from -1022 to 1023."""
    return ((exponent + 1023) << 52).view(torch.float64)


def within_range(X: Tensor, low: float, high: float) -> Tensor:
    """Scale values of a known range into [-1, 1] by a power of two, exactly.

    Parameters
    ----------
    X : Tensor of shape (n, d)
    low, high : float
        The range that was promised; a value outside of it is an error.

    Returns
    -------
    Tensor of shape (n, d), float64
    """
    X = X.to(torch.float64)
    smallest, largest = X.aminmax()
    if smallest < low or largest > high:
        raise DataError(
            f"expected values within input_range=({low:g}, {high:g}), got values from "
            f"{smallest:g} to {largest:g}: scale the input, or fit again with a wider input_range"
        )
    return X * _scale_of(low, high)


def range_on_grid(low: float, high: float) -> tuple[int, int]:
    """The least and the largest whole number that `within_range` and the grid make of values."""
    scale = GRID * _scale_of(low, high)
    return round(low * scale), round(high * scale)


def _scale_of(low: float, high: float) -> float:
    return math.ldexp(1.0, -math.frexp(max(abs(low), abs(high)))[1])
