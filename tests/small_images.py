"""Small generated images: classes of gratings, each with an angle of its own."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray


def images_of(
    shape: tuple[int, ...], classes: int = 4, per_class: int = 12, seed: int = 0
) -> tuple[NDArray[np.uint8], NDArray[Any]]:
    """Noisy gratings, (n, *shape), and their labels, shuffled."""
    random = np.random.RandomState(seed)
    labels = random.permutation(np.repeat(np.arange(classes), per_class))
    rows, columns = np.indices(shape[:2])
    images = np.empty((len(labels), *shape), dtype=np.uint8)
    for image, label in zip(images, labels, strict=True):
        angle = np.pi * label / classes
        along = np.cos(angle) * rows + np.sin(angle) * columns
        wave = np.sin(along * 1.3 + random.uniform(0, 2 * np.pi))
        wave = wave.reshape(*shape[:2], *[1] * (len(shape) - 2))
        image[...] = np.clip(128 + 60 * wave + 25 * random.standard_normal(shape), 0, 255)
    return images, labels
