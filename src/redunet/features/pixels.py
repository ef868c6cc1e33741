"""Images as whole numbers, from which sums and products are exact in any order."""

from __future__ import annotations

import torch
from torch import Tensor

from redunet.errors import DataError


def whole_pixels(X: Tensor, largest: int) -> Tensor:
    """Pixel values in float64; an error where one is a fraction or beyond ± ``largest``."""
    X = X.to(torch.float64)
    if not torch.equal(X, X.round()) or float(X.abs().max()) > largest:
        raise DataError(
            "expected whole pixel values such as 0 to 255, got fractions or very large ones: "
            "pass the images as uint8"
        )
    return X
