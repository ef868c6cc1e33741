"""What the README says is so."""

from __future__ import annotations

import hashlib
import re
import shlex
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from sklearn.datasets import load_digits

from benchmarks import readme as speed
from redunet import ReduNetClassifier
from redunet_lab.report.numbers import is_same
from redunet_lab.report.readme import filled, main
from tests.own_data import done
from tests.records import README, RECIPES, RESULTS, ROOT, VECTORS, record


def test_every_python_example_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    assert blocks
    for block in blocks:
        exec(compile(block, "README.md", "exec"), {})
    # Class 3 was forgotten, so the digit 3 gets another label.
    assert capsys.readouterr().out.split()[:3] == ["[0", "1", "2"]
    assert 160_000 < (tmp_path / "digits.safetensors").stat().st_size < 180_000


def test_the_walk_through_the_tool_works(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    images, labels = load_digits(return_X_y=True)
    names = ["magpie", "robin", "wren", "rook", "swift"]
    shares = {
        "photos": (range(4), slice(0, 12)),
        "test-photos": (range(4), slice(12, 20)),
        "more-photos": (range(5), slice(20, 26)),
        "withdrawn-photos": ([1], slice(20, 23)),
        "their-photos": (range(3, 5), slice(26, 34)),
    }
    for folder, (classes, rows) in shares.items():
        for digit in classes:
            place = tmp_path / folder / names[digit]
            place.mkdir(parents=True)
            of_class = images[labels == digit].reshape(-1, 8, 8)
            for index, image in enumerate(of_class[rows]):
                Image.fromarray((image * 15).astype(np.uint8)).save(place / f"{index}.png")
    shutil.copytree(tmp_path / "test-photos" / "wren", tmp_path / "unknown")
    section = README[README.index("## On your own data") :]
    block = re.findall(r"```sh\n(.*?)```", section, re.DOTALL)[0]
    said = {}
    for line in block.splitlines():
        words = shlex.split(line, comments=True)
        assert words[0] == "redunet"
        said[" ".join(words[1:3])] = done(*words[1:]).stdout
    assert "Learnt 30 samples of 5 classes, 1 of them new." in said["learn birds.safetensors"]
    accuracy = re.findall(r"Accuracy ([\d.]+)", said["evaluate birds.safetensors"])
    assert float(accuracy[0]) > 0.9
    given = [row.split(",")[1] for row in (tmp_path / "labels.csv").read_text().splitlines()[1:]]
    assert given.count("wren") >= len(given) - 1
    assert "Forgot magpie." in said["forget birds.safetensors"]
    assert "Withdrew 3 samples." in said["unlearn birds.safetensors"]
    counts = {"robin": 15, "rook": 26, "swift": 14, "wren": 18}
    assert f"4 classes, {sum(counts.values())} samples" in said["inspect both.safetensors"]
    both = ReduNetClassifier.load("both.safetensors")
    assert dict(zip(both.classes_.tolist(), both.moments_.counts, strict=True)) == counts
    digest = hashlib.sha256((tmp_path / "both.safetensors").read_bytes()).hexdigest()
    assert f"sha256 {digest}" in said["verify both.safetensors"]


def test_the_tables_are_those_of_the_records() -> None:
    assert filled(README, ROOT) == README
    assert filled(RESULTS, ROOT / "results") == RESULTS
    assert filled(VECTORS, ROOT / "results") == VECTORS
    assert filled(RECIPES, ROOT / "results") == RECIPES


def test_the_ratios_of_speed_are_those_of_the_records() -> None:
    found = speed.records(ROOT / "benchmarks" / "results")
    assert speed.with_ratios(RESULTS, found) == RESULTS
    there = (ROOT / "benchmarks" / "README.md").read_text(encoding="utf-8")
    assert speed.with_tables(there, found) == there
    answers = (ROOT / "benchmarks" / "answers.md").read_text(encoding="utf-8")
    assert speed.with_answers(answers, ROOT / "benchmarks" / "results") == answers
    assert speed.with_labels(answers, ROOT / "benchmarks" / "results") == answers
    assert answers.count("| 0 of ") >= 16  # not a label differs
    tuning = (ROOT / "docs" / "tuning.md").read_text(encoding="utf-8")
    record = ROOT / "benchmarks" / "results" / "calibration.json"
    assert speed.with_calibration(tuning, record) == tuning
    scale = (ROOT / "benchmarks" / "scale.md").read_text(encoding="utf-8")
    assert speed.with_dask(scale, ROOT / "benchmarks" / "results" / "dask-cpu.json") == scale
    assert scale.count("| workers sent, MB |") == 1
    row = next(
        r for r in found["cpu"]["rows"] if r["case"] == "build a layer, d 784, k 10, float64"
    )
    moved = {"cpu": {**found["cpu"], "rows": [{**row, "over_floor": 123.4}]}}
    assert "| build a layer: time / floor | 123 |" in speed.with_ratios(RESULTS, moved)


def test_a_table_that_differs_is_noticed(tmp_path: Path) -> None:
    shutil.copytree(ROOT / "results", tmp_path / "results")
    page = tmp_path / "results" / "tables.md"
    page.write_text(RESULTS)
    assert main([str(page), "--check"]) == 0
    page.write_text(RESULTS.replace("| incremental | 1.0000", "| incremental | 1.0001"))
    assert main([str(page), "--check"]) == 1
    assert main([str(page)]) == 0
    assert page.read_text() == RESULTS


def mean_last(variant: dict[str, Any], key: str = "accuracy") -> float:
    return float(np.mean([one["tasks"][-1][key] for one in variant["runs"]]))


def test_the_words_between_the_tables_are_the_records_too() -> None:
    calibration_error = record("digits-demo")["methods"][0]["runs"][0]["calibration_error"]
    assert f"`predict_proba` there is {calibration_error:.4f}" in RESULTS
    chosen, published = record("cifar10")["methods"]
    assert len(chosen["runs"]) == 5
    words = " ".join(RESULTS.split())
    assert f"This is {round(mean_last(chosen), 3) - 0.539:.3f} above the paper's last task" in words
    below = 0.539 - round(mean_last(published), 3)
    assert f"at the paper's 15 components it stays {below:.3f} below" in words
    uncentred = record("cifar10-uncentred")["methods"][0]
    deviation = np.std([one["tasks"][-1]["accuracy"] for one in uncentred["runs"]], ddof=1)
    assert f"it reached {mean_last(uncentred):.3f} ± {deviation:.3f} (" in words
    gain = mean_last(chosen) - mean_last(chosen, "no_layers_accuracy")
    assert f"The layers add {gain:.3f} over" in words


def last_of(name: str) -> dict[str, float]:
    """Mean accuracy after the last task by method."""
    methods = record(f"compare-{name}")["methods"]
    return {
        one["method"]: float(np.mean([run["tasks"][-1]["accuracy"] for run in one["runs"]]))
        for one in methods
    }


def test_the_words_about_the_comparisons_are_the_records() -> None:
    words = " ".join(RESULTS.split())
    digits, mnist, cifar10 = (last_of(name) for name in ("digits", "mnist", "cifar10"))
    assert len(digits) == len(mnist) == len(cifar10) == 13
    for last in (digits, mnist):
        assert last["qda"] == max(last.values()) > last["redunet"]
    theirs = record("compare-cifar10")["published"]["last"]
    names = ("joint training", "iCaRL", "ER", "DER++")
    assert ", ".join(f"{name} {theirs[name]:.3f}" for name in names) in words
    changed = {m["method"]: m["changed"] for m in record("compare-cifar10")["methods"]}
    fewer = {"epochs": {"usual": 50, "here": 5}}
    assert {m: c for m, c in changed.items() if c} == dict.fromkeys(
        ("finetune", "lwf", "ewc", "si"), fewer
    )


def test_the_rivals_are_as_good_as_they_are_published_to_be() -> None:
    """Within five points; around one in five where forgetting is expected; joint near its own."""
    mnist, cifar10 = last_of("mnist"), last_of("cifar10")
    for last in (mnist, cifar10):
        assert all(0.17 < last[name] < 0.25 for name in ("finetune", "lwf", "ewc", "si"))
    for name, published in {"icarl": 0.705, "er": 0.804, "derpp": 0.856}.items():
        assert mnist[name] > published - 0.05
    assert mnist["joint"] > 0.956 - 0.02
    assert cifar10["joint"] > 0.90
    assert abs(cifar10["er"] - 0.448) < 0.05
    assert abs(cifar10["derpp"] - 0.649) < 0.05
    assert cifar10["icarl"] > 0.49 - 0.06


@pytest.mark.parametrize("name", ["mnist", "cifar10"])
def test_incremental_and_joint_were_identical_on_real_data(name: str) -> None:
    whole = record(name)
    first = whole["methods"][0]["runs"][0]
    assert is_same(first["joint"]["equivalence"])
    assert first["joint"]["accuracy"] == first["tasks"][-1]["accuracy"]
    assert whole["stream"][-1]["test_samples"] == 10_000


def test_the_settings_that_were_chosen_are_those_that_were_run() -> None:
    best = record("tune/mnist-standardize")["chosen"]["held_out"]
    settings = record("mnist-tuned")["methods"][0]["settings"]
    assert {key: settings[key] for key in ("eps", "step", "sharpness", "n_components")} == {
        key: best[key] for key in ("eps", "step", "sharpness", "n_components")
    }
    total = sum(
        len(record(f"tune/mnist-{name}")["candidates"])
        for name in ("pixels", "standardize", "standardize-pixel")
    )
    assert f"has all {total} candidates" in " ".join(RESULTS.split())
    for name, tunings in (
        ("cifar10", ("centred-0", "centred-1")),
        ("cifar10-uncentred", ("first-task", "first-task-1")),
    ):
        tried = [record(f"tune/cifar10-lift-{tuning}")["candidates"] for tuning in tunings]
        accuracy = {
            r: sum(c["held_out_accuracy"] for cs in tried for c in cs if c["n_components"] == r)
            for r in {c["n_components"] for c in tried[0]}
        }
        chosen = record(name)["methods"][0]["settings"]["n_components"]
        assert chosen == max(accuracy, key=lambda r: accuracy[r])


def test_cifar10_reaches_its_mark() -> None:
    chosen = record("cifar10")["methods"][0]
    assert len(chosen["runs"]) == 5
    assert chosen["settings"]["centred"] is True
    assert mean_last(chosen) >= 0.539


def test_the_words_about_the_records_are_the_records() -> None:
    words = " ".join((ROOT / "results" / "README.md").read_text(encoding="utf-8").split())

    def best(name: str) -> str:
        chosen = record(f"tune/cifar10-lift-{name}")["chosen"]["held_out"]
        return f"{chosen['held_out_accuracy']:.3f}"

    assert f"no mean image {best('nowhere-0')};" in words
    assert f"instead of each pixel {best('channel-0')};" in words
    assert f"as in the paper, {best('whole-training-set')};" in words
    assert f"no ReLU {best('linear-first-task')};" in words
    first = f"{best('first-task')} (kernel seed 1: {best('first-task-1')});"
    assert f"first task with ReLU, {first}" in words
    assert f"over ε and λ reached {best('search')}." in words
    assert f"subtracted, {best('centred-0')} (kernel seed 1: {best('centred-1')})." in words
    published, tuned = record("mnist"), record("mnist-tuned")
    assert f"{published['seconds'] / 60:.0f} minutes with the joint comparison" in words
    assert f"{memory(published):.1f} GB over the five tasks" in words
    assert f"{tuned['seconds'] / 60:.0f} minutes and {memory(tuned):.1f} GB" in words


def memory(whole: dict[str, Any]) -> float:
    return float(whole["methods"][0]["runs"][0]["peak_memory_bytes"]) / 1e9


def test_mnist_is_within_its_mark_of_the_paper() -> None:
    whole = record("mnist")
    rows = whole["methods"][0]["runs"][0]["tasks"]
    for row, theirs in zip(rows, whole["paper"]["row"], strict=True):
        assert row["accuracy"] > theirs - 0.004


def test_the_readme_is_short() -> None:
    assert len(README.splitlines()) <= 120


def test_the_make_targets_exist() -> None:
    makefile = (ROOT / "Makefile").read_text()
    for target in re.findall(r"^make (\w+)", README, re.MULTILINE):
        assert f"\n{target}:" in makefile
