"""Images of any size as an encoder takes them: scaled to cover its shape, and cropped."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageOps

from redunet.errors import DataError


def fitted(image: Image.Image, shape: tuple[int, ...]) -> NDArray[np.uint8]:
    """The pixels of an image, scaled to cover a shape and cropped to it around its centre."""
    mode = "RGB" if len(shape) == 3 else "L"
    size = (shape[1], shape[0])
    plain = image if image.mode == mode else image.convert(mode)
    return np.asarray(ImageOps.fit(plain, size, Image.Resampling.BICUBIC))


def fitted_arrays(X: NDArray[Any], shape: tuple[int, ...]) -> NDArray[np.uint8]:
    """Images in an array, (n, height, width[, 1 or 3]) of uint8, scaled and cropped to a shape."""
    if X.shape[1:] == shape:
        return X
    if X.dtype != np.uint8 or X.shape[3:] not in ((), (1,), (3,)):
        raise DataError(
            f"expected images of (height, width) or (height, width, 3) as uint8, got "
            f"{X.shape[1:]} of {X.dtype}: convert them"
        )
    images = X if X.shape[3:] == (3,) else X.reshape(X.shape[:3])
    return np.stack([fitted(Image.fromarray(image), shape) for image in images])
