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

from redunet.report.blocks import Block, Chapter, Code, Grid, Plot, Section, View, Words

LIBRARY = "plotly-cartesian.min.js"


def page(chapters: Sequence[Chapter], title: str | None = None) -> str:
    """The page of one chapter or several.

    Nothing is loaded from anywhere. Of scripts, only the two that the page comes
    with run, whatever a record may say: the page's policy names their hashes.

    Parameters
    ----------
    chapters : sequence of Chapter
        At least one.
    title : str, default=that of the chapters
    """
    title = title or " · ".join(chapter.title for chapter in chapters)
    scripts = [asset(LIBRARY), asset("page.js")]
    plots: list[Plot] = []
    if len(chapters) == 1:
        body = _sections(chapters[0].sections, "h2", plots)
    else:
        links = [f'<li><a href="#{i}">{escape(c.title)}</a></li>' for i, c in enumerate(chapters)]
        body = ["<nav>\n<ul>", *links, "</ul>\n</nav>"]
        for index, chapter in enumerate(chapters):
            body.append(f'<article id="{index}">\n<h2>{escape(chapter.title)}</h2>')
            body += [*_sections(chapter.sections, "h3", plots), "</article>"]
    drawn = [[_view(view) for view in plot.views] for plot in plots]
    return "\n".join(
        [
            '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">',
            f'<meta http-equiv="Content-Security-Policy" content="{_policy(scripts)}">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            f"<title>{escape(title)}</title>\n<style>{asset('page.css')}</style>\n</head>",
            f"<body>\n<header>\n<h1>{escape(title)}</h1>",
            '<button id="theme" type="button" hidden>Dark theme</button>\n</header>',
            '<p id="unscripted">The plots need scripts; the tables behind them do not.</p>',
            "<main>",
            *body,
            "</main>",
            f'<script type="application/json" id="plots">{_json(drawn)}</script>',
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


def _view(view: View) -> dict[str, Any]:
    return {
        "alt": view.alt,
        "traces": view.traces,
        "layout": view.layout,
        "height_per_width": view.height_per_width,
        "rows": view.rows,
    }


def _sections(sections: Sequence[Section], heading: str, plots: list[Plot]) -> list[str]:
    """Sections as HTML; their plots are added to those that there are."""
    lines = []
    for section in sections:
        lines.append(f"<section>\n<{heading}>{escape(section.title)}</{heading}>")
        lines += [*filter(None, (_html(block, plots) for block in section.blocks)), "</section>"]
    return lines


def _html(block: Block, plots: list[Plot]) -> str:
    match block:
        case Words(text):
            return f"<p>{escape(text)}</p>"
        case Code(text):
            return f"<pre><code>{escape(text)}</code></pre>"
        case Grid():
            return table(block)
        case Plot():
            plots.append(block)
            return _figure(block, len(plots) - 1)
    return ""


def _figure(plot: Plot, number: int) -> str:
    first = plot.views[0]
    lines = ["<figure>"]
    if len(plot.views) > 1:
        options = "".join(f"<option>{escape(view.name)}</option>" for view in plot.views)
        lines.append(f"<label>{escape(plot.choose)} <select>{options}</select></label>")
    lines.append(
        f'<div class="plot" data-plot="{number}" role="img" aria-label="{escape(first.alt)}"></div>'
    )
    lines.append(f"<figcaption>{escape(plot.caption)}</figcaption>")
    lines.append("<details>\n<summary>The figures as a table</summary>")
    lines += [table(view.table) for view in plot.views]
    return "\n".join([*lines, "</details>\n</figure>"])


def table(grid: Grid) -> str:
    """A table as HTML, under its caption."""
    kinds = [' class="number"' if i >= grid.text_columns else "" for i in range(len(grid.headings))]
    heads = [
        f'<th scope="col"{kind}>{escape(heading)}</th>' if heading else f"<td{kind}></td>"
        for heading, kind in zip(grid.headings, kinds, strict=True)
    ]
    lines = []
    for index, (label, *cells) in enumerate(grid.rows):
        inside = "".join(
            f"<td{kind}>{_cell(cell)}</td>" for cell, kind in zip(cells, kinds[1:], strict=True)
        )
        strong = ' class="strong"' if index in grid.strong else ""
        lines.append(f'<tr{strong}><th scope="row">{escape(label)}</th>{inside}</tr>')
    caption = escape(grid.caption)
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
