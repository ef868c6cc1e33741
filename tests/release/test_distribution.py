"""Wheel and sdist: what is in them, and that they are described well.

`make release` installs the wheel and uses it.
"""

from __future__ import annotations

import re
import sys
import tarfile
import zipfile
from email import message_from_bytes
from pathlib import Path

import pytest

from redunet import __version__
from tests.release.environments import ROOT, built, run

pytest.importorskip("build", reason="build is not installed: pip install build")


@pytest.fixture(scope="module")
def dist(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    return built(tmp_path_factory.mktemp("dist"))


def test_they_hold_what_they_should(dist: tuple[Path, Path]) -> None:
    wheel, sdist = dist
    assert wheel.name == f"redunet-{__version__}-py3-none-any.whl"
    with zipfile.ZipFile(wheel) as file:
        inside = set(file.namelist())
        metadata = message_from_bytes(file.read(f"redunet-{__version__}.dist-info/METADATA"))
    source = ROOT / "src"
    parts = [
        one for one in source.glob("redunet*/**/*") if one.is_file() and "egg-info" not in str(one)
    ]
    wanted = {one.relative_to(source).as_posix() for one in parts if "__pycache__" not in one.parts}
    info = f"redunet-{__version__}.dist-info/"
    assert {name for name in inside if not name.startswith(info)} == wanted
    assert {"redunet/py.typed", f"{info}licenses/LICENSE", f"{info}entry_points.txt"} <= inside
    assert metadata["Requires-Python"] == ">=3.11"
    classifiers = metadata.get_all("Classifier", [])
    for minor in (11, 12, 13):
        assert f"Programming Language :: Python :: 3.{minor}" in classifiers
    extras = set(metadata.get_all("Provides-Extra", []))
    runtime = extras - {"all", "avalanche", "dev", "docs"}
    [of_all] = [
        one for one in metadata.get_all("Requires-Dist", []) if one.endswith('extra == "all"')
    ]
    named = re.search(r"redunet\[(.*)\]", of_all)
    assert named
    # receipts are part of serve
    assert {*named[1].split(","), "receipts"} == runtime
    with tarfile.open(sdist) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert {"pyproject.toml", "README.md", "LICENSE", "src/redunet/py.typed"} <= names


def test_their_descriptions_are_valid(dist: tuple[Path, Path]) -> None:
    said = run(sys.executable, "-m", "twine", "check", "--strict", *dist)
    assert said.count("PASSED") == 2


def test_the_changelog_tells_of_this_version() -> None:
    headings = re.findall(r"^## (\S+),", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert headings[0] == __version__
