"""Tables, figures and reports say what the record holds, safely, in every form."""

from __future__ import annotations

import copy
import io
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from redunet.report.document import to_markdown
from redunet.report.tables import accuracy_markdown, accuracy_rows, accuracy_table, markdown_text
from rich.console import Console

from redunet.report import figures
from redunet.report.sections import plain
from tests.made_records import (
    HOSTILE,
    OURS,
    RECORDS,
    a_record,
    a_run,
    every_record,
    tables_of_equal_columns,
    to_html,
)


def test_the_rows_of_one_seed() -> None:
    assert [(row.label, *row.cells) for row in accuracy_rows(RECORDS["one seed"])] == [
        ("paper (theirs)", "0.999", "0.990", "0.984", "0.975", "0.961"),
        ("variant 0 (ours)", "0.999", "0.989", "0.981", "0.975", "0.959"),
        ("difference from the paper", "0.000", "-0.001", "-0.003", "0.000", "-0.002"),
        ("nearest subspace, no layers", "0.937", "0.926", "0.919", "0.912", "0.896"),
    ]


def test_the_rows_of_three_seeds_have_deviations() -> None:
    paper, ours, difference, plain = accuracy_rows(RECORDS["three seeds"])
    assert ours.label == "variant 0 (ours, mean of 3 seeds)"
    assert ours.cells[:3] == ("0.800 ± 0.100", "0.700 ± 0.100", "0.500 ± 0.000")
    assert difference.cells[:3] == ("-0.199", "-0.290", "-0.484")
    assert plain.cells[2] == "0.438 ± 0.000"
    assert "±" not in "".join(paper.cells)


@given(st.integers(0, 10_000), st.integers(0, 1000))
def test_a_difference_is_that_of_the_figures_shown(hits: int, theirs: int) -> None:
    record = a_record([a_run(0, [hits / 10_000])])
    record["paper"] |= {"row": [theirs / 1000], "rivals": {}}
    paper, ours, difference, _ = (row.cells[0] for row in accuracy_rows(record))
    assert round(float(ours) * 1000) - round(float(paper) * 1000) == round(float(difference) * 1000)


def test_four_tasks_beside_five_of_the_paper() -> None:
    paper, ours, difference, _ = accuracy_rows(RECORDS["four tasks"])
    assert paper.cells[-1] == "0.961"
    assert ours.cells == ("0.999", "0.989", "0.981", "0.975", "–")
    assert difference.cells[-2:] == ("0.000", "–")
    assert "0.975 on all classes seen after task 4 (ours); the paper reports 0.975 there" in (
        to_markdown(RECORDS["four tasks"], {})
    )


def test_seeds_count_as_far_as_all_of_them_went() -> None:
    record = a_record([a_run(0, [0.75, 0.5]), a_run(1, [0.25])])
    assert accuracy_rows(record)[1].cells[:2] == ("0.500 ± 0.354", "–")


def test_the_row_without_layers_names_its_read_out() -> None:
    record = copy.deepcopy(RECORDS["no paper"])
    assert accuracy_rows(record)[1].label == "nearest subspace, no layers"
    record["variants"][0]["settings"]["readout"] = "discriminant"
    assert accuracy_rows(record)[1].label == "linear discriminant, no layers"


def test_without_a_paper_nothing_speaks_of_it() -> None:
    record = RECORDS["no paper"]
    assert [row.kind for row in accuracy_rows(record)] == ["ours", "no layers"]
    assert "paper" not in to_markdown(record, {}).lower()
    assert len(figures.accuracy_over_tasks(record)) > 10_000


@pytest.mark.parametrize("name", ["one seed", "three seeds", "two variants", "four tasks"])
def test_the_terminal_shows_every_cell_in_80_columns(name: str) -> None:
    console = Console(width=80, file=io.StringIO())
    console.print(accuracy_table(RECORDS[name]))
    assert isinstance(console.file, io.StringIO)
    said = console.file.getvalue()
    assert "task 5" in said
    assert "…" not in said
    for row in accuracy_rows(RECORDS[name]):
        for figure in " ".join(row.cells).replace("± ", "±").split():
            assert figure in said


def test_the_terminal_takes_names_as_they_are() -> None:
    console = Console(width=300, file=io.StringIO())
    console.print(accuracy_table(RECORDS["hostile"]))
    assert isinstance(console.file, io.StringIO)
    assert f"{HOSTILE} (ours)" in console.file.getvalue()


