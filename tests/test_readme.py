"""What the README says is so."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")


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


def test_the_digits_table_is_the_records() -> None:
    record = json.loads((ROOT / "results" / "digits-demo.json").read_text())
    rows = record["tasks"]
    assert f"| incremental | {cells(rows, 'accuracy')} |" in README
    assert f"| joint | {cells(rows, 'joint_accuracy')} |" in README
    assert all(
        row["equivalence"]
        == {"moments": True, "network": True, "file": True} | {"labels_that_differ": 0}
        for row in rows
    )
    assert f"`predict_proba` there is {record['calibration_error']:.4f}" in README


def cells(rows: list[dict[str, Any]], key: str) -> str:
    return " | ".join(f"{row[key]:.4f}" for row in rows)


@pytest.mark.parametrize("name", re.findall(r"\]\(([^)#:]+)\)", README))
def test_every_link_leads_somewhere(name: str) -> None:
    assert (ROOT / name).exists()


def test_the_make_targets_exist() -> None:
    makefile = (ROOT / "Makefile").read_text()
    for target in re.findall(r"^make (\w+)", README, re.MULTILINE):
        assert f"\n{target}:" in makefile
