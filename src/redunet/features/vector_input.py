"""What random features of vectors share: directions in, and random weights, all whole numbers.

A product of whole numbers, and a sum of such products below 2⁵³, is exact in
float64 in any order: on any device, in any batch, with any number of threads.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from torch import Tensor

from redunet.core.grid import unit_rows
from redunet.errors import DataError, SettingsError
from redunet.features.checks import MOST_VALUES, check_shape, check_tensor
from redunet.validation import flag, whole_number

GRID = 2**20
"""Steps in one unit, of directions and of weights."""


def directions(X: Tensor, centre: Tensor | None) -> Tensor:
    """Unit vectors in whole steps of the grid; with a centre, from the centre to each of them.

    Parameters
    ----------
    X : Tensor of shape (n, …)
    centre : Tensor of shape (d,), or None

    Returns
    -------
    Tensor of shape (n, d), float64, whole numbers
    """
    unit = unit_rows(X.reshape(len(X), -1))
    if centre is not None:
        unit = unit_rows(unit - centre.to(unit.device))
    return unit.mul_(GRID).round_()


def mean_direction(samples: Any) -> Tensor:
    """The mean, (d,), of samples, (n, …), on the unit sphere; in whole steps of the grid."""
    X = torch.as_tensor(samples)
    if len(X) == 0:
        raise DataError("expected samples to learn a centre from, got none")
    return (directions(X, None).sum(dim=0) / len(X)).round_().div_(GRID)


def weights(seed: int, width: int, n_values: int, scale: float = 1.0) -> Tensor:
    """Whole numbers, (width, n_values): Gaussian weights of that deviation, in steps of the grid.

    The first rows of a larger width are those of a smaller one.
    """
    # The legacy generator is the one whose stream is promised never to change.
    drawn = np.random.RandomState(seed).standard_normal((width, n_values))
    return torch.from_numpy(np.round(drawn * (scale * GRID)))


def check_random_features(
    seed: Any, input_shape: Any, width: Any, centre: Any, learnt_from_data: Any
) -> None:
    """Raise a SettingsError where something that random features are made of cannot be used."""
    check_shape(input_shape)
    whole_number("seed", seed, least=0, most=2**32 - 1)
    whole_number("width", width, least=1, most=MOST_VALUES)
    n_values = math.prod(input_shape)
    if width * n_values > MOST_VALUES:
        raise SettingsError(
            f"expected at most {MOST_VALUES:,} weights, got width={width} for samples of "
            f"{n_values:,} values: ask for fewer features"
        )
    if centre is not None:
        check_tensor("centre", centre, (n_values,))
    flag("learnt_from_data", learnt_from_data)
