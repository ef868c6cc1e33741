"""Feature maps as PyTorch modules: from raw samples to feature vectors, in float64.

The maps themselves are traced, with a plain operation in the place of each of
`redunet.features.exact`. Whole numbers stay whole, so what is exact there is exact here.
What a map refuses (fractions for pixels, negative numbers to take roots of), a graph cannot
refuse.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, fx, nn
from torch.nn.functional import pad, unfold

from redunet.errors import SettingsError
from redunet.export.network import unit_rows
from redunet.features import FeatureMap, exact


def feature_module(features: FeatureMap) -> nn.Module:
    """The module of a feature map; a SettingsError names one that has none."""
    module = _Map(features)
    # Functions of `exact` are nodes of the graph, to be replaced; all else is traced through.
    modules: Any = (math, exact)
    graph = fx.Tracer(autowrap_modules=modules).trace(module)
    for node in graph.nodes:
        if node.meta.pop("is_wrapped", False):  # a function of `exact`, from here on traced through
            node.target = _PLAIN[node.target.__name__]
    return fx.GraphModule(module, graph)


class _Map(nn.Module):
    """A feature map, whose samples are not checked."""

    def __init__(self, features: FeatureMap) -> None:
        super().__init__()
        self.function = _function_of(features)

    def forward(self, X: Tensor) -> Tensor:
        """Vectors, (n, d), of samples, (n, *input_shape)."""
        return self.function(X)


def _function_of(features: Any) -> Callable[[Tensor], Tensor]:
    if hasattr(features, "combined"):
        maps = [_function_of(part) for part in features.parts]
        return lambda X: features.combined(X, maps)
    if not hasattr(features, "vectors"):
        raise SettingsError(
            f"expected a feature map that can be exported, got {features.kind!r}: compute features "
            f"with redunet and pass --without-features (without_features=True) to export the rest"
        )
    function: Callable[[Tensor], Tensor] = features.vectors
    return function


def _cosine(turns: Tensor) -> Tensor:
    return ((turns - turns.round()) * (2 * math.pi)).cos()


def _beyond(X: Tensor, threshold: int) -> Tensor:
    above, below = X - float(threshold), -X - float(threshold)
    return above.clamp(min=0.0) - below.clamp(min=0.0)


def _patches(X: Tensor, input_shape: tuple[int, ...], size: int, padding: int) -> Tensor:
    """All patches, (n, values, places), by their places in an image with a zero before it."""
    height, width, channels = (*input_shape, 1)[:3]
    numbers = torch.arange(1.0, math.prod(input_shape) + 1, dtype=torch.float64)
    planes = numbers.reshape(1, height, width, channels).permute(0, 3, 1, 2)
    found = unfold(planes, size, padding=padding)[0]
    rows = pad(X.reshape(-1, len(numbers)), (1, 0))
    where = found.to(torch.int64).flatten()
    return torch.index_select(rows, 1, where).reshape(-1, *found.shape)


def _patch_sums(X: Tensor, input_shape: tuple[int, ...], size: int, padding: int) -> Tensor:
    return _patches(X, input_shape, size, padding).sum(1, keepdim=True)


def _rounded_root(squares: Tensor) -> Tensor:
    return squares.clamp(min=0.0).sqrt().round()


def _beside(tensor: Tensor, X: Tensor) -> Tensor:
    return tensor


_PLAIN: dict[str, Callable[..., Tensor]] = {
    "unit_rows": unit_rows,
    "beside": _beside,
    "rounded_root": _rounded_root,
    "cosine": _cosine,
    "beyond": _beyond,
    "patches": _patches,
    "patch_sums": _patch_sums,
}
"""Functions of `redunet.features.exact` by name, and operations that any program has."""
