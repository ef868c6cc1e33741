"""The tables of the pages on unknown classes and on samples without labels are those of records."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from benchmarks import unknown, unlabelled

ROOT = Path(__file__).parents[1]


def rows(name: str) -> Any:
    return json.loads((ROOT / "benchmarks" / "results" / f"{name}.json").read_text())["rows"]


@pytest.mark.parametrize("case", unknown.CASES)
def test_tables_of_unknown_classes(case: str) -> None:
    page = (ROOT / "docs" / "unknown.md").read_text(encoding="utf-8")
    assert unknown.summary(rows(f"unknown-{case}")) in page


def test_what_was_asked_for_is_reached() -> None:
    first = rows("unknown-clinc150")[0]
    assert first["auc"] >= 0.97
    assert first["found"] >= 0.8
    assert first["rejected"] <= 0.05


def test_the_table_of_samples_without_labels() -> None:
    found = rows("unlabelled-clinc150")
    page = (ROOT / "docs" / "unlabelled.md").read_text(encoding="utf-8")
    assert unlabelled.summary(found) in page
    assert {(row["labels"], row["seed"]) for row in found} == {
        (n, seed) for n in unlabelled.LABELS for seed in range(3)
    }
    assert all(row["after"]["test"] > row["before"]["test"] for row in found)
