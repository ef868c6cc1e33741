"""All that a model file holds, as one value, and how it becomes a file and back."""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from redunet.core.moments import ClassMoments
from redunet.errors import DataError, ModelFileError, ReduNetError
from redunet.estimators import storage
from redunet.estimators.checked_input import Embedding


@dataclass(frozen=True)
class Model:
    """Settings, embedding and moments: everything that changes a label, and nothing else.

    Parameters
    ----------
    settings : dict
        Plain values, checked.
    embedding : Embedding
    moments : ClassMoments
        Of at least one class.
    feature_names : list of str, or None
        Names of the input's columns.
    """

    settings: dict[str, Any]
    embedding: Embedding
    moments: ClassMoments
    feature_names: list[str] | None

    @property
    def n_features_in(self) -> int:
        """The number of values of a raw sample."""
        features = self.embedding.features
        return self.moments.n_features if features is None else math.prod(features.input_shape)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the file; equal models give equal files, to the byte."""
        storage.save(path, *self._state())

    @classmethod
    def load(cls, path: str | os.PathLike[str], checked: Callable[[Any], dict[str, Any]]) -> Model:
        """Read a file; anything in it that `save` would not have written is an error.

        Parameters
        ----------
        path : path of the file
        checked : callable
            From the settings in the file to the same settings, or an error where
            they are not those of the model that is to be read.
        """
        tensors, content = storage.load(path)
        try:
            model = cls(
                checked(content["settings"]),
                Embedding.from_state(content["embedding"], tensors),
                ClassMoments.from_tensors(content["labels"], tensors),
                content["feature_names"],
            )
            model._check()
            intact = storage.encode(*model._state()) == storage.encode(tensors, content)
        except (
            ReduNetError,
            ArithmeticError,
            AttributeError,
            LookupError,
            RuntimeError,
            TypeError,
            ValueError,
        ) as error:
            raise ModelFileError(f"{path} is not a model of this version: {error}") from error
        if not intact:
            raise ModelFileError(f"{path} holds other things than a model of this version")
        return model

    def _check(self) -> None:
        if self.embedding.n_features(self.n_features_in) != self.moments.n_features:
            raise DataError("expected as many features as the moments have")
        names = self.feature_names
        if names is not None and (
            not isinstance(names, list)
            or len(names) != self.n_features_in
            or not all(isinstance(name, str) for name in names)
        ):
            raise DataError("expected a name for each feature")

    def _state(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        embedding, tensors = self.embedding.to_state()
        content = {
            "settings": self.settings,
            "embedding": embedding,
            "feature_names": self.feature_names,
            "labels": list(self.moments.labels),
            "label_type": type(self.moments.labels[0]).__name__,
        }
        # A copy of each: the file format refuses tensors that share their memory.
        own = {name: tensor.clone() for name, tensor in tensors.items()}
        return self.moments.to_tensors() | own, content
