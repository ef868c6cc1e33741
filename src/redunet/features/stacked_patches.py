"""Patches of patches: the responses of a few filters as an image, of which patches are taken again.

The responses are rounded to whole numbers from 0 to 255, as pixels are, so what holds of patches of
images holds of these: products and sums are exact, and features have the same bits in every batch.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from redunet.errors import SettingsError
from redunet.features.base import register
from redunet.features.patches import PatchFilters
from redunet.features.root import rounded_root
from redunet.features.stages import Stages

_FIRST_OF_GREY, _FIRST_OF_COLOURS = 16, 32
"""Filters of the first stage, for images of one channel and of more.

On held-out grey images 8, 32 and 64 were no better than 16; on held-out colour images 32 were.
"""

_FIRST_THRESHOLD = 0.1

_FIRST_WINDOW = 1.0
"""In pixels: the windows, two pixels apart, overlap."""

_SECOND_SIZE = 4
"""Side of a patch of responses; it covers twice as many pixels of the image, and a little more."""

_LEAST_EIGENVALUE = 3.0
"""Of the second stage: whitening as strong as that of images labelled fewer correctly."""

_STEPS = 32
"""Steps of the grid that roots of responses are rounded to, to one."""

_WHITE = 255
"""The largest pixel; roots beyond it are cut off."""

_BATCH = {"cpu": 64, "cuda": 1024}
"""Images of one pass: what lies between the stages stays in a processor's cache."""


@register
@dataclass(frozen=True, eq=False)
class StackedPatches(Stages):
    """Filters of images, and filters of the responses to them.

    The roots of the first map's sums, in windows two pixels apart, are an image of half the size
    with two channels a filter. The second map takes patches of it: what it responds to are things
    of several parts. Made by `learn`.

    Parameters
    ----------
    first : PatchFilters
        Of images.
    second : PatchFilters
        Of images of ``first.cells`` × ``first.cells`` pixels and two channels for each filter of
        the first.

    Examples
    --------
    >>> images = np.random.RandomState(0).randint(0, 256, (20, 12, 12), dtype=np.uint8)
    >>> features = StackedPatches.learn(images, seed=0, n_filters=10)
    >>> features.second.input_shape  # 16 filters, two signs
    (6, 6, 32)
    >>> features(torch.from_numpy(images)).shape  # 2 signs · 10 filters · 2 · 2 cells
    torch.Size([20, 80])
    """

    kind: ClassVar[str] = "stacked-patches"

    first: PatchFilters
    second: PatchFilters

    def __post_init__(self) -> None:
        super().__post_init__()
        for stage in self.parts:
            if not isinstance(stage, PatchFilters):
                raise SettingsError(f"expected two maps of patches, got {stage.kind!r}")
        if self.second.input_shape != (made := _image_shape(self.first)):
            raise SettingsError(
                f"expected a second map of images of shape {made}, as the first map makes them, "
                f"got one for {self.second.input_shape}"
            )

    @classmethod
    def learn(
        cls,
        images: Any,
        seed: int | tuple[int, ...],
        n_filters: int,
        patch_size: int = 5,
        *,
        cells: int = 2,
        threshold: float = 0.25,
        window: float = 0.0,
        device: str = "cpu",
    ) -> StackedPatches:
        """Filters from patches of given images, whole-numbered, (n, height, width[, channels]).

        Images of the first task leak nothing from later ones. Patches lie across the edges, with
        zeros around the image.

        Parameters
        ----------
        images : array or Tensor of shape (n, *input_shape)
        seed : int or tuple of int
            Of the choice of patches.
        n_filters : int
            Of the second stage; the first one has 16, and 32 for images of several channels.
        patch_size : int, default=5
            Side of the patches of images.
        cells : int, default=2
        threshold : float, default=0.25
        window : float, default=0.0
            As for `PatchFilters`, of the second stage; windows are measured in pixels of the image.
        device : str, default="cpu"
            Where responses to the first stage are computed; the map is the same for each.
        """
        height, width, *channels = np.shape(images)[1:]
        first = PatchFilters.learn(
            images,
            seed,
            _FIRST_OF_GREY if math.prod(channels) == 1 else _FIRST_OF_COLOURS,
            patch_size,
            cells=min(height, width) // 2,
            threshold=_FIRST_THRESHOLD,
            window=_FIRST_WINDOW,
            padding=patch_size // 2,
        )
        responses = [
            _image(first, part.to(device)).to("cpu", torch.uint8)
            for part in torch.split(torch.as_tensor(images), _per_pass(device))
        ]
        second = PatchFilters.learn(
            torch.cat(responses).numpy(),
            (*((seed,) if isinstance(seed, int) else seed), _SECOND_SIZE),
            n_filters,
            _SECOND_SIZE,
            cells=cells,
            threshold=threshold,
            window=window / 2,
            padding=_SECOND_SIZE // 2,
            least_eigenvalue=_LEAST_EIGENVALUE,
        )
        return cls(first, second)

    def __call__(self, X: Tensor) -> Tensor:
        """Feature vectors, (n, d), of images, (n, *input_shape): filter, sign, row, column."""
        parts = torch.split(X, _per_pass(X.device)) if len(X) else (X,)
        return torch.cat([self.second(_image(self.first, part)) for part in parts])


def _per_pass(device: torch.device | str) -> int:
    return _BATCH.get(torch.device(device).type, _BATCH["cpu"])


def _image_shape(first: PatchFilters) -> tuple[int, int, int]:
    """Height, width and channels of the images that a first stage makes."""
    return first.cells, first.cells, 2 * len(first.filters)


def _image(first: PatchFilters, X: Tensor) -> Tensor:
    """Responses to a first stage's filters as images of whole numbers, (n, *_image_shape)."""
    height, width, channels = _image_shape(first)
    roots = rounded_root((first(X) * _STEPS**2).round_()).clamp_(max=_WHITE)
    return roots.reshape(-1, channels, height, width).permute(0, 2, 3, 1)
