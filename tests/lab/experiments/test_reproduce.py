"""The reproduction of the paper's experiments, on small data."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from redunet.cli.app import main
from redunet_lab.paper import PAPER, REPRODUCTIONS, Reproduction

RESULTS = Path(__file__).parents[3] / "results"

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


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(REPRODUCTIONS, "small", SMALL)
    monkeypatch.setitem(PAPER, "digits", PAPER["mnist"])


def call(*words: str) -> Any:
    return CliRunner().invoke(main, ["reproduce", "small", *words])


def sizes(record: Any) -> list[int]:
    """Test samples that each task brought."""
    totals = [0, *(row["test_samples"] for row in record["stream"])]
    return [after - before for before, after in itertools.pairwise(totals)]


@pytest.mark.usefixtures("small")
def test_two_seeds_two_readings_one_report(tmp_path: Path) -> None:
    done = call("--out", str(tmp_path), "--seeds", "0,4")
    assert done.exit_code == 0, done.output
    record = json.loads((tmp_path / "record.json").read_text())
    assert [variant["name"] for variant in record["methods"]] == ["9 components", "3 components"]
    for variant in record["methods"]:
        assert [one["seed"] for one in variant["runs"]] == [0, 4]
        for one in variant["runs"]:
            assert len(one["tasks"]) == 5
            assert all(0.5 < row["accuracy"] <= 1 for row in one["tasks"])
            assert all(0.4 < row["no_layers_accuracy"] <= 1 for row in one["tasks"])
    first, second = record["methods"][0]["runs"]
    assert first["joint"]["equivalence"] == {
        "moments": True,
        "network": True,
        "file": True,
        "labels_that_differ": 0,
    }
    assert first["joint"]["accuracy"] == first["tasks"][-1]["accuracy"]
    assert "joint" not in second
    for variant in record["methods"]:
        counts = np.array(variant["confusion"]["counts"])
        last = [run["tasks"][-1] for run in variant["runs"]]
        assert counts.sum() == 599 * len(last)
        right = sum(task["accuracy"] * 599 for task in last)
        assert counts.trace() == pytest.approx(right)
        assert not any("confusion" in task for run in variant["runs"] for task in run["tasks"])
    assert "Confusion matri" in (tmp_path / "report.html").read_text()
    wide, narrow = (variant["runs"][0] for variant in record["methods"])
    assert wide["summary"] != narrow["summary"]
    for one in (wide, narrow):
        last = one["tasks"][-1]
        shares = [n / 599 for n in sizes(record)]
        pooled = sum(a * s for a, s in zip(last["accuracy_by_task"], shares, strict=True))
        assert last["accuracy"] == pytest.approx(pooled, rel=1e-12)
    assert len(first["rates"]["delta_R"]) == 5
    assert "identical identical identical 0" in " ".join(done.output.split())
    folders = {p.name for p in tmp_path.iterdir() if p.is_dir()}
    assert folders == {"moments", "redunet"}
    for folder in folders:
        assert {p.name for p in (tmp_path / folder).iterdir()} == {"seed-0", "seed-4"}
    files = {p.name for p in tmp_path.iterdir() if p.is_file()}
    assert {"accuracy.png", "rate.png", "record.json", "report.html", "report.md"} <= files
    assert f"{first['tasks'][-1]['accuracy']:.3f}"[:4] in (tmp_path / "report.md").read_text()


@pytest.mark.usefixtures("small", "no_pictures")
def test_a_second_call_takes_up_what_is_there(tmp_path: Path) -> None:
    call("--out", str(tmp_path))
    before = (tmp_path / "record.json").read_bytes()
    model = tmp_path / "moments" / "seed-0" / "after-task-5.safetensors"
    stamp = model.stat().st_mtime_ns
    assert call("--out", str(tmp_path)).exit_code == 0
    after = (tmp_path / "record.json").read_bytes()
    assert json.loads(after)["methods"] == json.loads(before)["methods"]
    assert (
        tmp_path / "moments" / "seed-0" / "after-task-5.safetensors"
    ).stat().st_mtime_ns == stamp


@pytest.mark.parametrize(("name", "minutes"), [("mnist", 33), ("cifar10", 9)])
def test_a_dry_run_only_says_what_it_would_do(
    tmp_path: Path, name: str, minutes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = ["reproduce", name, "--out", str(tmp_path / "out"), "--dry-run"]
    monkeypatch.chdir(tmp_path)
    said = " ".join(CliRunner().invoke(main, words).output.split())
    layers = REPRODUCTIONS[name].settings["n_layers"]
    assert f"would build five networks of {layers} layers" in said
    assert "minutes" not in said  # there is no record
    monkeypatch.chdir(RESULTS.parent)
    said = " ".join(CliRunner().invoke(main, words).output.split())
    assert f"About {minutes} minutes by the record results/{name}.json: redunet reproduce" in said
    assert not (tmp_path / "out").exists()


def test_an_unknown_experiment_is_refused() -> None:
    done = CliRunner().invoke(main, ["reproduce", "imagenet"])
    assert done.exit_code == 2
    assert (
        "expected one of mnist, mnist-tuned, cifar10, cifar10-uncentred, got 'imagenet'"
        in done.output
    )


def test_the_papers_settings_are_the_papers() -> None:
    plan = REPRODUCTIONS["mnist"].experiment().plan
    assert (plan.n_layers, plan.eps, plan.step, plan.step_decay) == (200, 0.5, 0.5, 0.933)
    assert (plan.sharpness, plan.n_components, plan.features) == (1.0, 28, "pixels")
    plan = REPRODUCTIONS["cifar10"].experiment().plan
    assert (plan.n_layers, plan.eps, plan.step, plan.step_decay) == (50, 0.5, 0.5, 0.933)
    assert (plan.sharpness, plan.n_kernels) == (1.0, 5)
    assert 15 in REPRODUCTIONS["cifar10"].readings.values()


def test_the_papers_figures_are_as_printed() -> None:
    assert PAPER["mnist"]["row"] == [0.999, 0.990, 0.984, 0.975, 0.961]
    assert PAPER["cifar10"]["row"] == [0.875, 0.678, 0.588, 0.547, 0.539]
    assert PAPER["cifar10"]["rivals"]["iCaRL"][-1] == 0.48


@pytest.mark.usefixtures("no_pictures")
def test_a_plan_of_ones_own_from_a_file_and_words(tmp_path: Path) -> None:
    (tmp_path / "plan.toml").write_text('data = "digits"\nn_layers = 3\ntrain_per_class = 25\n')
    words = ["run", "--config", str(tmp_path / "plan.toml"), "--set", "n_tasks=2"]
    done = CliRunner().invoke(main, [*words, "--out", str(tmp_path / "out")])
    assert done.exit_code == 0, done.output
    record = json.loads((tmp_path / "out" / "record.json").read_text())
    (variant,) = record["methods"]
    assert variant["settings"]["n_layers"] == 3
    assert [row["classes"] for row in record["stream"]] == [
        [0, 1, 2, 3, 4],
        [5, 6, 7, 8, 9],
    ]
    assert variant["name"] == "28 components"
    assert record["paper"] is None
    assert variant["runs"][0]["joint"]["equivalence"]["file"] is True
    said = " ".join(done.output.split())
    assert "paper" not in said
    assert f"{variant['runs'][0]['summary']['average']:.3f}" in said
    assert (tmp_path / "out" / "report.html").exists()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["run", "--set", "n_layer=3"], "got 'n_layer'"),
        (["run", "--set", "n_layers"], "expected KEY=VALUE, got 'n_layers'"),
        (["run", "--set", "n_layers=many"], "expected n_layers to be a whole number"),
        (["run", "--set", "n_tasks=many"], "expected n_tasks to be a whole number from 1 on"),
        (["run", "--set", "seed=-1"], "expected seed to be a whole number from 0 to"),
        (["run", "--set", "tasks=3"], "expected tasks as lists of classes"),
        (["run", "--config", "nowhere.toml"], "cannot read nowhere.toml"),
        (["reproduce", "mnist", "--seeds", "0,x"], "expected seeds to be a whole number"),
        (["tune", "--components", "few"], "expected components to be a whole number"),
        (["tune", "--per-class", "0"], "expected at least one sample of each class"),
        (["run", "--data", "imagenet"], "There is no data set 'imagenet'"),
        (["run", "--set", "n_components=64"], "expected n_components below n_features = 64"),
        (["run", "--device", "abacus"], "expected a device that PyTorch can use here"),
        (
            ["tune", "--data", "digits", "--search", "depth=3"],
            "expected settings among n_layers, eps",
        ),
        (["tune", "--components", "64,99"], "expected numbers of components below"),
    ],
)
def test_a_mistake_is_one_line_and_exit_code_2(
    tmp_path: Path, words: list[str], message: str
) -> None:
    done = CliRunner().invoke(main, [*words, "--out", str(tmp_path / "out")])
    assert done.exit_code == 2
    assert message in done.stderr
    assert done.stderr.count("\n") == 1


def test_tune_prints_the_best_and_keeps_all(tmp_path: Path) -> None:
    words = ["tune", "--out", str(tmp_path), "--set", "train_per_class=30", "--set", "n_layers=2"]
    words += ["--search", "eps=0.5,1", "--components", "3,9", "--per-class", "8"]
    done = CliRunner().invoke(main, words)
    assert done.exit_code == 0, done.output
    record = json.loads((tmp_path / "tune.json").read_text())
    assert len(record["candidates"]) == 4
    assert record["chosen_on"] == "80 training samples, at most 8 of each class"
    assert f"{record['candidates'][0]['held_out_accuracy']:.4f}" in done.output
