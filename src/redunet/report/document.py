"""A report as Markdown."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from urllib.parse import quote

from redunet.errors import SettingsError
from redunet.report.blocks import Block, Code, Grid, Picture, Plot, Section, Words
from redunet.report.sections import sections
from redunet.report.seeds import Record
from redunet.report.tables import grid_markdown, markdown_text

Contents = Callable[[Record], list[Section]]
"""From a record to what its report says."""


def to_markdown(record: Record, pictures: Mapping[str, str], contents: Contents = sections) -> str:
    """The report as Markdown.

    Parameters
    ----------
    record : mapping
        Of a reproduction, or of what ``contents`` tells of.
    pictures : mapping from a name to a file
        Where pictures lie, relative to the report: "accuracy" and "rate". One
        that is not named is left out.
    contents : callable, default=those of a reproduction
        The sections of the report, from the record.
    """
    found = _checked(contents(record), pictures)
    blocks = [f"# {markdown_text(record['what'])}"]
    for section in found:
        lines = [_markdown(block, pictures) for block in section.blocks]
        if any(lines):
            blocks += [f"## {section.title}", *filter(None, lines)]
    return "\n\n".join(blocks) + "\n"


def _checked(found: list[Section], pictures: Collection[str]) -> list[Section]:
    """The sections, after a look at whether all pictures given have a place in them."""
    blocks = [block for section in found for block in section.blocks]
    blocks += [one for block in blocks if isinstance(block, Plot) for one in block.instead]
    places = [block.name for block in blocks if isinstance(block, Picture)]
    for name in pictures:
        if name not in places:
            raise SettingsError(f"expected pictures among {', '.join(places)}, got {name!r}")
    return found


def _markdown(block: Block, pictures: Mapping[str, str]) -> str:
    match block:
        case Words(text):
            return markdown_text(text)
        case Code(text):
            runs = map(len, re.findall("`+", text))
            fence = "`" * max(3, 1 + max(runs, default=0))
            return f"{fence}sh\n{text}\n{fence}"
        case Grid():
            return f"{markdown_text(block.caption)}:\n\n{grid_markdown(block)}"
        case Picture(name, alt, caption) if name in pictures:
            return f"![{markdown_text(alt)}]({quote(pictures[name])})\n\n{markdown_text(caption)}"
        case Plot():
            return "\n\n".join(filter(None, (_markdown(one, pictures) for one in block.instead)))
    return ""
