"""Help, typing mistakes, and tables on a narrow terminal, as somebody new meets them."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.main import get_command

from redunet.cli.app import main
from redunet.cli.messages import evaluated
from tests.own_data import done, redunet, refused

PROGRAM: Any = get_command(main)
COMMANDS = [
    *(name for name in PROGRAM.commands if name not in ("receipts", "tune-data", "ablate")),
    "receipts verify",
    "tune --data digits",
]


@pytest.fixture(autouse=True)
def narrow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")


def test_the_program_alone_says_where_to_start() -> None:
    result = redunet()
    assert (result.exit_code, result.stderr) == (0, "")
    assert "Start here:" in result.stdout
    assert re.search(r"\n +redunet demo +a first look", result.stdout)


@pytest.mark.parametrize("name", COMMANDS)
def test_help_fits_a_terminal_and_its_examples_are_commands(name: str) -> None:
    words = done(*name.split(), "--help").stdout
    assert "…" not in words
    if "Settings of the stream" not in words:  # a list that is not filled
        assert max(map(len, words.splitlines())) <= 80
    examples = re.findall(r"^ {6}(redunet .*(?:\\\\ *\n {8}.*)?)$", words, re.MULTILINE)
    assert any(one.startswith(f"redunet {name.partition(' --')[0]}") for one in examples), words
    for example in examples:
        _, command, *rest = shlex.split(example.replace("\\", " "))
        known = PROGRAM.commands["tune-data" if command == "tune" and "--data" in rest else command]
        if command == "receipts":
            known = known.commands[rest[0]]
        options = {option for one in known.params for option in one.opts}
        assert {word for word in rest if word.startswith("-")} <= options


@pytest.mark.parametrize(
    ("words", "end"),
    [
        ("lern", "no such command 'lern': did you mean 'learn', 'unlearn'? See redunet --help"),
        (
            "learn m --recpie x",
            "did you mean '--device', '--recipe', '--resize'? See redunet learn --help",
        ),
        ("run --set n_layer=3", "got 'n_layer': did you mean 'n_layers'?"),
        ("compare --methods redunet,ldaa", "got 'ldaa': did you mean 'lda'?"),
    ],
)
def test_a_word_that_is_nearly_right(tmp_path: Path, words: str, end: str) -> None:
    (tmp_path / "x").mkdir()
    assert refused(*(tmp_path / word if word in "mx" else word for word in words.split())).endswith(
        end
    )


def test_a_label_column_that_is_nearly_right(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("a,cultivar\n1,x\n2,y\n")
    said = refused("learn", tmp_path / "m", tmp_path / "t.csv", "--label", "cultivr")
    assert said.endswith("but there are only a, cultivar: did you mean 'cultivar'?")


def test_a_confusion_matrix_keeps_the_names_of_its_classes() -> None:
    labels = [f"a-long-name-{index}" for index in range(12)]
    rows = [
        {"class": one, "samples": 2, "correct": 2, "recall": 1.0, "precision": 1.0}
        for one in labels
    ]
    matrix = [[2 * (i == j) for j in range(12)] for i in range(12)]
    found = {"classes": rows, "labels": labels, "confusion": matrix}
    said = "\n".join(evaluated({"accuracy": 1.0, "correct": 24, "samples": 24, **found}))
    assert max(map(len, said.splitlines())) <= 80
    assert re.search(r"^ *12 a-long-name-11 ( +·){11} +2$", said, re.MULTILINE), said


def test_many_classes_are_summed_up_by_the_closest_pairs(tmp_path: Path) -> None:
    X = np.random.RandomState(0).randn(75, 6)
    y = np.array([f"class {index % 25}" for index in range(75)])
    X[y == "class 7"] = X[y == "class 3"] + 1e-3
    np.savez(tmp_path / "d.npz", X=X, y=y)
    model = tmp_path / "m.safetensors"
    done("learn", model, tmp_path / "d.npz", "--set", "n_layers=1", "--set", "n_components=2")
    said = done("inspect", model).stdout
    assert "Samples of a class: 3 to 3." in said
    assert "ΔR before each layer" in said
    first = said.partition("─\n")[2].splitlines()[0].split()
    assert first[:4] == ["class", "3", "class", "7"]
    assert len(re.findall("^  class ", said, re.MULTILINE)) == 11
