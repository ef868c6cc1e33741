"""What MkDocs calls while it builds the site."""

from __future__ import annotations

import re
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

from docsite import commands, reference
from docsite.formulas import with_formulas
from docsite.links import PAGES, for_site, links, repository_path, shown, site_path
from docsite.notebooks import NOTEBOOKS, as_page, pictures
from docsite.source import ROOT

_ORIGINS = {place: path for path, place in PAGES.items() if place != "index.md"}
_NOTES = sorted(
    path.relative_to(ROOT).as_posix()
    for folder in ("results", "benchmarks")
    for path in (ROOT / folder).glob("*.md")
    if path.name != "README.md"
)
"""Notes of the laboratory: pages without a place in the navigation."""


def _origin(place: str) -> str:
    """The file of the repository that a page of the site is made of."""
    return place if place in _NOTES else _ORIGINS.get(place, f"docs/{place}")


def on_files(files: Files, *, config: MkDocsConfig) -> Files:
    """Add pages and pictures that are not in docs/."""
    for path, place in PAGES.items():
        if place in _ORIGINS:
            text = (ROOT / path).read_text(encoding="utf-8")
            files.append(File.generated(config, place, content=text))
    for place in _NOTES:
        text = (ROOT / place).read_text(encoding="utf-8")
        files.append(File.generated(config, place, content=text))
    files.append(File.generated(config, "commands.md", content=commands.page()))
    for place, text in reference.pages().items():
        files.append(File.generated(config, place, content=text))
    for name in NOTEBOOKS:
        place = f"notebooks/{name}.md"
        files.append(File.generated(config, place, content=as_page(name)))
        for picture, data in pictures(name).items():
            files.append(File.generated(config, f"notebooks/{picture}", content=data))
    wanted = set()
    for page in files.documentation_pages():
        for link in links(page.content_string):
            if not link.external:
                wanted.add(repository_path(_origin(page.src_uri), link))
    for path in sorted(wanted):
        place = site_path(path)
        if files.get_file_from_path(place) is None and (ROOT / path).is_file():
            if path.endswith(".py"):
                files.append(File.generated(config, place, content=shown(ROOT / path)))
            else:
                files.append(File.generated(config, place, abs_src_path=str(ROOT / path)))
    return files


def on_page_markdown(markdown: str, *, page: Page, **kwargs: Any) -> str:
    """Let links lead to pages of the site."""
    place = page.file.src_uri
    if place.startswith("source/"):
        return markdown
    return for_site(markdown, _origin(place), place)


def on_page_content(html: str, *, page: Page, **kwargs: Any) -> str:
    """Put in formulas, and say which lines of code can be linked to."""
    if page.file.src_uri.startswith("source/"):
        page.present_anchor_ids |= set(re.findall(r'id="(__codelineno[^"]+)"', html))
        return html
    return with_formulas(html)
