"""The table of processes in benchmarks/scale.md is that of the record, and shows what it says."""

from __future__ import annotations

import json
from itertools import groupby

from benchmarks.readme import with_ranks
from tests.records import ROOT

RESULTS = ROOT / "benchmarks" / "results"


def test_the_table_is_the_record() -> None:
    page = (ROOT / "docs" / "scale.md").read_text(encoding="utf-8")
    assert page.count("ranks table: ") == 1
    assert with_ranks(page, RESULTS) == page


def test_memory_falls_with_processes_no_label_differs_and_bytes_are_as_documented() -> None:
    rows = json.loads((RESULTS / "ranks-cpu.json").read_text())["rows"]
    for case, of_case in groupby(rows, key=lambda row: row["case"]):
        one, two, four = of_case
        assert (one["ranks"], two["ranks"], four["ranks"]) == (1, 2, 4), case
        assert two["beyond_imports"] < 0.6 * one["beyond_imports"]
        assert four["beyond_imports"] < 0.35 * one["beyond_imports"]
        for row in (two, four):
            layers, n, d, k = 3, row["labels_compared"], 512, one["classes"]
            build = layers * (8 * d * d + 16)
            label = build + 8 * n * (layers * (d + 2) + k)  # layers are built again
            assert build <= row["bytes_to_build"] <= 1.01 * build
            assert label <= row["bytes_to_label"] <= 1.01 * label
            ring = 2 * (row["ranks"] - 1) * (row["bytes_to_build"] + row["bytes_to_label"])
            assert 0.99 * ring <= row["bytes_on_loopback"] <= 1.1 * ring
            assert row["labels_that_differ"] == 0
            assert row["largest_difference_of_scores"] < 1e-12
