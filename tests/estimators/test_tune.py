"""Tuning a model on validation data: never worse, the same each time, within its budget."""

from __future__ import annotations

import itertools
import re
from typing import Any

import numpy as np
import pytest
import torch

from redunet import DataError, NumericalError, ReduNetClassifier, SettingsError
from redunet.core.readouts import READOUTS, ReadoutChoice, read_out, read_outs, register
from redunet.estimators import tuning
from redunet_lab.datasets import load

pytestmark = pytest.mark.usefixtures("one_thread")

DIGITS = load("digits")
X, Y = DIGITS.x_train.reshape(len(DIGITS.x_train), -1).astype(float), DIGITS.y_train
TRAIN, HELD = np.arange(len(X)) % 4 != 0, np.arange(len(X)) % 4 == 0
VX, VY = X[HELD], Y[HELD]
POOR: dict[str, Any] = {"n_layers": 1, "step_kind": "relative", "readout": "regression"}


def fitted(**settings: Any) -> ReduNetClassifier:
    return ReduNetClassifier(**settings).fit(X[TRAIN], Y[TRAIN])


def test_poor_settings_give_way_to_better_ones() -> None:
    model = fitted(**POOR, ridge=1.0)
    moments = model.moments_
    before = model.score(VX, VY)
    assert model.tune(VX, VY, budget=100) is model
    found = model.tuning_
    assert model.moments_ is moments  # nothing is learnt
    assert found.accuracy_before == before
    assert found.accuracy == model.score(VX, VY) > before + 0.03
    assert found.chosen == {k: v for k, v in model.get_params().items() if k in found.chosen}
    assert (found.tried, found.samples) == (100, len(VX))
    best = max(one["accuracy"] or 0 for one in found.candidates)
    assert found.accuracy == pytest.approx(best, abs=2 / len(VX))  # estimates and labels
    assert found.calibration_error < 0.03


@pytest.mark.parametrize("budget", [1, 30, 90])
def test_good_settings_stay_but_for_the_temperature(budget: int) -> None:
    model = fitted(n_layers=5, step_kind="relative", sharpness=200.0, sharpness_kind="relative")
    model.set_params(readout="discriminant", ridge=1e-4)
    before = model.get_params()
    model.tune(VX, VY, budget=budget)
    assert model.tuning_.chosen.keys() == {"temperature"}
    assert model.get_params() == before | model.tuning_.chosen
    assert model.tuning_.accuracy == model.tuning_.accuracy_before == model.score(VX, VY)
    assert model.tune(VX, VY, budget=budget).tuning_.chosen == {}  # the second time nothing


def test_the_same_number_of_candidates_gives_the_same_answer() -> None:
    one, other = (fitted(**POOR).tune(VX, VY, budget=60) for _ in range(2))
    for key in ("chosen", "candidates", "accuracy", "tried", "planned", "calibration_error"):
        assert getattr(one.tuning_, key) == getattr(other.tuning_, key)
    fewer = fitted(**POOR).tune(VX, VY, budget=40).tuning_
    assert fewer.candidates == one.tuning_.candidates[: len(fewer.candidates)]


