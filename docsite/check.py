"""Check the pages of the built site: ``python -m docsite.check``.

Every link within the site leads to a page and an anchor that exist; no script, style sheet, font
or picture comes from elsewhere; links to other sites are listed in site/external-links.txt, and
not followed.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

from docsite.source import ROOT

SITE = ROOT / "site"
_LOADED = {
    ("script", "src"),
    ("img", "src"),
    ("iframe", "src"),
    ("source", "src"),
    ("link", "href"),
}

_IN_STYLES = re.compile(r"(?:@import|url\()\s*['\"]?(https?:[^'\")\s]+)")


class Page(HTMLParser):
    """What a page of HTML refers to, and what can be referred to in it."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.ids: set[str] = set()
        self.links: list[str] = []
        self.loaded: list[str] = []
        self.without_description = 0
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: Sequence[tuple[str, str | None]]) -> None:
        """Note what one tag has."""
        given = dict(attrs)
        self.ids |= {value for name in ("id", "name") if (value := given.get(name))}
        for name, value in attrs:
            if value and (tag, name) in _LOADED:
                self.loaded.append(value)
            elif value and (tag, name) == ("a", "href"):
                self.links.append(value)
        if tag == "img" and not given.get("alt"):
            self.without_description += 1


def faults(site: Path) -> tuple[list[str], set[str]]:
    """What is wrong with a site, and its links to other sites."""
    pages = {path: Page(path.read_text(encoding="utf-8")) for path in sorted(site.rglob("*.html"))}
    wrong, external = [], set()
    for path, page in pages.items():
        name = path.relative_to(site)
        if page.without_description:
            wrong.append(f"{name}: a picture without a description")
        for address in page.loaded:
            if urlsplit(address).netloc:
                wrong.append(f"{name}: loads {address}")
        for address in page.links + page.loaded:
            parts = urlsplit(address)
            if parts.scheme or parts.netloc:
                external.add(address)
                continue
            there = path
            if parts.path.startswith("/"):  # of 404.html, which may be shown anywhere
                there = site / unquote(parts.path).lstrip("/")
            elif parts.path:
                there = (path.parent / unquote(parts.path)).resolve()
            there = there / "index.html" if there.is_dir() else there
            if not there.is_file():
                wrong.append(f"{name}: {address} leads nowhere")
            elif parts.fragment and there in pages:
                anchor = unquote(parts.fragment)
                if anchor not in pages[there].ids and not anchor.startswith("__"):
                    wrong.append(f"{name}: {address} has no such place")
    for sheet in sorted(site.rglob("*.css")):
        for address in _IN_STYLES.findall(sheet.read_text(encoding="utf-8")):
            wrong.append(f"{sheet.relative_to(site)}: loads {address}")
    return wrong, external


def main() -> int:
    """Print what is wrong, and list links to other sites."""
    wrong, external = faults(SITE)
    (SITE / "external-links.txt").write_text("\n".join(sorted(external)) + "\n", encoding="utf-8")
    n = len(list(SITE.rglob("*.html")))
    print(f"{n} pages in site/, {len(wrong)} faults; open site/index.html")
    print(f"{len(external)} links to other sites, not followed: site/external-links.txt")
    print("\n".join(wrong), end="\n" if wrong else "")
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
