"""Pages of several models whose scores are averaged: labels of all, pictures of the first."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from redunet import EnsembleClassifier, ReduNetClassifier
from redunet.report import page
from redunet.report.model_view import ModelView
from redunet.report.samples import Samples
from redunet_lab.datasets import load
from redunet_lab.recipes import from_recipe

pytestmark = pytest.mark.usefixtures("one_thread")

DATA = load("digits")
SMALL: dict[str, Any] = {"n_filters": 8, "patch_size": 3, "n_ensemble": 3, "readout": "regression"}


def fitted(n_layers: int) -> EnsembleClassifier:
    first = DATA.x_train[DATA.y_train < 2]
    model = from_recipe("images-fast", first, n_layers=n_layers, **SMALL)
    assert isinstance(model, EnsembleClassifier)
    return model.fit(DATA.x_train, DATA.y_train)


@pytest.mark.parametrize("n_layers", [0, 2])
def test_a_page(n_layers: int, tmp_path: Path) -> None:
    model, out = fitted(n_layers), tmp_path / "page.html"
    model.save(tmp_path / "three")
    page([tmp_path / "three"], out, samples="digits")
    said = out.read_text(encoding="utf-8")
    how = {0: "no layers", 2: "2 layers"}[n_layers]
    assert (
        f"432 features: 3 models whose scores are averaged, each of a map of its own ({how}, "
        f"labels by ridge regression). What follows, but for labels, is of the first one." in said
    )
    right = int((model.predict(DATA.x_test) == DATA.y_test).sum())
    assert f"It labels {right:,} of {len(DATA.y_test):,} samples of digits correctly" in said
    headings = re.findall(r"<h[23]>(.*?)</h[23]>", said)
    assert {"Confusion matrix", "Classes"} <= set(headings)


def test_the_first_model_alone_takes_samples_as_they_are() -> None:
    model = fitted(2)
    alone: Any = model.alone(0)
    maps: Any = model.feature_map_
    same = ReduNetClassifier(**{**alone.get_params(), "features": maps.parts[0]})
    same.fit(DATA.x_train, DATA.y_train)
    assert alone.to_bytes() == same.to_bytes()
    assert np.array_equal(alone.decision_function(DATA.x_test), same.decision_function(DATA.x_test))
    view = ModelView(model, Samples("digits", DATA.x_test, DATA.y_test, [0]))
    assert view.network is view.drawn
    assert view.network.to_bytes() == same.to_bytes()
    assert view.labels.tolist() == model.predict(DATA.x_test).tolist()
