"""Tables, figures and reports say what the record holds, safely, in every form."""

from __future__ import annotations

import base64
import copy
import hashlib
import io
import json
import re
from collections.abc import Sequence
from html import escape
from html.parser import HTMLParser
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from redunet.errors import SettingsError
from redunet.report import figures
from redunet.report.blocks import Chapter
from redunet.report.document import to_markdown
from redunet.report.page import asset, page
from redunet.report.sections import plain, sections
from redunet.report.tables import accuracy_markdown, accuracy_rows, accuracy_table, markdown_text

KNOWN = "html head meta title style body header h1 button main section h2 p div table thead"
KNOWN += (
    " tbody tr th td pre code span figure figcaption details summary label select option script"
)
OURS = [0.9994, 0.9885, 0.9811, 0.9750, 0.9587]
HOSTILE = '<script>x</script> a|b `c` *d* _e_ [red]f[/] $\\frac{ & "</td></table>'


def a_run(seed: int, accuracies: Sequence[float], joint: bool = True) -> dict[str, Any]:
    tasks = [
        {
            "classes": [2 * t, 2 * t + 1],
            "accuracy": accuracy,
            "no_layers_accuracy": accuracy - 0.0625,
            "accuracy_by_task": [accuracy - s / 8 for s in range(t + 1)],
            "train_samples": 12000 + t,
            "test_samples": 2000 * (t + 1),
            "seconds": {"learn": 1.25, "evaluate": 1234.5},
        }
        for t, accuracy in enumerate(accuracies)
    ]
    same = {"moments": True, "network": True, "file": True, "labels_that_differ": 0}
    return {
        "seed": seed,
        "tasks": tasks,
        "rates": {"R": [4.0, 5.0], "R_c": [3.0, 2.0], "delta_R": [1.0, 3.0]},
        "joint": {"accuracy": accuracies[-1], "equivalence": same} if joint else None,
        "peak_memory_bytes": 1_230_000_000 + seed,
        "summary": {
            "last": accuracies[-1],
            "average": 0.5,
            "decay": 0.25,
            "forgetting": 0.125,
            "backward_transfer": -0.125,
        },
    }


def a_record(*variants: list[dict[str, Any]]) -> dict[str, Any]:
    rivals = {
        "LwF": [0.999, 0.494, 0.333, 0.252, 0.196],
        "iCaRL": [0.999, 0.889, 0.8, 0.768, 0.7],
    }
    source = "Wu et al., CVPR 2021, Table 1"
    return {
        "what": "ReduNet on MNIST, as published",
        "paper": {"row": [0.999, 0.990, 0.984, 0.975, 0.961], "rivals": rivals, "source": source},
        "variants": [
            {
                "name": f"variant {i}",
                "settings": {"n_layers": 200, "x": None, f"y{i}": [1]},
                "runs": runs,
            }
            for i, runs in enumerate(variants)
        ],
        "date": "2026-11-15",
        "machine": {"processor": "a processor", "cores": 2, "threads": 2, "gpu": None},
        "versions": {"redunet": "0.1.0", "torch": "2.6.0"},
        "command": "redunet reproduce mnist --out somewhere",
    }


def three_seeds() -> list[dict[str, Any]]:
    first = (0.7, 0.8, 0.9)
    return [a_run(seed, [x, x - 0.1, 0.5, 0.5, 0.5], seed == 0) for seed, x in enumerate(first)]


def hostile() -> dict[str, Any]:
    record = a_record([a_run(0, OURS)])
    record["what"] = record["command"] = HOSTILE
    record["command"] += "\n```\n"
    record["paper"]["source"] = HOSTILE
    record["machine"] = {HOSTILE: HOSTILE}
    record["variants"][0] |= {"name": HOSTILE, "settings": {HOSTILE: HOSTILE}}
    return record


def without(record: dict[str, Any], *keys: str) -> dict[str, Any]:
    """A record of which some parts were not written down."""
    record = copy.deepcopy(record)
    for run in [run for variant in record["variants"] for run in variant["runs"]]:
        for part in [run, *run["tasks"]]:
            for key in keys:
                part.pop(key, None)
    return record


