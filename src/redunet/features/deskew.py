"""Features of images whose slant is taken out first, as of handwriting."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from redunet.features import exact
from redunet.features.base import register
from redunet.features.checks import whole_pixels
from redunet.features.composed import OfImages

_SLANT_GRID = 2**10
_CENTRE_GRID = 2**6

_STEEPEST = 1.0
"""The largest slant that is taken out, in pixels to the side for each row."""

_BATCH_BYTES = 2**26
"""Memory that the weights of one pass may take."""

_IMAGES = 1024
"""Images held in double precision at a time while a map is learnt from all of them."""


@register
@dataclass(frozen=True)
class Deskew(OfImages):
    """The features of an image after its slant is taken out and it is put in the middle.

    Bright pixels on a dark ground are taken as mass. The image is moved until its
    centre of mass is in the middle, and its rows are moved sideways until its
    columns are no longer correlated with them. Pixels in between are interpolated
    and rounded to whole numbers. Sums of whole numbers are exact, and slant and
    centre are rounded to grids, so the bits are the same in every batch and on
    every device.

    Parameters
    ----------
    plain : feature map
        Of images of whole numbers.

    Examples
    --------
    >>> from redunet.features import Flatten
    >>> stroke = torch.tensor([[[0, 0, 9], [0, 9, 0], [9, 0, 0]]])
    >>> Deskew(Flatten((3, 3)))(stroke).reshape(3, 3).tolist()
    [[0.0, 9.0, 0.0], [0.0, 9.0, 0.0], [0.0, 9.0, 0.0]]
    """

    kind: ClassVar[str] = "upright"

    def __call__(self, X: Tensor) -> Tensor:
        """Feature vectors, (n, d), of images, (n, height, width[, channels])."""
        return self.plain(deskewed(X))

    def combined(self, X: Tensor, maps: Sequence[Callable[[Tensor], Tensor]]) -> Tensor:
        """The features of images without slant."""
        return maps[0](_deskewed(X, self.input_shape))


def deskewed_pixels(images: Any) -> NDArray[np.uint8]:
    """Images of whole numbers from 0 to 255, (n, height, width[, channels]), without slant."""
    parts = torch.split(torch.as_tensor(np.asarray(images)), _IMAGES)
    return torch.cat([deskewed(part).to(torch.uint8) for part in parts]).numpy()


def deskewed(X: Tensor) -> Tensor:
    """Images as for `Deskew` without slant and in the middle, some at a time."""
    X = whole_pixels(X, 255)
    height, width = X.shape[1:3]
    per_pass = max(1, _BATCH_BYTES // (height * width * width * X.element_size()))
    parts = torch.split(X, per_pass)
    return torch.cat([_deskewed(part, tuple(X.shape[1:])) for part in parts])


def _deskewed(X: Tensor, input_shape: tuple[int, ...]) -> Tensor:
    """Images of whole numbers, (n, *input_shape), without slant, all at once."""
    height, width, channels = (*input_shape, 1)[:3]
    images = X.reshape(-1, height, width, channels)
    rows, columns = (
        exact.beside(torch.arange(side, dtype=torch.float64), X) for side in (height, width)
    )
    # Twice the distances from the middle: whole numbers.
    y, x = (2.0 * rows - (height - 1)).unsqueeze(1), (2.0 * columns - (width - 1)).unsqueeze(1)
    mass = images.abs().sum(3)
    in_row = mass.sum(2)
    total = in_row.sum(1, keepdim=True).clamp(min=1.0)
    mean_y, mean_x = torch.matmul(in_row, y), torch.matmul(mass.sum(1), x)
    both = torch.matmul(torch.matmul(mass, x).reshape(-1, height), y)
    spread = (total * torch.matmul(in_row, y * y) - mean_y * mean_y).clamp(min=1.0)
    slant = ((total * both - mean_x * mean_y) / spread).clamp(min=-_STEEPEST)
    slant = -((-slant).clamp(min=-_STEEPEST) * _SLANT_GRID).round() / _SLANT_GRID
    down, right = (
        (mean / total * (0.5 * _CENTRE_GRID)).round() / _CENTRE_GRID for mean in (mean_y, mean_x)
    )
    # Where each row of the result is taken from, and each pixel of it within that row.
    from_row = (rows + down).unsqueeze(2)
    sideways = right + torch.matmul(slant, 0.5 * y.reshape(1, height))
    from_column = (sideways.unsqueeze(2) + columns).unsqueeze(3)
    of_rows = (1.0 - (from_row - rows).abs()).clamp(min=0.0)
    of_columns = (1.0 - (from_column - columns).abs()).clamp(min=0.0)
    moved = torch.matmul(of_rows, images.reshape(-1, height, width * channels))
    planes = moved.reshape(-1, height, width, channels)
    return torch.matmul(of_columns, planes).round().reshape(-1, *input_shape)
