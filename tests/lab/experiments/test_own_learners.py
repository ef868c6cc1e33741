"""Learners, streams, methods and data sets of one's own."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from sklearn.linear_model import SGDClassifier

from redunet import ReduNetClassifier
from redunet.errors import SettingsError
from redunet_lab import Samples, baselines, class_stream, datasets, run_learners
from redunet_lab.compare import compare
from redunet_lab.datasets import load
from tests.means import MeansOfAll
from tests.own_data import done

pytestmark = pytest.mark.usefixtures("one_thread", "no_pictures")


def few() -> Samples:
    data = load("digits")
    rows = {part: np.arange(n) for part, n in (("train", 300), ("test", 150))}
    x = {p: getattr(data, f"x_{p}")[r].reshape(len(r), -1) for p, r in rows.items()}
    y = {p: getattr(data, f"y_{p}")[r] for p, r in rows.items()}
    return Samples(x["train"], y["train"], x["test"], y["test"])


@dataclass
class Part:
    """A task of one's own: nothing but attributes."""

    classes: list[str]
    x_train: NDArray[Any]
    y_train: NDArray[Any]
    x_test: NDArray[Any]
    y_test: NDArray[Any]


def test_own_learners_over_an_own_stream_give_a_record_that_report_reads(tmp_path: Path) -> None:
    stream = [
        Part(
            [f"digit {c}" for c in task.classes],
            task.x_train / 16,
            np.array([f"digit {c}" for c in task.y_train]),
            task.x_test / 16,
            np.array([f"digit {c}" for c in task.y_test]),
        )
        for task in class_stream(few(), n_tasks=2)
    ]
    learners = {
        "SGD": SGDClassifier(random_state=0),
        "ReduNet, two layers": ReduNetClassifier(n_layers=2),
    }
    record = run_learners(learners, stream, tmp_path / "out", what="Mine", data="few digits")
    assert record == json.loads((tmp_path / "out" / "record.json").read_text())
    assert (record["kind"], record["version"], record["what"]) == ("experiment", 2, "Mine")
    sgd, network = record["methods"]
    joint = ReduNetClassifier(n_layers=2)
    joint.fit(*(np.concatenate([getattr(t, f"{n}_train") for t in stream]) for n in "xy"))
    test = [np.concatenate([getattr(t, f"{n}_test") for t in stream]) for n in "xy"]
    assert network["runs"][0]["tasks"][-1]["accuracy"] == joint.score(*test)
    assert sgd["runs"][0]["tasks"][-1]["accuracy_by_task"][0] < 0.5  # it forgets
    assert not hasattr(learners["SGD"], "classes_")  # the one given is not changed
    page = tmp_path / "page.html"
    done("report", tmp_path / "out" / "record.json", "-o", page)
    text = page.read_text()
    assert "ReduNet, two layers" in text
    assert "digit 3" in text
    again = run_learners(learners, stream, tmp_path / "out", what="Mine", data="few digits")
    assert again["methods"] == record["methods"]  # nothing ran again


def test_the_examples_of_the_documentation(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = (Path(__file__).parents[3] / "docs" / "compare.md").read_text(encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    made: dict[str, Any] = {}
    try:
        for block in re.findall(r"```python\n(.*?)```", text, re.DOTALL):
            exec(block, made)
        record = compare(
            "digits_again",
            tmp_path / "out",
            methods=["redunet", "last_task"],
            changes={"redunet": {"n_layers": 1}},
        )
    finally:
        baselines.GRADIENT.pop("last_task", None)
        datasets.LOADERS.pop("digits_again", None)
        datasets.TITLES.pop("digits_again", None)
    done("report", "runs/wine/record.json", "-o", "page.html")
    assert "Wine, one cultivar at a time" in Path("page.html").read_text()
    assert record["title"] == "Digits"
    last = record["methods"][1]["runs"][0]["tasks"][-1]
    assert record["methods"][1]["name"] == "last task only"
    assert last["accuracy_by_task"][:4] == [0, 0, 0, 0]


def test_nothing_to_run_is_an_error() -> None:
    with pytest.raises(SettingsError, match="expected at least one learner and one task"):
        run_learners({}, class_stream(few()))


class Nearest(MeansOfAll):
    """A method of one's own."""

    kind = "nearest"
    title = "nearest of a few"
    color, marker = "#123456", "*"

    @staticmethod
    def usual_settings(data: str) -> dict[str, Any]:
        return {"n_exemplars": 7 if data == "mine" else 5}


def test_a_method_and_a_data_set_are_registered_from_outside(tmp_path: Path) -> None:
    try:
        baselines.register(Nearest)
        datasets.register("mine", lambda folder: load("digits"), title="My digits")
        words = ("--methods", "redunet,nearest", "--set", "n_layers=2", "--set", "nearest.epochs=3")
        done("compare", "--data", "mine", *words, "--out", tmp_path)
    finally:
        baselines.GRADIENT.pop("nearest", None)
        datasets.LOADERS.pop("mine", None)
        datasets.TITLES.pop("mine", None)
    record = json.loads((tmp_path / "record.json").read_text())
    assert record["what"] == "Methods compared on My digits, 5 tasks"
    own = record["methods"][1]
    assert (own["method"], own["name"], own["type"]) == ("nearest", "nearest of a few", "gradient")
    assert own["settings"] == {"n_exemplars": 7, "epochs": 3}
    assert own["changed"] == {"epochs": {"usual": None, "here": 3}}
    assert own["raw_data_kept"] is True
    assert "nearest of a few" in (tmp_path / "report.md").read_text()
    with pytest.raises(SettingsError, match="expected a class attribute kind"):
        baselines.register(type("Nameless", (), {}))
