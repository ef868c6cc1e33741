"""Comparisons behind an encoder: class orders, features of a method's own, costs, small records."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from redunet.errors import SettingsError
from redunet_lab import datasets
from redunet_lab.closed_forms import RanPAC
from redunet_lab.compare import compare
from redunet_lab.datasets.dataset import Samples
from redunet_lab.report.readme import vectors_table
from tests.own_data import done

pytestmark = pytest.mark.usefixtures("one_thread", "no_pictures")

FEW = {"ranpac": {"n_projections": 30}, "klda": {"n_projections": 25}}
METHODS = ("ncm", "air", "ranpac", "klda")


def vectors(folder: Path | None = None, classes: int = 6) -> Samples:
    """A few vectors of each class, which are not negative."""
    draw = np.random.default_rng(0)
    centres = draw.random((classes, 12))
    y = np.repeat(np.arange(classes), 8)
    parts = [centres[y] + 0.3 * draw.random((len(y), 12)) for _ in range(2)]
    return Samples(parts[0], y, parts[1], y, "vectors")


@pytest.fixture(autouse=True)
def registered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(datasets.LOADERS, "vectors", vectors)
    monkeypatch.setitem(datasets.LOADERS, "many", lambda folder: vectors(folder, 60))


def call(out: Path, data: str = "vectors", **options: Any) -> dict[str, Any]:
    changes = {"redunet": {"n_tasks": 3, "shuffle": True}, **FEW}
    how: dict[str, Any] = {"methods": METHODS, "seeds": (0, 1), "changes": changes, **options}
    return compare(data, out, device="cpu", **how)


def test_each_seed_has_its_order_of_classes_and_its_projections(tmp_path: Path) -> None:
    record = call(tmp_path)
    settings = {}
    for method in METHODS:
        for seed in (0, 1):
            text = (tmp_path / method / f"seed-{seed}" / "record.json").read_text()
            settings[method, seed] = json.loads(text)["settings"]
    orders = {seed: {str(settings[m, seed]["tasks"]) for m in METHODS} for seed in (0, 1)}
    assert [len(found) for found in orders.values()] == [1, 1]
    assert orders[0] != orders[1]
    last = {
        method["method"]: [run["tasks"][-1]["accuracy"] for run in method["runs"]]
        for method in record["methods"]
    }
    data = vectors()
    # The order of classes does not matter, to the last bit; projections do.
    assert last["ncm"][0] == last["ncm"][1]
    for seed in (0, 1):
        model = RanPAC(30, seed=seed).fit(data.x_train, data.y_train)
        assert last["ranpac"][seed] == model.score(data.x_test, data.y_test)


def test_a_run_is_resumed_and_methods_are_added_later(tmp_path: Path) -> None:
    whole = call(tmp_path / "whole")
    call(tmp_path / "parts", methods=("ranpac",))
    for seed in (0, 1):  # as if it had been interrupted after the second task
        path = tmp_path / "parts" / "ranpac" / f"seed-{seed}" / "record.json"
        run = json.loads(path.read_text())
        path.write_text(json.dumps(run | {"tasks": run["tasks"][:2]}))
    parts = call(tmp_path / "parts")
    for one, other in zip(whole["methods"], parts["methods"], strict=True):
        assert one["method"] == other["method"]
        accuracies = [
            [task["accuracy_by_task"] for run in method["runs"] for task in run["tasks"]]
            for method in (one, other)
        ]
        assert accuracies[0] == accuracies[1]
    with pytest.raises(SettingsError, match="with another n_projections"):
        call(tmp_path / "parts", changes={"redunet": {"n_tasks": 3, "shuffle": True}})


def test_the_table_has_accuracy_and_costs(tmp_path: Path) -> None:
    record = call(tmp_path)
    for method in record["methods"]:
        for run in method["runs"]:
            assert run["tasks"][-1]["seconds"]["answer_1000"] > 0
            assert "answer_1000" not in run["tasks"][0]["seconds"]
            assert run["tasks"][-1]["bytes"]["moments"] > 0
    heads, _, *rows = vectors_table([record]).splitlines()
    assert heads[2:-2].split(" | ") == [
        *("", "accuracy", "beside ReduNet", "seconds to learn", "file"),
        *("seconds for 1,000 answers", "on"),
    ]
    assert len(rows) == len(METHODS)
    shown = [float(row.split("|")[2].split()[0]) for row in rows]
    assert shown == sorted(shown, reverse=True)
    assert any("RanPAC, 30 projections" in row for row in rows)
    assert all("CPU, threads: 1" in row for row in rows)
    assert all("| – |" in row for row in rows)  # no ReduNet to stand beside


def test_records_of_many_classes_have_no_confusion_matrix(tmp_path: Path) -> None:
    many, few = (call(tmp_path / data, data, methods=("ncm",)) for data in ("many", "vectors"))
    assert "confusion" not in many["methods"][0]
    assert sum(map(sum, few["methods"][0]["confusion"]["counts"])) == 2 * 48
    assert done("report", tmp_path / "many" / "record.json", "--out", tmp_path / "page.html")


def test_roots_are_taken_where_a_method_asks_for_them(tmp_path: Path) -> None:
    changes = {"redunet": {"n_tasks": 3}, "fecam": {"tukey": True}}
    record = call(tmp_path, methods=("fecam", "ncm"), changes=changes)
    ncm, fecam = record["methods"]
    assert (fecam["settings"]["tukey"], fecam["random"], ncm["random"]) == (True, False, False)
    assert (tmp_path / "fecam" / "seed-0" / "after-task-3.safetensors").exists()
    assert fecam["runs"][0]["tasks"][-1]["accuracy"] > 0.9
