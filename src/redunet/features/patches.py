"""Filters from patches of given images: responses rectified on both sides and pooled.

Pixels are whole and the filters lie on a grid, so their products are exact in
any order; so is the contrast of a patch, rounded to a grid, and so are the
sums over a cell, of responses and weights rounded to grids. What lies between is
done number by number. So the features have the same bits in every batch, with any
number of threads, on every device. Stacked filters take responses, rounded to whole
numbers from 0 to 255, for pixels.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from redunet.errors import DataError, SettingsError
from redunet.features import exact
from redunet.features.base import TracedMap, register
from redunet.features.checks import check_shape, check_tensor, whole_pixels
from redunet.features.composed import Composed

FILTER_GRID = 2**24
"""Steps in one unit, of filters."""

RESPONSE_GRID = 2**16
"""Steps in one unit, of responses."""

_CONTRAST_GRID = 2**6
_WINDOW_GRID = 2**10

_LEAST_VARIANCE = 10.0
"""Added to the variance of a patch, of pixels from 0 to 255: what is fainter is not blown up."""

N_PATCHES = 100_000
"""Patches drawn to learn from."""

_MOST_VALUES = 1024
"""Values of a patch, so that the root of its variance is rounded safely."""

_LARGEST_FILTER = 2**34
"""Of a filter's values, so that its products stay below 2⁵³."""

_PASS_BYTES = {"cpu": 6 * 2**20, "cuda": 2**31}
"""Memory of patches or responses of one pass: for each thread a processor's cache, or a part of a
GPU's memory."""

_FIRST_OF_GREY, _FIRST_OF_COLOURS = 16, 32
"""Stacked filters of the first stage, for images of one channel and of more.

On held-out grey images 8, 32 and 64 were no better than 16; on held-out colour images 32 were.
"""

_FIRST_THRESHOLD = 0.1
_FIRST_WINDOW = 1.0
"""In pixels: the windows of the first stage, two pixels apart, overlap."""

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

Source = Literal["random", "kmeans"]


