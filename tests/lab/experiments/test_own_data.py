"""A person's own data as the data of run, compare and tune."""

from __future__ import annotations

import csv
import json
import shlex
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest
from PIL import Image
from sklearn.datasets import load_wine

from redunet import ReduNetClassifier
from redunet_lab import own_data
from redunet_lab.closed_forms import CLOSED_FORMS
from tests.own_data import done, refused
from tests.small_images import images_of

pytestmark = pytest.mark.usefixtures("one_thread", "no_pictures")

WINE = load_wine()
NAMES = np.array(["barolo", "grignolino", "barbera"])[WINE.target]
COLUMNS = [name.replace("/", "_") for name in WINE.feature_names]


def write_csv(path: Path, rows: Any = slice(None), label: str = "cultivar") -> Path:
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow([*COLUMNS, label])
        writer.writerows([*x, y] for x, y in zip(WINE.data[rows], NAMES[rows], strict=True))
    return path


def record_of(out: Path) -> Any:
    return json.loads((out / "record.json").read_text())


def test_a_fixed_quarter_of_each_class_is_test_data(tmp_path: Path) -> None:
    path = write_csv(tmp_path / "wine.csv")
    data = own_data.load(path, "cultivar")
    again = own_data.load(path, "cultivar")
    assert np.array_equal(data.x_test, again.x_test)
    assert (len(data.y_train), len(data.y_test)) == (133, 45)
    for name, count in zip(*np.unique(NAMES, return_counts=True), strict=True):
        assert (data.y_test == name).sum() == round(count / 4)
    assert data.split == "25% of the samples of each class, chosen with seed 0"
    together = np.concatenate([data.x_train, data.x_test])
    assert np.array_equal(np.unique(together, axis=0), np.unique(WINE.data, axis=0))


def test_run_on_a_table_with_text_labels(tmp_path: Path) -> None:
    path, out = write_csv(tmp_path / "wine.csv"), tmp_path / "out"
    settings = ("--set", "n_tasks=3", "--set", "n_layers=2", "--set", "n_components=3")
    done("run", "--data", path, "--label", "cultivar", *settings, "--out", out)
    record = record_of(out)
    assert [row["classes"] for row in record["stream"]] == [
        ["barbera"],
        ["barolo"],
        ["grignolino"],
    ]
    assert record["title"] == "wine.csv"
    assert record["split"] == "25% of the samples of each class, chosen with seed 0"
    data = own_data.load(path, "cultivar")
    model = ReduNetClassifier(n_layers=2, n_components=3).fit(data.x_train, data.y_train)
    (run,) = record["methods"][0]["runs"]
    assert run["tasks"][-1]["accuracy"] == model.score(data.x_test, data.y_test)
    assert run["joint"]["equivalence"]["file"] is True
    page = tmp_path / "page.html"
    done("report", out / "record.json", "-o", page)
    assert "wine.csv" in page.read_text()
    said = "Test data: 25% of the samples of each class, chosen with seed 0."
    assert said in page.read_text()
    # The recorded command, run again, gives the same record.
    words = shlex.split(record["command"])[1:]
    done(*words, "--out", tmp_path / "again")
    other = record_of(tmp_path / "again")
    assert other["command"] == f"{record['command']} --out {tmp_path / 'again'}"
    tasks = [m["runs"][0]["tasks"][-1]["accuracy"] for m in (*record["methods"], *other["methods"])]
    assert tasks[0] == tasks[1]


def test_test_data_of_ones_own(tmp_path: Path) -> None:
    rows = np.random.RandomState(0).permutation(len(NAMES))
    train = write_csv(tmp_path / "train.csv", rows[:120])
    table = {name: WINE.data[rows[120:], i] for i, name in enumerate(COLUMNS)}
    test = tmp_path / "test.parquet"
    pa.parquet.write_table(pa.table({**table, "cultivar": NAMES[rows[120:]]}), test)
    words = ("--data", train, "--test", test, "--label", "cultivar", "--set", "n_tasks=3")
    few = ("--set", "ranpac.n_projections=30", "--set", "klda.n_projections=30")
    done("compare", *words, *few, "--set", "n_components=3", "--out", tmp_path / "out")
    record = record_of(tmp_path / "out")
    assert record["stream"][-1]["test_samples"] == 58
    assert record["split"] == "the samples of test.parquet"
    methods = [method["method"] for method in record["methods"]]
    assert methods == ["redunet", "subspace", *CLOSED_FORMS]  # vectors
    assert record["missing"] == []


def test_tune_on_arrays_and_on_a_folder_of_images(tmp_path: Path) -> None:
    X, y = images_of((8, 8), classes=3, per_class=12)
    np.savez(tmp_path / "d.npz", x=X, y=y)
    search = ("--search", "eps=0.5,1", "--components", "3", "--per-class", "4")
    few = ("--set", "n_layers=1", "--set", "n_tasks=3")
    done("tune", "--data", tmp_path / "d.npz", *search, *few, "--out", tmp_path)
    record = json.loads((tmp_path / "tune.json").read_text())
    assert len(record["candidates"]) == 2
    assert record["what"] == "Settings of ReduNet on d.npz, chosen on training data"
    for index, (image, label) in enumerate(zip(X, y, strict=True)):
        folder = tmp_path / "images" / f"class-{label}"
        folder.mkdir(parents=True, exist_ok=True)
        Image.fromarray(image.astype(np.uint8)).save(folder / f"{index}.png")
    words = ("--data", tmp_path / "images", *few, "--methods", "redunet,er", "--set", "er.epochs=1")
    done("compare", *words, "--set", "n_components=3", "--out", tmp_path / "out")
    record = record_of(tmp_path / "out")
    assert [row["classes"] for row in record["stream"]] == [["class-0"], ["class-1"], ["class-2"]]
    assert [method["method"] for method in record["methods"]] == ["redunet", "er"]


def test_mistakes_are_one_line(tmp_path: Path) -> None:
    path = write_csv(tmp_path / "wine.csv")
    few = ("--set", "n_tasks=3", "--out", tmp_path / "out")
    said = refused("compare", "--data", path, "--label", "cultivar", "--methods", "er", *few)
    assert "expected images for er, but" in said
    assert "holds vectors: leave it out of --methods" in said
    assert "name it with --label" in refused("run", "--data", path, *few)
    assert "cannot read" in refused("run", "--data", tmp_path / "no.csv", *few)
    said = refused("run", "--data", "digits", "--label", "y", *few)
    assert "expected --label and --test with a file of your own, got the data set 'digits'" in said
    other = write_csv(tmp_path / "other.csv", slice(0, 5))
    other.write_text(other.read_text().replace("barolo", "chianti"))
    said = refused("run", "--data", path, "--label", "cultivar", "--test", other, *few)
    assert "expected test data of the classes of" in said
    one = write_csv(tmp_path / "one.csv", [0, 1, 60])
    said = refused("run", "--data", one, "--label", "cultivar", *few)
    assert "expected at least two samples of each class in" in said
    assert "name test data with --test" in said
    assert not (tmp_path / "out").exists()
