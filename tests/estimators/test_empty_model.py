"""A model that has learnt nothing, as bytes: all that others need to learn for it, and no more."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from redunet import ModelFileError, ReduNetClassifier
from redunet.encoders import EncoderId
from redunet.estimators import empty_model, storage
from redunet.features import Standardize
from redunet_lab.closed_forms import CLOSED_FORMS

X = np.random.default_rng(0).standard_normal((40, 12))
Y = np.arange(40) % 4
FRAME = pd.DataFrame(X, columns=list("abcdefghijkl"))


def same(one: Any, other: Any, folder: Path) -> bool:
    one.save(folder / "one")
    other.save(folder / "other")
    return (folder / "one").read_bytes() == (folder / "other").read_bytes()


@pytest.mark.parametrize("kind", ["redunet", *CLOSED_FORMS])
def test_what_it_learns_is_what_the_model_would_have_learnt(kind: str, tmp_path: Path) -> None:
    make: Any = ReduNetClassifier if kind == "redunet" else CLOSED_FORMS[kind]
    images = np.abs(X).reshape(-1, 3, 4)
    for model, samples in ((make(), X), (make(features=Standardize.learn(images)), images)):
        copy = empty_model.from_bytes(empty_model.to_bytes(model))
        assert not hasattr(copy, "moments_")
        assert same(copy.fit(samples, Y), model.fit(samples, Y), tmp_path)
        again = empty_model.from_bytes(empty_model.to_bytes(model))  # has agreed on its input
        assert len(again.moments_) == 0
        assert same(again.partial_fit(samples, Y), model, tmp_path)


def test_the_input_that_was_agreed_on_travels() -> None:
    model = ReduNetClassifier().fit(FRAME, Y).set_encoder(EncoderId("some", "a" * 64))
    data = empty_model.to_bytes(model)
    assert len(data) < 2000
    copy = empty_model.from_bytes(data)
    assert empty_model.input_of(copy) == empty_model.input_of(model)
    assert copy.feature_names_in_.tolist() == list("abcdefghijkl")
    assert copy.encoder_ == model.encoder_
    with pytest.raises(ValueError, match="samples with the column names of the model"):
        copy.partial_fit(X, Y)


def test_bytes_that_are_no_model() -> None:
    data = empty_model.to_bytes(ReduNetClassifier())
    tensors, content = storage.decode(data, "it")
    others = [
        (b"", "is not a redunet model, or is damaged"),
        (data[:-1] + b"?", "is not a redunet model, or is damaged|was altered"),
        (storage.encode(tensors, {}), "is not one of this version"),
        (storage.encode(tensors, content | {"settings": {"kind": "x"}}), "expected an estimator"),
        (storage.encode(tensors, content | {"more": 1}), "holds other things"),
        (storage.encode(tensors, content | {"input": {"n_columns": "x"}}), "not one of this"),
    ]
    for one, said in others:
        with pytest.raises(ModelFileError, match=said):
            empty_model.from_bytes(one)