@register
@dataclass(frozen=True, eq=False)
class PatchFilters(TracedMap):
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
    window: float = field(default=0.0, metadata={"omitted": True})
    padding: int = field(default=0, metadata={"omitted": True})

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
        source: Source = "random",
        least_eigenvalue: float = 0.1,
        n_patches: int | None = None,
    ) -> PatchFilters:
        """Filters from patches of given images, whole-numbered, (n, height, width[, channels]).

        Images of the first task leak nothing from later ones. Flat patches are
        left out.

        Parameters
        ----------
        images : array or Tensor of shape (n, *input_shape)
        seed : int or tuple of int
            Of the choice of patches.
        n_filters, patch_size, cells, threshold, window, padding
            As for the map.
        source : {"random", "kmeans"}, default="random"
            Filters are whitened patches chosen at random, or the centroids of
            their clusters.
        least_eigenvalue : float, default=0.1
            Added to the eigenvalues of the covariance of patches before it is
            inverted: the larger, the less are patches whitened.
        n_patches : int, default=None
            Drawn to learn from; None draws 100,000.
        """
        input_shape = tuple(np.shape(images)[1:])
        check_patches(input_shape, n_filters, patch_size, cells, threshold, window, padding)
        if source not in ("random", "kmeans"):
            raise SettingsError(f"expected source to be random or kmeans, got {source!r}")
        random = np.random.RandomState(seed)
        drawn = draw_patches(images, patch_size, random, padding, n_patches)
        drawn = drawn[drawn.var(axis=1) > 0]
        check_enough(drawn, n_filters)
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
        offsets = torch.from_numpy(filters @ mean)
        filters -= filters.mean(axis=1, keepdims=True)  # in place of that of each patch
        on_grid = torch.from_numpy(np.round(filters * FILTER_GRID))
        pooling = cells, float(threshold), float(window), padding
        return cls(input_shape, on_grid, offsets, patch_size, *pooling)

    def __post_init__(self) -> None:
        n_filters = len(self.filters) if self.filters.ndim else 0
        pooling = self.cells, self.threshold, self.window, self.padding
        check_patches(self.input_shape, n_filters, self.patch_size, *pooling)
        values = math.prod(self.input_shape[2:]) * self.patch_size**2
        check_tensor("filters", self.filters, (n_filters, values))
        check_tensor("offsets", self.offsets, (n_filters,))
        exact_filters = torch.equal(self.filters, self.filters.round())
        if not (exact_filters and bool((self.filters.abs() <= _LARGEST_FILTER).all())):
            raise SettingsError("expected filters in whole numbers, as `learn` makes them")

    @property
    def learnt_from_data(self) -> bool:
        """The filters are made of images."""
        return True

    @property
    def n_features(self) -> int:
        """2 · n_filters · cells²."""
        return 2 * len(self.filters) * self.cells**2

    @property
    def places(self) -> tuple[int, int]:
        """Patches along the height and the width of an image."""
        beyond = 2 * self.padding - self.patch_size + 1
        return self.input_shape[0] + beyond, self.input_shape[1] + beyond

    def checked(self, X: Tensor) -> Tensor:
        """Images of whole numbers."""
        return whole_pixels(X, 255)

    def __call__(self, X: Tensor) -> Tensor:
        """Feature vectors, (n, d), of images, (n, *input_shape): filter, sign, row, column."""
        X = self.checked(X)
        out = X.new_empty(len(X), self.n_features)
        per_place = max(self.filters.shape) * X.element_size()  # responses, or values of a patch
        threads = torch.get_num_threads() if X.device.type == "cpu" else 1
        pass_bytes = _PASS_BYTES.get(X.device.type, _PASS_BYTES["cpu"])
        per_pass = threads * max(1, pass_bytes // (per_place * math.prod(self.places)))
        for some, features in zip(
            torch.split(X, per_pass), torch.split(out, per_pass), strict=True
        ):
            features.copy_(self.vectors(some))
        return out

    def vectors(self, X: Tensor) -> Tensor:
        """Feature vectors, (n, d), of images of whole numbers, all at once."""
        rows, columns = (exact.beside(along, X) for along in self.weights())
        # Beyond the threshold on either side, sign kept: the two sides are read off the sums.
        beyond = exact.beyond(self.responses(X), round(self.threshold * RESPONSE_GRID))
        beyond = beyond.reshape(-1, len(self.filters), *self.places)
        both = torch.matmul(torch.matmul(rows, beyond), columns)
        above = torch.matmul(torch.matmul(rows, beyond.clamp_(min=0.0)), columns)
        sides = torch.cat([above.unsqueeze(2), (above - both).unsqueeze(2)], dim=2)
        steps = RESPONSE_GRID * (_WINDOW_GRID if self.window else 1)
        return sides.reshape(-1, self.n_features) / float(steps)

    def responses(self, X: Tensor) -> Tensor:
        """Products t on their grid, (n, n_filters, places), of images of whole numbers."""
        how = self.input_shape, self.patch_size, self.padding
        size = float(self.filters.shape[1])
        total, squares = exact.patch_sums(X, *how), exact.patch_sums(X * X, *how)
        variance = squares * size - total * total
        contrast = (variance + _LEAST_VARIANCE * size**2).mul_(float(_CONTRAST_GRID**2)).sqrt_()
        scale = (size * _CONTRAST_GRID * RESPONSE_GRID / FILTER_GRID) / contrast.round_()
        offsets = exact.beside(self.offsets[:, None] * RESPONSE_GRID, X)
        products = torch.matmul(exact.beside(self.filters, X), exact.patches(X, *how))
        return products.mul_(scale).sub_(offsets).round_()

    def weights(self) -> tuple[Tensor, Tensor]:
        """Weights of places in cells: Tensors of shape (cells, height) and (width, cells).

        A place counts the product of what its row and its column do, which are whole numbers.
        """
        height, width = (self._along(places).round() for places in self.places)
        return height.T, width

    def _along(self, places: int) -> Tensor:
        """Weights, (places, cells), of places along one side of the image in the cells there."""
        if not self.window:
            cell = torch.arange(places) * self.cells // places
            return torch.nn.functional.one_hot(cell, self.cells).to(torch.float64)
        width, top = places / self.cells, math.sqrt(_WINDOW_GRID)
        far = [[i + 0.5 - (c + 0.5) * width for c in range(self.cells)] for i in range(places)]
        weights = [[top * math.exp(-0.5 * (x / self.window) ** 2) for x in row] for row in far]
        return torch.tensor(weights, dtype=torch.float64)


@register
@dataclass(frozen=True, eq=False)
class StackedPatches(Composed):
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
        n_patches: int | None = None,
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
        cells, threshold, window
            As for `PatchFilters`, of the second stage; windows are measured in pixels of the image.
        device : str, default="cpu"
            Where responses to the first stage are computed; the map is the same for each.
        n_patches : int, default=None
            Drawn to learn each stage from; None draws 100,000.
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
            n_patches=n_patches,
        )
        responses = [
            _image(first, first(part.to(device))).to("cpu", torch.uint8)
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
            n_patches=n_patches,
        )
        return cls(first, second)

    def __call__(self, X: Tensor) -> Tensor:
        """Feature vectors, (n, d), of images, (n, *input_shape): filter, sign, row, column."""
        return torch.cat([super(StackedPatches, self).__call__(part) for part in _passes(X)])

    def combined(self, X: Tensor, maps: Sequence[Callable[[Tensor], Tensor]]) -> Tensor:
        """The second of images of what the first gives."""
        return maps[1](_image(self.first, maps[0](X)))


