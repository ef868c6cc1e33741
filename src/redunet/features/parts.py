"""What feature maps made of other feature maps share."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from torch import Tensor

if TYPE_CHECKING:
    from redunet.features import FeatureMap


def state_of_parts(parts: Mapping[str, FeatureMap]) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """The states of named maps, as one state.

    Returns
    -------
    values : dict from a name to the kind and the plain values of that map
    tensors : dict
        Names are those of the maps' own, after the map's name and a dot.
    """
    values: dict[str, Any] = {}
    tensors: dict[str, Tensor] = {}
    for name, part in parts.items():
        own, held = part.to_state()
        values[name] = {"kind": part.kind, "values": own}
        tensors |= {f"{name}.{key}": tensor for key, tensor in held.items()}
    return values, tensors
