"""Bodies of JSON: numbers are numbers, and what is wrong is cheap to find."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from redunet.serve.schemas import Classes, Labelled, Question
from tests.serve.running import X, serving, small_model


@pytest.mark.parametrize("value", ['"1"', "true", "null", "[1]", "NaN", "Infinity", "1e999"])
def test_only_numbers_are_numbers(value: str) -> None:
    for body in (f'{{"sample": [0, {value}]}}', f'{{"samples": [[0, {value}]]}}'):
        with pytest.raises(ValidationError, match=r"valid number|finite number"):
            Labelled.model_validate(json.loads(body))


@pytest.mark.parametrize(
    "given",
    [
        *({"top": "1"}, {"top": 1.5}, {"top": True}, {"novelty": 1}, {"novelty": "true"}),
        *({"reject": "0.5"}, {"text": 1}, {"texts": [True]}),
    ],
    ids=str,
)
def test_other_fields_take_their_own_kind_too(given: object) -> None:
    with pytest.raises(ValidationError, match="Input should be a valid"):
        Question.model_validate(given)


def test_what_is_wrong_is_few_errors() -> None:
    for kind, given in (
        (Labelled, {"samples": [["x"]] * 1000}),
        (Labelled, {"sample": ["x"] * 1000}),
        (Labelled, {"labels": [None] * 1000}),
        (Classes, {"classes": [None] * 1000}),
        (Question, {str(number): 1 for number in range(1000)}),
    ):
        with pytest.raises(ValidationError) as found:
            kind.model_validate(given)
        assert found.value.error_count() <= 2


def test_over_http_what_is_wrong_changes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    small_model().save(path)
    before = path.read_bytes()
    good: dict[str, Any] = {"sample": X[0].tolist(), "label": "ant"}
    with serving(path) as client:
        for wrong in ([str(one) for one in X[0]], [True] * 6):
            status, found = client.send("POST", "/v1/learn", {**good, "sample": wrong})
            assert (status, found) == (422, {"error": "sample.0: Input should be a valid number"})
        status, found = client.send("POST", "/v1/learn", {**good, "a\nb": 1})
        assert (status, found["error"]) == (422, "a b: Extra inputs are not permitted")
        assert path.read_bytes() == before
        assert client.send("POST", "/v1/learn", good)[0] == 200
