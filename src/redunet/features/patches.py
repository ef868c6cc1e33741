"""Filters from patches of given images: responses rectified on both sides and pooled.

Pixels are whole and the filters lie on a grid, so their products are exact in
any order; so is the contrast of a patch, rounded to a grid, and so are the
sums over a cell, of responses and weights rounded to grids. What lies between is
done number by number. So the features have the same bits in every batch, with any
number of threads, on every device.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import avg_pool2d, pad, softshrink

from redunet.errors import DataError, SettingsError
from redunet.features.base import register
from redunet.features.checks import check_shape, check_tensor
from redunet.features.pixels import whole_pixels

_FILTER_GRID = 2**24
_CONTRAST_GRID = 2**6
_RESPONSE_GRID = 2**16
_WINDOW_GRID = 2**10

_LEAST_VARIANCE = 10.0
"""Added to the variance of a patch, of pixels from 0 to 255: what is fainter is not blown up."""

_PATCHES = 100_000
"""How many patches are drawn to learn from."""

_MOST_VALUES = 1024
"""Values of a patch, so that the root of its variance is rounded safely."""

_LARGEST_FILTER = 2**34
"""Of a filter's values, so that its products stay below 2⁵³."""

_PASS_BYTES = {"cpu": 6 * 2**20, "cuda": 2**31}
"""What patches or responses of one pass may take: for each thread a processor's cache, or a part
of a GPU's memory."""


