"""Column names on the command line: the same file in every order, or a refusal of one line."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest

from tests.own_data import done, refused

pytestmark = pytest.mark.usefixtures("one_thread")

RNG = np.random.default_rng(5)
X = RNG.standard_normal((18, 3))
y = np.repeat([0, 1, 2], 6)
SET = ("--set", "n_layers=1", "--set", "n_components=2")


def table(label: int) -> pa.Table:
    rows = X[y == label]
    columns = {name: rows[:, index] for index, name in enumerate("abc")}
    return pa.table({**columns, "label": y[y == label]})


def csv(path: Path, label: int) -> Path:
    pyarrow.csv.write_csv(table(label), path.with_suffix(".csv"))
    return path.with_suffix(".csv")


def parquet(path: Path, label: int) -> Path:
    pyarrow.parquet.write_table(table(label), path.with_suffix(".parquet"))
    return path.with_suffix(".parquet")


def npz(path: Path, label: int) -> Path:
    np.savez(path.with_suffix(".npz"), X=X[y == label], y=y[y == label])
    return path.with_suffix(".npz")


def npz_of_floats(path: Path, label: int) -> Path:
    np.savez(path.with_suffix(".npz"), X=X[y == label], y=y[y == label].astype(float))
    return path.with_suffix(".npz")


Writer = Callable[[Path, int], Path]
NAMED: list[Writer] = [csv, parquet]
PLAIN: list[Writer] = [npz, npz_of_floats]


@pytest.mark.parametrize("kinds", [NAMED, PLAIN], ids=["named", "plain"])
def test_mixtures_of_formats_in_any_order_make_one_file(
    tmp_path: Path, kinds: list[Writer]
) -> None:
    orders = [(0, 1, 2), (2, 0, 1), (1, 2, 0)]
    choices = [tuple(kinds[index % 2] for index in range(start, start + 3)) for start in (0, 1)]
    files = set()
    for number, (order, choice) in enumerate(itertools.product(orders, choices)):
        place = tmp_path / str(number)
        place.mkdir()
        model = place / "model"
        for label, write in zip(order, choice, strict=True):
            new = () if model.exists() else SET
            done("learn", model, write(place / f"data{label}", label), *new)
        files.add(model.read_bytes())
        done("forget", model, "1")
        done("unlearn", model, choice[1](place / "data2", 2))
        only = place / "only"
        done("learn", only, kinds[1](place / "only0", 0), *SET)
        assert model.read_bytes() == only.read_bytes()
    assert len(files) == 1


def test_data_with_names_and_without_is_refused(tmp_path: Path) -> None:
    tables, arrays = csv(tmp_path / "t", 0), npz(tmp_path / "n", 1)
    for first, second, message in (
        (tables, arrays, f"expected the columns 'a', 'b', 'c', got {arrays} without column names"),
        (arrays, tables, f"expected data without column names, .* {tables} with the columns 'a'"),
    ):
        model = tmp_path / f"{first.name}.model"
        assert_said(message, refused("learn", model, first, second, *SET))
        assert not model.exists()
        done("learn", model, first, *SET)
        before = model.read_bytes()
        assert_said(message, refused("learn", model, second))
        assert_said(message, refused("unlearn", model, second))
        assert model.read_bytes() == before
        done("predict", model, second)


def assert_said(pattern: str, said: str) -> None:
    assert re.search(pattern, said), said


def test_an_error_names_the_rows_it_is_about(tmp_path: Path) -> None:
    (tmp_path / "good.csv").write_text("label,a,b\n0,1,2\n1,3,4\n")
    (tmp_path / "bad.csv").write_text("label,a,b\n0,1,2\n1,3,-4\n")
    model = tmp_path / "m"
    settings = ("--set", "normalize=class", "--set", "input_range=0,9", "--set", "n_layers=1")
    said = refused("learn", model, tmp_path / "good.csv", tmp_path / "bad.csv", *settings)
    assert "bad.csv, rows 1 to 2: expected values within input_range=(0, 9)" in said
    assert not model.exists()
