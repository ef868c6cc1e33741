"""The page and its documentation: files that are read once, by names that are known."""

from __future__ import annotations

import html
import json
from importlib.resources import files as resources
from typing import Any

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
    known = schema.get("components", {}).get("schemas", {})
    parts = [
        _operation(path, verb, one, known)
        for path, of in schema["paths"].items()
        for verb, one in of.items()
    ]
    title = html.escape(f"{schema['info']['title']} {schema['info']['version']}: HTTP API")
    return (
        '<!doctype html><html lang="en"><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{title}</title>"
        '<link rel="stylesheet" href="/assets/page.css"><body class="docs"><main>'
        f"<h1>{title}</h1><p>{html.escape(schema['info'].get('summary', ''))} "
        'The same for programs: <a href="/openapi.json">openapi.json</a>. Changes take the header '
        "<code>Authorization: Bearer TOKEN</code>. Errors are one line: "
        '<code>{"error": "…"}</code>.</p>' + "".join(parts) + "</main></body></html>"
    )


def _operation(path: str, verb: str, operation: dict[str, Any], known: dict[str, Any]) -> str:
    said = html.escape(operation.get("description") or operation.get("summary") or "")
    lock = " <small>token</small>" if operation.get("security") else ""
    content = operation.get("requestBody", {}).get("content", {})
    bodies = "".join(_fields(kind, one.get("schema", {}), known) for kind, one in content.items())
    given = "".join(
        f"<li><code>{html.escape(one['name'])}</code> ({one['in']}) "
        f"{html.escape(one.get('description', ''))}</li>"
        for one in operation.get("parameters", [])
    )
    statuses = ", ".join(
        f"{html.escape(status)}" for status in sorted(operation.get("responses", {}))
    )
    return (
        f"<section><h2><code>{verb.upper()} {html.escape(path)}</code>{lock}</h2><p>{said}</p>"
        f"{bodies}{'<ul>' + given + '</ul>' if given else ''}<p>Statuses: {statuses}.</p></section>"
    )


def _fields(kind: str, schema: dict[str, Any], known: dict[str, Any]) -> str:
    schema = known.get(schema.get("$ref", "").rpartition("/")[2], schema)
    rows = "".join(
        f"<li><code>{html.escape(name)}</code> {html.escape(one.get('description', ''))}"
        + (f" Default {html.escape(json.dumps(one['default']))}." if one.get("default") else "")
        + "</li>"
        for name, one in schema.get("properties", {}).items()
    )
    return f"<p>Body: {html.escape(kind)}</p>" + (f"<ul>{rows}</ul>" if rows else "")
