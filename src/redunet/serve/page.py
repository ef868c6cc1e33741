"""The page and its documentation: files that are read once, by names that are known."""

from __future__ import annotations

from importlib.resources import files as resources
from typing import Any

from jinja2 import Environment, PackageLoader

_KINDS = {"html": "text/html; charset=utf-8", "css": "text/css", "js": "text/javascript"}
_PARTS = ("page.css", "page.js", "server.js", "show.js", "pad.js", "draw.js")

PATHS = {"/": "page.html", **{f"/assets/{name}": name for name in _PARTS}}
"""The files of the page, by path: these, and nothing else in any folder, can be asked for."""


def files() -> dict[str, tuple[str, bytes]]:
    """The files of the page by path, with their media types."""
    folder = resources("redunet.serve") / "assets"
    return {
        path: (_KINDS[name.rpartition(".")[2]], (folder / name).read_bytes())
        for path, name in PATHS.items()
    }


def documentation(schema: dict[str, Any]) -> str:
    """A page about an OpenAPI schema, without scripts and without other files."""
    pages = Environment(loader=PackageLoader("redunet.serve", "assets"), autoescape=True)
    return pages.get_template("docs.html").render(schema=schema)
