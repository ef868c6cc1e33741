"""Fixed maps from raw input to feature vectors.

A feature map is a frozen value: made once, from constants or from images that
one names, and then given to the estimator, which saves it with the model. The
bits of a sample's features depend on that sample alone, not on the batch it
comes in, so every promise of exactness holds through the map.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Protocol, runtime_checkable

from torch import Tensor

from redunet.errors import DataError
from redunet.features.chain import Chain
from redunet.features.lift import GaussianLift
from redunet.features.mirrored import Mirrored
from redunet.features.patches import PatchFilters
from redunet.features.root import Root
from redunet.features.scattering import Scattering
from redunet.features.standardize import Flatten, Standardize
from redunet.features.together import Together

__all__ = [
    "Chain",
    "FeatureMap",
    "Flatten",
    "GaussianLift",
    "Mirrored",
    "PatchFilters",
    "Root",
    "Scattering",
    "Standardize",
    "Together",
    "held_of_data",
    "restore",
]


@runtime_checkable
class FeatureMap(Protocol):
    """What the estimator asks of a feature map."""

    kind: ClassVar[str]

    @property
    def input_shape(self) -> tuple[int, ...]:
        """Shape of one raw sample."""

    @property
    def n_features(self) -> int:
        """d, the length of a feature vector."""

    @property
    def learnt_from_data(self) -> bool:
        """Whether the map holds statistics of somebody's data, which `forget` cannot withdraw."""

    def __call__(self, X: Tensor) -> Tensor:
        """Feature vectors, (n, d) in float64, of raw samples, (n, *input_shape)."""

    def to_state(self) -> tuple[dict[str, Any], dict[str, Tensor]]:
        """Constructor arguments, as plain values and as tensors, that make this map again."""


_KINDS: dict[str, Any] = {
    cls.kind: cls for cls in (Flatten, GaussianLift, PatchFilters, Root, Scattering, Standardize)
}


_HELD = {
    GaussianLift.kind: "a mean image",
    PatchFilters.kind: "filters made of patches of images",
    Standardize.kind: "means and deviations",
}


def held_of_data(features: FeatureMap | None) -> str | None:
    """What a feature map holds of the data that it was learnt from; None where it was not.

    Examples
    --------
    >>> import torch
    >>> held_of_data(Standardize.learn(torch.tensor([[1.0], [3.0]])))
    'means and deviations'
    >>> held_of_data(Flatten((3,))) is None
    True
    """
    if features is None or not features.learnt_from_data:
        return None
    if isinstance(features, Chain | Mirrored | Together):
        held = map(held_of_data, features.parts)
        return ", and ".join(dict.fromkeys(part for part in held if part is not None))
    return _HELD.get(features.kind, "statistics")


def restore(kind: str, values: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> FeatureMap:
    """The feature map whose state was saved."""
    if kind in (Chain.kind, Mirrored.kind, Together.kind):
        parts = tuple(_part(name, values[name], tensors) for name in values)
        if kind == Together.kind:
            return Together(parts)
        return Chain(*parts) if kind == Chain.kind else Mirrored(*parts)
    if kind not in _KINDS:
        raise DataError(f"expected a feature map among {', '.join(_KINDS)}, got {kind!r}")
    plain = {
        name: tuple(value) if isinstance(value, list) else value for name, value in values.items()
    }
    restored: FeatureMap = _KINDS[kind](**plain, **tensors)
    return restored


def _part(name: str, state: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> FeatureMap:
    """One map of those that another is made of."""
    own = {
        key.removeprefix(f"{name}."): tensor
        for key, tensor in tensors.items()
        if key.startswith(f"{name}.")
    }
    return restore(state["kind"], state["values"], own)
