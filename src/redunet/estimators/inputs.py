"""From raw samples to feature vectors: a feature map, then a length."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from redunet.core.grid import on_grid, range_on_grid, unit_grid, unit_rows, within_range
from redunet.core.moments import ClassMoments
from redunet.errors import SettingsError
from redunet.estimators.settings import InputSettings
from redunet.features import FeatureMap, Flatten, restore

CONSTANT = 4.0
"""The constant that is appended, as a multiple of the length of a standardized sample."""

CHUNK_ROWS = 512
"""Rows put on the sphere at a time, few enough to stay in the processor's cache."""


@dataclass(frozen=True, eq=False)
class InputPipeline:
    """From raw samples to feature vectors; moments of two pipelines cannot be mixed.

    The parameters are those of `ReduNetClassifier`.
    """

    features: FeatureMap | None
    normalize: Literal["sample", "class", "constant"]
    input_range: tuple[float, float] | None

    @classmethod
    def checked(cls, features: Any, normalize: Any, input_range: Any) -> InputPipeline:
        """A pipeline from what a user gave; a SettingsError says what is wrong with it."""
        if features is not None and (
            isinstance(features, type) or not isinstance(features, FeatureMap)
        ):
            raise SettingsError(
                f"expected features to be None or a feature map such as Standardize.learn(images), "
                f"got {features!r}"
            )
        scaling = InputSettings(normalize, input_range)
        return cls(features, scaling.normalize, scaling.input_range)

    def n_features(self, n_columns: int) -> int:
        """d, the length of the feature vectors of samples with so many values."""
        own = n_columns if self.features is None else self.features.n_features
        return own + (self.normalize == "constant")

    def n_columns(self, n_features: int) -> int:
        """The number of values of a raw sample whose feature vector has so many features."""
        if self.features is not None:
            return math.prod(self.features.input_shape)
        return n_features - (self.normalize == "constant")

    def check_moments(self, moments: ClassMoments) -> None:
        """Raise a DataError unless feature vectors of this pipeline can have such moments."""
        moments.check_values(None if self.input_range is None else range_on_grid(*self.input_range))

    def learn(self, rows: NDArray[Any], device: str) -> Tensor:
        """Feature vectors, (n, d), on the grid, as they are learnt."""
        if self.input_range is None:
            return unit_grid(self.before_length(rows, device))
        return on_grid(self.vectors(rows, device))

    def vectors(self, rows: NDArray[Any], device: str) -> Tensor:
        """Feature vectors within [-1, 1], (n, d): on the sphere, or scaled by a constant."""
        vectors = self.before_length(rows, device)
        if self.input_range is None:
            return unit_rows(vectors)
        return within_range(vectors, *self.input_range)

    def new(self, rows: NDArray[Any], dtype: torch.dtype, device: str) -> Tensor:
        """Feature vectors of new samples, on the sphere: Tensor of shape (n, d)."""
        Z = torch.empty(len(rows), self.n_features(rows.shape[1]), dtype=dtype, device=device)
        for start in range(0, len(rows), CHUNK_ROWS):
            chunk = slice(start, start + CHUNK_ROWS)
            Z[chunk] = unit_rows(self.before_length(rows[chunk], device))
        return Z

    def before_length(self, rows: NDArray[Any], device: str) -> Tensor:
        """Feature vectors, (n, d), before they are put on the sphere or scaled."""
        if self.normalize != "constant":
            return self._of_rows(rows, device)
        vectors = self._of_rows(rows, device).to(torch.float64)
        return torch.nn.functional.pad(vectors, (0, 1), value=constant(vectors.shape[1]))

    def _of_rows(self, rows: NDArray[Any], device: str) -> Tensor:
        unchanged = self.features is None or isinstance(self.features, Flatten)
        if unchanged and rows.dtype == np.uint8:  # faster as they are
            return torch.from_numpy(np.array(rows, order="C")).to(device)
        tensor = torch.from_numpy(np.array(rows, dtype=np.float64, order="C")).to(device)
        if self.features is None:
            return tensor
        return self.features(tensor.reshape(len(rows), *self.features.input_shape))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, InputPipeline):
            return NotImplemented
        scaling = (self.normalize, self.input_range)
        if self.features is other.features:  # quicker than a look at all their values
            return scaling == (other.normalize, other.input_range)
        (mine, my_tensors), (theirs, their_tensors) = self.to_state(), other.to_state()
        return (
            mine == theirs
            and my_tensors.keys() == their_tensors.keys()
            and all(torch.equal(tensor, their_tensors[name]) for name, tensor in my_tensors.items())
        )

    __hash__ = None  # type: ignore[assignment]

    def to_state(self) -> tuple[dict[str, Any], dict[str, Tensor]]:
        """Plain values and tensors, from which `from_state` makes the same pipeline."""
        state: dict[str, Any] = {
            "normalize": self.normalize,
            "input_range": None if self.input_range is None else list(self.input_range),
            "features": None,
        }
        if self.features is None:
            return state, {}
        values, tensors = self.features.to_state()
        state["features"] = {"kind": self.features.kind, "values": values}
        return state, {f"features.{name}": tensor for name, tensor in tensors.items()}

    @classmethod
    def from_state(cls, state: dict[str, Any], tensors: dict[str, Tensor]) -> InputPipeline:
        """The pipeline that `to_state` took apart."""
        features = None
        if state["features"] is not None:
            own = {
                name.removeprefix("features."): tensor
                for name, tensor in tensors.items()
                if name.startswith("features.")
            }
            features = restore(state["features"]["kind"], state["features"]["values"], own)
        return cls.checked(features, state["normalize"], state["input_range"])


def constant(d: int) -> float:
    """The value that ``normalize="constant"`` appends to vectors of d features.

    A vector of standardized features is about √d long; beside a constant that is longer, what
    scaling to the unit sphere does to its length hardly shows.
    """
    return CONSTANT * math.sqrt(d)
