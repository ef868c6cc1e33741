"""Settings are declared once: defaults, checks, docstrings and files agree."""

from __future__ import annotations

import inspect
from dataclasses import dataclass, fields
from typing import Any

import pytest

from redunet import ReduNetClassifier, SettingsError
from redunet.estimators.model_settings import ModelSettings
from redunet.estimators.settings import InputSettings, RunSettings, Settings
from redunet.validation import Declared, choice, flag, number, parameters, setting, whole
from redunet_lab.experiment import Plan


@dataclass(frozen=True)
class Example(Declared):
    rate: float = setting(0.5, number(0.0, 1.0), "A rate.", "float")
    count: int | None = setting(None, whole(1, 9, optional=True), "A count.", "int or None")
    mode: str = setting("a", choice("a", "b"), "A mode.", "str", always_saved=False)
    on: bool = setting(False, flag, "A switch.", "bool")


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"rate": 0}, "expected rate to be a number above 0 and at most 1, got 0"),
        ({"rate": float("nan")}, "expected rate to be a number above 0 and at most 1, got nan"),
        ({"rate": True}, "expected rate to be a number above 0 and at most 1, got True"),
        ({"count": 10}, "expected count to be a whole number from 1 to 9, got 10"),
        ({"mode": "c"}, "expected mode to be one of a, b, got 'c'"),
        ({"on": 1}, "expected on to be true or false, got 1"),
        ({"off": 1}, "expected settings among rate, count, mode, on, got 'off'"),
    ],
)
def test_a_value_out_of_range_is_refused(values: dict[str, Any], message: str) -> None:
    with pytest.raises(SettingsError) as caught:
        Example().changed(values)
    assert str(caught.value) == message


def test_values_are_kept_as_declared_and_saved_when_in_predictor() -> None:
    example = Example(rate=1, count=3)
    assert example.to_dict() == {"rate": 1.0, "count": 3, "mode": "a", "on": False}
    assert type(example.rate) is float
    assert example.to_state() == {"rate": 1.0, "count": 3, "on": False}
    assert Example.from_state(example.to_state()) == example
    assert Example(mode="b").to_state()["mode"] == "b"
    with pytest.raises(SettingsError, match="expected the settings rate, count, mode, on"):
        Example.from_state({"rate": 1.0})
    assert "rate : float, default=0.5\n    A rate." in parameters(Example)


def test_the_constructor_and_the_docstring_follow_the_declaration() -> None:
    signature = inspect.signature(ReduNetClassifier).parameters
    declared = [one for group in (Settings, InputSettings, RunSettings) for one in fields(group)]
    assert {one.name for one in declared} | {"features"} == set(signature)
    for one in declared:
        assert signature[one.name].default == one.default
        assert f"\n{one.name} : {one.metadata['kind']}" in (ReduNetClassifier.__doc__ or "")
    assert set(ModelSettings.names()) < set(Plan.names())
    assert "order_seed : int or None" in (Plan.__doc__ or "")
