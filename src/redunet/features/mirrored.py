"""Features that an image and its mirror image share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from redunet.features.base import register
from redunet.features.of_images import OfImages


@register
@dataclass(frozen=True)
class Mirrored(OfImages):
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

    def __call__(self, X: Tensor) -> Tensor:
        """Feature vectors, (n, d), of images, (n, height, width[, channels])."""
        return self.plain(X) + self.plain(X.flip(2))
