"""A model that has learnt nothing, as bytes: what others need in order to learn for it.

It is what a file of the model would hold, but for the moments: its settings, its feature map, and
the input that was agreed on. There is no pickle in it, so it can be read from anybody.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from redunet.encoders import EncoderId
from redunet.errors import DataError, ModelFileError
from redunet.estimators import Estimator, estimator_named, storage
from redunet.estimators.inputs import InputPipeline
from redunet.features.checks import MOST_VALUES

_NAME = "the model without moments"


def to_bytes(model: Estimator) -> bytes:
    """All of a model but what it has learnt.

    Parameters
    ----------
    model : estimator
        A new one, or one that has learnt something and so agreed on its input.
    """
    pipeline, tensors = model._pipeline().to_state()
    content = {
        "settings": model._plain_settings(),
        "embedding": pipeline,
        "input": input_of(model) if hasattr(model, "moments_") else None,
    }
    # A copy of each: the format refuses tensors that share their memory.
    return storage.encode({name: tensor.clone() for name, tensor in tensors.items()}, content)


def from_bytes(data: bytes) -> Estimator:
    """The model that `to_bytes` took apart; it has learnt nothing."""
    tensors, content = storage.decode(data, _NAME)
    try:
        pipeline = InputPipeline.from_state(content["embedding"], tensors)
        settings = dict(content["settings"])
        model = estimator_named(settings.get("kind", "redunet"))._made_with(settings)
        model.features = pipeline.features
        model.normalize, model.input_range = pipeline.normalize, pipeline.input_range
        if content["input"] is not None:
            agree(model, content["input"])
        intact = to_bytes(model) == data
    except storage.MALFORMED as error:
        raise ModelFileError(f"{_NAME} is not one of this version: {error}") from error
    if not intact:
        raise ModelFileError(f"{_NAME} holds other things than one of this version")
    return model


def input_of(model: Estimator) -> dict[str, Any]:
    """The input that a model has agreed on, as plain values."""
    state = model._fitted()
    model._check_pipeline(state)
    return {
        "n_columns": state.n_features_in,
        "names": None if state.feature_names is None else list(state.feature_names),
        "resize": state.resize,
        "encoder": None if state.encoder is None else state.encoder.to_dict(),
    }


def agree(model: Estimator, given: dict[str, Any]) -> None:
    """Have a new model agree on an input, as `input_of` gave it, before it learns anything."""
    check_input(given)
    n_columns, names, encoder = given["n_columns"], given["names"], given["encoder"]
    if names is not None and len(names) != n_columns:
        raise DataError(f"expected a name for each of {n_columns} columns, got {len(names)}")
    model._state = replace(
        model._before_learning(n_columns, None if names is None else tuple(names)),
        resize=given["resize"],
        encoder=None if encoder is None else EncoderId(**encoder),
    )


def check_input(given: Any) -> None:
    """Raise a DataError unless it is of the types that `input_of` gives."""
    fine = isinstance(given, dict) and given.keys() == {"n_columns", "names", "resize", "encoder"}
    names, encoder = (given["names"], given["encoder"]) if fine else (None, None)
    if (
        not fine
        or type(given["n_columns"]) is not int
        or not 0 < given["n_columns"] <= MOST_VALUES
        or type(given["resize"]) is not bool
        or not (encoder is None or isinstance(encoder, dict))
        or not (names is None or isinstance(names, list))
        or not all(isinstance(name, str) for name in names or ())
    ):
        raise DataError("expected the columns of samples, as a model agrees on them, got others")


def take_input(model: Estimator, given: dict[str, Any]) -> None:
    """Have a model that has just learnt say of its input what is not seen in moments."""
    if given["resize"]:
        model.resize_images()
    if given["encoder"] is not None:
        model.set_encoder(EncoderId(**given["encoder"]))
