"""Pictures of terminals: made by running commands, small, and about the program as it is."""

from __future__ import annotations

import json
import re
from html import unescape
from pathlib import Path
from xml.etree import ElementTree

import pytest

from docsite.terminal_picture import SESSIONS, picture
from redunet import __version__
from tests.records import README, ROOT


def words_of(svg: str) -> str:
    return unescape(re.sub(r"<[^>]*>", " ", svg)).replace("\xa0", " ")


def test_a_picture_shows_what_is_typed_and_printed(tmp_path: Path) -> None:
    svg = picture(["redunet --version", "redunet lern"], tmp_path)
    ElementTree.fromstring(svg)
    words = words_of(svg)
    assert "$ redunet --version" in words
    assert f"redunet {__version__}" in words
    assert "no such command 'lern': did you mean 'learn'" in words
    assert "font-face" not in svg
    assert re.findall(r"https?://[^\"]*", svg) == ["http://www.w3.org/2000/svg"]


@pytest.mark.parametrize("name", SESSIONS)
def test_the_committed_pictures_are_small_and_linked(name: str) -> None:
    path = ROOT / "docs" / f"{name}.svg"
    words = words_of(path.read_text())
    assert path.stat().st_size < 40_000
    assert all(f"$ {command}" in words for command in SESSIONS[name])
    pages = README + (ROOT / "docs" / "tables.md").read_text()
    assert f"{name}.svg" in pages


def test_the_demo_in_the_picture_is_that_of_the_record() -> None:
    words = words_of((ROOT / "docs" / "terminal-demo.svg").read_text())
    record = json.loads((ROOT / "results" / "digits-demo.json").read_text())
    for key in ("before", "after", "never_seen"):
        assert record["forget"][key][:32] in words
    for task in record["methods"][0]["runs"][0]["tasks"]:
        assert f"{task['accuracy']:.4f}" in words
