"""Feature maps one after another."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor

from redunet.errors import DataError, SettingsError
from redunet.features.base import FeatureMap, register
from redunet.features.stages import Stages
from redunet.features.standardize import Standardize

_BATCH = 512


@register
@dataclass(frozen=True)
class Chain(Stages):
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

    def __post_init__(self) -> None:
        super().__post_init__()
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

    def __call__(self, X: Tensor) -> Tensor:
        """Feature vectors, (n, d), of raw samples, (n, *input_shape)."""
        return self.second(self.first(X))
