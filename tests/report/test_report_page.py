"""The page of a record: well formed, safe, and the same numbers."""

from __future__ import annotations

import base64
import copy
import hashlib
import json
import re
from html import escape
from typing import Any

import pytest
from redunet.report.document import to_markdown
from redunet.report.page import asset

from redunet.errors import SettingsError
from tests.made_records import (
    HOSTILE,
    KNOWN,
    OURS,
    RECORDS,
    Page,
    every_record,
    to_html,
)


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
