"""Features that an image and its mirror image share."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from torch import Tensor

from redunet.errors import SettingsError
from redunet.features.base import FeatureMap, register, state_of_parts
from redunet.features.checks import check_nesting


@register
@dataclass(frozen=True)
class Mirrored:
    """The features of an image and of its left-right mirror image, added up.

    Parameters
    ----------
    plain : feature map
        Of images.

    Examples
    --------
    >>> import torch
    >>> from redunet.features import Flatten
    >>> Mirrored(Flatten((1, 3)))(torch.tensor([[[1, 2, 5]]])).tolist()
    [[6.0, 4.0, 6.0]]
    """

    kind: ClassVar[str] = "mirrored"

    plain: FeatureMap

    def __post_init__(self) -> None:
        check_nesting(self)
        if len(self.plain.input_shape) < 2:
            raise SettingsError(
                f"expected a map of images to mirror, got one for {self.plain.input_shape}"
            )

    @classmethod
    def from_parts(cls, parts: Mapping[str, FeatureMap]) -> Mirrored:
        """The map of its part, by name."""
        return cls(**parts)

    @property
    def parts(self) -> tuple[FeatureMap, ...]:
        """The map alone."""
        return (self.plain,)

    @property
    def input_shape(self) -> tuple[int, ...]:
        """The map's."""
        return self.plain.input_shape

    @property
    def n_features(self) -> int:
        """The map's."""
        return self.plain.n_features

    @property
    def learnt_from_data(self) -> bool:
        """Whether the map was."""
        return self.plain.learnt_from_data

    def __call__(self, X: Tensor) -> Tensor:
        """Feature vectors, (n, d), of images, (n, height, width[, channels])."""
        return self.plain(X) + self.plain(X.flip(2))

    def to_state(self) -> tuple[dict[str, Any], dict[str, Tensor]]:
        """What makes this map again."""
        return state_of_parts({"plain": self.plain})
