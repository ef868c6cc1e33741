"""Pixels as they are, or shifted and scaled by a mean and a deviation."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor

from redunet.errors import DataError, SettingsError
from redunet.features import exact
from redunet.features.base import TracedMap, register
from redunet.features.checks import check_shape, check_tensor
from redunet.validation import flag


@register
@dataclass(frozen=True)
class Flatten(TracedMap):
    """Pixels in a row, unchanged.

    Parameters
    ----------
    input_shape : tuple of int
        Shape of one image.

    Examples
    --------
    >>> import torch
    >>> Flatten((2, 2))(torch.tensor([[[0, 10], [20, 30]]])).tolist()
    [[0.0, 10.0, 20.0, 30.0]]
    """

    kind: ClassVar[str] = "flatten"

    input_shape: tuple[int, ...]

    def __post_init__(self) -> None:
        check_shape(self.input_shape)

    @property
    def learnt_from_data(self) -> bool:
        """Nothing is learnt."""
        return False

    @property
    def n_features(self) -> int:
        """The number of pixel values."""
        return math.prod(self.input_shape)

    def vectors(self, X: Tensor) -> Tensor:
        """Feature vectors, (n, d), of images, (n, *input_shape)."""
        return X.reshape(-1, self.n_features)


@register
@dataclass(frozen=True, eq=False)
class Standardize(TracedMap):
    """(pixel − mean) / deviation, in a row.

    Parameters
    ----------
    input_shape : tuple of int
        Shape of one image.
    mean, deviation : Tensor, float64
        Of shape (), one number for all pixels, or of ``input_shape``.
    learnt_from_data : bool, default=False
        Whether the two were computed from images.

    Examples
    --------
    >>> import torch
    >>> images = torch.tensor([[[0, 10]], [[20, 30]]], dtype=torch.uint8)
    >>> Standardize.learn(images)(images).round(decimals=2).tolist()
    [[-1.34, -0.45], [0.45, 1.34]]
    >>> Standardize.learn(images, per="pixel")(images).tolist()
    [[-1.0, -1.0], [1.0, 1.0]]
    """

    kind: ClassVar[str] = "standardize"
    holds: ClassVar[str] = "means and deviations"

    input_shape: tuple[int, ...]
    mean: Tensor
    deviation: Tensor
    learnt_from_data: bool = False

    def __post_init__(self) -> None:
        check_shape(self.input_shape)
        check_tensor("mean", self.mean, (), self.input_shape)
        check_tensor("deviation", self.deviation, (), self.input_shape)
        if not bool((self.deviation > 0).all()):
            raise SettingsError("expected deviations above 0")
        flag("learnt_from_data", self.learnt_from_data)

    @classmethod
    def learn(cls, images: Any, per: Literal["dataset", "pixel"] = "dataset") -> Standardize:
        """Mean and deviation of given images: of all pixels together, or of each pixel.

        Parameters
        ----------
        images : array or Tensor of shape (n, *input_shape)
            Images of the first task, so that nothing leaks from later ones.
        per : {"dataset", "pixel"}, default="dataset"
            A pixel that never changes keeps its scale.
        """
        if len(images) == 0:
            raise DataError("expected images to learn mean and deviation from, got none")
        pixels = torch.as_tensor(images).to(torch.float64)
        dims = tuple(range(pixels.ndim)) if per == "dataset" else (0,)
        deviation, mean = torch.std_mean(pixels, dim=dims, correction=0)
        deviation = deviation.where(deviation > 0, 1)
        return cls(tuple(pixels.shape[1:]), mean, deviation, learnt_from_data=True)

    @property
    def n_features(self) -> int:
        """The number of pixel values."""
        return math.prod(self.input_shape)

    def vectors(self, X: Tensor) -> Tensor:
        """Feature vectors, (n, d), of images, (n, *input_shape)."""
        mean, deviation = exact.beside(self.mean, X), exact.beside(self.deviation, X)
        return ((X - mean) / deviation).reshape(-1, self.n_features)
