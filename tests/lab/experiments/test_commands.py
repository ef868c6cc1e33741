"""`redunet run` and `redunet reproduce`: any experiment, the paper's, a person's own data."""

from __future__ import annotations

import csv
import json
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
from redunet_lab.paper import PAPER, REPRODUCTIONS, Reproduction
from tests.own_data import done, refused
from tests.small_images import images_of

pytestmark = pytest.mark.usefixtures("one_thread")

ROOT = Path(__file__).parents[3]
SAME = {"moments": True, "network": True, "file": True, "labels_that_differ": 0}
SMALL = Reproduction(
    "A small stand-in",
    "digits",
    {
        "features": "lift",
        "n_kernels": 2,
        "n_layers": 5,
        "n_components": 9,
        "train_per_class": 40,
    },
    {"9 components": 9, "3 components": 3},
)


def record_of(out: Path) -> Any:
    return json.loads((out / "record.json").read_text())


def test_two_seeds_two_readings_one_report(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(REPRODUCTIONS, "small", SMALL)
    monkeypatch.setitem(PAPER, "digits", PAPER["mnist"])
    words = ("reproduce", "small", "--out", tmp_path, "--seeds", "0,4")
    said = done(*words).output
    record = record_of(tmp_path)
    assert [variant["name"] for variant in record["methods"]] == ["9 components", "3 components"]
    for variant in record["methods"]:
        assert [one["seed"] for one in variant["runs"]] == [0, 4]
        for one in variant["runs"]:
            assert len(one["tasks"]) == 5
            assert all(0.5 < row["accuracy"] <= 1 for row in one["tasks"])
            assert all(0.4 < row["no_layers_accuracy"] <= 1 for row in one["tasks"])
        counts = np.array(variant["confusion"]["counts"])
        last = [run["tasks"][-1] for run in variant["runs"]]
        assert counts.sum() == 599 * len(last)
        assert counts.trace() == pytest.approx(sum(task["accuracy"] * 599 for task in last))
    first, second = record["methods"][0]["runs"]
    assert first["joint"]["equivalence"] == SAME
    assert first["joint"]["accuracy"] == first["tasks"][-1]["accuracy"]
    assert "joint" not in second
    assert first["summary"] != record["methods"][1]["runs"][0]["summary"]
    assert len(first["rates"]["delta_R"]) == 5
    assert "identical identical identical identical" in " ".join(said.split())
    files = {p.name for p in tmp_path.iterdir() if p.is_file()}
    assert {"accuracy.png", "rate.png", "record.json", "report.html", "report.md"} <= files
    assert f"{first['tasks'][-1]['accuracy']:.3f}"[:4] in (tmp_path / "report.md").read_text()
    model = tmp_path / "moments" / "seed-0" / "after-task-5.safetensors"
    stamp = model.stat().st_mtime_ns
    done(*words)  # takes up what is there
    assert record_of(tmp_path)["methods"] == record["methods"]
    assert model.stat().st_mtime_ns == stamp


def test_a_dry_run_only_says_what_it_would_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = ("reproduce", "mnist", "--out", tmp_path / "out", "--dry-run")
    monkeypatch.chdir(tmp_path)
    said = " ".join(done(*words).output.split())
    assert "would build five networks of 200 layers" in said
    assert "minutes" not in said  # there is no record
    monkeypatch.chdir(ROOT)
    said = " ".join(done(*words).output.split())
    assert "About 33 minutes by the record results/mnist.json: redunet reproduce mnist" in said
    assert not (tmp_path / "out").exists()


def test_the_papers_settings_and_figures_are_the_papers() -> None:
    plan = REPRODUCTIONS["mnist"].experiment().plan
    assert (plan.n_layers, plan.eps, plan.step, plan.step_decay) == (200, 0.5, 0.5, 0.933)
    assert (plan.sharpness, plan.n_components, plan.features) == (1.0, 28, "pixels")
    plan = REPRODUCTIONS["cifar10"].experiment().plan
    assert (plan.n_layers, plan.sharpness, plan.n_kernels) == (50, 1.0, 5)
    assert 15 in REPRODUCTIONS["cifar10"].readings.values()
    assert PAPER["mnist"]["row"] == [0.999, 0.990, 0.984, 0.975, 0.961]
    assert PAPER["cifar10"]["row"] == [0.875, 0.678, 0.588, 0.547, 0.539]


@pytest.mark.usefixtures("no_pictures")
def test_settings_from_a_file_and_words(tmp_path: Path) -> None:
    (tmp_path / "plan.toml").write_text('data = "digits"\nn_layers = 3\ntrain_per_class = 25\n')
    words = ("--config", tmp_path / "plan.toml", "--set", "n_tasks=2", "--set", "test_shift=1")
    said = " ".join(done("run", *words, "--out", tmp_path / "out").output.split())
    record = record_of(tmp_path / "out")
    (variant,) = record["methods"]
    assert (variant["name"], variant["settings"]["n_layers"]) == ("28 components", 3)
    assert [row["classes"] for row in record["stream"]] == [[0, 1, 2, 3, 4], [5, 6, 7, 8, 9]]
    assert record["paper"] is None
    assert "paper" not in said
    assert f"{variant['runs'][0]['summary']['average']:.3f}" in said


@pytest.mark.usefixtures("no_pictures")
def test_the_network_of_all_shifts_runs_task_after_task(tmp_path: Path) -> None:
    words = ("--recipe", "invariant", "--set", "n_filters=3", "--set", "patch_size=4")
    done("run", *words, "--set", "train_per_class=60", "--out", tmp_path)
    [row] = record_of(tmp_path)["methods"]
    assert row["settings"]["shifts"] is True
    assert row["runs"][0]["joint"]["equivalence"] == SAME
    assert row["runs"][0]["tasks"][-1]["accuracy"] > 0.55


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["run", "--set", "n_layer=3"], "got 'n_layer'"),
        (["run", "--set", "n_layers"], "expected KEY=VALUE, got 'n_layers'"),
        (["run", "--set", "n_layers=many"], "expected n_layers to be a whole number"),
        (["run", "--set", "tasks=3"], "expected tasks as lists of classes"),
        (["run", "--config", "nowhere.toml"], "cannot read nowhere.toml"),
        (["run", "--orders", "0"], "expected orders to be a whole number from 1 on"),
        (["run", "--data", "digits", "--label", "y"], "expected --label and --test with a file of"),
        (["reproduce", "imagenet"], "expected one of mnist, mnist-tuned, cifar10, cifar10-uncentr"),
        (["tune", "--components", "few"], "expected components to be a whole number"),
        (["tune", "--per-class", "0"], "expected at least one sample of each class"),
        (["run", "--set", "n_components=64"], "expected n_components below n_features = 64"),
        (["run", "--device", "abacus"], "expected a device that PyTorch can use here"),
        (
            ["tune", "--data", "digits", "--search", "depth=3"],
            "expected settings among n_layers, eps",
        ),
        (["tune", "--method", "svm"], "expected method to be one of redunet, ncm, lda, ridge, qda"),
        (
            ["tune", "--data", "digits", "--components", "64"],
            "expected numbers of components below",
        ),
    ],
)
def test_a_mistake_is_one_line(tmp_path: Path, words: list[str], message: str) -> None:
    assert message in refused(*words, "--out", tmp_path / "out")


