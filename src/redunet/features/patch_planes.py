"""Responses of patch filters at every position: channels over a grid, for the network of shifts."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor
from torch.nn.functional import pad, unfold

from redunet.features.base import register
from redunet.features.checks import check_shape
from redunet.features.patches import _RESPONSE_GRID, PatchFilters
from redunet.features.pixels import whole_pixels
from redunet.features.root import rounded_root
from redunet.validation import flag

_BATCH_BYTES = 2**24
"""What the patches of one pass may take."""


@register
@dataclass(frozen=True, eq=False)
class PatchPlanes:
    """What `PatchFilters` responds at each position of an image whose opposite borders meet.

    With t the product of a filter and the patch around a position, max(t − θ, 0) and
    max(−t − θ, 0) are two channels. Nothing is pooled, and patches reach over the borders: shifting
    an image circularly shifts its features, to the last bit. A flat patch has no response.

    Parameters
    ----------
    input_shape : (int, int) or (int, int, int)
        Height, width and, where there are some, channels.
    filters : Tensor of shape (n_filters, channels · patch_size²), float64
        As those of `PatchFilters`.
    patch_size : int
    threshold : float
        θ.
    root : bool, default=False
        Whether the square root of each response is taken.

    Examples
    --------
    >>> import numpy as np
    >>> images = np.random.RandomState(0).randint(0, 256, (20, 12, 10), dtype=np.uint8)
    >>> features = PatchPlanes.learn(images, seed=0, n_filters=4)
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
        patch_size: int = 6,
        *,
        threshold: float = 0.25,
        root: bool = False,
        source: Literal["random", "kmeans"] = "random",
    ) -> PatchPlanes:
        """Filters from patches of given images; parameters as for `PatchFilters.learn`."""
        learnt = PatchFilters.learn(
            images, seed, n_filters, patch_size, cells=1, threshold=threshold, source=source
        )
        return cls(learnt.input_shape, learnt.filters, patch_size, learnt.threshold, root)

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
            t = self._responding._responses(unfold(around, self.patch_size))
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
