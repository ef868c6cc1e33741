"""Tables, report and README table of a comparison say what its record holds."""

from __future__ import annotations

import copy
import io
import json
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from redunet.report.blocks import Table
from redunet_lab.report.notes import changed_and_missing, result_notes
from redunet_lab.report.readme import comparison_table, main
from redunet_lab.report.record_figures import accuracy_curves
from redunet_lab.report.sections import cost, result_table
from redunet_lab.report.text import terminal_table
from tests.made_records import (
    HOSTILE,
    Page,
    a_stream,
    html_of,
    markdown_of,
    tables_of_equal_columns,
)
from tests.records import record as committed

LAST = {
    "redunet": 0.96,
    "joint": 0.95,
    "icarl": 0.7,
    "er": 0.8,
    "derpp": 0.85,
    "lda": 0.87,
}
MOMENTS = ("redunet", "ncm", "lda", "ridge", "qda")
EXEMPLARS = ("icarl", "er", "derpp")
NAMES = {method["method"]: method["name"] for method in committed("compare-mnist")["methods"]}


def a_run(method: str, seed: int) -> dict[str, Any]:
    last = LAST.get(method, 0.2) + seed / 100
    accuracies = [last] if method == "joint" else [1 - (1 - last) * t / 4 for t in range(5)]
    sizes = {
        "parameters": 0 if method in MOMENTS else 358_440,
        "moments": 24_692_480 if method in MOMENTS else 0,
        "exemplars": 156_800 if method in EXEMPLARS else 0,
    }
    over_stream = {"average": 0.75, "forgetting": 0.125, "decay": 0.25 + seed / 10}
    return {
        "seed": seed,
        "tasks": [
            {
                "accuracy": accuracy,
                "accuracy_by_task": [accuracy - s / 16 for s in range(t + 1)],
                "seconds": {"learn": 2.5, "evaluate": 0.125},
                "bytes": {**sizes, "moments": sizes["moments"] * (t + 1) / len(accuracies)},
            }
            for t, accuracy in enumerate(accuracies)
        ],
        "summary": {"last": last} | ({} if method == "joint" else over_stream),
        "peak_memory_bytes": 1_000_000,
        "date": f"2026-11-{15 + seed}",
        "machine": {"processor": "a processor", "cores": 2, "threads": 1, "gpu": None},
        "versions": {"redunet": "0.1.0", "torch": "2.6.0"},
    }


def a_comparison(data: str = "mnist", seeds: int = 3) -> dict[str, Any]:
    methods = [
        {
            "method": method,
            "name": name,
            "type": "moments" if method in MOMENTS else "gradient",
            "random": method not in MOMENTS,
            "settings": {"epochs": 5} if method == "er" else {"some_setting": None},
            "changed": {"epochs": {"usual": 50, "here": 5}} if method == "er" else {},
            "raw_data_kept": method in EXEMPLARS,
            "runs": [a_run(method, seed) for seed in range(1 if method in MOMENTS else seeds)],
        }
        for method, name in NAMES.items()
        if method != "qda"
    ]
    real = committed(f"compare-{data}")
    return {
        "kind": "experiment",
        "version": 2,
        "what": f"Methods compared on {data}, 5 tasks",
        "command": f"redunet compare --data {data}",
        "data": data,
        "stream": a_stream(5),
        "paper": real.get("paper"),
        "published": real.get("published"),
        "methods": methods,
        "missing": [
            {"name": "QDA", "seed": 0, "tasks_done": 0},
            {"name": "ER", "seed": 3, "tasks_done": 2},
        ],
        "date": "2026-11-17",
    }


def hostile() -> dict[str, Any]:
    record = a_comparison("cifar10")
    record["what"] = record["command"] = HOSTILE
    record["published"] = {"last": {HOSTILE: 0.5}, "source": HOSTILE}
    record["methods"][0] |= {"name": HOSTILE, "settings": {HOSTILE: HOSTILE}}
    return record


RECORDS = {
    "mnist": a_comparison(),
    "cifar10": a_comparison("cifar10", seeds=1),
    "digits": a_comparison("digits", seeds=2),
    "hostile": hostile(),
}
every_record = pytest.mark.parametrize("record", RECORDS.values(), ids=RECORDS.keys())


