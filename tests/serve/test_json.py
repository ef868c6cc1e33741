"""Bodies of JSON: numbers are numbers, each field comes once, what is wrong is cheap to find."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from redunet.errors import DataError
from redunet.serve.schemas import Classes, Labelled, Question, parsed
from tests.serve.running import X, serving, small_model


@pytest.mark.parametrize("value", ['"1"', "true", "null", "[1]", "NaN", "Infinity", "1e999"])
def test_only_numbers_are_numbers(value: str) -> None:
    for body in (f'{{"sample": [0, {value}]}}', f'{{"samples": [[0, {value}]]}}'):
        with pytest.raises(ValidationError, match=r"valid number|finite number"):
            parsed(Labelled, body.encode())


def test_integers_are_numbers() -> None:
    assert parsed(Question, b'{"sample": [1, -0.0, 2e3], "top": 2, "reject": 0.5}').sample == [
        1.0,
        0.0,
        2000.0,
    ]


@pytest.mark.parametrize(
    "body",
    [
        '{"top": "1"}',
        '{"top": 1.5}',
        '{"top": true}',
        '{"novelty": 1}',
        '{"novelty": "true"}',
        '{"reject": "0.5"}',
        '{"text": 1}',
        '{"texts": [true]}',
    ],
)
def test_other_fields_take_their_own_kind_too(body: str) -> None:
    with pytest.raises(ValidationError, match="Input should be a valid"):
        parsed(Question, body.encode())


@pytest.mark.parametrize(
    "body",
    [
        '{"sample": [1], "sample": [2]}',
        '{"sample": [1], "s\\u0061mple": [2]}',
        '{"label": "a:b", "label": "a:b"}',
        '{"label": {"label": 1}, "label": "a"}',
        '{"label": "a", "label": "' + ":" * 99 + '"}',
        "{" + ", ".join(f'"{i}": 1' for i in range(1000)) + "}",
    ],
)
def test_a_field_comes_once(body: str) -> None:
    with pytest.raises(DataError, match="each field once"):
        parsed(Labelled, body.encode())


def test_text_may_hold_whatever_json_holds() -> None:
    text = 'a: "b": {"label": 1, "label": 2} \\":" \U0001f600 ' + ":" * 50
    assert parsed(Question, json.dumps({"text": text}).encode()).text == text
    assert parsed(Question, json.dumps({"texts": [text] * 3}, ensure_ascii=False).encode()).texts
    assert parsed(Classes, b'{"classes": [":", "::", 1]}').classes == [":", "::", 1]


@pytest.mark.parametrize(
    "body",
    [
        b'{"sample": ' + b"[" * 10**6,
        b'{"a":' * 10**6,
        b'{"sample": [1' + b"0" * 10**6 + b"]}",
        b'{"label": 1' + b"0" * 5000 + b"}",
        b'{"samples": [[' + b'"",' * 10**6 + b'""]]}',
        b'{"samples": [' + b'[""],' * 9999 + b'[""]]}',
        b'{"labels": [' + b"1.5," * 9999 + b"1.5]}",
        b'{"text": "\\ud800"}',
        b'{"text": "::::::::::::::::\\ud800"}',
        b'{"text": "\xff"}',
        b'\xef\xbb\xbf{"text": "a"}',
        b'{"text": "a"} {}',
        b'{"text": "a"}\0',
        '{"text": "a"}'.encode("utf-16"),
    ],
)
def test_what_is_wrong_is_one_error(body: bytes) -> None:
    with pytest.raises((ValidationError, DataError)) as found:
        parsed(Labelled, body)
    if isinstance(found.value, ValidationError):
        assert found.value.error_count() <= 2  # a label is a number or text


@pytest.mark.usefixtures("one_thread")
def test_over_http_what_is_wrong_changes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    small_model().save(path)
    before = path.read_bytes()
    kind = {"Content-Type": "application/json"}
    good: dict[str, Any] = {"sample": X[0].tolist(), "label": "ant"}
    with serving(path) as client:
        for wrong in ([str(one) for one in X[0]], [True] * 6):
            status, found = client.send("POST", "/v1/learn", {**good, "sample": wrong})
            assert (status, found) == (422, {"error": "sample.0: Input should be a valid number"})
        twice = json.dumps(good)[:-1] + ', "label": "bee"}'
        status, found = client.send("POST", "/v1/learn", twice.encode(), kind)
        assert status == 422
        assert found["error"] == "expected each field once in a body of JSON, got one twice or more"
        status, found = client.send("POST", "/v1/learn", {**good, "a\nb": 1})
        assert (status, found["error"]) == (422, "a b: Extra inputs are not permitted")
        assert path.read_bytes() == before
        assert client.send("POST", "/v1/learn", good)[0] == 200
