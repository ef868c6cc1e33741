"""Pictures of the site in a browser: ``python -m docsite.screenshots`` writes docs/screenshots.

It needs Chromium (``make browser``) and the site (``make docs``). With names of pages it writes
pictures of these to the folder that ``--out`` names, to look at.
"""

from __future__ import annotations

import argparse
import io
import shutil
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

from PIL import Image
from playwright.sync_api import Request, sync_playwright

from docsite.source import ROOT

SITE, FOLDER = ROOT / "site", ROOT / "docs" / "screenshots"
WIDTHS = {"desktop": (1280, 800), "phone": (390, 844)}
SHOWN = (
    ("index", "desktop", ""),
    ("how-it-works", "desktop", "#5-expansion"),
    ("idea", "phone", ""),
)


class Quiet(SimpleHTTPRequestHandler):
    """Files of the site, without a word about each."""

    def log_message(self, *args: Any) -> None:
        """Say nothing."""


@contextmanager
def served() -> Iterator[str]:
    """The site behind HTTP, as readers have it; its address."""
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(SITE))) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def _note(fetched: list[str], request: Request) -> None:
    fetched.append(request.url)


def pictures(
    pages: Sequence[tuple[str, str, str]], out: Path, scheme: str = "light", whole: bool = False
) -> None:
    """Write a PNG file of each page, kind of screen, and place in the page."""
    out.mkdir(parents=True, exist_ok=True)
    with served() as address, sync_playwright() as playwright:
        program = shutil.which("chromium") or shutil.which("chromium-browser")
        browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        for page, screen, place in pages:
            width, height = WIDTHS[screen]
            tab = browser.new_page(
                viewport={"width": width, "height": height},
                color_scheme="dark" if scheme == "dark" else "light",
            )
            fetched: list[str] = []
            tab.on("request", partial(_note, fetched))
            tab.goto(f"{address}/{page}.html{place}")
            tab.wait_for_timeout(300)
            wide = tab.evaluate("document.documentElement.scrollWidth")
            if wide > width:
                print(f"{page} on a {screen}: {wide} pixels wide, more than {width}")
            if other := [url for url in fetched if not url.startswith((address, "data:"))]:
                raise SystemExit(f"{page} fetches {other[0]}: pages may not, see mkdocs.yml")
            data = tab.screenshot(full_page=whole)
            name = f"{page.replace('/', '-')}-{screen}.png"
            few = Image.open(io.BytesIO(data)).convert("RGB").quantize(256)
            few.save(out / name, optimize=True)
            tab.close()
        browser.close()


def main(arguments: list[str]) -> None:
    """Write the pictures that are committed, or those asked for."""
    parser = argparse.ArgumentParser(prog="python -m docsite.screenshots", description=__doc__)
    parser.add_argument("pages", nargs="*")
    parser.add_argument("--out", type=Path, default=FOLDER)
    parser.add_argument("--screen", choices=WIDTHS, default="desktop")
    parser.add_argument("--scheme", choices=("light", "dark"), default="light")
    parser.add_argument("--whole", action="store_true")
    given = parser.parse_args(arguments)
    pages = [(page, given.screen, "") for page in given.pages] or SHOWN
    pictures(pages, given.out, given.scheme, given.whole)


if __name__ == "__main__":
    main(sys.argv[1:])