def draw_patches(
    images: Any,
    size: int,
    random: np.random.RandomState,
    padding: int = 0,
    n_patches: int | None = None,
) -> NDArray[np.float64]:
    """Patches drawn at random, (n_patches, channels · size²), values of a channel together."""
    images, n_patches = np.asarray(images), n_patches or N_PATCHES
    if padding:
        around = [(0, 0), (padding, padding), (padding, padding)]
        images = np.pad(images, around + [(0, 0)] * (images.ndim - 3))
    n, height, width = images.shape[:3]
    if not n:
        raise DataError("expected images to learn filters from, got none")
    which = random.randint(n, size=n_patches)
    top, left = (random.randint(side - size + 1, size=n_patches) for side in (height, width))
    inside = np.arange(size)
    rows = (top[:, None] + inside)[:, :, None]
    columns = (left[:, None] + inside)[:, None, :]
    patches = images[which[:, None, None], rows, columns].astype(np.float64)
    drawn: NDArray[np.float64] = np.moveaxis(patches.reshape(*patches.shape[:3], -1), 3, 1)
    drawn = drawn.reshape(n_patches, -1)
    whole_pixels(torch.from_numpy(drawn), 255)
    return drawn


def check_enough(patches: NDArray[np.float64], n_filters: int) -> None:
    """Raise a DataError where there are fewer patches than filters to make of them."""
    if len(patches) < n_filters:
        raise DataError(
            f"expected at least {n_filters} patches that are not flat to make filters of, "
            f"got {len(patches)}: give more images, or ask for fewer filters"
        )


def check_patches(
    input_shape: tuple[int, ...],
    n_filters: int,
    patch_size: int,
    cells: int,
    threshold: float,
    window: float,
    padding: int,
) -> None:
    """Raise a SettingsError where filters of patches cannot be made like this."""
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
    for name, value, most in (("threshold", threshold, 2**10), ("window", window, math.inf)):
        if not (type(value) in (int, float) and 0 <= value < most):
            raise SettingsError(f"expected {name} to be a number from 0 on, got {value!r}")


def _passes(X: Tensor) -> Sequence[Tensor]:
    return torch.split(X, _per_pass(X.device)) if len(X) else (X,)


def _per_pass(device: torch.device | str) -> int:
    return _BATCH.get(torch.device(device).type, _BATCH["cpu"])


def _image_shape(first: PatchFilters) -> tuple[int, int, int]:
    """Height, width and channels of the images that a first stage makes."""
    return first.cells, first.cells, 2 * len(first.filters)


def _image(first: PatchFilters, responses: Tensor) -> Tensor:
    """A first stage's features as images of whole numbers, (n, *_image_shape)."""
    height, width, channels = _image_shape(first)
    roots = exact.rounded_root((responses * float(_STEPS**2)).round_()).clamp_(max=float(_WHITE))
    return roots.reshape(-1, channels, height, width).permute(0, 2, 3, 1)
