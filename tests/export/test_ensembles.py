"""Exported models of several maps: the mean of the scores of all members."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from redunet import ReduNetClassifier
from redunet.errors import SettingsError
from redunet.estimators import (
    EnsembleClassifier,
    LinearDiscriminant,
    NearestMean,
    QuadraticDiscriminant,
    Ridge,
)
from redunet.estimators.predictor import StreamingWarning
from redunet.export import export, formats
from redunet.export.onnx_graph import onnx_model
from redunet.export.program import forms, input_shape, program
from redunet.features import Concatenate, Flatten, Standardize
from tests.export.running import NAMES, X, Y, outputs, same_labels


@pytest.mark.parametrize("data", [None, X])
@pytest.mark.parametrize(
    "member",
    [
        NearestMean(),
        Ridge(),
        LinearDiscriminant(),
        QuadraticDiscriminant(),
        ReduNetClassifier(n_layers=0, readout="pairwise"),
        ReduNetClassifier(n_layers=4, step=0.3, step_kind="relative", readout="regression"),
        ReduNetClassifier(n_layers=0, whitening=0.1, readout="discriminant"),
    ],
    ids=["nearest mean", "ridge", "lda", "qda", "pairwise", "layers", "whitened"],
)
@pytest.mark.parametrize("k", [2, 10])
def test_ensembles(member: Any, data: Any, k: int, tmp_path: Path) -> None:
    some = k > Y
    model = EnsembleClassifier(member, groups=(30, 14, 20)).fit(X[some][::2], NAMES[some][::2])
    for layers in ("auto", "all"):
        found = export(model, tmp_path / "m.onnx", data, layers=layers)
        assert found.of_layers == 3 * getattr(member, "n_layers", 0)
        assert found.made == ("drawn from the moments" if data is None else "")
        assert found.holds[1] == "all of this for each group of features:"
        probabilities = same_labels(model, tmp_path / "m.onnx", X)
        np.testing.assert_allclose(probabilities, model.predict_proba(X), atol=1e-3)
    exact = onnx_model(
        program(model, list(forms(model, every_layer=True))[-1]),
        input_shape(model),
        model.moments_.labels,
        {},
    )
    _, scores = formats.FORMATS["onnx"].running(exact.SerializeToString())(X)
    if getattr(member, "n_layers", 0):
        model.set_params(exact=True)
    found_by_model = model.decision_function(X)
    scores = scores[:, 1] - scores[:, 0] if k == 2 else scores
    np.testing.assert_allclose(scores, found_by_model, rtol=1e-8, atol=1e-8)


def test_an_ensemble_of_maps_is_exported(tmp_path: Path) -> None:
    images = X.reshape(-1, 8, 8)
    maps = Concatenate((Flatten((8, 8)), Standardize.learn(images)))
    model = EnsembleClassifier(ReduNetClassifier(n_layers=3), features=maps).fit(images, NAMES)
    for data in (None, images):
        found = export(model, tmp_path / "m.onnx", data)
        assert found.input_shape == (8, 8)
        assert found.made.startswith("random input" if data is None else "")
        assert "the feature map, with means and deviations" in found.holds
        assert outputs(tmp_path / "m.onnx", images)[0].tolist() == model.predict(images).tolist()
    with (
        pytest.warns(StreamingWarning),
        pytest.raises(SettingsError, match=r"expected layers that fit memory=50000"),
    ):
        export(model.set_params(memory=50_000), tmp_path / "m.onnx", images, layers="all")
