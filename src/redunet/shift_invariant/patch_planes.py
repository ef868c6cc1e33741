"""Correlations with patches at every position: channels over a grid, for the network of shifts."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from redunet.features import FeatureMap, FeatureSettings, Named, exact
from redunet.features.base import FieldsMap, register
from redunet.features.checks import check_shape, whole_pixels
from redunet.features.patches import (
    FILTER_GRID,
    RESPONSE_GRID,
    PatchFilters,
    check_enough,
    check_patches,
    draw_patches,
)
from redunet.validation import flag

_LEAST_CONTRAST = 0.2
"""Of a patch that becomes a filter, as a share of the largest deviation of pixels drawn."""

_BATCH_BYTES = 2**24
"""Memory of the patches of one pass."""


@register
@dataclass(frozen=True, eq=False)
class PatchPlanes(FieldsMap):
    """Likeness of an image to given patches at each position, as if opposite borders met.

    A filter is a patch too, and t its correlation with the patch around a position, from −1 to 1
    (and nearly 0 where that is almost flat): max(t − θ, 0) and max(−t − θ, 0) are two channels.
    Nothing is pooled, and patches reach over the borders: shifting an image circularly shifts its
    features, to the last bit. Made by `learn`.

    Parameters
    ----------
    input_shape : (int, int) or (int, int, int)
        Height, width and, where there are some, channels.
    filters : Tensor of shape (n_filters, channels · patch_size²), float64
        As those of `PatchFilters`, of sum 0.
    patch_size : int
    threshold : float
        θ.
    root : bool, default=False
        Whether the square root of each value is taken.

    Examples
    --------
    >>> import numpy as np
    >>> images = np.random.RandomState(0).randint(0, 256, (20, 12, 10), dtype=np.uint8)
    >>> features = PatchPlanes.learn(images, seed=0, n_filters=4, patch_size=6)
    >>> features.positions, features.n_features  # 2 signs · 4 filters · 12 · 10
    ((12, 10), 960)
    >>> planes = features(torch.from_numpy(images)).reshape(20, 8, 12, 10)
    >>> shifted = features(torch.from_numpy(images).roll((5, 3), (1, 2))).reshape(20, 8, 12, 10)
    >>> torch.equal(shifted, planes.roll((5, 3), (2, 3)))
    True
    """

    kind: ClassVar[str] = "patch-planes"
    holds: ClassVar[str] = PatchFilters.holds

    input_shape: tuple[int, ...]
    filters: Tensor
    patch_size: int
    threshold: float
    root: bool = False

    @classmethod
    def learn(
        cls,
        images: Any,
        seed: int,
        n_filters: int,
        patch_size: int = 11,
        *,
        threshold: float = 0.0,
        root: bool = False,
    ) -> PatchPlanes:
        """Filters that are patches of given images, whole-numbered, (n, height, width[, channels]).

        Images of the first task leak nothing from later ones. Patches of little contrast are left
        out.

        Parameters
        ----------
        images : array or Tensor of shape (n, *input_shape)
        seed : int
            Of the choice of patches.
        n_filters : int
        patch_size : int, default=11
        threshold, root
            As for the class.
        """
        input_shape = tuple(np.shape(images)[1:])
        check_patches(input_shape, n_filters, patch_size, 1, threshold, 0.0, 0)
        drawn = draw_patches(images, patch_size, np.random.RandomState(seed))
        drawn -= drawn.mean(axis=1, keepdims=True)
        deviations = drawn.std(axis=1)
        chosen = drawn[deviations > _LEAST_CONTRAST * deviations.max()][:n_filters]
        check_enough(chosen, n_filters)
        # Of unit length, and of patches that have the deviation 1.
        scale = FILTER_GRID / np.linalg.norm(chosen, axis=1) / math.sqrt(chosen.shape[1])
        filters = np.round(chosen * scale[:, None])
        largest = np.abs(filters).argmax(axis=1)
        # Of sum zero in spite of rounding, so that a flat patch has no response.
        filters[np.arange(n_filters), largest] -= filters.sum(axis=1)
        return cls(input_shape, torch.from_numpy(filters), patch_size, float(threshold), root)

    def __post_init__(self) -> None:
        flag("root", self.root)
        shape = self.input_shape, len(self.filters) if self.filters.ndim else 0
        check_patches(*shape, self.patch_size, 1, self.threshold, 0.0, 0)
        self._responding  # noqa: B018 - checks the filters
        check_shape((self.n_features,))

    @cached_property
    def _responding(self) -> PatchFilters:
        """The filters of images that go on beyond their borders."""
        height, width, *channels = self.input_shape
        more = self.patch_size - 1
        shape = (height + more, width + more, *channels)
        offsets = self.filters.new_zeros(len(self.filters)) if self.filters.ndim else self.filters
        return PatchFilters(shape, self.filters, offsets, self.patch_size, 1, self.threshold)

    @property
    def positions(self) -> tuple[int, ...]:
        """Height and width: the grid that the features of a channel lie on."""
        return self.input_shape[:2]

    @property
    def learnt_from_data(self) -> bool:
        """The filters are made of images."""
        return True

    @property
    def n_features(self) -> int:
        """2 · n_filters · height · width."""
        return 2 * len(self.filters) * self.positions[0] * self.positions[1]

    def checked(self, X: Tensor) -> Tensor:
        """Images of whole numbers."""
        return whole_pixels(X, 255)

    def __call__(self, X: Tensor) -> Tensor:
        """Feature vectors, (n, d), of images, (n, *input_shape): filter, sign, row, column."""
        per_image = 8 * (self.filters.numel() // len(self.filters) + 4 * len(self.filters))
        per_pass = max(1, _BATCH_BYTES // (per_image * math.prod(self.positions)))
        X = self.checked(X)
        parts = [self.vectors(some) for some in torch.split(X, per_pass)]
        return torch.cat([X.new_empty(0, self.n_features), *parts])

    def vectors(self, X: Tensor) -> Tensor:
        """Feature vectors of images of whole numbers, all at once."""
        before = self.patch_size // 2
        rows, columns = (
            torch.arange(-before, side - before + self.patch_size - 1, device=X.device) % side
            for side in self.positions
        )
        t = self._responding.responses(X[:, rows][:, :, columns])
        both = torch.stack([t, -t], dim=2).sub_(round(self.threshold * RESPONSE_GRID))
        both = both.clamp_(min=0)
        if self.root:
            both = exact.rounded_root(both.mul_(RESPONSE_GRID))
        return both.div_(RESPONSE_GRID).flatten(1)


def _from_settings(settings: FeatureSettings, images: Any, device: str) -> FeatureMap:
    return PatchPlanes.learn(
        images,
        settings.seed,
        settings.n_filters,
        settings.patch_size,
        threshold=settings.threshold,
        root=settings.sqrt,
    )


NAMED = Named(_from_settings, learns=lambda settings: True, random=True)
"""The map that settings call "patch-planes"."""
