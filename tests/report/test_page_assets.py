"""What every page holds is what was published, and travels with the package."""

from __future__ import annotations

import hashlib
import tomllib
from importlib.resources import files

ASSETS = files("redunet.report") / "assets"


def test_the_library_is_as_it_was_published() -> None:
    noted = tomllib.loads((ASSETS / "plotly.toml").read_text())
    for name, digest in noted["sha256"].items():
        assert hashlib.sha256((ASSETS / name).read_bytes()).hexdigest() == digest
    assert set(noted["sha256"]) == {"plotly-cartesian.min.js", "plotly-LICENSE.txt"}
    head = (ASSETS / "plotly-cartesian.min.js").read_text(encoding="utf-8")[:300]
    assert f"v{noted['version']}\n" in head
    assert "Licensed under the MIT license" in head
    assert noted["licence"] == "MIT"
    assert "Permission is hereby granted, free of charge" in (
        ASSETS / "plotly-LICENSE.txt"
    ).read_text(encoding="utf-8")


def test_nothing_in_the_scripts_can_end_them_early() -> None:
    for name in ("plotly-cartesian.min.js", "page.js"):
        script = (ASSETS / name).read_bytes()
        assert b"</script" not in script.lower()
        assert b"<!--" not in script
        assert b"\r" not in script  # a browser would hash another text than the policy names


def test_the_package_names_its_assets() -> None:
    root = files("redunet").joinpath("../../pyproject.toml")
    declared = tomllib.loads(root.read_text(encoding="utf-8"))
    assert "report/assets/*" in declared["tool"]["setuptools"]["package-data"]["redunet"]
