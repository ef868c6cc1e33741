"""Vectors of samples, so that a feature map is computed once for all who answer from them."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from redunet.estimators.settings import resolve_device
from redunet.features import FeatureMap

_ROWS = 512
"""Samples at a time, for the feature map."""


def vectors_of(features: FeatureMap | None, samples: NDArray[Any], device: str) -> NDArray[Any]:
    """What a feature map makes of samples: ndarray of shape (n, d); without one their values."""
    if features is None:
        return samples.reshape(len(samples), -1)
    parts = [np.empty((0, features.n_features))]
    for start in range(0, len(samples), _ROWS):
        part = np.asarray(samples[start : start + _ROWS], dtype=np.float64)
        on_device = torch.from_numpy(part).to(resolve_device(device))
        parts.append(features(on_device.reshape(len(part), *features.input_shape)).cpu().numpy())
    return np.concatenate(parts)
