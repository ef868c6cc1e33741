"""Correlations with patches at every position: channels over a grid, for the network of shifts."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import pad

from redunet.errors import DataError
from redunet.features import FeatureSettings, Named
from redunet.features.base import FeatureMap, register
from redunet.features.checks import check_shape
from redunet.features.patches import (
    _FILTER_GRID,
    _RESPONSE_GRID,
    PatchFilters,
    _check,
    _patches,
)
from redunet.features.pixels import whole_pixels
from redunet.features.root import rounded_root
from redunet.validation import flag

_LEAST_CONTRAST = 0.2
"""Of a patch that becomes a filter, as a share of the largest deviation of pixels drawn."""

_BATCH_BYTES = 2**24
"""What the patches of one pass may take."""


@register
@dataclass(frozen=True, eq=False)
class PatchPlanes:
    """How much an image looks like given patches at each position, as if opposite borders met.

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
        _check(input_shape, n_filters, patch_size, 1, threshold, 0.0, 0)
        drawn = _patches(images, patch_size, np.random.RandomState(seed))
        drawn -= drawn.mean(axis=1, keepdims=True)
        deviations = drawn.std(axis=1)
        chosen = drawn[deviations > _LEAST_CONTRAST * deviations.max()][:n_filters]
        if len(chosen) < n_filters:
            raise DataError(
                f"expected at least {n_filters} patches that are not flat to make filters of, "
                f"got {len(chosen)}: give more images, or ask for fewer filters"
            )
        # Of unit length, and of patches that have the deviation 1.
        scale = _FILTER_GRID / np.linalg.norm(chosen, axis=1) / math.sqrt(chosen.shape[1])
        filters = np.round(chosen * scale[:, None])
        largest = np.abs(filters).argmax(axis=1)
        # Of sum zero in spite of rounding, so that a flat patch has no response.
        filters[np.arange(n_filters), largest] -= filters.sum(axis=1)
        return cls(input_shape, torch.from_numpy(filters), patch_size, float(threshold), root)

    def __post_init__(self) -> None:
        flag("root", self.root)
        self._responding  # noqa: B018 - checks the other values
        check_shape((self.n_features,))

    @cached_property
    def _responding(self) -> PatchFilters:
        offsets = self.filters.new_zeros(len(self.filters)) if self.filters.ndim else self.filters
        return PatchFilters(
            self.input_shape, self.filters, offsets, self.patch_size, 1, self.threshold
        )

    @property
    def positions(self) -> tuple[int, ...]:
        """Height and width: the grid that the features of a channel lie on."""
        return self.input_shape[:2]

    @property
    def n_features(self) -> int:
        """2 · n_filters · height · width."""
        return 2 * len(self.filters) * self.positions[0] * self.positions[1]

    @property
    def learnt_from_data(self) -> bool:
        """The filters are made of images."""
        return True

    def __call__(self, X: Tensor) -> Tensor:
        """Feature vectors, (n, d), of images, (n, *input_shape): filter, sign, row, column."""
        X = whole_pixels(X, 255)
        planes = X.reshape(*X.shape[:3], -1).permute(0, 3, 1, 2)
        before = self.patch_size // 2
        after = self.patch_size - 1 - before
        per_image = 8 * (self.filters.numel() // len(self.filters) + 4 * len(self.filters))
        per_image *= self.positions[0] * self.positions[1]
        parts = [X.new_empty(0, self.n_features)]
        for some in torch.split(planes, max(1, _BATCH_BYTES // per_image)):
            around = pad(some, (before, after, before, after), mode="circular")
            t = self._responding._responses(around)
            both = torch.stack([t, -t], dim=2).sub_(round(self.threshold * _RESPONSE_GRID))
            both = both.clamp_(min=0)
            if self.root:
                both = rounded_root(both.mul_(_RESPONSE_GRID))
            parts.append(both.div_(_RESPONSE_GRID).flatten(1))
        return torch.cat(parts)

    def to_state(self) -> tuple[dict[str, Any], dict[str, Tensor]]:
        """What makes this map again."""
        values = {
            "input_shape": self.input_shape,
            "patch_size": self.patch_size,
            "threshold": self.threshold,
            "root": self.root,
        }
        return values, {"filters": self.filters}


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
