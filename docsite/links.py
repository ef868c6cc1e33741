"""Links of pages in docs/, where they lead, and what they become on the site.

On GitHub a page may link to any file of the repository. The site has pages for some of those
(`PAGES`), shows Python files with line numbers, and has copies of pictures and records.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from docsite.source import ROOT, line_of

PAGES = {
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "README.md": "index.md",
    "benchmarks/README.md": "benchmarks.md",
    "results/README.md": "records.md",
}
"""Pages of the site by the file of the repository that they show."""

_FENCE = re.compile(r"^( *)(```+|~~~+).*?^\1\2 *$", re.MULTILINE | re.DOTALL)
_SPAN = re.compile(r"(?<!`)(`+)(?!`).*?(?<!`)\1(?!`)", re.DOTALL)
_LINK = re.compile(
    r"""(?P<before>\[(?P<text>(?:[^\[\]`]|`[^`]*`)*)\]\(|(?:src|href)=")(?P<to>[^()\s"]+)(?=[)"])"""
)


@dataclass(frozen=True)
class Link:
    """A link in a page.

    Parameters
    ----------
    text : str
        What is shown; of a picture its description.
    to : str
        As written.
    start, end : int
        Where ``to`` stands in the page.
    """

    text: str
    to: str
    start: int
    end: int

    @property
    def external(self) -> bool:
        """Whether it leads out of the repository."""
        return bool(re.match(r"[a-z]+:", self.to))

    @property
    def path(self) -> str:
        """The file, without the anchor."""
        return self.to.partition("#")[0]

    @property
    def anchor(self) -> str:
        """The anchor in the file, or nothing."""
        return self.to.partition("#")[2]


def without_code(page: str) -> str:
    """A page in which all code is blank, of the same length."""

    def blank(match: re.Match[str]) -> str:
        return re.sub(r"[^\n]", " ", match[0])

    return _FENCE.sub(blank, page)


def links(page: str) -> Iterator[Link]:
    """All links and pictures of a page of Markdown."""
    text = without_code(page)
    spans = [match.span() for match in _SPAN.finditer(text)]
    for match in _LINK.finditer(text):
        start, end = match.span("to")
        if not any(a <= start and end <= b for a, b in spans):
            yield Link(match["text"] or "", match["to"], start, end)


def anchors(page: str) -> set[str]:
    """The anchors of the headings of a page of Markdown, as GitHub and the site name them."""
    return {
        re.sub(r"[\s-]+", "-", re.sub(r"[^\w\s-]", "", title).strip().lower())
        for title in re.findall(r"^#+ +(.+?) *$", without_code(page), re.MULTILINE)
    }


def repository_path(origin: str, link: Link) -> str:
    """The file of the repository that a link in the file ``origin`` leads to."""
    if not link.path:
        return origin
    return posixpath.normpath(posixpath.join(posixpath.dirname(origin), link.path))


def site_path(path: str) -> str:
    """The page or file of the site that stands for a file of the repository."""
    if path in PAGES:
        return PAGES[path]
    if path.startswith("docs/"):
        return path.removeprefix("docs/").replace(".ipynb", ".md")
    return f"source/{path}.md" if path.endswith(".py") else path


def for_site(page: str, origin: str, place: str) -> str:
    """A page of Markdown with the links that it has on the site.

    Parameters
    ----------
    page : str
    origin : str
        The file of the repository that the page is made of.
    place : str
        The page of the site.
    """
    parts, last = [], 0
    for link in links(page):
        if link.external or (origin.startswith("docs/") and link.to.startswith("#")):
            continue
        path = repository_path(origin, link)
        to = posixpath.relpath(site_path(path), posixpath.dirname(place) or ".")
        anchor = link.anchor
        code = re.fullmatch(r"`+ ?(.*?) ?`+", link.text)
        if path.endswith(".py") and code and not path.endswith(code[1]):
            anchor = f"__codelineno-0-{line_of(ROOT / path, code[1])}"
        parts += [page[last : link.start], f"{to}#{anchor}" if anchor else to]
        last = link.end
    return "".join([*parts, page[last:]])


def shown(path: Path) -> str:
    """A page that shows a Python file with line numbers."""
    name = path.relative_to(ROOT).as_posix()
    head = "---\nsearch:\n  exclude: true\nhide:\n  - navigation\n  - toc\n---\n"
    code = path.read_text(encoding="utf-8")
    return f'{head}\n# {name}\n\n````python linenums="1"\n{code}````\n'
