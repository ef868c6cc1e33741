"""`redunet tune MODEL VALIDATION`: writes when asked, refuses in one line, leaves a record."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from redunet import ReduNetClassifier
from redunet.estimators import load
from redunet.safety.interrupts import message
from tests.own_data import WORDS, done, redunet, refused, write_csv, write_npz

pytestmark = pytest.mark.usefixtures("one_thread")

LEARNT = [row for row in range(60) if row % 3]
HELD = [row for row in range(60) if row % 3 == 0]


@pytest.fixture
def model(tmp_path: Path) -> Path:
    path = tmp_path / "m.safetensors"
    data = write_csv(tmp_path / "learnt", LEARNT)
    poor = ("readout=regression", "ridge=100000", "n_layers=0")
    done("learn", path, data, *(word for one in poor for word in ("--set", one)))
    return path


@pytest.fixture(autouse=True)
def in_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def tuned(*words: object) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(done("tune", *words, "--json").stdout)
    return found


def test_the_file_changes_only_when_asked(tmp_path: Path, model: Path) -> None:
    data = write_csv(tmp_path / "held", HELD)
    raw = model.read_bytes()
    found = tuned(model, data, "--budget", "40")
    assert model.read_bytes() == raw
    assert found["accuracy"] > found["accuracy_before"]
    assert not found["written"]
    written = tuned(model, data, "--budget", "40", "--write")
    assert written["written"]
    assert written["chosen"] == found["chosen"]
    changed = load(model)
    assert isinstance(changed, ReduNetClassifier)
    assert sum(changed.moments_.counts) == len(LEARNT)
    assert changed.own_settings() == found["settings"] | found["chosen"]
    assert json.loads(done("evaluate", model, data, "--json").stdout)["accuracy"] == pytest.approx(
        found["accuracy"]
    )
    raw = model.read_bytes()
    again = tuned(model, data, "--budget", "40", "--write")
    assert (again["chosen"], again["written"]) == ({}, False)
    assert model.read_bytes() == raw


def test_what_is_said_and_the_record(tmp_path: Path, model: Path) -> None:
    data = write_csv(tmp_path / "held", HELD)
    said = done("tune", model, data, "--budget", "25", "--out", "here").stdout
    assert "Accuracy on 20 validation samples: 0." in said
    assert "was not changed: add --write to change it" in said
    assert "best of 25 of " in said
    record = json.loads(Path("here/tune.json").read_text())
    assert record["command"] == f"redunet tune {model} {data} --budget 25 --out here"
    assert record["tried"].startswith("25 of ")
    accuracies = [one["accuracy"] for one in record["candidates"]]
    assert accuracies == sorted(accuracies, reverse=True)
    assert record["chosen"]["validation"]
    assert record["settings"]["ridge"] == 100000
    done("report", "here/tune.json", "-o", "page.html")
    page = Path("page.html").read_text()
    assert "Chosen" in page
    assert "20 validation samples" in page
    quiet = done("tune", model, data, "--budget", "25", "--quiet").stdout
    assert quiet.startswith("Accuracy on 20 validation samples")


def test_refusals(tmp_path: Path, model: Path) -> None:
    data, raw = write_csv(tmp_path / "held", HELD), model.read_bytes()
    other = tmp_path / "other.csv"
    other.write_text(data.read_text().replace("ant", "gnu"))
    empty = tmp_path / "empty.csv"
    empty.write_text(data.read_text().splitlines()[0] + "\n")
    narrow = tmp_path / "narrow.csv"
    narrow.write_text("v0,label\n1,ant\n2,bee\n")
    lines = {
        refused("tune", model, other): "classes that the model has learnt, got 'gnu': leave these",
        refused("tune", model, narrow): "expected the 12 columns of numbers that were learnt",
        refused("tune", model, empty, "--write"): "empty.csv",
        refused("tune", model): "missing argument 'VALIDATION...'",
        refused("tune", model, data, "--data", "digits"): "unexpected extra argument",
        refused("tune", model, data, "--per-class", "3"): "unexpected extra argument",
        refused("tune", "--data", "digits", "--write"): "--write",
        refused("tune", model, data, "--budget", "soon"): "a budget such as '60s', '5min'",
        refused("tune", model, data, "--search", "color=1"): "expected settings among",
        refused("tune", tmp_path / "none", data): "none",
    }
    for said, expected in lines.items():
        assert expected in said
    assert model.read_bytes() == raw


def test_other_estimators_are_refused(tmp_path: Path) -> None:
    data = write_npz(tmp_path / "all", range(len(WORDS)))
    done("learn", "lda.safetensors", data, "--estimator", "linear-discriminant")
    said = refused("tune", "lda.safetensors", data)
    assert said.startswith("expected a model of redunet to tune, got one of linear-discriminant")


def test_an_interruption_keeps_the_model(
    tmp_path: Path, model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data, raw = write_csv(tmp_path / "held", HELD), model.read_bytes()

    def stop(self: Any, *given: Any, **how: Any) -> Any:
        raise KeyboardInterrupt

    monkeypatch.setattr(ReduNetClassifier, "save", stop)
    result = redunet("tune", model, data, "--budget", "40", "--write")
    assert result.exit_code != 0
    assert model.read_bytes() == raw
    assert "nothing was changed" in message() or str(model) in message()
