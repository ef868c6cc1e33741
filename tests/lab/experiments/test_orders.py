"""The order of classes leaves no trace in a model file."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

from redunet import from_recipe
from redunet_lab.datasets import load
from redunet_lab.experiment import Experiment
from redunet_lab.orders import learn_in_orders
from tests.own_data import done

pytestmark = pytest.mark.usefixtures("one_thread", "no_pictures")

COMMITTED = Path(__file__).parents[3] / "results" / "orders-digits.json"
PATCHES = {"features": "patches", "n_filters": 4, "patch_size": 3, "n_ensemble": 2, "n_layers": 0}


@pytest.mark.parametrize(
    ("how", "n"), [({}, 25), ({"features": "standardize"}, 3), ({**PATCHES, "ridge": 0.1}, 2)]
)
def test_all_orders_of_digits_give_one_file(tmp_path: Path, how: dict[str, Any], n: int) -> None:
    experiment = Experiment.of(changes={"train_per_class": 20, **how})
    record = learn_in_orders(experiment, tmp_path, "", seeds=range(n), device="cpu")
    orders = record["orders"]
    assert len({str(order["tasks"]) for order in orders["rows"]}) == n
    assert {order["sha256"] for order in orders["rows"]} == {orders["joint_sha256"]}
    assert (orders["files"], orders["features_learnt_from_data"]) == (1, bool(how))


def test_files_that_differ_would_be_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hashes = iter("aab")  # joint, then two orders
    monkeypatch.setattr("redunet_lab.orders.file_hash", lambda model: next(hashes))
    words = ("--set", "train_per_class=5", "--orders", "2", "--out", tmp_path)
    assert "2 different files" in " ".join(done("run", *words).stdout.split())


def test_the_command_gives_the_file_of_the_committed_record(tmp_path: Path) -> None:
    said = done("run", "--orders", "2", "--recipe", "paper-mnist", "--out", tmp_path).stdout
    orders = json.loads((tmp_path / "record.json").read_text())["orders"]
    assert "All 2 orders, and all classes at once, gave one file:" in " ".join(said.split())
    data = load("digits")
    model = from_recipe("paper-mnist", data.x_train).fit(data.x_train, data.y_train)
    model.save(tmp_path / "model")
    digest = hashlib.sha256((tmp_path / "model").read_bytes()).hexdigest()
    committed = json.loads(COMMITTED.read_text())["orders"]
    assert orders["joint_sha256"] == digest == committed["joint_sha256"]