WINE = load_wine()
NAMES = np.array(["barolo", "grignolino", "barbera"])[WINE.target]
COLUMNS = [name.replace("/", "_") for name in WINE.feature_names]


def write_csv(path: Path, rows: Any = slice(None)) -> Path:
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow([*COLUMNS, "cultivar"])
        writer.writerows([*x, y] for x, y in zip(WINE.data[rows], NAMES[rows], strict=True))
    return path


@pytest.mark.usefixtures("no_pictures")
def test_a_table_of_ones_own_with_text_labels(tmp_path: Path) -> None:
    path, out = write_csv(tmp_path / "wine.csv"), tmp_path / "out"
    data, again = (own_data.load(path, "cultivar") for _ in range(2))
    assert np.array_equal(data.x_test, again.x_test)
    for name, count in zip(*np.unique(NAMES, return_counts=True), strict=True):
        assert (data.y_test == name).sum() == round(count / 4)
    together = np.concatenate([data.x_train, data.x_test])
    assert np.array_equal(np.unique(together, axis=0), np.unique(WINE.data, axis=0))
    settings = ("--set", "n_tasks=3", "--set", "n_layers=2", "--set", "n_components=3")
    done("run", "--data", path, "--label", "cultivar", *settings, "--out", out)
    record = record_of(out)
    classes = [["barbera"], ["barolo"], ["grignolino"]]
    assert [row["classes"] for row in record["stream"]] == classes
    assert record["title"] == "wine.csv"
    assert record["split"] == "25% of the samples of each class, chosen with seed 0"
    model = ReduNetClassifier(n_layers=2, n_components=3).fit(data.x_train, data.y_train)
    (run,) = record["methods"][0]["runs"]
    assert run["tasks"][-1]["accuracy"] == model.score(data.x_test, data.y_test)
    done("report", out / "record.json", "-o", tmp_path / "page.html")
    said = "Test data: 25% of the samples of each class, chosen with seed 0."
    assert said in (tmp_path / "page.html").read_text()


