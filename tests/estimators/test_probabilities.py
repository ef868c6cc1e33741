"""Probabilities: calibrated from the moments alone, or by a temperature that is saved."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from redunet import ReduNetClassifier, SettingsError
from redunet.core.calibration import DRAWN, best_temperature
from redunet.estimators.tuning import calibration_error
from redunet_lab.datasets import load
from redunet_lab.recipes import from_recipe

pytestmark = pytest.mark.usefixtures("one_thread")

DIGITS = load("digits")
X, Y = DIGITS.x_train.reshape(len(DIGITS.x_train), -1).astype(float), DIGITS.y_train
TRAIN, HELD = np.arange(len(X)) % 4 != 0, np.arange(len(X)) % 4 == 0


def error_of(model: ReduNetClassifier) -> float:
    found = model.predict_proba(X[HELD])
    return calibration_error(found, model.classes_[found.argmax(axis=1)] == Y[HELD])


@pytest.mark.parametrize("readout", ["subspace", "coding", "discriminant", "regression"])
def test_probabilities_are_calibrated_without_validation_data(readout: str) -> None:
    model = from_recipe("directions", readout=readout).fit(X[TRAIN], Y[TRAIN])
    assert error_of(model) < 0.03
    labels = model.classes_[model.predict_proba(X[HELD]).argmax(axis=1)]
    np.testing.assert_array_equal(labels, model.predict(X[HELD]))


def test_they_are_a_function_of_moments_and_settings(tmp_path: Path) -> None:
    model = ReduNetClassifier(n_layers=3).fit(X[TRAIN], Y[TRAIN])
    other = ReduNetClassifier(n_layers=3)
    for task in ([7, 8, 9], [3, 4, 5, 6], [0, 1, 2]):
        rows = TRAIN & np.isin(Y, task)
        other.partial_fit(X[rows][::-1], Y[rows][::-1])
    assert other.temperature_ == model.temperature_
    model.save(tmp_path / "m.safetensors")
    again = ReduNetClassifier.load(tmp_path / "m.safetensors")
    np.testing.assert_array_equal(again.predict_proba(X[:9]), model.predict_proba(X[:9]))
    exact = copy.copy(model).set_params(exact=True)
    assert exact.temperature_ == model.temperature_
    np.testing.assert_allclose(exact.predict_proba(X), model.predict_proba(X), atol=1e-3)


def test_with_exact_the_temperature_is_found_by_every_layer() -> None:
    model = ReduNetClassifier(n_layers=50, step_kind="relative", step=0.2).fit(X[TRAIN], Y[TRAIN])
    assert len(model.cascade_.stages) >= 2
    fused = model.temperature_
    network, readout = model.network_, model.readout_
    Z, classes = network.layers.class_samples(DRAWN)
    scores = readout.scores(network.transform(Z, model.sharpness))
    assert model.set_params(exact=True).temperature_ == best_temperature(scores, classes)
    assert model.temperature_ != fused  # here; formerly it was the same
    assert model.temperature_ == pytest.approx(fused, rel=0.01)
    scores = torch.from_numpy(model.decision_function(X[HELD]))
    expected = torch.softmax(scores / model.temperature_, dim=1)
    np.testing.assert_array_equal(model.predict_proba(X[HELD]), expected)
    assert model.set_params(exact=False).temperature_ == fused


def test_a_temperature_that_is_set_is_used_and_saved(tmp_path: Path) -> None:
    model = ReduNetClassifier(n_layers=2, readout="discriminant").fit(X, Y)
    before = model.predict(X)
    plain, hot = tmp_path / "plain.safetensors", tmp_path / "hot.safetensors"
    model.save(plain)
    assert b"temperature" not in plain.read_bytes()  # files of other models stay as they were
    model.set_params(temperature=40.0).save(hot)
    loaded: Any = ReduNetClassifier.load(hot)
    assert loaded.temperature == loaded.temperature_ == 40.0
    scores = loaded.set_params(exact=True).decision_function(X[:5]) / 40
    expected = np.exp(scores) / np.exp(scores).sum(axis=1, keepdims=True)
    np.testing.assert_allclose(loaded.predict_proba(X[:5]), expected, rtol=1e-9)
    np.testing.assert_array_equal(model.predict(X), before)
    model.set_params(temperature=None).save(hot)
    assert hot.read_bytes() == plain.read_bytes()
    with pytest.raises(SettingsError, match="expected temperature to be a number above 0"):
        model.set_params(temperature=0).predict_proba(X[:1])


def test_one_class_is_certain() -> None:
    model = ReduNetClassifier(n_layers=1).fit(X[Y == 3], Y[Y == 3])
    assert model.predict_proba(X[:2]).tolist() == [[1.0], [1.0]]


def test_calibration_error_by_hand() -> None:
    probabilities = [[0.9, 0.1], [0.92, 0.08], [0.4, 0.6], [0.45, 0.55]]
    correct = [True, False, True, True]
    by_hand = 0.5 * abs(0.5 - 0.91) + 0.25 * abs(1 - 0.6) + 0.25 * abs(1 - 0.55)
    assert calibration_error(probabilities, correct, n_bins=20) == pytest.approx(by_hand)
    assert calibration_error(np.eye(2)[[0, 1, 0]], [True, True, True]) == 0.0
