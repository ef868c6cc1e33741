"""The paper's lifting: random Gaussian kernels, with or without rectification."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Literal, cast

import numpy as np
import torch
from torch import Tensor

from redunet.errors import DataError, SettingsError
from redunet.features import exact
from redunet.features.base import TracedMap, register
from redunet.features.checks import MOST_VALUES, check_shape, check_tensor, whole_pixels
from redunet.validation import flag, whole_number

_KERNEL_GRID = 2**20
_SIZE = 3


@register
@dataclass(frozen=True, eq=False)
class GaussianLift(TracedMap):
    """Convolution of whole-numbered pixels with random Gaussian 3 × 3 kernels.

    Stride 1, padded with zeros to keep the image's size. The kernels lie on a
    grid of step 2⁻²⁰ and pixels are whole numbers, so every product and sum is
    exact in float64 and the bits do not depend on the batch, the device or the
    algorithm. The mean image is subtracted after the convolution, which is
    linear, for the same reason.

    Parameters
    ----------
    seed : int
        Of the kernels: the same on every machine and version.
    input_shape : (int, int, int), default=(32, 32, 3)
        Height, width, channels.
    n_kernels : int, default=5
    relu : bool, default=True
        Whether negative responses become zero.
    centred : bool, default=False
        Whether each image's and each kernel's own mean, over all its numbers, is
        subtracted, so that brightness plays no part. Both are then larger by how
        many numbers they have, which keeps everything exact.
    mean_image : Tensor of shape ``input_shape``, default=None
        Subtracted from each image.
    learnt_from_data : bool, default=False
        Whether the mean image was computed from images.
    """

    kind: ClassVar[str] = "gaussian-lift"
    holds: ClassVar[str] = "a mean image"

    seed: int
    input_shape: tuple[int, int, int] = (32, 32, 3)
    n_kernels: int = 5
    relu: bool = True
    centred: bool = False
    mean_image: Tensor | None = None
    learnt_from_data: bool = False

    def __post_init__(self) -> None:
        _check(self.input_shape, self.n_kernels)
        whole_number("seed", self.seed, least=0, most=2**32 - 1)
        for name in ("relu", "centred", "learnt_from_data"):
            flag(name, getattr(self, name))
        if self.mean_image is not None:
            check_tensor("mean_image", self.mean_image, self.input_shape)

    @classmethod
    def learn(
        cls,
        images: Any,
        seed: int,
        *,
        n_kernels: int = 5,
        relu: bool = True,
        centred: bool = False,
        per: Literal["pixel", "channel"] = "pixel",
    ) -> GaussianLift:
        """A lift that subtracts the mean of given images, (n, height, width, channels).

        Images of the first task leak nothing from later ones; the paper takes
        the whole training set. The mean is that of each pixel, or of each
        channel, which is nearer to that of images of other classes.
        """
        pixels = torch.as_tensor(images)
        if len(pixels) == 0:
            raise DataError("expected images to learn a mean image from, got none")
        _check(tuple(pixels.shape[1:]), n_kernels)
        mean = pixels.sum(dim=0, dtype=torch.float64) / len(pixels)
        if per == "channel":
            mean = mean.mean(dim=(0, 1)).expand(mean.shape).contiguous()
        return cls(
            seed,
            cast("tuple[int, int, int]", tuple(pixels.shape[1:])),
            n_kernels,
            relu,
            centred,
            mean_image=mean,
            learnt_from_data=True,
        )

    @property
    def n_features(self) -> int:
        """Height · width · n_kernels."""
        return self.input_shape[0] * self.input_shape[1] * self.n_kernels

    @cached_property
    def kernels(self) -> Tensor:
        """Whole numbers, (n_kernels, 9 · channels): the kernels times 2²⁰, and more if centred."""
        # The legacy generator is the one whose stream is promised never to change.
        normal = np.random.RandomState(self.seed).standard_normal
        drawn = normal((self.n_kernels, self.input_shape[2] * _SIZE * _SIZE))
        kernels = torch.from_numpy(np.round(drawn * _KERNEL_GRID))
        if self.centred:
            kernels = kernels * kernels.shape[1] - kernels.sum(dim=1, keepdim=True)
        return kernels

    @cached_property
    def _mean_response(self) -> Tensor | None:
        if self.mean_image is None:
            return None
        return self._respond(self.mean_image[None])

    @cached_property
    def _flat(self) -> Tensor:
        """The response, (n_kernels, height · width), to an image of ones."""
        return self._convolve(torch.ones(1, *self.input_shape, dtype=torch.float64))[0]

    def checked(self, X: Tensor) -> Tensor:
        """Images of whole numbers."""
        # Beyond it sums of products might not fit the 53 bits of a float64 any more.
        return whole_pixels(X, 2**8 if self.centred else 2**16)

    def vectors(self, X: Tensor) -> Tensor:
        """Feature vectors, (n, d), of images, (n, height, width, channels)."""
        response = self._respond(X)
        if self._mean_response is not None:
            response = response - exact.beside(self._mean_response, X)
        if self.relu:
            response = response.clamp(min=0.0)
        return response.reshape(-1, self.n_features)

    def _respond(self, X: Tensor) -> Tensor:
        """Responses to images, (n, n_kernels, height · width), centred where that is asked for."""
        response = self._convolve(X)
        if not self.centred:
            return response
        size = math.prod(self.input_shape)
        total = X.reshape(-1, 1, size).sum(2, keepdim=True)
        return response * float(size) - total * exact.beside(self._flat, X)

    def _convolve(self, X: Tensor) -> Tensor:
        """Responses, (n, n_kernels, height · width), of images, (n, height, width, channels)."""
        patches = exact.patches(X, self.input_shape, _SIZE, _SIZE // 2)
        return torch.matmul(exact.beside(self.kernels, X), patches)


def _check(input_shape: tuple[int, ...], n_kernels: int) -> None:
    check_shape(input_shape, 3)
    whole_number("n_kernels", n_kernels, least=1, most=MOST_VALUES)
    height, width, channels = input_shape
    if n_kernels * max(height * width, _SIZE**2 * channels) > MOST_VALUES:
        raise SettingsError(
            f"expected at most {MOST_VALUES:,} features and values of kernels, got "
            f"n_kernels={n_kernels} for images of {input_shape}"
        )
