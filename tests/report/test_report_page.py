"""The page of a record: well formed, safe, and the same numbers."""

from __future__ import annotations

import copy
import re
from html import unescape
from typing import Any

import pytest

from redunet.report.blocks import HeatMap, Lines
from redunet.report.html import to_html
from redunet_lab.report.sections import chapter
from tests.made_records import (
    HOSTILE,
    KNOWN,
    OURS,
    RECORDS,
    Page,
    every_record,
    figures_of,
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
    assert len(wanted) >= 2


@every_record
def test_nothing_may_run_or_load(record: dict[str, Any]) -> None:
    text = html_of(record)
    assert "<script" not in text.lower()
    policy = Page(text).with_tag("meta")[1]
    assert policy["http-equiv"] == "Content-Security-Policy"
    assert policy["content"] == "default-src 'none'; img-src data:; style-src 'unsafe-inline'"
    for name in ("href", "xlink:href"):
        links = [str(found[name]) for _, found in Page(text).tags if name in found]
        assert all(link.startswith(("#", "data:image/png;base64,")) for link in links)


@every_record
def test_every_id_is_there_once(record: dict[str, Any]) -> None:
    text = to_html([chapter(record), chapter(record)])
    found = Page(text)
    ids = [attributes["id"] for _, attributes in found.tags if "id" in attributes]
    assert len(set(ids)) == len(ids)
    links = [str(found.get("xlink:href") or found.get("href")) for _, found in found.tags]
    wanted = {link[1:] for link in links if link.startswith("#")}
    wanted |= set(re.findall(r"url\(#(.*?)\)", text))
    wanted |= {str(label["for"]) for label in found.with_tag("label") if "for" in label}
    assert wanted <= set(ids)


def test_a_page_is_the_same_each_time() -> None:
    record = RECORDS["two variants"]
    assert html_of(record) == to_html([chapter(record)])


@every_record
def test_every_plot_has_words_and_a_table(record: dict[str, Any]) -> None:
    text = html_of(record)
    plots = plots_of(text)
    figures = re.findall(r"<figure>.*?</figure>", text, re.DOTALL)
    wanted = figures_of(chapter(record))
    assert len(figures) == len(plots) == len(wanted) >= 1
    for figure, pictures, described in zip(figures, plots, wanted, strict=True):
        assert figure.count("<table>") == len(pictures) == len(described.views)
        assert figure.count('type="radio"') == (len(pictures) if len(pictures) > 1 else 0)
        divs = Page(figure).with_tag("div")
        alts = [view.alt for view in described.views]
        assert [div["aria-label"] for div in divs if div.get("role") == "img"] == alts
        assert all(alt.endswith(".") for alt in alts)
        assert all(pictures)


def test_the_values_drawn_are_those_of_the_record() -> None:
    found = figures_of(chapter(RECORDS["two variants"]))
    (accuracy,) = (view.drawing for view in found[0].views)
    assert isinstance(accuracy, Lines)
    drawn = {curve.name: curve.values for curve in accuracy.curves}
    assert drawn["ReduNet, variant 1"] == pytest.approx(OURS)
    assert drawn["iCaRL (theirs)"] == [0.999, 0.889, 0.8, 0.768, 0.7]
    assert drawn["ReduNet, variant 0"] == pytest.approx([0.8, 0.7, 0.5, 0.5, 0.5])
    assert accuracy.curves[0].deviations == pytest.approx([0.1, 0.1, 0.0, 0.0, 0.0])
    (words,), (of_rates,) = plots_of(html_of(RECORDS["two variants"]))
    for name in ("0.959  ReduNet, variant 1", "0.961  ReduNet, paper (theirs)"):
        assert re.sub(r"\s+", " ", name) in re.sub(r"\s+", " ", words)
    rates = found[1].views[0].drawing
    assert isinstance(rates, Lines)
    assert {curve.name: curve.values for curve in rates.curves} == {
        "ΔR = R − R_c, the objective": [1.0, 3.0],
        "R, all classes together": [4.0, 5.0],
        "R_c, class by class": [3.0, 2.0],
    }
    assert "ΔR = R − R_c, the objective" in of_rates


def test_a_confusion_matrix_is_drawn_where_the_record_has_one() -> None:
    record = copy.deepcopy(RECORDS["one seed"])
    assert "Confusion matrix" not in html_of(record)
    record["methods"][0]["confusion"] = {"labels": [0, 1], "counts": [[3, 1], [0, 4]]}
    (view,) = figures_of(chapter(record))[1].views
    assert isinstance(view.drawing, HeatMap)
    assert view.drawing.values == [[0.75, 0.25], [0.0, 1.0]]
    assert view.drawing.bounds == (0.0, 0.25)  # colours are spent on mistakes
    assert view.drawing.mask_diagonal
    assert view.table.rows == [["0", "3", "1"], ["1", "0", "4"]]
    (words,) = plots_of(html_of(record))[1]
    assert "75% 25% 100%" in words
    said = "7 of 8 samples are labelled correctly. Most frequent mistake: 0 labelled as 1, 1 times."
    assert said in view.alt
    assert "](confusion.png)" in markdown_of(record, "confusion")


def test_hostile_names_are_shown_as_text() -> None:
    text = html_of(RECORDS["hostile"])
    found = Page(text)
    assert found.text.count(HOSTILE) >= 2  # title and heading
    assert sum(HOSTILE in words for words in found.text) >= 10
    assert {tag for tag, _ in found.tags} <= set(KNOWN.split())
    alts = [str(div["aria-label"]) for div in found.with_tag("div") if div.get("role") == "img"]
    assert f"ReduNet, {HOSTILE} from 0.999 to 0.959" in alts[0]
    drawn = plots_of(text)[0][0]
    assert "<" not in drawn
    shown = " ".join(unescape(drawn).split())
    assert f"0.959 ReduNet, {' '.join(HOSTILE.split())}" in shown
    assert "\n````sh\n" in markdown_of(RECORDS["hostile"])


def test_page_and_markdown_say_the_same() -> None:
    record = RECORDS["two variants"]
    found = Page(html_of(record))
    words = set(re.findall(r"[\w.]+", " ".join(found.text[found.text.index(record["what"]) :])))
    assert set(re.findall(r"[\w.]+", markdown_of(record))) - words <= {"sh"}