RECORDS = {
    "one seed": a_record([a_run(0, OURS)]),
    "three seeds": a_record(three_seeds()),
    "two variants": a_record(three_seeds(), [a_run(0, OURS, joint=False)]),
    "not compared": a_record([a_run(0, OURS, joint=False)]),
    "four tasks": a_record([a_run(0, OURS[:4])]),
    "one task": a_record([a_run(0, OURS[:1])]),
    "no paper": a_record([a_run(0, OURS)]) | {"paper": None},
    "bare": without(
        a_record([a_run(0, OURS)]),
        *("joint", "summary", "accuracy_by_task", "seconds", "no_layers_accuracy", "rates"),
        "peak_memory_bytes",
    ),
    "hostile": hostile(),
}


def to_html(record: dict[str, Any]) -> str:
    return page([Chapter(record["what"], sections(record))])


every_record = pytest.mark.parametrize("record", RECORDS.values(), ids=RECORDS.keys())


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


def tables_of_equal_columns(text: str) -> list[int]:
    """The columns of each table of a Markdown report; all rows of a table have as many."""
    text = re.sub(r"^(`{3,})sh\n.*?^\1$", "", text, flags=re.M | re.S)
    assert "<" not in text
    columns = []
    for table in re.findall(r"(?:^\|.*\n)+", text, re.MULTILINE):
        # Of a run of backslashes before a bar, an odd number leaves the bar as text.
        counts = {
            sum(not len(slashes) % 2 for slashes in re.findall(r"(\\*)\|", line))
            for line in table.splitlines()
        }
        assert len(counts) == 1
        columns.append(counts.pop() - 1)
    return columns


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


