"""Text from outside: what a terminal or a spreadsheet would act on is written out."""

from __future__ import annotations

import sys
import unicodedata

import pytest

from redunet.text import csv_cell, shown


def test_no_character_that_acts_is_shown() -> None:
    for code in range(sys.maxunicode + 1):
        one = chr(code)
        acts = unicodedata.category(one) in ("Cc", "Cs", "Zl", "Zp") or (
            unicodedata.bidirectional(one)
            in ("LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI")
        )
        assert acts <= (shown(one) != one), hex(code)
        assert shown(one).isascii() or shown(one) == one


def test_ordinary_text_is_shown_as_it_is() -> None:
    text = "Zürich, 鳥, père\u0301, 👩\u200d🚀, C:\\birds, [bold]"
    assert shown(text) == text
    assert shown("\x1b[31m\r\n\udcff\x9b") == "\\x1b[31m\\r\\n\\udcff\\x9b"


@pytest.mark.parametrize("text", ["=1+1", "+cmd|' /C calc'!A0", "-x", "@SUM(A1)", "\t=1", "\r=1"])
def test_cells_that_would_be_formulas(text: str) -> None:
    assert csv_cell(text) == "'" + text


@pytest.mark.parametrize("text", ["", "ant", "-0.5", "+3", "-1e-7", "1=1", "photos/=1.png", "'=1"])
def test_other_cells_are_left_alone(text: str) -> None:
    assert csv_cell(text) == text