@pytest.mark.usefixtures("no_pictures")
def test_test_data_of_ones_own(tmp_path: Path) -> None:
    rows = np.random.RandomState(0).permutation(len(NAMES))
    train = write_csv(tmp_path / "train.csv", rows[:120])
    table = {name: WINE.data[rows[120:], i] for i, name in enumerate(COLUMNS)}
    test = tmp_path / "test.parquet"
    pa.parquet.write_table(pa.table({**table, "cultivar": NAMES[rows[120:]]}), test)
    words = ("--data", train, "--test", test, "--label", "cultivar", "--set", "n_tasks=3")
    done("compare", *words, "--methods", "ncm,lda", "--out", tmp_path / "out")
    record = record_of(tmp_path / "out")
    assert record["stream"][-1]["test_samples"] == 58
    assert record["split"] == "the samples of test.parquet"
    other = write_csv(tmp_path / "other.csv", slice(0, 5))
    other.write_text(other.read_text().replace("barolo", "chianti"))
    few = ("--label", "cultivar", "--out", tmp_path / "no")
    said = refused("run", "--data", train, "--test", other, *few)
    assert "expected test data of the classes of" in said
    one = write_csv(tmp_path / "one.csv", [0, 1, 60])
    said = refused("run", "--data", one, *few)
    assert "expected at least two samples of each class in" in said
    assert "name it with --label" in refused("run", "--data", train, "--out", tmp_path / "no")


@pytest.mark.usefixtures("no_pictures")
def test_a_folder_of_images_of_ones_own(tmp_path: Path) -> None:
    X, y = images_of((8, 8), classes=3, per_class=12)
    for index, (image, label) in enumerate(zip(X, y, strict=True)):
        folder = tmp_path / "images" / f"class-{label}"
        folder.mkdir(parents=True, exist_ok=True)
        Image.fromarray(image.astype(np.uint8)).save(folder / f"{index}.png")
    words = ["--set", "n_layers=1", "--set", "n_tasks=3"]
    words += ["--methods", "redunet,er", "--set", "er.epochs=1", "--set", "n_components=3"]
    done("compare", "--data", tmp_path / "images", *words, "--out", tmp_path / "out")
    record = record_of(tmp_path / "out")
    assert [row["classes"] for row in record["stream"]] == [["class-0"], ["class-1"], ["class-2"]]
    assert [method["method"] for method in record["methods"]] == ["redunet", "er"]
