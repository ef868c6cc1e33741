"""Pages of the Python reference: a page a package, with the names that it exports."""

from __future__ import annotations

import inspect
from importlib import import_module

import redunet

PACKAGES = {
    "classifier": "redunet.estimators",
    "core": "redunet.core",
    "features": "redunet.features",
    "encoders": "redunet.encoders",
    "distributed": "redunet.distributed",
    "export": "redunet.export",
    "report": "redunet.report",
    "shift_invariant": "redunet.shift_invariant",
    "safety": "redunet.safety",
    "errors": "redunet.errors",
    "lab": "redunet_lab",
    "datasets": "redunet_lab.datasets",
    "baselines": "redunet_lab.baselines",
}
"""The package that each page is about."""


def pages() -> dict[str, str]:
    """All pages of the reference, by their place on the site."""
    listed: set[object] = set()
    return {f"api/{name}.md": _page(package, listed) for name, package in PACKAGES.items()}


def _page(package: str, listed: set[object]) -> str:
    """The page of a package; a name that an earlier page has is not listed again."""
    title, _, rest = inspect.cleandoc(import_module(package).__doc__ or package).partition("\n")
    parts = [f"# {package}", title, rest.strip()]
    for name in _names(package):
        module, _, attribute = name.rpartition(".")
        thing = getattr(import_module(module), attribute)
        if not isinstance(thing, type) and not callable(thing):
            continue
        if thing not in listed:
            listed.add(thing)
            parts.append(f"::: {name}")
    return "\n\n".join(part for part in parts if part) + "\n"


def _names(package: str) -> list[str]:
    """The public names of a package: those that `redunet` itself has first."""
    top = [
        f"redunet.{name}"
        for name in redunet.__all__
        if getattr(getattr(redunet, name), "__module__", "").startswith(package)
    ]
    exported = getattr(import_module(package), "__all__", [])
    return [*top, *(f"{package}.{name}" for name in exported)]