def test_the_markdown_table() -> None:
    assert accuracy_markdown(a_record([a_run(0, OURS)])).splitlines()[:4] == [
        "|  | task 1 | task 2 | task 3 | task 4 | task 5 |",
        "| --- | ---: | ---: | ---: | ---: | ---: |",
        "| paper (theirs) | 0.999 | 0.990 | 0.984 | 0.975 | 0.961 |",
        "| **variant 0 (ours)** | 0.999 | 0.989 | 0.981 | 0.975 | 0.959 |",
    ]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("n_layers", "n_layers"),
        ("_n_", r"\_n\_"),
        ("a|b*c*", r"a\|b\*c\*"),
        ("<b> & `c`", r"&lt;b&gt; &amp; \`c\`"),
        ("two\nlines", "two lines"),
        (r"\|", r"\\\|"),
    ],
)
def test_markdown_text(text: str, expected: str) -> None:
    assert markdown_text(text) == expected


@every_record
def test_markdown_tables_have_equally_many_columns(record: dict[str, Any]) -> None:
    columns = tables_of_equal_columns(to_markdown(record, {}))
    assert len(columns) >= 4
    assert min(columns) >= 2


def test_the_markdown_report_names_its_pictures() -> None:
    text = to_markdown(RECORDS["one seed"], {"accuracy": "my picture.png", "rate": "rate.png"})
    assert "](my%20picture.png)" in text
    assert "![Line chart by layer: R from 4.000 to 5.000; R_c from 3.000 to 2.000; ΔR" in text
    assert "ΔR from 1.000 to 3.000.](rate.png)" in text
    assert "ReduNet, variant 0 (ours) from 0.999 to 0.959" in text


def test_what_a_report_says() -> None:
    text = to_markdown(RECORDS["two variants"], {})
    for line in (
        "ReduNet, variant 0: accuracy 0.500 ± 0.000 on all classes seen after task 5 (ours, mean "
        "of 3 seeds); the paper reports 0.961 there (theirs), a difference of -0.461.",
        "| variant 0, seed 0 | identical | identical | identical | 0 | 0.500 | 0.500 |",
        "Compared: 1 of 4 runs. Not identical: none.",
        "goes from 1.000 to 3.000 nats (+2.000)",
        "```sh\nredunet reproduce mnist --out somewhere\n```",
        "Seeds: 0, 1, 2.",
        "| 5 | 8, 9 | 12,004 | 10,000 |",
        "| n_layers | 200 | 200 |",
        "| x | none | none |",
        r"| y1 | – | \[1\] |",
        "| after task 2 | 0.700 ± 0.100 | 0.575 ± 0.100 |  |  |  |",
        "| accuracy after the last task | 0.500 ± 0.000 | 0.959 |",
        "| variant 0 | learn | 1.25 | 1.25 | 1.25 | 1.25 | 1.25 |",
        "| variant 1 | evaluate | 1,234.5 | 1,234.5 | 1,234.5 | 1,234.5 | 1,234.5 |",
        "| variant 0 | 1.23 GB |",
        "| iCaRL (theirs) | 0.999 | 0.889 | 0.800 | 0.768 | 0.700 |",
        "| date | 2026-11-15 |",
        "| gpu | none |",
        "| torch | 2.6.0 |",
    ):
        assert line in text


def test_a_difference_from_joint_training_is_said_aloud() -> None:
    record = copy.deepcopy(RECORDS["two variants"])
    record["variants"][1]["runs"][0]["joint"] = {
        "accuracy": 0.25,
        "equivalence": {"moments": True, "network": False, "file": True, "labels_that_differ": 7},
    }
    text = to_markdown(record, {})
    assert "Compared: 2 of 4 runs. Not identical: variant 1, seed 0." in text
    assert "| variant 1, seed 0 | identical | different | identical | 7 | 0.959 | 0.250 |" in text
    assert '<span class="different">different</span>' in to_html(record)


def test_a_record_without_joint_training_says_so() -> None:
    text = to_markdown(RECORDS["not compared"], {})
    assert "No run of this record was compared with joint training." in text
    assert "identical" not in text


def test_tasks_that_differ_between_seeds_are_said_to() -> None:
    record = copy.deepcopy(RECORDS["three seeds"])
    assert "The data as tasks:" in to_markdown(record, {})
    record["variants"][0]["runs"][1]["tasks"][0]["classes"] = [7, 3]
    assert "The data as tasks, for seed 0 (others differ):" in to_markdown(record, {})


def test_settings_as_text() -> None:
    values = [None, True, 0.5, "é", [[0, 1]]]
    assert [plain(value) for value in values] == ["none", "true", "0.5", "é", "[[0, 1]]"]
