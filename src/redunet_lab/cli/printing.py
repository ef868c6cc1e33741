"""Records as commands print them: the tables of their reports, as plain text."""

from __future__ import annotations

import re
from collections.abc import Mapping
from textwrap import wrap
from typing import Any

from redunet.cli.printing import fits, say, table
from redunet.report.blocks import Table, Text
from redunet_lab.report.sections import in_short

_LONGEST = 34
"""Characters of a cell, such as a hash, that a terminal of 80 columns has room for."""


def say_record(record: Mapping[str, Any]) -> None:
    """Print the most important sections of a record."""
    say(str(record["what"]))
    for block in [block for section in in_short(record) for block in section.blocks]:
        if isinstance(block, Table):
            say("", as_text(block), "")
        elif isinstance(block, Text):
            say(*wrap(block.text, 80))


def as_text(block: Table) -> str:
    """A table without deviations; where it would be too wide, only tasks, or the last of them."""
    lines = [[_short(cell) for cell in row] for row in (block.headings, *block.rows)]
    tasks = [place for place, name in enumerate(lines[0]) if re.fullmatch(r"task \d+", name)]
    everything, names = range(len(lines[0])), range(block.text_columns)
    text = ""
    for kept in (everything, [*names, *tasks], [*names, *tasks[-1:]]) if tasks else (everything,):
        headings, *rows = [[row[place] for place in kept] for row in lines]
        text = table(block.caption, headings, rows, block.text_columns)
        if fits(text):
            break
    return text


def _short(cell: str) -> str:
    cell = cell.partition(" ± ")[0]
    return cell if len(cell) <= _LONGEST else f"{cell[: _LONGEST - 2]}…"
