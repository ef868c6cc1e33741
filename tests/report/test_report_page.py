"""The page of a record: well formed, safe, and the same numbers."""

from __future__ import annotations

import base64
import copy
import hashlib
import re
from html import escape
from typing import Any

from redunet.report.html import asset
from tests.made_records import (
    HOSTILE,
    KNOWN,
    OURS,
    RECORDS,
    Page,
    every_record,
    html_of,
    markdown_of,
    plots_of,
)


@every_record
def test_the_page_is_well_formed(record: dict[str, Any]) -> None:
    text = html_of(record)
    found = Page(text)
    assert text.startswith("<!DOCTYPE html>\n")
    assert {tag for tag, _ in found.tags} <= set(KNOWN.split())
    assert not any(name.startswith("on") for _, attributes in found.tags for name in attributes)
    assert not any("src" in attributes for _, attributes in found.tags)
    assert found.text.count(record["what"]) >= 2


@every_record
def test_the_table_of_contents_leads_to_every_section(record: dict[str, Any]) -> None:
    found = Page(html_of(record))
    wanted = [f"#{section['id']}" for section in found.with_tag("section")]
    assert [link["href"] for link in found.with_tag("a")] == wanted
    assert len(wanted) >= 3


@every_record
def test_only_the_pages_own_scripts_may_run(record: dict[str, Any]) -> None:
    text = html_of(record)
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
    text = html_of(record)
    plots = plots_of(text)
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
    (accuracy, upper), matrices, (rate,) = plots_of(html_of(RECORDS["two variants"]))
    drawn = {trace["name"]: trace["y"] for trace in accuracy["traces"]}
    assert drawn["ReduNet, variant 1"] == OURS
    assert drawn["iCaRL (theirs)"] == [0.999, 0.889, 0.8, 0.768, 0.7]
    assert drawn["ReduNet, variant 0"] == [0.8, 0.7, 0.5, 0.5, 0.5]
    bars = {trace["name"]: trace["error_y"]["array"] for trace in by_rank(accuracy)[:1]}
    assert bars["ReduNet, variant 0"] == [0.1, 0.1, 0.0, 0.0, 0.0]
    names = ["ReduNet, variant 1", "ReduNet, paper (theirs)", "iCaRL (theirs)"]
    assert [trace["name"] for trace in by_rank(upper)] == names
    assert upper["traces"][-1]["name"] == names[0]  # over all others
    assert [end["text"] for end in upper["ends"]] == [
        "<b>0.959  ReduNet, variant 1</b>",
        "0.961  ReduNet, paper (theirs)",
        "0.700  iCaRL (theirs)",
    ]
    assert {trace["name"]: trace["y"] for trace in rate["traces"]} == {
        "ΔR = R − R_c, the objective": [1.0, 3.0],
        "R, all classes together": [4.0, 5.0],
        "R_c, class by class": [3.0, 2.0],
    }
    z = matrices[1]["traces"][0]["z"]
    assert z[1] == [0.9885, 0.8635, None, None, None]


def test_a_confusion_matrix_is_drawn_where_the_record_has_one() -> None:
    record = copy.deepcopy(RECORDS["one seed"])
    assert "Confusion matrix" not in html_of(record)
    record["methods"][0]["confusion"] = {"labels": [0, 1], "counts": [[3, 1], [0, 4]]}
    (view,) = plots_of(html_of(record))[2]
    mistakes, correct = view["traces"]
    assert mistakes["z"] == [[None, 0.25], [0.0, None]]
    assert mistakes["zmax"] == 0.25  # colours are spent on mistakes
    assert correct["z"] == [[0.75, None], [None, 1.0]]
    assert (mistakes["text"], correct["text"]) == (
        [["", "25%"], ["", ""]],
        [["75%", ""], ["", "100%"]],
    )
    assert correct["customdata"][0] == ["3 of 4 samples", "1 of 4 samples"]
    said = "7 of 8 samples are labelled correctly. Most frequent mistake: 0 labelled as 1, 1 times."
    assert said in view["alt"]
    assert "](confusion.png)" in markdown_of(record, "confusion")


def test_hostile_names_are_shown_as_text() -> None:
    text = html_of(RECORDS["hostile"])
    found = Page(text)
    assert found.text.count(HOSTILE) >= 2  # title and heading
    assert sum(HOSTILE in words for words in found.text) >= 10
    assert "<" not in text[text.index('id="plots">') + 11 :].split("</script>")[0]
    (accuracy, _), (matrix,), _ = plots_of(text)
    assert f"ReduNet, {HOSTILE} from 0.999 to 0.959" in accuracy["alt"]
    assert by_rank(accuracy)[0]["name"] == f"ReduNet, {escape(HOSTILE, quote=False)}"
    assert accuracy["ends"][0]["text"].endswith(f"{escape(HOSTILE, quote=False)}</b>")
    assert HOSTILE in matrix["alt"]
    assert "\n````sh\n" in markdown_of(RECORDS["hostile"])


def test_page_and_markdown_say_the_same() -> None:
    record = RECORDS["two variants"]
    found = Page(html_of(record))
    words = set(re.findall(r"[\w.]+", " ".join(found.text[found.text.index(record["what"]) :])))
    assert set(re.findall(r"[\w.]+", markdown_of(record))) - words <= {"sh"}