def test_a_time_only_cuts_the_list(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = itertools.count()
    monkeypatch.setattr("time.monotonic", lambda: float(next(clock)))
    timed = fitted(**POOR).tune(VX, VY, budget="3s").tuning_
    monkeypatch.undo()
    assert timed.tried < timed.planned
    counted = fitted(**POOR).tune(VX, VY, budget=timed.tried).tuning_
    assert counted.candidates == timed.candidates
    assert counted.chosen == timed.chosen


def test_own_values_are_searched() -> None:
    model = fitted(**POOR)
    search: dict[str, list[Any]] = {
        "eps": [1, 4],
        "readout": ["discriminant", "subspace"],
        "n_components": [8, 12],
    }
    model.tune(VX, VY, search=search, budget="10min")
    found = model.tuning_
    assert found.tried == found.planned == 1 + 2 * 3
    assert {one.get("eps") for one in found.candidates} == {0.5, 1.0, 4.0}
    with pytest.raises(SettingsError, match=r"expected settings among n_layers, .*got 'color'"):
        model.tune(VX, VY, search={"color": [1]})
    with pytest.raises(SettingsError, match="expected n_components below n_features = 64, got 64"):
        model.tune(VX, VY, search={"readout": ["subspace"], "n_components": [64]})


def test_a_quarter_is_enough_to_leave_a_hopeless_network(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = fitted(**POOR).tune(VX, VY, budget=60).tuning_
    monkeypatch.setattr(tuning, "MANY", 100)
    search: dict[str, list[Any]] = {"eps": [1e-4, 0.5], "readout": ["regression"], "ridge": [1e6]}
    model = fitted(readout="discriminant", n_layers=0)
    model.tune(VX, VY, search=search)
    assert [one["accuracy"] is None for one in model.tuning_.candidates] == [False, True, True]
    parts = fitted(**POOR).tune(VX, VY, budget=60).tuning_
    assert parts.chosen == whole.chosen


def test_a_candidate_that_fails_says_why_and_the_others_are_tried() -> None:
    """Formerly it looked like one that was left as hopeless."""
    model = fitted(**POOR)
    search: dict[str, list[Any]] = {"eps": [1e-90, 1.0], "ridge": [0.01]}
    first, second, third = model.tune(VX, VY, search=search).tuning_.candidates
    assert (first["accuracy"], third["accuracy"]) > (0.8, 0.8)
    assert second["accuracy"] is None
    assert re.fullmatch(r"expected a positive definite matrix.*raise eps.*", second["failed"])
    assert "failed" not in first | third


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (NumericalError("expected another\nnetwork"), "expected another network"),
        (MemoryError(), "out of memory"),
        (RuntimeError("DefaultCPUAllocator: can't allocate memory"), "out of memory"),
        (torch.OutOfMemoryError("CUDA out of memory"), "out of memory"),
    ],
    ids=str,
)
def test_a_read_out_that_fails_does_not_fail_the_others(error: Exception, reason: str) -> None:
    def broken(*_: Any) -> Any:
        raise error

    model, search = fitted(**POOR), {"readout": ["discriminant", "broken", "coding"]}
    register("broken", broken)
    try:
        _, *found = model.tune(VX, VY, search=search).tuning_.candidates
    finally:
        del READOUTS["broken"]
    assert [one["readout"] for one in found] == search["readout"]
    assert [one.get("failed") for one in found] == [None, reason, None]
    assert [one["accuracy"] is None for one in found] == [False, True, False]


def test_a_fault_of_the_program_is_no_failed_candidate() -> None:
    def broken(*_: Any) -> Any:
        raise RuntimeError("a fault in the memory of fusions")

    register("broken", broken)
    try:
        with pytest.raises(RuntimeError, match="a fault"):
            fitted(**POOR).tune(VX, VY, search={"readout": ["broken"]})
    finally:
        del READOUTS["broken"]


@pytest.mark.parametrize("whitening", [None, 0.1])
def test_read_outs_together_are_those_alone(whitening: float | None) -> None:
    model = fitted(n_layers=2, whitening=whitening)
    network = model.network_
    Z = torch.from_numpy(model.set_params(exact=True).transform(VX))
    wanted = [
        ReadoutChoice("subspace", 3, 0.0),
        ReadoutChoice("regression", 1, 0.1),
        ReadoutChoice("subspace", 12, 0.0),
        ReadoutChoice("coding", 1, 0.0),
        ReadoutChoice("discriminant", 1, 0.001),
    ]
    for choice, found in zip(wanted, read_outs(network, wanted), strict=True):
        alone = read_out(network, *choice).scores(Z)
        assert torch.equal(found.scores(Z).argmax(dim=1), alone.argmax(dim=1))


def test_what_cannot_be_used_changes_nothing() -> None:
    model = fitted(n_layers=1)
    before = model.get_params()
    refused = {
        "expected validation samples of classes that the model has learnt, got 11: leave": (
            VX[:2],
            [1, 11],
        ),
        "X has 3 features, but ReduNetClassifier is expecting 64": (VX[:, :3], VY),
        "Found array with 0 sample": (VX[:0], VY[:0]),
        "expected one label for each of 300 samples, got 5": (VX, VY[:5]),
    }
    for words, (samples, labels) in refused.items():
        with pytest.raises(DataError, match=words):
            model.tune(samples, labels)
    for budget in ("soon", 0, -3, "0s", True, None):
        with pytest.raises(SettingsError, match="expected a budget such as '60s'"):
            model.tune(VX, VY, budget=budget)  # type: ignore[arg-type]
    with pytest.raises(DataError, match="at least two classes"):
        ReduNetClassifier().fit(X[Y == 1], Y[Y == 1]).tune(VX[VY == 1], VY[VY == 1])

    def stop(what: str, share: float) -> None:
        if what.startswith("candidate 2"):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        model.tune(VX, VY, progress=stop)
    assert model.get_params() == before
    assert not hasattr(model, "tuning_")
