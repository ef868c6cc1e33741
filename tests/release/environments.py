"""Wheel and sdist, and fresh environments to install them in.

A fresh environment may see the PyTorch of the environment that runs the tests, as builds for the
CPU are not to be had of every version. All else is installed, so that a dependency which is not
declared is missed.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from importlib.metadata import requires
from pathlib import Path

ROOT = Path(__file__).parents[2]
SMOKE = Path(__file__).with_name("smoke.py")
HERE = Path(sysconfig.get_path("purelib"))
UV = Path(sys.executable).with_name("uv")

_NO_SOURCE = (
    ".*",
    "__pycache__",
    "*.egg-info",
    "build",
    "dist",
    "demo",
    "demo-dask",
    "runs",
    "results",
)

_OF_TORCH = ("torch", "torchgen", "functorch", "torch.libs", "torch-*.dist-info")


def run(*words: str | os.PathLike[str], cwd: Path | None = None) -> str:
    """What a command prints; an error with all of it where the command fails."""
    clean = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    done = subprocess.run(words, cwd=cwd, env=clean, capture_output=True, text=True, check=False)
    if done.returncode:
        line = " ".join(map(str, words))
        raise RuntimeError(f"{line} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
    return done.stdout


def built(folder: Path) -> tuple[Path, Path]:
    """The wheel and the sdist of this repository."""
    with tempfile.TemporaryDirectory() as name:  # as a build leaves files beside what it builds
        tree = Path(name) / "redunet"
        shutil.copytree(ROOT, tree, ignore=shutil.ignore_patterns(*_NO_SOURCE))
        run(sys.executable, "-m", "build", "--no-isolation", "--outdir", folder, tree)
    [wheel], [sdist] = folder.glob("*.whl"), folder.glob("*.tar.gz")
    return wheel, sdist


def new(folder: Path, python: str = sys.executable, torch: bool = True) -> Path:
    """The Python of a fresh environment, which sees this one's PyTorch and nothing else of it."""
    run(UV, "venv", "--quiet", "--no-python-downloads", "--python", python, folder)
    if torch:
        # Not into site-packages, where an installer would write through the links.
        links = folder / "of-torch"
        links.mkdir()
        for pattern in _OF_TORCH:
            for one in HERE.glob(pattern):
                (links / one.name).symlink_to(one)
        [place] = folder.glob("lib/python3*/site-packages")
        (place / "of-torch.pth").write_text(f"{links}\n")
        install(folder / "bin" / "python", *(requires("torch") or []))
    return folder / "bin" / "python"


def install(python: Path, *what: str | os.PathLike[str]) -> None:
    """Install with uv, which is told of the folders with wheels that pip knows.

    Where the environment sees PyTorch already, it is not installed.
    """
    os.environ.setdefault("UV_FIND_LINKS", os.environ.get("PIP_FIND_LINKS", ""))
    more: list[str | os.PathLike[str]] = []
    left_out = python.parents[1] / "left-out.txt"
    if (python.parents[1] / "of-torch").exists():
        left_out.write_text("torch ; python_version < '3'\n")
        more = ["--override", left_out]
    run(UV, "pip", "install", "--quiet", "--python", python, *what, *more)


def versions(python: Path) -> dict[str, str]:
    """The packages of an environment."""
    lines = run(UV, "pip", "freeze", "--python", python).splitlines()
    return dict(line.split("==", 1) for line in lines if "==" in line)
