"""Samples learnt several times weigh as much, exactly: the way to weight a rare class."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from redunet import ReduNetClassifier
from tests.conftest import classes_on_subspaces
from tests.own_data import done, write_csv
from tests.records import ROOT

pytestmark = pytest.mark.usefixtures("one_thread")


def test_the_example_does_what_it_says(capsys: pytest.CaptureFixture[str]) -> None:
    page = (ROOT / "docs" / "tables.md").read_text(encoding="utf-8")
    blocks = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    assert len(blocks) == 2
    for block, said in zip(blocks, ([0.97], [0.73, 0.84]), strict=True):
        exec(compile(block, "docs/tables.md", "exec"), {})
        found = [round(float(line), 2) for line in capsys.readouterr().out.split()]
        assert found == [float(one) for one in re.findall(r"# ([\d.]+)", block)] == said


def test_repeated_samples_are_taken_back_as_often(tmp_path: Path) -> None:
    X, y = classes_on_subspaces(k=3, d=8, per_class=12, rank=2)
    model = ReduNetClassifier(n_layers=3).fit(X, y)
    model.save(tmp_path / "once")
    rare: Any = X[y == 1][:4]
    model.partial_fit(np.repeat(rare, 5, axis=0), [1] * 20)
    once = ReduNetClassifier(n_layers=3).fit(X, y)
    for _ in range(5):
        once.partial_fit(rare, [1] * 4)
    assert model.moments_ == once.moments_
    assert model.moments_.counts == (12, 32, 12)
    model.unlearn(np.repeat(rare, 5, axis=0), [1] * 20).save(tmp_path / "back")
    assert (tmp_path / "back").read_bytes() == (tmp_path / "once").read_bytes()


def test_files_may_be_named_several_times(tmp_path: Path) -> None:
    data, rare = write_csv(tmp_path / "all", range(20)), write_csv(tmp_path / "rare", range(3))
    done("learn", tmp_path / "m", data, rare, rare)
    done("learn", tmp_path / "n", data)
    done("learn", tmp_path / "n", rare)
    done("learn", tmp_path / "n", rare)
    assert (tmp_path / "m").read_bytes() == (tmp_path / "n").read_bytes()
