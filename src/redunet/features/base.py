"""Feature maps: what an estimator asks of one, and how one is saved and restored."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from numbers import Integral
from typing import Any, ClassVar, Protocol, TypeVar, runtime_checkable

import torch
from torch import Tensor

from redunet import registry
from redunet.errors import DataError


@runtime_checkable
class FeatureMap(Protocol):
    """The members of a feature map that an estimator uses.

    A map that is made of others has also ``parts``, these maps, and a class method
    ``from_parts`` that makes it from them. One that is learnt from data may name
    in ``holds`` what it holds of that data.
    """

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


class FieldsMap:
    """A feature map that is a frozen dataclass: its fields are its state.

    A field with ``omitted`` in its metadata came after the first files: it is saved only where
    it is not at its default, so that files stay equal.
    """

    def to_state(self) -> tuple[dict[str, Any], dict[str, Tensor]]:
        """Plain values and tensors that make this map again."""
        values: dict[str, Any] = {}
        tensors: dict[str, Tensor] = {}
        for one in fields(self):  # type: ignore[arg-type]
            value = getattr(self, one.name)
            if isinstance(value, Tensor):
                tensors[one.name] = value
            elif value is not None and not (one.metadata.get("omitted") and value == one.default):
                whole = isinstance(value, Integral) and not isinstance(value, bool)
                values[one.name] = int(value) if whole else value
        return values, tensors

    def __getstate__(self) -> dict[str, Any]:
        return {one.name: getattr(self, one.name) for one in fields(self)}  # type: ignore[arg-type]


class TracedMap(FieldsMap):
    """A map that computes in `vectors`, only with operations that `redunet.export` can write."""

    def checked(self, X: Tensor) -> Tensor:
        """Samples, (n, *input_shape), in float64; an error where the map cannot take them."""
        return X.to(torch.float64)

    def vectors(self, X: Tensor) -> Tensor:
        """Feature vectors of samples that were checked."""
        raise NotImplementedError

    def __call__(self, X: Tensor) -> Tensor:
        """Feature vectors, (n, d), of raw samples, (n, *input_shape)."""
        return self.vectors(self.checked(X))


C = TypeVar("C", bound=type)

_KINDS: dict[str, Any] = {}


def register(cls: C) -> C:
    """Make a class of feature maps known, so that model files with such maps can be read.

    Use it as a decorator. The class's ``kind`` is the name in files; the class is
    called with what its `to_state` gave, or its ``from_parts`` with its parts.
    """
    _KINDS[cls.kind] = cls  # type: ignore[attr-defined]
    return cls


def held_of_data(features: FeatureMap | None) -> str | None:
    """The words for what a feature map holds of the data it was learnt from; None if it was not.

    Examples
    --------
    >>> import torch
    >>> from redunet.features import Flatten, Standardize
    >>> held_of_data(Standardize.learn(torch.tensor([[1.0], [3.0]])))
    'means and deviations'
    >>> held_of_data(Flatten((3,))) is None
    True
    """
    if features is None or not features.learnt_from_data:
        return None
    parts = getattr(features, "parts", None)
    if parts is None:
        return str(getattr(features, "holds", "statistics"))
    held = map(held_of_data, parts)
    return ", and ".join(dict.fromkeys(part for part in held if part is not None))


def state_of_parts(parts: Mapping[str, FeatureMap]) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """The states of named maps as one; names of tensors begin with that of their map and a dot."""
    values: dict[str, Any] = {}
    tensors: dict[str, Tensor] = {}
    for name, part in parts.items():
        own, held = part.to_state()
        values[name] = {"kind": part.kind, "values": own}
        tensors |= {f"{name}.{key}": tensor for key, tensor in held.items()}
    return values, tensors


def restore(kind: str, values: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> FeatureMap:
    """The feature map whose state was saved."""
    cls = _KINDS.get(kind) or registry.find("feature maps", kind)
    if cls is None:
        known = ", ".join({**_KINDS, **dict.fromkeys(registry.names("feature maps"))})
        raise DataError(f"expected a feature map among {known}, got {kind!r}")
    if not isinstance(values, Mapping):
        raise DataError(f"expected the values of a feature map by their names, got {values!r}")
    if hasattr(cls, "from_parts"):
        parts = {name: _part(name, values[name], tensors) for name in values}
        of_parts: FeatureMap = cls.from_parts(parts)
        return of_parts
    plain = {
        name: tuple(value) if isinstance(value, list) else value for name, value in values.items()
    }
    restored: FeatureMap = cls(**plain, **tensors)
    return restored


def _part(name: str, state: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> FeatureMap:
    own = {
        key.removeprefix(f"{name}."): tensor
        for key, tensor in tensors.items()
        if key.startswith(f"{name}.")
    }
    return restore(state["kind"], state["values"], own)
