"""The order of classes leaves no trace in a model file."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

from redunet_lab.datasets import load
from redunet_lab.experiment import Experiment
from redunet_lab.orders import learn_in_orders
from redunet_lab.recipes import from_recipe
from tests.own_data import done, refused

pytestmark = pytest.mark.usefixtures("one_thread", "no_pictures")

RESULTS = Path(__file__).parents[3] / "results"


def test_twenty_five_orders_of_digits_give_one_file(tmp_path: Path) -> None:
    record = learn_in_orders(Experiment.of(), tmp_path, "", seeds=range(25), device="cpu")
    orders = record["orders"]
    assert len({str(order["tasks"]) for order in orders["rows"]}) == 25
    assert {order["sha256"] for order in orders["rows"]} == {orders["joint_sha256"]}
    assert orders["files"] == 1
    for order in orders["rows"]:
        assert sorted(label for task in order["tasks"] for label in task) == list(range(10))


@pytest.mark.parametrize(
    "how", [{"features": "standardize"}, {"features": "patches", "n_filters": 4, "patch_size": 3}]
)
def test_so_do_orders_through_one_learnt_map(tmp_path: Path, how: dict[str, Any]) -> None:
    experiment = Experiment.of(changes={"train_per_class": 20, **how})
    record = learn_in_orders(experiment, tmp_path, "", seeds=range(3), device="cpu")
    orders = record["orders"]
    assert (orders["files"], orders["features_learnt_from_data"]) == (1, True)


def test_files_that_differ_would_be_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hashes = iter("aab")  # joint, then two orders
    monkeypatch.setattr("redunet_lab.orders.file_hash", lambda model: next(hashes))
    words = ("--set", "train_per_class=5", "--orders", "2", "--out", tmp_path)
    said = " ".join(done("run", *words).stdout.split())
    assert "2 different files" in said


def test_the_command_says_so_and_leaves_a_record(tmp_path: Path) -> None:
    said = done("run", "--orders", "2", "--recipe", "paper-mnist", "--out", tmp_path).stdout
    record = json.loads((tmp_path / "record.json").read_text())
    orders = record["orders"]
    assert "All 2 orders, and all classes at once, gave one file:" in " ".join(said.split())
    typed = f"redunet run --orders 2 --recipe paper-mnist --out {tmp_path}"
    assert record["command"] == typed
    assert [order["seed"] for order in orders["rows"]] == [0, 1]
    assert {"kind", "version", "date", "machine", "versions"} <= record.keys()
    data = load("digits")
    model = from_recipe("paper-mnist", data.x_train).fit(data.x_train, data.y_train)
    model.save(tmp_path / "model")
    digest = hashlib.sha256((tmp_path / "model").read_bytes()).hexdigest()
    assert orders["joint_sha256"] == digest
    assert "expected orders to be a whole number from 1 on" in refused("run", "--orders", "0")


def committed(name: str) -> Any:
    return json.loads((RESULTS / f"{name}.json").read_text())


def test_the_committed_record_of_digits_is_what_comes_of_it_here(tmp_path: Path) -> None:
    record = committed("orders-digits")["orders"]
    experiment = Experiment.of("digits", recipe="paper-mnist")
    settings = json.loads(json.dumps(experiment.plan.to_dict()))
    assert record["settings"].items() <= settings.items()
    here = learn_in_orders(experiment, tmp_path, "", seeds=[24], device="cpu")["orders"]
    assert here["rows"][0]["tasks"] == record["rows"][24]["tasks"]
    assert here["joint_sha256"] == record["joint_sha256"] == record["rows"][24]["sha256"]


@pytest.mark.parametrize(
    ("name", "orders", "samples"),
    [
        ("orders-digits", 25, 1198),
        ("orders-mnist", 5, 60000),
        ("orders-mnist-scattering", 5, 10000),
        ("orders-images-plain-fashion_mnist", 1, 60000),
        ("orders-images-written-mnist", 1, 60000),
        ("orders-images-cpu-cifar10", 1, 50000),
        ("orders-images-fast-mnist", 1, 60000),
        ("orders-images-ensemble-cifar10", 1, 5000),
        ("orders-images-ensemble-cpu-cifar10", 1, 2000),
        ("orders-images-best-cifar10", 1, 5000),
    ],
)
def test_the_committed_records_say_one_file(name: str, orders: int, samples: int) -> None:
    record = committed(name)
    found = record["orders"]
    assert (found["files"], found["samples"], len(found["rows"])) == (1, samples, orders)
    assert {order["sha256"] for order in found["rows"]} == {found["joint_sha256"]}
    assert len({str(order["tasks"]) for order in found["rows"]}) == orders
    words = " ".join((RESULTS / "README.md").read_text(encoding="utf-8").split())
    assert f"| `{name}.json` | `{record['command']}`" in words