def rows(table: Table) -> dict[str, list[str]]:
    return {name: list(cells) for name, *cells in table.rows}


def cost_table(record: dict[str, Any]) -> Table:
    table = cost(record)[0]
    assert isinstance(table, Table)
    return table


def test_the_rows_of_accuracies() -> None:
    found = rows(result_table(RECORDS["mnist"]))
    assert found["ReduNet"] == (
        ["1.000", "0.990", "0.980", "0.970", "0.960", "0.750", "0.125", "0.250"]
    )
    assert found["ER"][4:] == ["0.810 ± 0.010", "0.750 ± 0.000", "0.125 ± 0.000", "0.350 ± 0.100"]
    assert found["joint training"] == ["–"] * 4 + ["0.960 ± 0.010"] + ["–"] * 3
    assert found["difference from the paper"][:2] == ["+0.001", "0.000"]
    assert found["ReduNet, paper (theirs)"][4:] == ["0.961", "–", "–", "–"]


def test_the_rows_of_costs() -> None:
    found = rows(cost_table(RECORDS["mnist"]))
    assert found["ReduNet"] == ["12.5", "0.62", "0", "24.7 MB", "0", "none"]
    assert found["ER"] == ["12.5", "0.62", "358 kB", "0", "157 kB", "exemplars"]
    assert found["joint training"] == ["2.50", "0.12", "358 kB", "0", "0", "all"]


def test_shared_moments_have_the_time_of_the_whole_run() -> None:
    record = copy.deepcopy(RECORDS["mnist"])
    run = record["methods"][0]["runs"][0]
    for task in run["tasks"]:
        task["seconds"] = {"evaluate": 2.0}
    assert rows(cost_table(record))["ReduNet"][:2] == ["–", "10.0"]
    run["seconds"] = {"learn": 33.0, "evaluate": 99.0}
    assert rows(cost_table(record))["ReduNet"][:2] == ["33.0", "10.0"]


@pytest.mark.parametrize("name", ["mnist", "cifar10", "digits"])
def test_both_tables_fit_80_columns(name: str) -> None:
    record = RECORDS[name]
    for table in (result_table(record), cost_table(record)):
        console = Console(width=80, file=io.StringIO())
        console.print(terminal_table(table))
        assert isinstance(console.file, io.StringIO)
        said = console.file.getvalue()
        assert "…" not in said
        lines = [line.split() for line in said.splitlines()]
        for name, *cells in table.rows:
            means = [cell.split(" ± ")[0] for cell in cells]
            if " from the " not in name and "(theirs)" not in name:  # long names may wrap
                assert f"{name} {' '.join(means)}".split() in lines


def test_what_is_said_beside_the_tables() -> None:
    said = " ".join(result_notes(RECORDS["mnist"]))
    assert "About 1/5 = 0.2 is what fine-tuning, LwF, oEWC and SI are expected to show" in said
    assert "same task by task as joint: ReduNet, nearest mean, LDA, ridge." in said
    assert "seeds 0, 1, 2; ± is the standard deviation" in said
    assert "±" not in " ".join(result_notes(RECORDS["cifar10"]))
    assert changed_and_missing(RECORDS["mnist"]) == [
        "Not with the usual settings: ER: epochs 5 (usually 50).",
        "Missing: QDA; ER seed 3, 2 tasks done.",
    ]


def test_the_curves_of_the_figure() -> None:
    methods = [method["method"] for method in RECORDS["mnist"]["methods"]]
    curves = dict(zip(methods, accuracy_curves(RECORDS["mnist"]), strict=True))
    for name, curve in curves.items():
        assert (curve.dash == "--") is (name in EXEMPLARS)
    assert curves["joint"].values == pytest.approx([0.96] * 5)
    assert (curves["joint"].dash, curves["joint"].marker) == (":", None)
    assert curves["redunet"].deviations is None
    assert curves["er"].deviations is not None
    assert curves["er"].deviations[-1] == pytest.approx(0.01)
    # Told apart by colour, and without it by marker and dash.
    assert len({curve.color for curve in curves.values()}) == len(curves)
    assert len({(curve.marker, curve.dash) for curve in curves.values()}) == len(curves)


