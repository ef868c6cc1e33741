"""What is printed: no markup, no control characters, wherever the text came from."""

from __future__ import annotations

import csv
import io
import os
import pty
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from redunet import ReduNetClassifier
from redunet.cli.printing import note, say, say_json, table
from redunet.data import merging
from tests.own_data import IMAGES, done, redunet, write_images

HOSTILE = "a\x1b]0;owned\x07[bold]b[/]\x9b2J\u202ec\u2028\udcff"
SHOWN = "a\\x1b]0;owned\\x07[bold]b[/]\\x9b2J\\u202ec\\u2028\\udcff"


def test_lines_and_cells_are_shown_as_they_are(capsys: pytest.CaptureFixture[str]) -> None:
    say(HOSTILE, table(HOSTILE, [HOSTILE, "n"], [[HOSTILE, 1]]))
    assert capsys.readouterr().out.count(SHOWN) == 4


def test_notes_are_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    note(f"cannot read {HOSTILE}\nredunet: all is well")
    assert capsys.readouterr().err == (f"redunet: cannot read {SHOWN}\\nredunet: all is well\n")


def test_json_is_plain_ascii(capsys: pytest.CaptureFixture[str]) -> None:
    say_json({"class": HOSTILE + "\x7f"})
    said = capsys.readouterr().out
    assert said.strip().isprintable()
    assert said.isascii()


FORMULA = "=HYPERLINK(1)"


@pytest.fixture
def hostile(tmp_path: Path) -> tuple[Path, Path]:
    """A model and an image folder with a class and an image that are called like formulas."""
    folder = write_images(tmp_path / "images", range(20))
    (folder / "ant").rename(folder / FORMULA)
    (folder / "bee").rename(folder / "\x1b[31mred")
    done("learn", tmp_path / "m", folder, "--set", "n_layers=2")
    return tmp_path / "m", folder


def test_csv_holds_no_formulas_unless_asked_to(hostile: tuple[Path, Path], tmp_path: Path) -> None:
    model, folder = hostile
    given = ReduNetClassifier.load(model).predict(IMAGES[:20])
    assert FORMULA in given
    for words, label in ((), f"'{FORMULA}"), (("--raw-csv",), FORMULA):
        done("predict", model, folder, "-o", tmp_path / "p.csv", *words)
        for text in (
            (tmp_path / "p.csv").read_text(),
            done("predict", model, folder, *words).stdout,
        ):
            found = {row["label"] for row in csv.DictReader(io.StringIO(text))}
            assert label in found
            assert not {FORMULA, f"'{FORMULA}"} - {label} & found
            assert "\x1b[31mred" in found  # a file takes names as they are
    np.savez(tmp_path / "n.npz", X=IMAGES[:20], y=np.arange(20) % 2 - 2)
    done("learn", tmp_path / "n", tmp_path / "n.npz", "--set", "n_layers=2")
    said = done("predict", tmp_path / "n", tmp_path / "n.npz").stdout
    assert {row["label"] for row in csv.DictReader(io.StringIO(said))} == {"-1", "-2"}


def test_no_command_sends_a_name_to_the_terminal(hostile: tuple[Path, Path]) -> None:
    model, folder = hostile
    for words in (
        ("evaluate", model, folder),
        ("evaluate", model, folder, "--json"),
        ("inspect", model),
        ("forget", model, "\x1b[31m"),
        ("unlearn", model, folder / "\x1b[31mred"),
        ("verify", folder / "\x1b[31mred"),
        ("predict", model, folder, "--json"),
        ("\x1b[31mx",),
        ("learn", model, folder, "--\x1b[31m"),
    ):
        result = redunet(*words)
        assert "\x1b" not in result.output
        assert "x1b[31m" in result.output or "u001b[31m" in result.output


def test_predictions_on_a_terminal_hold_no_control_characters(hostile: tuple[Path, Path]) -> None:
    model, folder = hostile
    ours, theirs = pty.openpty()
    with open(ours, "rb", buffering=0) as screen:
        subprocess.run(
            [sys.executable, "-m", "redunet", "predict", model, folder],
            stdin=subprocess.DEVNULL,
            stdout=theirs,
            stderr=subprocess.PIPE,
            env={**os.environ, "OMP_NUM_THREADS": "1"},
            check=True,
        )
        os.close(theirs)
        seen = screen.read(100_000).decode()
    assert "\\x1b[31mred" in seen
    assert "\x1b" not in seen


def test_many_classes_are_summed_up_the_worst_first(tmp_path: Path) -> None:
    k = 30
    X = np.eye(k).repeat(4, axis=0) + 0.01
    y = np.array([f"class {i:02d}" for i in range(k)]).repeat(4)
    np.savez(tmp_path / "d.npz", X=X, y=y)
    done("learn", tmp_path / "m", tmp_path / "d.npz", "--set", "n_layers=0")
    wrong = y.copy()
    wrong[:3], wrong[8] = "class 07", "class 09"
    np.savez(tmp_path / "e.npz", X=X, y=wrong)
    said = done("evaluate", tmp_path / "m", tmp_path / "e.npz").stdout
    lines = [" ".join(line.split()) for line in said.splitlines()]
    assert lines[:2] == [
        "Accuracy 0.9667: 116 of 120 samples.",
        "Recall of 30 classes with samples: mean 0.9790, median 1.0000, lowest 0.5714; "
        "1 for 28 of them.",
    ]
    first = lines.index("class 07 7 4 0.5714 1.0000")
    assert lines[first + 1] == "class 09 5 4 0.8000 1.0000"
    mistakes = lines.index("class 07 class 00 3 42.9%")
    assert lines[mistakes + 1] == "class 09 class 02 1 20.0%"
    assert lines[-1] == "All classes, and the confusion matrix, are in the output of --json."
    assert len(lines) < 30


def test_merging_a_model_with_itself_is_pointed_out(tmp_path: Path) -> None:
    for name, rows in (("a", range(10)), ("same", range(10)), ("b", range(10, 20))):
        done("learn", tmp_path / name, write_images(tmp_path / f"of-{name}", rows))
    models = [tmp_path / name for name in ("a", "b", "same")]
    said = redunet("merge", *models, "-o", tmp_path / "all")
    assert f"redunet: {tmp_path / 'a'} and {tmp_path / 'same'} are equal, and the" in said.stderr
    assert said.stderr.count("\n") == 1
    assert "30 samples" in said.stdout
    said = redunet("merge", *models[:2], "-o", tmp_path / "two")
    assert said.exit_code == 0
    assert said.stderr == ""
    told: list[tuple[str, float]] = []

    def progress(what: str, share: float) -> None:
        told.append((what, share))

    merging.merge(models[:2], tmp_path / "more", tell=print, progress=progress)
    assert told == [(f"merging {models[1]}", 0.5)]
