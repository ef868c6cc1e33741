"""A report as one HTML page that needs nothing else: plots, tables, two themes."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Sequence
from html import escape
from importlib.resources import files
from typing import Any

from redunet.report.blocks import Block, Chapter, Code, Figure, Section, Table, Text
from redunet.report.plotly import drawn

LIBRARY = "plotly-cartesian.min.js"


def to_html(chapters: Sequence[Chapter]) -> str:
    """The page of one chapter or several.

    Nothing is loaded from anywhere. Of scripts, only the two that the page comes
    with run, whatever a record may say: the page's policy names their hashes.

    Parameters
    ----------
    chapters : sequence of Chapter
        At least one.
    """
    title = " · ".join(chapter.title for chapter in chapters)
    scripts = [asset(LIBRARY), asset("page.js")]
    figures: list[Figure] = []
    body = _contents(chapters)
    for index, chapter in enumerate(chapters):
        if len(chapters) == 1:
            body += _sections(chapter.sections, index, "h2", figures)
        else:
            body.append(f'<article id="{index}">\n<h2>{escape(chapter.title)}</h2>')
            body += [*_sections(chapter.sections, index, "h3", figures), "</article>"]
    plots = [[drawn(view) for view in figure.views] for figure in figures]
    return "\n".join(
        [
            '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">',
            f'<meta http-equiv="Content-Security-Policy" content="{_policy(scripts)}">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            f"<title>{escape(title)}</title>\n<style>{asset('page.css')}</style>\n</head>",
            f"<body>\n<header>\n<h1>{escape(title)}</h1>",
            '<button id="theme" type="button" hidden>Dark theme</button>\n</header>',
            '<p id="unscripted">The plots need JavaScript; the tables behind them do not.</p>',
            "<main>",
            *body,
            "</main>",
            f'<script type="application/json" id="plots">{_json(plots)}</script>',
            *(f"<script>{script}</script>" for script in scripts),
            "</body>\n</html>\n",
        ]
    )


def asset(name: str) -> str:
    """A file that every page holds."""
    # Line ends as they are: a browser hashes what it reads.
    return (files("redunet.report") / "assets" / name).read_bytes().decode()


def _policy(scripts: Sequence[str]) -> str:
    digests = [hashlib.sha256(script.encode()).digest() for script in scripts]
    known = " ".join(f"'sha256-{base64.b64encode(digest).decode()}'" for digest in digests)
    return f"default-src 'none'; img-src data:; style-src 'unsafe-inline'; script-src {known}"


def _json(value: Any) -> str:
    """JSON that no word in it can end early."""
    dense = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return dense.replace("<", "\\u003c")


def _contents(chapters: Sequence[Chapter]) -> list[str]:
    """The table of contents."""
    lines = ["<nav>\n<ul>"]
    for index, chapter in enumerate(chapters):
        links = " · ".join(
            f'<a href="#{index}-{number}">{escape(section.title)}</a>'
            for number, section in enumerate(chapter.sections)
        )
        if len(chapters) > 1:
            links = f'<a href="#{index}">{escape(chapter.title)}</a>: {links}'
        lines.append(f"<li>{links}</li>")
    return [*lines, "</ul>\n</nav>"]


def _sections(
    sections: Sequence[Section], chapter: int, heading: str, figures: list[Figure]
) -> list[str]:
    """Sections as HTML; their figures are added to those that there are."""
    lines = []
    for number, section in enumerate(sections):
        title = f"<{heading}>{escape(section.title)}</{heading}>"
        lines.append(f'<section id="{chapter}-{number}">\n{title}')
        lines += [*(_html(block, figures) for block in section.blocks), "</section>"]
    return lines


def _html(block: Block, figures: list[Figure]) -> str:
    match block:
        case Text(text):
            return f"<p>{escape(text)}</p>"
        case Code(text):
            return f"<pre><code>{escape(text)}</code></pre>"
        case Table():
            return _table(block)
        case Figure():
            figures.append(block)
            return _figure(block, len(figures) - 1)


def _figure(figure: Figure, number: int) -> str:
    first = figure.views[0]
    lines = ["<figure>"]
    if len(figure.views) > 1:
        options = "".join(f"<option>{escape(view.name)}</option>" for view in figure.views)
        lines.append(f"<label>{escape(figure.choose)} <select>{options}</select></label>")
    lines.append(
        f'<div class="plot" data-plot="{number}" role="img" aria-label="{escape(first.alt)}"></div>'
    )
    lines.append(f"<figcaption>{escape(figure.caption)}</figcaption>")
    lines.append("<details>\n<summary>The figures as a table</summary>")
    lines += [_table(view.table) for view in figure.views]
    return "\n".join([*lines, "</details>\n</figure>"])


def _table(table: Table) -> str:
    """A table under its caption; it scrolls where there is no room, its first column stays."""
    columns = range(len(table.headings))
    kinds = [' class="number"' if i >= table.text_columns else "" for i in columns]
    heads = [
        f'<th scope="col"{kind}>{escape(heading)}</th>' if heading else f"<td{kind}></td>"
        for heading, kind in zip(table.headings, kinds, strict=True)
    ]
    lines = []
    for index, (label, *cells) in enumerate(table.rows):
        inside = "".join(
            f"<td{kind}>{_cell(cell)}</td>" for cell, kind in zip(cells, kinds[1:], strict=True)
        )
        strong = ' class="strong"' if index in table.strong else ""
        lines.append(f'<tr{strong}><th scope="row">{escape(label)}</th>{inside}</tr>')
    caption = escape(table.caption)
    return "\n".join(
        [
            f'<p class="caption">{caption}</p>',
            f'<div class="scroll" role="region" aria-label="{caption}" tabindex="0">\n<table>',
            f"<thead>\n<tr>{''.join(heads)}</tr>\n</thead>\n<tbody>",
            *lines,
            "</tbody>\n</table>\n</div>",
        ]
    )


def _cell(cell: str) -> str:
    if cell in ("identical", "different"):
        return f'<span class="{cell}">{cell}</span>'
    if figures := re.fullmatch(r"(\S+) (± \S+)", cell):
        return f'{escape(figures[1])} <span class="deviation">{escape(figures[2])}</span>'
    return escape(cell)
