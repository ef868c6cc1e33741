"""Where the system has no fcntl and few flags, as on Windows: imports, learning, forgetting."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

# The standard library for Linux needs fcntl itself, and filelock has another way on Windows: so
# only what redunet imports is missing. `os` loses its names once those libraries have read them.
PROGRAM = """
import builtins, importlib, os, pkgutil, sys
import filelock, torch, sklearn, typer.testing, rich.console

real = builtins.__import__
def without(name, globals=None, *rest, **more):
    if name in ("fcntl", "resource", "pwd", "grp", "termios"):
        if (globals or {}).get("__name__", "").startswith("redunet"):
            raise ImportError(f"No module named {name!r}", name=name)
    return real(name, globals, *rest, **more)
builtins.__import__ = without
for name in ("O_NOFOLLOW", "O_CLOEXEC", "O_NONBLOCK", "O_NOCTTY", "pread", "pwrite", "fchmod",
             "fchown", "getuid", "geteuid", "mkfifo"):
    delattr(os, name)
if sys.argv[1] == "imports":
    import redunet
    for package in (redunet, importlib.import_module("redunet.cli"), importlib.import_module(
            "redunet.estimators"), importlib.import_module("redunet.data")):
        for found in pkgutil.iter_modules(package.__path__, package.__name__ + "."):
            if not found.ispkg and not found.name.endswith("__main__"):
                importlib.import_module(found.name)
else:
    from redunet.__main__ import main
    sys.exit(main())
"""


def run(*words: object) -> str:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, *map(str, words)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_everything_can_be_imported() -> None:
    assert run("imports") == ""


def test_a_model_learns_and_forgets(tmp_path: Path) -> None:
    data, model, log = tmp_path / "d.csv", tmp_path / "m.safetensors", tmp_path / "log.jsonl"
    data.write_text("a,b,label\n" + "1,2,ant\n2,1,bee\n3,1,cat\n1,1,ant\n" * 5)
    assert "3 classes" in run("learn", model, data)
    run("forget", model, "ant", "--receipt", log)
    run("receipts", "verify", log, model)
    assert "intact: 2 classes" in run("verify", model)
    assert sorted(one.name for one in tmp_path.iterdir()) == ["d.csv", "log.jsonl", "m.safetensors"]
