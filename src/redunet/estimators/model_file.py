"""All that a model file holds, as one value, and how it becomes a file and back."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from redunet import registry
from redunet.core.allocation import Allocate
from redunet.core.moments import ClassMoments, Label
from redunet.core.packing import FIRST_NAMES, NAMES
from redunet.encoders import EncoderId
from redunet.errors import DataError, ModelFileError
from redunet.estimators import storage
from redunet.estimators.group_moments import PREFIX, GroupMoments
from redunet.estimators.inputs import InputPipeline
from redunet.estimators.offloading import allocate_here
from redunet.estimators.rejection import Calibration
from redunet.estimators.state import State

SELF_LABELLED = "self_labelled."
"""Names of tensors about samples that the model labelled itself begin with this."""


@dataclass(frozen=True)
class Model:
    """Settings and what was learnt: everything that changes a label, and nothing else.

    Parameters
    ----------
    settings : dict
        Plain values, checked.
    state : State
        Of at least one class.
    """

    settings: dict[str, Any]
    state: State

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the file; equal models give equal files, to the byte."""
        storage.save(path, *self._state())

    def to_bytes(self) -> bytes:
        """The bytes of the file."""
        return storage.encode(*self._state())

    def sha256(self) -> str:
        """The sha256 of the file, which is never in memory as a whole."""
        return storage.sha256(*self._state())

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
        allocate = allocate_here()
        tensors, content = storage.load(path, allocate)
        # Copies of all but the moments: what was read is one buffer, and not to be kept for them.
        small = {
            name: tensor if is_of_moments(name.removeprefix(SELF_LABELLED)) else tensor.clone()
            for name, tensor in tensors.items()
        }
        try:
            model = cls(
                checked(dict(content["settings"])),
                State(
                    InputPipeline.from_state(content["embedding"], small),
                    checked_names(content["feature_names"]),
                    _moments(content["labels"], tensors, allocate),
                    content.get("resize", False),
                    EncoderId(**content["encoder"]) if "encoder" in content else None,
                    _self_labelled(content, tensors, allocate),
                    Calibration.from_state(content["calibration"], small)
                    if "calibration" in content
                    else None,
                ),
            )
            model.check()
            # An early file may hold all columns of any class.
            if "second_moments" in tensors and "n_columns" not in tensors:
                others = {name: tensors[name] for name in tensors if name not in FIRST_NAMES}
                tensors = others | model.state.moments.to_tensors()
            intact = storage.alike(model._state(), (tensors, content))
        except storage.MALFORMED as error:
            raise ModelFileError(f"{path} is not a model of this version: {error}") from error
        if not intact:
            raise ModelFileError(f"{path} holds other things than a model of this version")
        return model

    def check(self) -> None:
        """Raise a DataError where parts of the state do not go together."""
        state = self.state
        if state.pipeline.n_features(state.n_features_in) != state.moments.n_features:
            raise DataError("expected as many features as the moments have")
        if state.feature_names is not None and len(state.feature_names) != state.n_features_in:
            raise DataError("expected a name for each feature")
        own = state.self_labelled
        if own is not None and not set(own.labels) <= set(state.moments.labels):
            raise DataError("expected no class that the model alone has labelled samples of")
        if own is not None and own.n_features != state.moments.n_features:
            raise DataError("expected all moments to be of the same features")
        state.pipeline.check_moments(state.moments)
        if own is not None:
            state.pipeline.check_moments(own)
            state.total  # noqa: B018 - an error where a class has too many samples
        features = state.pipeline.features
        shape = () if features is None else features.input_shape
        if state.resize is not False and (
            state.resize is not True or len(shape) not in (2, 3) or shape[2:] not in ((), (3,))
        ):
            raise DataError("expected a feature map of images to resize them for")

    def _state(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        state = self.state
        pipeline, tensors = state.pipeline.to_state()
        content: dict[str, Any] = {
            "settings": self.settings,
            "embedding": pipeline,
            "feature_names": None if state.feature_names is None else list(state.feature_names),
            "labels": list(state.moments.labels),
            "label_type": type(state.moments.labels[0]).__name__,
        }
        if state.resize:  # not written otherwise, so that other files stay as they were
            content["resize"] = True
        if state.encoder is not None:
            content["encoder"] = state.encoder.to_dict()
        if state.self_labelled is not None:
            content["self_labelled"] = list(state.self_labelled.labels)
            packed = state.self_labelled.to_tensors()
            tensors |= {SELF_LABELLED + name: tensor for name, tensor in packed.items()}
        if state.calibration is not None:
            content["calibration"], quantiles = state.calibration.to_state()
            tensors |= quantiles
        # A copy of each: the file format refuses tensors that share their memory.
        own = {name: tensor.clone() for name, tensor in tensors.items()}
        return state.moments.to_tensors() | own, content


def is_of_moments(name: str) -> bool:
    """Whether a tensor of that name holds moments."""
    return name in {*NAMES, *registry.names("moments")} or name.startswith(PREFIX)


def _moments(labels: list[Label], tensors: dict[str, Tensor], allocate: Allocate) -> ClassMoments:
    """The moments of classes, of vectors, groups or shifts, whichever the tensors are of."""
    elsewhere = [registry.find("moments", name) for name in tensors]
    kind = next((found for found in elsewhere if found is not None), ClassMoments)
    if any(name.startswith(PREFIX) for name in tensors):
        kind = GroupMoments
    moments: ClassMoments = kind.from_tensors(labels, tensors, allocate)
    return moments


def _self_labelled(
    content: dict[str, Any], tensors: dict[str, Tensor], allocate: Allocate
) -> ClassMoments | None:
    if "self_labelled" not in content:
        return None
    own = {
        name.removeprefix(SELF_LABELLED): tensor
        for name, tensor in tensors.items()
        if name.startswith(SELF_LABELLED)
    }
    return ClassMoments.from_tensors(content["self_labelled"], own, allocate)


def checked_names(names: Any) -> tuple[str, ...] | None:
    """Names of columns, as a file holds them."""
    if names is None:
        return None
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise DataError("expected a list of feature names")
    return tuple(names)