class Page(HTMLParser):
    """What is on a page; every tag must close in its turn."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text: list[str] = []
        self.feed(page)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in ("meta", "img"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text.append(data)

    def with_tag(self, name: str) -> list[dict[str, str | None]]:
        return [attributes for tag, attributes in self.tags if tag == name]


@every_record
def test_the_page_is_well_formed(record: dict[str, Any]) -> None:
    text = to_html(record)
    found = Page(text)
    assert text.startswith("<!DOCTYPE html>\n")
    assert {tag for tag, _ in found.tags} <= set(KNOWN.split())
    assert not any(name.startswith("on") for _, attributes in found.tags for name in attributes)
    assert not any({"src", "href"} & attributes.keys() for _, attributes in found.tags)
    assert found.text.count(record["what"]) >= 2


@every_record
def test_only_the_pages_own_scripts_may_run(record: dict[str, Any]) -> None:
    text = to_html(record)
    scripts = re.findall(r"<script>(.*?)</script>", text, re.DOTALL)
    assert scripts == [asset("plotly-cartesian.min.js"), asset("page.js")]
    policy = Page(text).with_tag("meta")[1]["content"] or ""
    assert policy.startswith("default-src 'none'; img-src data:; style-src 'unsafe-inline'; script")
    hashes = [hashlib.sha256(script.encode()).digest() for script in scripts]
    assert re.findall(r"'sha256-(.*?)'", policy) == [
        base64.b64encode(digest).decode() for digest in hashes
    ]
    assert text.count("<script") - text.count('type="application/json"') == len(scripts)


@every_record
def test_every_plot_has_words_and_a_table(record: dict[str, Any]) -> None:
    text = to_html(record)
    data = re.findall(r'<script type="application/json" id="plots">(.*?)</script>', text)
    plots = json.loads(data[0])
    figures = re.findall(r"<figure>.*?</figure>", text, re.DOTALL)
    assert len(figures) == len(plots) >= 1
    for figure, views in zip(figures, plots, strict=True):
        assert figure.count("<table>") == len(views)
        assert f'aria-label="{escape(views[0]["alt"])}"' in figure
        assert all(view["alt"].endswith(".") and view["traces"] for view in views)


def by_rank(view: dict[str, Any]) -> list[dict[str, Any]]:
    """The lines of a plot in the order of its legend."""
    return sorted(view["traces"], key=lambda trace: int(trace["legendrank"]))


def test_the_values_drawn_are_those_of_the_record() -> None:
    text = to_html(RECORDS["two variants"])
    data = re.findall(r'<script type="application/json" id="plots">(.*?)</script>', text)
    accuracy, upper = json.loads(data[0])[0]
    (rate,), matrices = json.loads(data[0])[1:]
    drawn = {trace["name"]: trace["y"] for trace in accuracy["traces"]}
    assert drawn["ReduNet, variant 1 (ours)"] == OURS
    assert drawn["iCaRL (theirs)"] == [0.999, 0.889, 0.8, 0.768, 0.7]
    assert drawn["ReduNet, variant 0 (ours)"] == [0.8, 0.7, 0.5, 0.5, 0.5]
    bars = {trace["name"]: trace["error_y"]["array"] for trace in by_rank(accuracy)[:1]}
    assert bars["ReduNet, variant 0 (ours)"] == [0.1, 0.1, 0.0, 0.0, 0.0]
    names = ["ReduNet, variant 1 (ours)", "ReduNet, paper (theirs)", "iCaRL (theirs)"]
    assert [trace["name"] for trace in by_rank(upper)] == names
    assert upper["traces"][-1]["name"] == names[0]  # over all others
    assert {trace["name"]: trace["y"] for trace in rate["traces"]} == {
        "ΔR = R − R_c, the objective": [1.0, 3.0],
        "R, all classes together": [4.0, 5.0],
        "R_c, class by class": [3.0, 2.0],
    }
    z = matrices[1]["traces"][0]["z"]
    assert z[1] == [0.9885, 0.8635, None, None, None]


def test_a_confusion_is_drawn_where_the_record_has_one() -> None:
    record = copy.deepcopy(RECORDS["one seed"])
    assert "What is taken for what" not in to_html(record)
    record["variants"][0]["confusion"] = {"labels": [0, 1], "counts": [[3, 1], [0, 4]]}
    text = to_html(record)
    data = re.findall(r'<script type="application/json" id="plots">(.*?)</script>', text)
    (view,) = json.loads(data[0])[-1]
    assert view["traces"][0]["z"] == [[0.75, 0.25], [0.0, 1.0]]
    assert view["traces"][0]["customdata"][0] == ["3 of 4 samples", "1 of 4 samples"]
    assert "7 of 8 are labelled rightly. Most often mistaken: 0 for 1, 1 times." in view["alt"]
    assert "taken for what" not in to_markdown(record, {})


def test_hostile_names_are_shown_as_text() -> None:
    text = to_html(RECORDS["hostile"])
    found = Page(text)
    # Title and heading; name and value of a setting and of the machine; times (2) and memory.
    assert found.text.count(HOSTILE) == 9
    data = re.findall(r'<script type="application/json" id="plots">(.*?)</script>', text)
    assert "<" not in data[0]
    (accuracy, _), _, (matrix,) = json.loads(data[0])
    assert f"ReduNet, {HOSTILE} (ours) from 0.999 to 0.959" in accuracy["alt"]
    assert by_rank(accuracy)[0]["name"] == f"ReduNet, {escape(HOSTILE, quote=False)} (ours)"
    assert HOSTILE in matrix["alt"]
    assert "\n````sh\n" in to_markdown(RECORDS["hostile"], {})


def test_page_and_markdown_say_the_same() -> None:
    record = RECORDS["two variants"]
    found = Page(to_html(record))
    words = set(re.findall(r"[\w.]+", " ".join(found.text[found.text.index(record["what"]) :])))
    assert set(re.findall(r"[\w.]+", to_markdown(record, {}))) - words <= {"sh"}


def test_a_picture_without_a_place_is_an_error() -> None:
    with pytest.raises(SettingsError, match="expected pictures among accuracy, rate, got 'rates'"):
        to_markdown(RECORDS["one seed"], {"rates": "rates.png"})
    with pytest.raises(SettingsError, match="expected pictures among accuracy, got 'rate'"):
        to_markdown(RECORDS["bare"], {"rate": "rate.png"})
