"""Several feature maps of the same samples, side by side."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor

from redunet.core.grid import unit_rows
from redunet.errors import SettingsError
from redunet.features.base import FeatureMap, register, state_of_parts
from redunet.features.checks import check_nesting


@register
@dataclass(frozen=True)
class Together:
    """The vectors of several maps one after another, each on the unit sphere.

    So all maps count the same, whatever the size of their features.

    Parameters
    ----------
    parts : tuple of feature maps
        Of samples of one shape.

    Examples
    --------
    >>> from redunet.features import Flatten
    >>> both = Together((Flatten((2,)), Flatten((2,))))
    >>> both(torch.tensor([[0.0, 4.0]])).tolist()
    [[0.0, 1.0, 0.0, 1.0]]
    """

    kind: ClassVar[str] = "together"

    parts: tuple[FeatureMap, ...]

    def __post_init__(self) -> None:
        check_nesting(self)
        shapes = {part.input_shape for part in self.parts}
        if len(shapes) != 1:
            raise SettingsError(
                f"expected feature maps of samples of one shape, got "
                f"{', '.join(map(str, sorted(shapes))) or 'none'}"
            )

    @classmethod
    def from_parts(cls, parts: Mapping[str, FeatureMap]) -> Together:
        """The map of its parts, in order."""
        return cls(tuple(parts.values()))

    @property
    def input_shape(self) -> tuple[int, ...]:
        """That of all parts."""
        return self.parts[0].input_shape

    @property
    def n_features(self) -> int:
        """Those of all parts."""
        return sum(part.n_features for part in self.parts)

    @property
    def learnt_from_data(self) -> bool:
        """Whether any part was."""
        return any(part.learnt_from_data for part in self.parts)

    def __call__(self, X: Tensor) -> Tensor:
        """Feature vectors, (n, d), of raw samples, (n, *input_shape)."""
        return torch.cat([unit_rows(part(X)) for part in self.parts], dim=1)

    def to_state(self) -> tuple[dict[str, Any], dict[str, Tensor]]:
        """What makes this map again: the states of all parts."""
        return state_of_parts({str(number): part for number, part in enumerate(self.parts)})
