"""What must hold before a release, in minutes: `make release` runs it, and writes dist/.

The wheel in fresh environments, with the lowest versions that it declares and with the newest;
its types, used by a project of somebody else; and a software bill of materials.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
import tomllib
from pathlib import Path

import pytest
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator

from redunet import __version__
from tests.release.environments import ROOT, SMOKE, built, install, new, run, versions

DIST = ROOT / "dist"

LOWEST = [
    one.split(">=")
    for one in tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]
]
"""The names of what is needed always, and the lowest versions declared."""

OWN_TORCH = bool(os.environ.get("OWN_TORCH"))
"""Whether to install PyTorch too, which may take gigabytes, in place of the one that is here."""

PYTHON = os.environ.get("RELEASE_PYTHON", sys.executable)
"""Of fresh environments; another version than that of the tests needs a PyTorch of its own."""


@pytest.fixture(scope="module")
def wheel() -> Path:
    shutil.rmtree(DIST, ignore_errors=True)
    return built(DIST)[0]


@pytest.fixture(scope="module")
def newest(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    python = new(tmp_path_factory.mktemp("newest") / "env", PYTHON, torch=not OWN_TORCH)
    install(python, wheel)
    return python


def used(python: Path) -> str:
    """The sha256 of the model that an environment's package makes, after using it."""
    said, digest = run(python, "-I", SMOKE).splitlines()
    assert said == f"redunet {__version__}"
    assert run(python.with_name("redunet"), "--version") == f"redunet {__version__}\n"
    where = run(python, "-I", "-c", "import redunet; print(redunet.__file__)").strip()
    assert Path(where).is_relative_to(python.parents[1])
    found = versions(python)
    print(", ".join(f"{name} {found[name]}" for name, _ in LOWEST if name in found))
    return digest


def test_it_works_with_the_lowest_versions(wheel: Path, tmp_path: Path) -> None:
    python = new(tmp_path / "env", PYTHON, torch=not OWN_TORCH)
    # The lowest versions are those of what is asked for: of the requirements themselves.
    needs = ROOT / "pyproject.toml"
    # PyTorch needs some of them too, and has brought their newest versions.
    install(python, wheel, "--requirement", needs, "--resolution", "lowest-direct", "--upgrade")
    found = versions(python)
    for name, version in LOWEST:
        if name in found:
            assert f"{found[name]}.".startswith(f"{version}."), name
    assert used(python) == run(sys.executable, SMOKE).splitlines()[1]


def test_it_works_with_the_newest_versions(newest: Path) -> None:
    assert used(newest) == run(sys.executable, SMOKE).splitlines()[1]


def test_its_types_can_be_used(newest: Path, tmp_path: Path) -> None:
    project = Path(shutil.copytree(Path(__file__).with_name("typed_project"), tmp_path / "p"))
    words = [sys.executable, "-m", "mypy", "--python-executable", os.fspath(newest)]
    assert "Success: no issues found in 1 source file" in run(*words, "right.py", cwd=project)
    with pytest.raises(RuntimeError) as refused:
        run(*words, "wrong.py", cwd=project)
    found = {int(n) for n in re.findall(r"^wrong\.py:(\d+): error", str(refused.value), re.M)}
    lines = (project / "wrong.py").read_text().splitlines()
    assert found == {n for n, line in enumerate(lines, 1) if line.endswith("# wrong")}


def test_its_bill_of_materials_is_valid(newest: Path) -> None:
    path = DIST / f"redunet-{__version__}.cdx.json"
    words = [sys.executable, "-m", "cyclonedx_py", "environment", "--output-reproducible"]
    project = ROOT / "pyproject.toml"
    run(*words, "--pyproject", project, "--of", "JSON", "--output-file", path, newest)
    text = path.read_text()
    assert JsonStrictValidator(SchemaVersion.V1_6).validate_str(text) is None
    listed = {one["name"]: one for one in json.loads(text)["components"]}
    assert {"numpy", "scikit-learn", "torch", "typer"} <= listed.keys()
    assert all(one["version"] for one in listed.values())
    assert os.fspath(ROOT) not in text