@register
@dataclass(frozen=True, eq=False)
class PatchFilters:
    """Whitened patches as filters, responses rectified on both sides, sums over cells.

    Every patch x of an image is brought to mean 0 and variance 1 (nearly 0
    where it is almost flat), x̂ = (x − x̄) / √(var x + 10), and whitened. With t
    its product with a filter, a unit vector, max(t − θ, 0) and max(−t − θ, 0)
    are summed over the patches of each cell, or over all patches, weighted by a
    Gaussian window around the middle of each cell: then features change less as
    an image is shifted. Made by `learn`.

    Parameters
    ----------
    input_shape : (int, int) or (int, int, int)
        Height, width and, where there are some, channels.
    filters : Tensor of shape (n_filters, channels · patch_size²), float64
        Whitening and filter in one, times 2²⁴, rounded; values of one channel
        come one after another.
    offsets : Tensor of shape (n_filters,), float64
        What the whitening subtracts from t.
    patch_size : int
        Side of a patch.
    cells : int
        Cells along each side of the image.
    threshold : float
        θ.
    window : float, default=0.0
        Standard deviation of the Gaussian windows, in pixels; 0 for cells with
        sharp edges.
    padding : int, default=0
        Zeros around the image, on each side: patches then also lie across its
        edges, where things on a plain ground often end.

    Examples
    --------
    >>> images = np.random.RandomState(0).randint(0, 256, (20, 12, 12), dtype=np.uint8)
    >>> features = PatchFilters.learn(images, seed=0, n_filters=16)
    >>> features(torch.from_numpy(images)).shape  # 2 signs · 16 filters · 2 · 2 cells
    torch.Size([20, 128])
    """

    kind: ClassVar[str] = "patch-filters"
    holds: ClassVar[str] = "filters made of patches of images"

    input_shape: tuple[int, ...]
    filters: Tensor
    offsets: Tensor
    patch_size: int
    cells: int
    threshold: float
    window: float = 0.0
    padding: int = 0

    @classmethod
    def learn(
        cls,
        images: Any,
        seed: int | tuple[int, ...],
        n_filters: int,
        patch_size: int = 6,
        *,
        cells: int = 2,
        threshold: float = 0.25,
        window: float = 0.0,
        padding: int = 0,
        source: Literal["random", "kmeans"] = "random",
        least_eigenvalue: float = 0.1,
    ) -> PatchFilters:
        """Filters from patches of given images, whole-numbered, (n, height, width[, channels]).

        Images of the first task leak nothing from later ones. Flat patches are
        left out.

        Parameters
        ----------
        images : array or Tensor of shape (n, *input_shape)
        seed : int or tuple of int
            Of the choice of patches.
        n_filters : int
        patch_size : int, default=6
        cells : int, default=2
        threshold : float, default=0.25
        window : float, default=0.0
        padding : int, default=0
        source : {"random", "kmeans"}, default="random"
            Filters are whitened patches chosen at random, or the centroids of
            their clusters.
        least_eigenvalue : float, default=0.1
            Added to the eigenvalues of the covariance of patches before it is
            inverted: the larger, the less are patches whitened.
        """
        input_shape = tuple(np.shape(images)[1:])
        _check(input_shape, n_filters, patch_size, cells, threshold, window, padding)
        if source not in ("random", "kmeans"):
            raise SettingsError(f"expected source to be random or kmeans, got {source!r}")
        random = np.random.RandomState(seed)
        drawn = _patches(images, patch_size, random, padding)
        whole_pixels(torch.from_numpy(drawn), 255)
        drawn = drawn[drawn.var(axis=1) > 0]
        if len(drawn) < n_filters:
            raise DataError(
                f"expected at least {n_filters} patches that are not flat to make filters of, "
                f"got {len(drawn)}: give more images, or ask for fewer filters"
            )
        drawn -= drawn.mean(axis=1, keepdims=True)
        drawn /= np.sqrt(drawn.var(axis=1, keepdims=True) + _LEAST_VARIANCE)
        mean = drawn.mean(axis=0)
        values, vectors = np.linalg.eigh(np.cov(drawn.T, bias=True))
        whiten = (vectors / np.sqrt(values + least_eigenvalue)) @ vectors.T
        whitened = (drawn - mean) @ whiten
        chosen = whitened[random.permutation(len(whitened))[:n_filters]]
        if source == "kmeans":
            from sklearn.cluster import KMeans  # takes a while to load

            clusters = KMeans(n_filters, init=chosen, n_init=1, max_iter=30).fit(whitened)
            chosen = clusters.cluster_centers_
        filters = chosen / np.linalg.norm(chosen, axis=1, keepdims=True) @ whiten
        offsets = filters @ mean
        filters -= filters.mean(axis=1, keepdims=True)  # in place of that of each patch
        return cls(
            input_shape,
            torch.from_numpy(np.round(filters * _FILTER_GRID)),
            torch.from_numpy(offsets),
            patch_size,
            cells,
            float(threshold),
            float(window),
            padding,
        )

    def __post_init__(self) -> None:
        n_filters = len(self.filters) if self.filters.ndim else 0
        _check(
            self.input_shape,
            n_filters,
            self.patch_size,
            self.cells,
            self.threshold,
            self.window,
            self.padding,
        )
        values = math.prod(self.input_shape[2:]) * self.patch_size**2
        check_tensor("filters", self.filters, (n_filters, values))
        check_tensor("offsets", self.offsets, (n_filters,))
        exact = torch.equal(self.filters, self.filters.round())
        if not (exact and bool((self.filters.abs() <= _LARGEST_FILTER).all())):
            raise SettingsError("expected filters in whole numbers, as `learn` makes them")

    @property
    def n_features(self) -> int:
        """2 · n_filters · cells²."""
        return 2 * len(self.filters) * self.cells**2

    @property
    def steps(self) -> int:
        """Steps of the grid of sums to one."""
        return _RESPONSE_GRID * (_WINDOW_GRID if self.window else 1)

    @property
    def learnt_from_data(self) -> bool:
        """The filters are made of images."""
        return True

    def __call__(self, X: Tensor) -> Tensor:
        """Feature vectors, (n, d), of images, (n, *input_shape): filter, sign, row, column."""
        X = whole_pixels(X, 255)
        planes = X.reshape(*X.shape[:3], -1).permute(0, 3, 1, 2)
        out = X.new_empty(len(X), self.n_features)
        rows, columns = (along.to(X.device) for along in self.weights())
        per_place = max(self.filters.shape) * X.element_size()  # responses, or values of a patch
        per_image = per_place * rows.shape[1] * len(columns)
        threads = torch.get_num_threads() if X.device.type == "cpu" else 1
        pass_bytes = _PASS_BYTES.get(X.device.type, _PASS_BYTES["cpu"])
        per_pass = threads * max(1, pass_bytes // per_image)
        for some, features in zip(
            torch.split(planes, per_pass), torch.split(out, per_pass), strict=True
        ):
            features.copy_(self._sums(some, rows, columns))
        return out.div_(self.steps)

    def to_state(self) -> tuple[dict[str, Any], dict[str, Tensor]]:
        """What makes this map again."""
        values = {
            "input_shape": self.input_shape,
            "patch_size": self.patch_size,
            "cells": self.cells,
            "threshold": self.threshold,
        }
        if self.window:  # maps without one are saved as before there were windows
            values["window"] = self.window
        if self.padding:  # likewise
            values["padding"] = self.padding
        return values, {"filters": self.filters, "offsets": self.offsets}

    def weights(self) -> tuple[Tensor, Tensor]:
        """What places count in cells: Tensors of shape (cells, height) and (width, cells).

        A place counts the product of what its row and its column do, which are whole numbers.
        """
        height, width = (
            self._along(side + 2 * self.padding - self.patch_size + 1).round()
            for side in self.input_shape[:2]
        )
        return height.T, width

    def _sums(self, planes: Tensor, rows: Tensor, columns: Tensor) -> Tensor:
        """Sums on the grid of responses, (n, d), of images, (n, channels, height, width)."""
        responses = self._responses(planes)
        # Beyond the threshold on either side, sign kept: the two sides are read off the sums.
        beyond = softshrink(responses, round(self.threshold * _RESPONSE_GRID))
        beyond = beyond.view(-1, rows.shape[1], len(columns))
        both = rows @ beyond @ columns
        above = rows @ beyond.clamp_(min=0) @ columns
        sides = torch.stack([above, above - both], dim=1)
        return sides.view(len(planes), self.n_features)

    def _responses(self, planes: Tensor) -> Tensor:
        """Products t on their grid, (n, n_filters, places), of images as for `_sums`."""
        patches = self._patches_of(planes)
        size = patches.shape[1]
        variance = size * self._over_patches(planes.square()) - self._over_patches(planes).square()
        contrast = variance.add_(_LEAST_VARIANCE * size**2).mul_(_CONTRAST_GRID**2).sqrt_().round_()
        scale = (size * _CONTRAST_GRID * _RESPONSE_GRID / _FILTER_GRID) / contrast
        offsets = self.offsets.to(patches.device) * _RESPONSE_GRID
        responses = self.filters.to(patches.device) @ patches
        return responses.mul_(scale[:, None]).sub_(offsets[:, None]).round_()

    def _patches_of(self, planes: Tensor) -> Tensor:
        """All patches, (n, values, places): a copy of rows, several times as fast as `unfold`."""
        padded = pad(planes, (self.padding,) * 4)
        every = padded.unfold(2, self.patch_size, 1).unfold(3, self.patch_size, 1)
        return every.permute(0, 1, 4, 5, 2, 3).flatten(4).flatten(1, 3)

    def _over_patches(self, planes: Tensor) -> Tensor:
        """Sums of the values of each patch, (n, places), of images as for `_sums`."""
        grey = planes.sum(dim=1, keepdim=True)
        size, padding = self.patch_size, self.padding
        grey = pad(grey, (padding,) * 4)  # of which pooling takes half a patch at most
        return avg_pool2d(grey, size, stride=1, divisor_override=1).flatten(1)

    def _along(self, places: int) -> Tensor:
        """What places along one side of the image count in cells: Tensor, (places, cells)."""
        if not self.window:
            cell = torch.arange(places) * self.cells // places
            return torch.nn.functional.one_hot(cell, self.cells).to(torch.float64)
        width, top = places / self.cells, math.sqrt(_WINDOW_GRID)
        far = [[i + 0.5 - (c + 0.5) * width for c in range(self.cells)] for i in range(places)]
        weights = [[top * math.exp(-0.5 * (x / self.window) ** 2) for x in row] for row in far]
        return torch.tensor(weights, dtype=torch.float64)


def _check(
    input_shape: tuple[int, ...],
    n_filters: int,
    patch_size: int,
    cells: int,
    threshold: float,
    window: float,
    padding: int,
) -> None:
    check_shape(input_shape, 2, 3)
    if any(type(n) is not int or n < 1 for n in (n_filters, patch_size, cells)):
        raise SettingsError(
            f"expected n_filters, patch_size and cells of at least 1, got {n_filters}, "
            f"{patch_size} and {cells}"
        )
    if type(padding) is not int or not 0 <= padding < patch_size:
        raise SettingsError(
            f"expected padding to be a whole number from 0 on, below patch_size={patch_size}, "
            f"got {padding!r}"
        )
    places = min(input_shape[:2]) + 2 * padding - patch_size + 1
    values = patch_size**2 * math.prod(input_shape[2:])
    if places < cells or not 1 < values <= _MOST_VALUES:
        raise SettingsError(
            f"expected patches of 2 to {_MOST_VALUES} values that fit at {cells} or more places "
            f"along a side, got patch_size={patch_size} in images of {input_shape}"
        )
    if not (type(threshold) in (int, float) and 0 <= threshold < 2**10):
        raise SettingsError(f"expected threshold to be a number from 0 on, got {threshold!r}")
    if not (type(window) in (int, float) and 0 <= window < math.inf):
        raise SettingsError(f"expected window to be a number from 0 on, got {window!r}")


def _patches(images: Any, size: int, random: np.random.RandomState, padding: int = 0) -> Any:
    """Patches drawn at random, (patches, channels · size²), values of a channel together."""
    images = np.asarray(images)
    if padding:
        around = [(0, 0), (padding, padding), (padding, padding)]
        images = np.pad(images, around + [(0, 0)] * (images.ndim - 3))
    n, height, width = images.shape[:3]
    if not n:
        raise DataError("expected images to learn filters from, got none")
    which = random.randint(n, size=_PATCHES)
    top, left = (random.randint(side - size + 1, size=_PATCHES) for side in (height, width))
    inside = np.arange(size)
    rows = (top[:, None] + inside)[:, :, None]
    columns = (left[:, None] + inside)[:, None, :]
    patches = images[which[:, None, None], rows, columns].astype(np.float64)
    return np.moveaxis(patches.reshape(*patches.shape[:3], -1), 3, 1).reshape(_PATCHES, -1)
