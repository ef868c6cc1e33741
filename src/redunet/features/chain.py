"""Feature maps one after another."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor

from redunet.errors import DataError, SettingsError
from redunet.features.base import FeatureMap, register, state_of_parts
from redunet.features.checks import check_nesting
from redunet.features.standardize import Standardize

_BATCH = 512


@register
@dataclass(frozen=True)
class Chain:
    """The second map of what the first one gives.

    Parameters
    ----------
    first, second : feature map
        The second takes vectors as long as those of the first.

    Examples
    --------
    >>> from redunet.features import Flatten
    >>> images = torch.tensor([[[0, 10]], [[20, 30]]], dtype=torch.uint8)
    >>> Chain.standardized(Flatten((1, 2)), images)(images).tolist()
    [[-1.0, -1.0], [1.0, 1.0]]
    """

    kind: ClassVar[str] = "chain"

    first: FeatureMap
    second: FeatureMap

    def __post_init__(self) -> None:
        check_nesting(self)
        if self.second.input_shape != (self.first.n_features,):
            raise SettingsError(
                f"expected a second map of vectors of {self.first.n_features} features, "
                f"got one for {self.second.input_shape}"
            )

    @classmethod
    def standardized(cls, first: FeatureMap, images: Any, device: str = "cpu") -> Chain:
        """A map, each feature then shifted and scaled by its mean and deviation over images.

        Parameters
        ----------
        first : feature map
        images : array or Tensor of shape (n, *input_shape)
            Images of the first task, so that nothing leaks from later ones.
        device : str, default="cpu"
            Where the features of the images are computed.
        """
        if len(images) == 0:
            raise DataError("expected images to learn mean and deviation from, got none")
        parts = torch.split(torch.as_tensor(images), _BATCH)
        vectors = [first(part.to(device)).cpu() for part in parts]
        return cls(first, Standardize.learn(torch.cat(vectors), per="pixel"))

    @classmethod
    def from_parts(cls, parts: Mapping[str, FeatureMap]) -> Chain:
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

    def __call__(self, X: Tensor) -> Tensor:
        """Feature vectors, (n, d), of raw samples, (n, *input_shape)."""
        return self.second(self.first(X))

    def to_state(self) -> tuple[dict[str, Any], dict[str, Tensor]]:
        """What makes this map again: the states of both."""
        return state_of_parts({"first": self.first, "second": self.second})
