"""What the README says is so."""

from __future__ import annotations

import hashlib
import re
import shlex
import shutil
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from sklearn.datasets import load_digits

from benchmarks import readme as speed
from redunet import ReduNetClassifier
from redunet_lab.report.readme import main
from tests.own_data import done
from tests.records import README, RESULTS, ROOT


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
    assert "Unlearnt 3 samples." in said["unlearn birds.safetensors"]
    counts = {"robin": 15, "rook": 26, "swift": 14, "wren": 18}
    assert f"4 classes, {sum(counts.values())} samples" in said["inspect both.safetensors"]
    both = ReduNetClassifier.load("both.safetensors")
    assert dict(zip(both.classes_.tolist(), both.moments_.counts, strict=True)) == counts
    digest = hashlib.sha256((tmp_path / "both.safetensors").read_bytes()).hexdigest()
    assert f"sha256 {digest}" in said["verify both.safetensors"]


def test_the_tables_are_those_of_the_records() -> None:
    assert main([str(ROOT), "--check"]) == 0


def test_a_table_that_differs_is_noticed(tmp_path: Path) -> None:
    shutil.copytree(ROOT / "results", tmp_path / "results")
    shutil.copy(ROOT / "README.md", tmp_path)
    page = tmp_path / "results" / "tables.md"
    right = page.read_text()
    assert main([str(tmp_path), "--check"]) == 0
    page.write_text(right.replace("| 1.000 | 0.988 |", "| 1.000 | 0.998 |"))
    assert main([str(tmp_path), "--check"]) == 1
    assert main([str(tmp_path)]) == 0
    assert page.read_text() == right


def test_the_ratios_of_speed_are_those_of_the_records() -> None:
    found = speed.records(ROOT / "benchmarks" / "results")
    assert speed.with_ratios(RESULTS, found) == RESULTS
    there = (ROOT / "benchmarks" / "README.md").read_text(encoding="utf-8")
    assert speed.with_tables(there, found) == there
    answers = (ROOT / "benchmarks" / "answers.md").read_text(encoding="utf-8")
    assert speed.with_answers(answers, ROOT / "benchmarks" / "results") == answers
    assert speed.with_labels(answers, ROOT / "benchmarks" / "results") == answers
    tuning = (ROOT / "docs" / "tuning.md").read_text(encoding="utf-8")
    record = ROOT / "benchmarks" / "results" / "calibration.json"
    assert speed.with_calibration(tuning, record) == tuning
    scale = (ROOT / "benchmarks" / "scale.md").read_text(encoding="utf-8")
    assert speed.with_dask(scale, ROOT / "benchmarks" / "results" / "dask-cpu.json") == scale


def test_the_make_targets_exist() -> None:
    makefile = (ROOT / "Makefile").read_text()
    for target in re.findall(r"^make (\w+)", README, re.MULTILINE):
        assert f"\n{target}:" in makefile
