"""Feature maps as PyTorch modules: from raw samples to feature vectors, in float64.

Whole numbers stay whole, as in the maps themselves, so what is exact there is exact here.
What a map refuses (fractions for pixels, negative numbers to take roots of), a graph cannot
refuse.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import unfold

from redunet.errors import SettingsError
from redunet.export.network import UnitRows
from redunet.export.scattering import Scattered
from redunet.features import (
    Chain,
    FeatureMap,
    Flatten,
    Fourier,
    GaussianLift,
    Mirrored,
    PatchFilters,
    RandomReLU,
    Root,
    Scattering,
    StackedPatches,
    Standardize,
    Together,
    Upright,
    patches,
    root,
    stacked_patches,
)
from redunet.features import lift as lifts
from redunet.features.upright import put_upright
from redunet.features.vector_input import GRID


class InRows(nn.Module):
    """The values of a sample in a row."""

    def __init__(self, features: FeatureMap) -> None:
        super().__init__()
        self.size = math.prod(features.input_shape)

    def forward(self, X: Tensor) -> Tensor:
        """Vectors, (n, d), of samples, (n, *input_shape)."""
        return X.reshape(-1, self.size)


class Standardized(InRows):
    """(x − mean) / deviation."""

    def __init__(self, features: Standardize) -> None:
        super().__init__(features)
        flat = torch.ones(features.input_shape, dtype=torch.float64)
        self.mean = nn.Buffer((features.mean * flat).flatten())
        self.deviation = nn.Buffer((features.deviation * flat).flatten())

    def forward(self, X: Tensor) -> Tensor:
        """Vectors, (n, d)."""
        return (super().forward(X) - self.mean) / self.deviation


class OnGridDirections(InRows):
    """Unit vectors in whole steps of a grid, from a centre if there is one; then products."""

    def __init__(self, features: RandomReLU | Fourier, weights: Tensor) -> None:
        super().__init__(features)
        self.unit, self.centred = UnitRows(), features.centre is not None
        self.weights = nn.Buffer(weights.mT.contiguous())
        if features.centre is not None:
            self.centre = nn.Buffer(features.centre)

    def forward(self, X: Tensor) -> Tensor:
        """Products with the weights, (n, width), in whole numbers."""
        unit = self.unit(super().forward(X))
        if self.centred:
            unit = self.unit(unit - self.centre)
        return torch.matmul((unit * float(GRID)).round(), self.weights)


class Rectified(OnGridDirections):
    """`RandomReLU`."""

    def __init__(self, features: RandomReLU) -> None:
        super().__init__(features, features.weights)

    def forward(self, X: Tensor) -> Tensor:
        """Vectors, (n, width)."""
        return super().forward(X).clamp(min=0.0) / float(GRID**2)


class Cosines(OnGridDirections):
    """`Fourier`."""

    def __init__(self, features: Fourier) -> None:
        super().__init__(features, features.frequencies)
        self.height = math.sqrt(2 / features.width)
        self.phases = nn.Buffer(features.phases)

    def forward(self, X: Tensor) -> Tensor:
        """Vectors, (n, width)."""
        turns = (super().forward(X) + self.phases) / float(GRID**2)
        return ((turns - turns.round()) * (2 * math.pi)).cos() * self.height


class Patches(InRows):
    """All patches of an image, (n, values, places), by their places in it; zeros around it."""

    def __init__(self, features: FeatureMap, size: int, padding: int) -> None:
        super().__init__(features)
        height, width, channels = (*features.input_shape, 1)[:3]
        # Place 0 is the zero before the first value.
        numbers = torch.arange(1.0, self.size + 1, dtype=torch.float64)
        planes = numbers.reshape(1, height, width, channels).permute(0, 3, 1, 2)
        found = unfold(planes, size, padding=padding)[0]
        self.values, self.places = found.shape
        self.where = nn.Buffer(found.to(torch.int64).flatten())

    def forward(self, X: Tensor) -> Tensor:
        """Patches, (n, values, places)."""
        rows = torch.nn.functional.pad(super().forward(X), (1, 0))
        return torch.index_select(rows, 1, self.where).reshape(-1, self.values, self.places)


class Lifted(Patches):
    """`GaussianLift`."""

    def __init__(self, features: GaussianLift) -> None:
        super().__init__(features, lifts._SIZE, lifts._SIZE // 2)
        self.features, self.n_features = features, features.n_features
        self.kernels = nn.Buffer(features.kernels)
        if features.centred:
            ones = torch.ones(1, *features.input_shape, dtype=torch.float64)
            self.flat = nn.Buffer(features._convolve(ones))
        self.shifted = features._mean_response is not None
        if features._mean_response is not None:
            self.mean = nn.Buffer(features._mean_response)

    def forward(self, X: Tensor) -> Tensor:
        """Vectors, (n, d)."""
        response = torch.matmul(self.kernels, super().forward(X))
        if self.features.centred:
            total = X.reshape(-1, 1, self.size).sum(2, keepdim=True)
            response = response * float(self.size) - total * self.flat
        if self.shifted:
            response = response - self.mean
        if self.features.relu:
            response = response.clamp(min=0.0)
        return response.reshape(-1, self.n_features)


class Filtered(Patches):
    """`PatchFilters`."""

    def __init__(self, features: PatchFilters) -> None:
        super().__init__(features, features.patch_size, features.padding)
        self.n_features, self.n_filters = features.n_features, len(features.filters)
        self.threshold = float(round(features.threshold * patches._RESPONSE_GRID))
        self.steps = float(features.steps)
        self.filters = nn.Buffer(features.filters)
        self.offsets = nn.Buffer((features.offsets * patches._RESPONSE_GRID)[:, None])
        rows, columns = features.weights()
        self.rows, self.columns = nn.Buffer(rows), nn.Buffer(columns)
        self.in_rows = (self.n_filters, rows.shape[1], len(columns))

    def forward(self, X: Tensor) -> Tensor:
        """Vectors, (n, d)."""
        P, size = super().forward(X), float(self.values)
        total = P.sum(1, keepdim=True)
        variance = (P * P).sum(1, keepdim=True) * size - total * total
        least = patches._LEAST_VARIANCE * size**2
        grid = float(patches._CONTRAST_GRID)
        contrast = ((variance + least) * grid**2).sqrt().round()
        scale = size * grid * patches._RESPONSE_GRID / patches._FILTER_GRID
        response = (torch.matmul(self.filters, P) * (scale / contrast) - self.offsets).round()
        sides = [
            self.sums((side - self.threshold).clamp(min=0.0)).unsqueeze(2)
            for side in (response, -response)
        ]
        sums = torch.cat(sides, 2).reshape(-1, self.n_features)
        return sums / self.steps

    def sums(self, responses: Tensor) -> Tensor:
        """Weighted sums over places: (n, n_filters, cells, cells)."""
        responses = responses.reshape(-1, *self.in_rows)
        return torch.matmul(torch.matmul(self.rows, responses), self.columns)


class Roots(nn.Module):
    """`Root`, and roots on another grid."""

    def __init__(self, grid: int) -> None:
        super().__init__()
        self.grid = float(grid)

    def forward(self, X: Tensor) -> Tensor:
        """Roots, (n, d), of vectors, (n, d)."""
        squares = (X.clamp(min=0.0) * self.grid**2).round()
        return squares.sqrt().round() / self.grid


class Stacked(nn.Module):
    """`StackedPatches`."""

    def __init__(self, features: StackedPatches) -> None:
        super().__init__()
        self.first, self.second = Filtered(features.first), Filtered(features.second)
        self.roots, self.steps = Roots(stacked_patches._STEPS), float(stacked_patches._STEPS)
        self.white = float(stacked_patches._WHITE)
        height, width, channels = features.second.input_shape
        places = torch.arange(features.first.n_features).reshape(channels, height, width)
        self.order = nn.Buffer(places.permute(1, 2, 0).flatten())

    def forward(self, X: Tensor) -> Tensor:
        """Vectors, (n, d)."""
        below_white = (self.white - self.roots(self.first(X)) * self.steps).clamp(min=0.0)
        found: Tensor = self.second(torch.index_select(self.white - below_white, 1, self.order))
        return found


class SideBySide(nn.Module):
    """`Together`."""

    def __init__(self, features: Together) -> None:
        super().__init__()
        self.maps, self.unit = nn.ModuleList(map(feature_module, features.parts)), UnitRows()

    def forward(self, X: Tensor) -> Tensor:
        """Vectors, (n, d)."""
        return torch.cat([self.unit(part(X)) for part in self.maps], 1)


class BothWays(nn.Module):
    """`Mirrored`."""

    def __init__(self, features: Mirrored) -> None:
        super().__init__()
        self.plain = feature_module(features.plain)
        self.mirror = nn.Buffer(torch.arange(features.input_shape[1]).flip(0))

    def forward(self, X: Tensor) -> Tensor:
        """Vectors, (n, d)."""
        mirrored: Tensor = self.plain(torch.index_select(X, 2, self.mirror))
        plain: Tensor = self.plain(X)
        return plain + mirrored


class WithoutSlant(nn.Module):
    """`Upright`."""

    def __init__(self, features: Upright) -> None:
        super().__init__()
        self.plain, self.shape = feature_module(features.plain), features.input_shape
        self.rows, self.columns = (
            nn.Buffer(torch.arange(side, dtype=torch.float64)) for side in self.shape[:2]
        )

    def forward(self, X: Tensor) -> Tensor:
        """Vectors, (n, d)."""
        height, width, channels = (*self.shape, 1)[:3]
        planes = X.reshape(-1, height, width, channels)
        upright = put_upright(planes, (height, width, channels), self.rows, self.columns)
        found: Tensor = self.plain(upright.reshape(-1, *self.shape))
        return found


_MODULES: dict[type, Callable[[Any], nn.Module]] = {
    Flatten: InRows,
    Standardize: Standardized,
    RandomReLU: Rectified,
    Fourier: Cosines,
    GaussianLift: Lifted,
    PatchFilters: Filtered,
    StackedPatches: Stacked,
    Root: lambda features: Roots(root._GRID),
    Scattering: Scattered,
    Together: SideBySide,
    Mirrored: BothWays,
    Upright: WithoutSlant,
    Chain: lambda chain: nn.Sequential(*map(feature_module, chain.parts)),
}


def feature_module(features: FeatureMap) -> nn.Module:
    """The module of a feature map; a SettingsError names one that has none."""
    if type(features) not in _MODULES:
        raise SettingsError(
            f"expected a feature map that can be exported, got {features.kind!r}: compute features "
            f"with redunet and pass --without-features (without_features=True) to export the rest"
        )
    return _MODULES[type(features)](features)
