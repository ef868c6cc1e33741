"""What maps of two stages, one after the other, have in common."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

from torch import Tensor

from redunet.features.base import FeatureMap, state_of_parts
from redunet.features.checks import check_nesting


@dataclass(frozen=True)
class Stages:
    """A map of samples, and a second one of what the first gives.

    Parameters
    ----------
    first, second : feature map
    """

    first: FeatureMap
    second: FeatureMap

    def __post_init__(self) -> None:
        check_nesting(self)

    @classmethod
    def from_parts(cls, parts: Mapping[str, FeatureMap]) -> Self:
        """The map of its parts, by name."""
        return cls(**parts)

    @property
    def parts(self) -> tuple[FeatureMap, ...]:
        """Both maps."""
        return self.first, self.second

    @property
    def input_shape(self) -> tuple[int, ...]:
        """The first map's."""
        return self.first.input_shape

    @property
    def n_features(self) -> int:
        """The second map's."""
        return self.second.n_features

    @property
    def learnt_from_data(self) -> bool:
        """Whether either map was."""
        return self.first.learnt_from_data or self.second.learnt_from_data

    def to_state(self) -> tuple[dict[str, Any], dict[str, Tensor]]:
        """What makes this map again: the states of both."""
        return state_of_parts({"first": self.first, "second": self.second})
