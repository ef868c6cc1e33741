"""Features of the widest of several maps, computed once for all of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from redunet.core.grid import unit_rows
from redunet.features import Concatenate, FeatureMap

_IMAGES = 500
"""Whose features are computed at once."""

_COMPARED = 16
"""Images on which a map of fewer filters is compared with the first filters of the widest."""

Array = NDArray[Any]


class WidestFeatures:
    """Features of images by the widest map, from which those of narrower maps are taken.

    Parameters
    ----------
    features : FeatureMap
        The widest map. Of maps side by side each part is kept by itself, since a part is put on
        the unit sphere with as many features as it has.
    images : ndarray of shape (n, ...)
    device : str
        Where features are computed; they are kept as float32 in main memory.
    """

    def __init__(self, features: FeatureMap, images: Array, device: str) -> None:
        self.map, self._images, self._device = features, images, device
        self._vectors = [self._computed(part) for part in _parts(features)]

    def _computed(self, part: FeatureMap) -> Array:
        out = np.empty((len(self._images), part.n_features), dtype=np.float32)
        for start in range(0, len(out), _IMAGES):
            some = torch.from_numpy(self._images[start : start + _IMAGES]).to(self._device)
            out[start : start + _IMAGES] = part(some).cpu().numpy()
        return out

    def narrowed(self, features: FeatureMap) -> list[Array]:
        """The features by each part of a map of fewer filters, (n, d)."""
        some = torch.from_numpy(self._images[:_COMPARED])
        found = []
        parts = zip(_parts(self.map), _parts(features), self._vectors, strict=True)
        for wide, part, vectors in parts:
            if torch.equal(wide(some)[:, : part.n_features], part(some)):
                found.append(vectors[:, : part.n_features])
            else:
                found.append(self._computed(part))
        return found


def _parts(features: FeatureMap) -> tuple[FeatureMap, ...]:
    return features.parts if isinstance(features, Concatenate) else (features,)


def vectors_of(parts: Sequence[Array], rows: Array) -> Array:
    """The vectors of some samples, (n, d), from the features by each part, as of `Concatenate`.

    Parameters
    ----------
    parts : sequence of ndarray of shape (m, d_i)
    rows : ndarray of shape (n,), int
    """
    found = [torch.from_numpy(part[rows].astype(np.float64)) for part in parts]
    whole = found[0] if len(found) == 1 else torch.cat([unit_rows(one) for one in found], dim=1)
    return whole.numpy()