@every_record
def test_the_report(record: dict[str, Any]) -> None:
    text = markdown_of(record, "accuracy")
    count = 8 if record["paper"] else 7
    assert len(tables_of_equal_columns(text)) == count
    found = Page(html_of(record))
    # Behind the plots: two of the accuracies, and one of each method that has tasks.
    behind = 2 + len(record["methods"]) - 1
    assert len(found.with_tag("table")) == count + behind
    alt = next(div["aria-label"] for div in found.with_tag("div") if div.get("role") == "img") or ""
    assert "DER++ from 1.000 to 0.8" in alt


def test_what_the_report_says() -> None:
    text = markdown_of(RECORDS["cifar10"])
    for line in (
        "Highest after the last task: ReduNet, 0.960.",
        "| **ReduNet** | 1.000 | 0.990 | 0.980 | 0.970 | 0.960 | 0.750 | 0.125 | 0.250 |",
        "| ER | 12.5 | 0.62 | 358 kB | 0 | 157 kB | exemplars |",
        "Missing: QDA; ER seed 3, 2 tasks done.",
        "| ReduNet | 0.960 | 0.897 | 0.835 | 0.772 | 0.710 |",
        "| iCaRL, paper (theirs) | 0.964 | 0.662 | 0.547 | 0.500 | 0.480 |",
        "| DER++, benchmark (theirs) | – | – | – | – | 0.649 |",
        "Benchmark: Buzzega et al., NeurIPS 2020, after the last task. Not run again here.",
        "| 5 | 8, 9 | 12,004 | 10,000 |",
        "| ER | epochs 5 | 0 | – |",
        "| ReduNet | some_setting none | – | – |",
        "| 2026-11-15 | a processor, 1 threads | redunet 0.1.0, torch 2.6.0 |",
    ):
        assert line in text
    assert "theirs" not in markdown_of(RECORDS["digits"])


def test_runs_of_other_days_are_told_apart() -> None:
    text = markdown_of(RECORDS["digits"])
    assert "| ReduNet, fine-tuning 0, joint training 0, LwF 0," in text
    assert "| fine-tuning 1, joint training 1, LwF 1," in text


def test_the_readmes_table_of_mnist_has_no_unchecked_figures() -> None:
    lines = comparison_table([RECORDS["mnist"]]).splitlines()
    assert lines[0] == ("|  | task 1 | task 2 | task 3 | task 4 | task 5 | kept | raw data kept |")
    assert lines[2:4] == [
        "| **ReduNet (ours)** | 1.000 | 0.990 | 0.980 | 0.970 | 0.960 | 24.7 MB | none |",
        "| ReduNet, paper (theirs) | 0.999 | 0.990 | 0.984 | 0.975 | 0.961 | – | – |",
    ]
    assert sum("(theirs)" in line for line in lines) == 5
    assert lines[-1] == "| QDA (missing) | – | – | – | – | – | – | – |"


def test_the_readmes_table_of_cifar10_has_the_benchmarks_column() -> None:
    lines = comparison_table([RECORDS["cifar10"]]).splitlines()
    assert lines[0].count("task 5, Buzzega et al., NeurIPS 2020 (theirs)") == 1
    assert "| ER | 1.000 | 0.950 | 0.900 | 0.850 | 0.800 | 0.448 | 515 kB | exemplars |" in (lines)
    assert "| LDA | 1.000 | 0.968 | 0.935 | 0.902 | 0.870 | – | 24.7 MB | none |" in lines
    assert len({line.count("|") for line in lines}) == 1


def test_a_readme_that_differs_from_a_comparison_is_noticed(tmp_path: Path) -> None:
    (tmp_path / "results").mkdir()
    path = tmp_path / "results" / "compare-mnist.json"
    record = copy.deepcopy(RECORDS["mnist"])
    path.write_text(json.dumps(record))
    readme = tmp_path / "README.md"
    begin = "<!-- comparison table: results/compare-mnist.json -->"
    readme.write_text(f"Before\n{begin}\n<!-- end -->\nAfter\n")
    assert main([str(readme), "--check"]) == 1
    assert main([str(readme)]) == 0
    assert comparison_table([record]) in readme.read_text()
    assert main([str(readme), "--check"]) == 0
    record["methods"][0]["runs"][0]["tasks"][-1]["accuracy"] = 0.961
    path.write_text(json.dumps(record))
    assert main([str(readme), "--check"]) == 1
