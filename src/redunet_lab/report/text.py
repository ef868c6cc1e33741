"""Tables and reports as Markdown and for the terminal."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from typing import Any, Literal
from urllib.parse import quote

from rich import box
from rich.table import Table as RichTable
from rich.text import Text as RichText

from redunet.report.blocks import Block, Chapter, Code, Figure, Section, Table, Text
from redunet.widths import FirstThatFits


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


def for_terminal(sections: Sequence[Section]) -> Iterator[Any]:
    """Tables and paragraphs of sections, to be printed by a Rich console."""
    for section in sections:
        for block in section.blocks:
            match block:
                case Table():
                    yield terminal_table(block)
                case Text(text):
                    yield RichText(text)


def terminal_table(table: Table) -> FirstThatFits:
    """A table for the terminal, where it is narrow without some of the tasks in the middle."""
    tasks = [index for index, name in enumerate(table.headings) if re.fullmatch(r"task \d+", name)]
    tables = [_whole_table(table)]
    for step in range(2, len(tasks)):
        left_out = {index for index in tasks[:-1] if (index - tasks[0]) % step}
        columns = [index for index in range(len(table.headings)) if index not in left_out]
        fewer = replace(
            table,
            caption=f"{table.caption} (of {len(tasks)} tasks, those that fit)",
            headings=[table.headings[index] for index in columns],
            rows=[[row[index] for index in columns] for row in table.rows],
        )
        tables.append(_whole_table(fewer))
    return FirstThatFits(*tables, wrapped=True)


def _whole_table(table: Table) -> RichTable:
    """Deviations, and words above numbers, go on lines of their own."""
    found = RichTable(
        title=RichText(table.caption),
        title_justify="left",
        box=box.SIMPLE_HEAD,
        padding=0,
        pad_edge=False,
    )
    for index, heading in enumerate(table.headings):
        number = index >= table.text_columns
        justify: Literal["left", "right"] = "right" if number else "left"
        words = heading.replace(" ", "\n") if number else heading
        found.add_column(RichText(words), justify=justify, no_wrap=number)
    for index, row in enumerate(table.rows):
        style = "bold" if index in table.strong else ""
        found.add_row(*map(_terminal_cell, row), style=style)
    return found


def _terminal_cell(cell: str) -> RichText:
    mean, plus_minus, deviation = cell.partition(" ± ")
    return RichText.assemble(mean, (f"\n±{deviation}", "dim")) if plus_minus else RichText(cell)
