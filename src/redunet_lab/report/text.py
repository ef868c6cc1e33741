"""Tables and reports as Markdown."""

from __future__ import annotations

import re
from collections.abc import Collection
from urllib.parse import quote

from redunet.report.blocks import Block, Chapter, Code, Figure, Table, Text


def to_markdown(chapter: Chapter, pictures: Collection[str]) -> str:
    """A report as Markdown."""
    blocks = [f"# {markdown_text(chapter.title)}"]
    for section in chapter.sections:
        lines = [_markdown(block, pictures) for block in section.blocks]
        if any(lines):
            blocks += [f"## {section.title}", *filter(None, lines)]
    return "\n\n".join(blocks) + "\n"


def _markdown(block: Block, pictures: Collection[str]) -> str:
    match block:
        case Text(text):
            return markdown_text(text)
        case Code(text):
            runs = map(len, re.findall("`+", text))
            fence = "`" * max(3, 1 + max(runs, default=0))
            return f"{fence}sh\n{text}\n{fence}"
        case Table():
            return f"{markdown_text(block.caption)}:\n\n{markdown_table(block)}"
        case Figure(name) if name in pictures:
            alt = markdown_text(block.views[0].alt)
            return f"![{alt}]({quote(name)}.png)\n\n{markdown_text(block.caption)}"
    return ""


def markdown_table(table: Table) -> str:
    r"""A table as Markdown, without its caption, whatever characters it has in it.

    Examples
    --------
    >>> print(markdown_table(Table("", ["", "task 1"], [["a|b", "0.999"]])))
    |  | task 1 |
    | --- | ---: |
    | a\|b | 0.999 |
    """
    width = range(len(table.headings))
    rules = ["---" if column < table.text_columns else "---:" for column in width]
    lines = [[markdown_text(heading) for heading in table.headings], rules]
    for index, row in enumerate(table.rows):
        label, *cells = map(markdown_text, row)
        lines.append([f"**{label}**" if index in table.strong and label else label, *cells])
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def markdown_text(text: str) -> str:
    """Text as Markdown that shows it as it is, on one line."""
    text = " ".join(text.split())
    text = re.sub(r"[\\`*\[\]|~$]|(?<![^\W_])_|_(?![^\W_])", r"\\\g<0>", text)
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
