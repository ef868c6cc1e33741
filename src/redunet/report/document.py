"""A report as Markdown, and as one HTML page that needs nothing else."""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Collection, Mapping
from html import escape
from urllib.parse import quote

from redunet.errors import SettingsError
from redunet.report.blocks import Block, Code, Grid, Picture, Section, Words
from redunet.report.sections import sections
from redunet.report.seeds import Record
from redunet.report.tables import grid_markdown, markdown_text

CSS = """
:root { color-scheme: light dark; --page: #ffffff; --ink: #1b1f24; --muted: #57606a;
  --rule: #d0d7de; --shade: #f6f8fa; --good: #116329; --bad: #b42318; }
@media (prefers-color-scheme: dark) { :root { --page: #0d1117; --ink: #e6edf3; --muted: #9aa4af;
  --rule: #30363d; --shade: #161b22; --good: #56d364; --bad: #ff7b72; } }
* { box-sizing: border-box; }
body { margin: 0 auto; padding: 1.5rem 1rem 4rem; max-width: 54rem; background: var(--page);
  color: var(--ink); font: 1rem/1.55 system-ui, -apple-system, "Segoe UI", Roboto, sans-serif;
  overflow-wrap: break-word; }
h1 { font-size: 1.7rem; line-height: 1.25; margin: 0.5rem 0 1rem; }
h2 { font-size: 1.2rem; margin: 2.5rem 0 0.75rem; padding-bottom: 0.25rem;
  border-bottom: 1px solid var(--rule); }
p { margin: 0.6rem 0; }
.caption, figcaption { color: var(--muted); font-size: 0.9rem; margin: 1.2rem 0 0.4rem; }
figcaption { margin-top: 0.4rem; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; font-size: 0.9rem; font-variant-numeric: tabular-nums; }
th, td { padding: 0.35rem 0.6rem; border-bottom: 1px solid var(--rule); text-align: left;
  vertical-align: top; }
th { font-weight: normal; }
thead th { color: var(--muted); vertical-align: bottom; }
tbody th { min-width: 8rem; max-width: 24rem; }
.number { text-align: right; white-space: nowrap; }
thead .number { white-space: normal; }
.strong > * { font-weight: 600; background: var(--shade); }
.deviation { display: block; color: var(--muted); font-weight: normal; font-size: 0.85em; }
.identical { color: var(--good); } .different { color: var(--bad); font-weight: 600; }
pre { background: var(--shade); border: 1px solid var(--rule); border-radius: 6px;
  padding: 0.7rem 0.9rem; overflow-x: auto; font-size: 0.9rem; }
figure { margin: 1.2rem 0; }
img { display: block; width: 100%; height: auto; background: #ffffff; border-radius: 6px; }
@media (max-width: 36rem) { body { padding: 1rem 0.75rem 3rem; } h1 { font-size: 1.4rem; }
  table { font-size: 0.75rem; } th, td { padding: 0.3rem 0.2rem; } tbody th { min-width: 5rem; }
  img { min-width: 36rem; } }
"""

# Nothing is loaded and nothing runs, whatever a record may say.
POLICY = "default-src 'none'; img-src data:; style-src 'unsafe-inline'"


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
        blocks.append(f"## {section.title}")
        blocks += [_markdown(block, pictures) for block in section.blocks]
    return "\n\n".join(filter(None, blocks)) + "\n"


def to_html(record: Record, pictures: Mapping[str, bytes], contents: Contents = sections) -> str:
    """The report as an HTML page, with its pictures inside and no script.

    Parameters
    ----------
    record : mapping
        Of a reproduction, or of what ``contents`` tells of.
    pictures : mapping from a name to the bytes of a PNG file
        "accuracy" and "rate". One that is not given is left out.
    contents : callable, default=those of a reproduction
        The sections of the report, from the record.
    """
    found = _checked(contents(record), pictures)
    title = escape(record["what"])
    body = [f"<h1>{title}</h1>"]
    for section in found:
        blocks = [_html(block, pictures) for block in section.blocks]
        body += [f"<section>\n<h2>{escape(section.title)}</h2>", *filter(None, blocks)]
        body.append("</section>")
    return "\n".join(
        [
            '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">',
            f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            f"<title>{title}</title>\n<style>{CSS}</style>\n</head>\n<body>\n<main>",
            *body,
            "</main>\n</body>\n</html>\n",
        ]
    )


def _checked(found: list[Section], pictures: Collection[str]) -> list[Section]:
    """The sections, after a look at whether all pictures given have a place in them."""
    blocks = [block for section in found for block in section.blocks]
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
    return ""


def _html(block: Block, pictures: Mapping[str, bytes]) -> str:
    match block:
        case Words(text):
            return f"<p>{escape(text)}</p>"
        case Code(text):
            return f"<pre><code>{escape(text)}</code></pre>"
        case Grid():
            return _html_table(block)
        case Picture(name, alt, caption) if name in pictures:
            data = base64.b64encode(pictures[name]).decode("ascii")
            image = f'<img alt="{escape(alt)}" src="data:image/png;base64,{data}">'
            caption = escape(caption)
            scroll = f'<div class="scroll" role="region" aria-label="{caption}" tabindex="0">'
            caption = f"<figcaption>{caption}</figcaption>"
            return f"<figure>\n{scroll}\n{image}\n</div>\n{caption}\n</figure>"
    return ""


def _html_table(grid: Grid) -> str:
    kinds = [' class="number"' if i >= grid.text_columns else "" for i in range(len(grid.headings))]
    heads = [
        f'<th scope="col"{kind}>{escape(heading)}</th>' if heading else f"<td{kind}></td>"
        for heading, kind in zip(grid.headings, kinds, strict=True)
    ]
    lines = []
    for index, (label, *cells) in enumerate(grid.rows):
        inside = "".join(
            f"<td{kind}>{_html_cell(cell)}</td>"
            for cell, kind in zip(cells, kinds[1:], strict=True)
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


def _html_cell(cell: str) -> str:
    if cell in ("identical", "different"):
        return f'<span class="{cell}">{cell}</span>'
    if figures := re.fullmatch(r"(\S+) (± \S+)", cell):
        return f'{escape(figures[1])} <span class="deviation">{escape(figures[2])}</span>'
    return escape(cell)
