"""Tables and reports say what the record holds, safely, in every form."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from redunet.errors import DataError
from redunet_lab import report
from redunet_lab.cli.printing import say_record
from redunet_lab.report.ingredients import ingredients_table
from redunet_lab.report.sections import chapter, result_table
from redunet_lab.report.text import markdown_table, markdown_text
from tests.made_records import (
    RECORDS,
    a_record,
    a_run,
    every_record,
    html_of,
    markdown_of,
    tables_of_equal_columns,
)
from tests.records import record as committed

MEASURES = ["0.500", "0.125", "0.250"]


def rows_of(record: dict[str, Any]) -> list[list[str]]:
    """The rows of the table of results."""
    return [list(row) for row in result_table(record).rows]


def test_the_rows_of_one_seed() -> None:
    assert rows_of(RECORDS["one seed"]) == [
        ["ReduNet, variant 0", "0.999", "0.989", "0.981", "0.975", "0.959", *MEASURES],
        ["difference from the paper", "0.000", "-0.001", "-0.003", "0.000", "-0.002", *"–––"],
        ["nearest subspace, no layers", "0.937", "0.926", "0.919", "0.912", "0.896", *"–––"],
        ["ReduNet, paper (theirs)", "0.999", "0.990", "0.984", "0.975", "0.961", *"–––"],
    ]


def test_the_rows_of_three_seeds_have_deviations() -> None:
    ours, difference, plain, paper = rows_of(RECORDS["three seeds"])
    assert ours[1:4] == ["0.800 ± 0.100", "0.700 ± 0.100", "0.500 ± 0.000"]
    assert difference[1:4] == ["-0.199", "-0.290", "-0.484"]
    assert plain[3] == "0.438 ± 0.000"
    assert "±" not in "".join(paper)


@given(st.integers(0, 10_000), st.integers(0, 1000))
def test_a_difference_is_that_of_the_figures_shown(hits: int, theirs: int) -> None:
    record = a_record([a_run(0, [hits / 10_000])])
    record["paper"] |= {"row": [theirs / 1000], "rivals": {}}
    ours, difference, _, paper = (float(row[1]) for row in rows_of(record))
    assert round(ours * 1000) - round(paper * 1000) == round(difference * 1000)


def test_four_tasks_beside_five_of_the_paper() -> None:
    ours, difference, _, paper = rows_of(RECORDS["four tasks"])
    assert paper[5] == "0.961"
    assert ours[1:6] == ["0.999", "0.989", "0.981", "0.975", "–"]
    assert difference[4:6] == ["0.000", "–"]
    said = "0.975 on all classes seen after task 4; the paper reports 0.975, a difference of 0.000"
    assert said in markdown_of(RECORDS["four tasks"])


def test_seeds_count_as_far_as_all_of_them_went() -> None:
    record = a_record([a_run(0, [0.75, 0.5]), a_run(1, [0.25])])
    assert rows_of(record)[0][1:3] == ["0.500 ± 0.354", "–"]


def test_the_row_without_layers_names_its_read_out() -> None:
    record = copy.deepcopy(RECORDS["no paper"])
    assert [row[0] for row in rows_of(record)][1:] == ["nearest subspace, no layers"]
    record["methods"][0]["settings"]["readout"] = "discriminant"
    assert rows_of(record)[1][0] == "linear discriminant, no layers"
    assert "paper" not in markdown_of(RECORDS["no paper"]).lower()


def test_a_comparison_says_what_is_kept_and_what_others_report() -> None:
    record = committed("compare-cifar10")
    found = {row[0]: row for row in rows_of(record)}
    assert result_table(record).headings[-2:] == ["kept", "raw data kept"]
    assert [found[name][-1] for name in ("ReduNet", "joint training", "ER")] == [
        "none",
        "all",
        "exemplars",
    ]
    assert found["joint training"][1:5] == ["–"] * 4
    assert found["ER, benchmark (theirs)"][5] == "0.448"
    assert found["LwF, paper (theirs)"][1] == "0.979"
    said = markdown_of(record)
    assert "About 1/5 = 0.2 is what fine-tuning, LwF, oEWC and SI are expected to show" in said
    assert "Not with the usual settings: fine-tuning: epochs 5 (usually 50)" in said
    part = copy.deepcopy(record)
    part["missing"] = [
        {"name": "ER", "seed": 1, "tasks_done": 2},
        {"name": "GDumb", "seed": 0, "tasks_done": 0},
    ]
    assert "Missing: ER seed 1, 2 tasks done; GDumb seed 0, 0 tasks done." in markdown_of(part)


def test_ingredients_are_named() -> None:
    table = ingredients_table(committed("images-small-cifar10"))
    (strong,) = table.strong
    assert table.rows[strong][4] == "0.6827"
    assert table.rows[0][:4] == ["pixels, 3,072", "–", "–", "nearest subspace, 50"]
    assert "absolute step 0.5" in table.rows[-1][2]


def test_the_terminal_shows_only_what_has_room(capsys: pytest.CaptureFixture[str]) -> None:
    say_record(RECORDS["one seed"])
    said = capsys.readouterr().out
    assert max(map(len, said.splitlines())) <= 92
    assert "difference from the paper     0.000  -0.001  -0.003   0.000  -0.002" in said
    words = " ".join(said.split())
    assert words.startswith("ReduNet on MNIST, as published ReduNet, variant 0: accuracy 0.959 on")
    assert "identical identical identical identical 0.9587 0.9587" in words
    assert "Compared: 1. Not identical: none." in words
    say_record(RECORDS["hostile"])
    assert "<script>x</script>" in capsys.readouterr().out


def test_the_markdown_table() -> None:
    lines = markdown_table(result_table(RECORDS["not compared"])).splitlines()
    assert lines[1].startswith("| --- | ---: | ---: |")
    assert lines[2].startswith("| **ReduNet, variant 0** | 0.999 | 0.989 | 0.981 |")


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
    columns = tables_of_equal_columns(markdown_of(record))
    assert len(columns) >= 3
    assert min(columns) >= 2


def test_the_markdown_report_names_its_pictures() -> None:
    text = markdown_of(RECORDS["one seed"], "accuracy", "rate")
    assert "ReduNet, variant 0 from 0.999 to 0.959" in text
    assert "](accuracy.png)" in text
    assert "![Line chart by layer: ΔR = R − R_c, the objective from 1.000 to 3.000; R, all" in text
    assert "](rate.png)" in text
    assert ".png" not in markdown_of(RECORDS["one seed"])


def test_what_a_report_says() -> None:
    text = markdown_of(RECORDS["two variants"])
    for line in (
        "ReduNet, variant 0: accuracy 0.500 ± 0.000 on all classes seen after task 5 (mean of 3 "
        "seeds); the paper reports 0.961, a difference of -0.461; identical to joint training, to "
        "the byte.",
        "| ReduNet, variant 0, seed 0 | identical | identical | identical | identical | 0.5000 |",
        "Compared: 1. Not identical: none.",
        "goes from 1.000 to 3.000 nats (+2.000)",
        "```sh\nredunet reproduce mnist --out somewhere\n```",
        "Seeds of random methods: 0, 1, 2; ± is the standard deviation over seeds (n − 1).",
        "| 5 | 8, 9 | 12,004 | 10,000 |",
        r"| ReduNet, variant 1 | n_layers 200, x none, y1 \[1\] | 0 | – |",
        "| ReduNet, variant 0 | 0.500 ± 0.000 | 0.375 ± 0.000 | 0.250 ± 0.000 |",
        "| ReduNet, variant 0 | 6.25 | 6,172.5 | – | – | – | 1.23 GB | – | none |",
        "| 2026-11-15 | a processor, 2 threads | redunet 0.1.0, torch 2.6.0 |",
    ):
        assert line.replace("**", "") in text.replace("**", "")


def test_a_difference_from_joint_training_is_reported() -> None:
    record = copy.deepcopy(RECORDS["two variants"])
    record["methods"][1]["runs"][0]["joint"] = {
        "accuracy": 0.25,
        "equivalence": {"moments": True, "network": False, "file": True, "labels_that_differ": 7},
    }
    text = markdown_of(record)
    assert "Compared: 2. Not identical: ReduNet, variant 1, seed 0." in text
    assert (
        "| ReduNet, variant 1, seed 0 | identical | different | identical | 7 differ | 0.9587 |"
        in text
    )
    assert '<span class="different">different</span>' in html_of(record)


def test_a_record_without_joint_training_has_no_such_section() -> None:
    text = markdown_of(RECORDS["not compared"])
    assert "Equal to joint training" not in text
    assert "identical" not in text


def test_hashes_after_orders_and_forgetting() -> None:
    record = copy.deepcopy(RECORDS["one seed"])
    rows = [{"seed": s, "tasks": [[s], [2, 3]], "sha256": "a" * 64, "seconds": 1} for s in (0, 1)]
    known = {"features_learnt_from_data": False, "n_features": 64, "samples": 1198}
    record["orders"] = known | {"joint_sha256": "a" * 64, "files": 1, "rows": rows}
    record["forget"] = {"class": 3, "before": "b" * 64, "after": "c" * 64, "never_seen": "c" * 64}
    text = markdown_of(record)
    assert f"All 2 orders, and all classes at once, gave one file: {'a' * 64}" in text
    assert rf"| 1 | 1 \| 2 3 | {'a' * 16} |" in text
    assert f"| after forgetting 3 | {'c' * 64} |" in text
    assert "The last two files are identical, to the byte." in text
    record["orders"]["files"], record["forget"]["after"] = 2, "d" * 64
    text = markdown_of(record)
    assert "2 orders and all classes at once gave 2 different files" in text
    assert "The last two files are different" in text


def test_everything_is_written_into_a_folder(tmp_path: Path) -> None:
    record = copy.deepcopy(RECORDS["two variants"])
    record["methods"][0]["confusion"] = {"labels": [0, 1], "counts": [[3, 1], [0, 4]]}
    paths = report.write(record, tmp_path / "new" / "folder")
    pictures = ["accuracy.png", "confusion.png", "rate.png"]
    names = ["record.json", "report.html", "report.md", *pictures]
    assert [path.name for path in paths] == names
    assert {path.name for path in (tmp_path / "new" / "folder").iterdir()} == set(names)
    assert json.loads(paths[0].read_text()) == record
    assert paths[0].read_text().startswith('{\n "kind": "experiment",\n "version": 2,\n')
    for path in paths[3:]:
        with Image.open(path) as image:
            assert (image.format, image.size[0]) == ("PNG", 1600)
        assert f"]({path.name})" in (paths[2]).read_text()


@pytest.mark.parametrize(
    "change",
    [{"version": 1}, {"kind": "orders"}],
)
def test_records_of_other_forms_are_refused_in_one_line(change: dict[str, Any]) -> None:
    with pytest.raises(DataError, match=r"^expected a record of kind 'experiment' or 'tune' and"):
        chapter(RECORDS["one seed"] | change)
