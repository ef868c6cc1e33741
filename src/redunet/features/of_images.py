"""What maps that treat an image before another map does have in common."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

from torch import Tensor

from redunet.errors import SettingsError
from redunet.features.base import FeatureMap, state_of_parts
from redunet.features.checks import check_nesting


@dataclass(frozen=True)
class OfImages:
    """A map of images around another one, of images of the same shape.

    Parameters
    ----------
    plain : feature map
        Of images.
    """

    plain: FeatureMap

    def __post_init__(self) -> None:
        check_nesting(self)
        if len(self.plain.input_shape) not in (2, 3):
            raise SettingsError(
                f"expected a map of images, got one for samples of shape {self.plain.input_shape}"
            )

    @classmethod
    def from_parts(cls, parts: Mapping[str, FeatureMap]) -> Self:
        """The map of its part, by name."""
        return cls(**parts)

    @property
    def parts(self) -> tuple[FeatureMap, ...]:
        """The other map alone."""
        return (self.plain,)

    @property
    def input_shape(self) -> tuple[int, ...]:
        """The other map's."""
        return self.plain.input_shape

    @property
    def n_features(self) -> int:
        """The other map's."""
        return self.plain.n_features

    @property
    def learnt_from_data(self) -> bool:
        """Whether the other map was."""
        return self.plain.learnt_from_data

    def to_state(self) -> tuple[dict[str, Any], dict[str, Tensor]]:
        """What makes this map again."""
        return state_of_parts({"plain": self.plain})
