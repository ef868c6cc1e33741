"""Other users of the same machine: what they may not write, and what they put in the way."""

from __future__ import annotations

import fcntl
import itertools
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from redunet.data import withdrawing
from redunet.estimators import NearestMean
from redunet.safety.receipts import Receipts

pytestmark = pytest.mark.skipif(
    not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root may become another user"
)
NOBODY, OTHER = 65534, 65533

# Everything is imported as root, who alone may read the packages where they are in root's home.
PROGRAM = """
import json, os, sys, tempfile
from pathlib import Path
import numpy as np
from typer.testing import CliRunner
from redunet.cli.app import main
from redunet.errors import FileAccessError
from redunet.estimators import NearestMean
from redunet.safety.lock import changing

def run(*words):
    done = CliRunner().invoke(main, [str(word) for word in words])
    raised = done.exception
    assert raised is None or isinstance(raised, SystemExit), repr(raised)
    return done.exit_code, done.output

with tempfile.TemporaryDirectory() as name:
    model, log = Path(name, "m"), Path(name, "log")
    NearestMean().fit(np.eye(4), list("abcd")).save(model)
    assert run("forget", model, "a", "--receipt", log)[0] == 0
    assert run("receipts", "verify", log, model)[0] == 0
    run("forget", model, "no such class")
os.setgroups([])
os.setgid(int(sys.argv[1]))
os.setuid(int(sys.argv[1]))
found = []
for words in json.loads(sys.argv[2]):
    if words[0] == "wait":
        try:
            with changing(Path(words[1]), lambda said: None, timeout=0.1):
                found.append((0, ""))
        except FileAccessError as error:
            found.append((2, str(error) + chr(10)))
    else:
        found.append(run(*words))
print(json.dumps(found))
"""


def by(user: int, *commands: list[str]) -> list[tuple[int, str]]:
    """The exit code of each command of another user, and what it said."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(user), json.dumps(commands)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found: list[tuple[int, str]] = json.loads(done.stdout.splitlines()[-1])
    return found


@pytest.fixture
def root() -> Iterator[Path]:
    """A folder that others can reach."""
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o755)
        yield Path(name)


def taught(folder: Path) -> Path:
    """A folder with a model and its log of receipts, which all can read."""
    folder.mkdir()
    NearestMean().fit(np.eye(4), list("abcd")).save(folder / "m")
    receipts = Receipts(folder / "log")
    withdrawing.forget(folder / "m", ["a"], tell=lambda said: None, receipts=receipts)
    return folder


def held(folder: Path) -> dict[str, bytes]:
    return {one.name: one.read_bytes() for one in folder.iterdir()}


def test_what_others_may_not_write_stays(root: Path) -> None:
    """In a folder of root's own, one for all, and one where only owners rename (sticky)."""
    cases = list(itertools.product((0o755, 0o777, 0o1777), (False, True)))
    folders = [taught(root / str(index)) for index in range(len(cases))]
    for folder, (mode, writable) in zip(folders, cases, strict=True):
        for name in ("m", "log"):
            (folder / name).chmod(0o666 if writable else 0o644)
        folder.chmod(mode)
    before = [held(folder) for folder in folders]
    closed = taught(root / "closed")
    (closed / "log").chmod(0o600)
    *found, unread = by(
        NOBODY,
        *(["forget", f"{one}/m", "b", "--receipt", f"{one}/log"] for one in folders),
        *(["receipts", "verify", f"{one}/log", f"{one}/m"] for one in folders),
        ["receipts", "verify", f"{closed}/log", f"{closed}/m"],
    )
    assert unread[0] == 2
    assert f"{closed}/log' is not readable" in unread[1]
    for folder, old, case, (code, said), verified in zip(
        folders, before, cases, found, found[len(folders) :], strict=False
    ):
        now = held(folder)
        assert verified[0] == 0
        assert now.keys() == {"m", "log"}
        assert now["log"].startswith(old["log"])
        if case == (0o777, True):  # they may do it, and have
            assert code == 0
            continue
        assert (code, said.count("\n")) == (2, 1), said
        assert now["m"] == old["m"]
        assert now == old or case == (0o1777, True)  # the log was open to them


def test_what_another_user_planted_loses_nothing(root: Path) -> None:
    """A lock and a leftover, where only owners remove files; who is kept out is told so."""
    cases = list(itertools.product((0o600, 0o644, 0o666), (False, True)))
    folders = [taught(root / str(index)) for index in range(len(cases))]
    commands, locks = [], []
    for folder, (mode, taken) in zip(folders, cases, strict=True):
        lock, leftover = folder / ".m.changing", folder / f".redunet-{'0' * 32}.tmp"
        lock.write_bytes(b'{"process": 1, "model": null}')
        lock.chmod(mode)
        leftover.write_bytes(b"half")
        for name in ("m", "log", "."):
            os.chown(folder / name, OTHER, OTHER)
        for one in (lock, leftover):
            os.chown(one, NOBODY, NOBODY)
        folder.chmod(0o1777)
        locks.append(os.open(lock, os.O_RDONLY))
        if taken:
            fcntl.flock(locks[-1], fcntl.LOCK_EX)
            commands.append(["wait", f"{folder}/m"])
        else:
            commands.append(["forget", f"{folder}/m", "b", "--receipt", f"{folder}/log"])
    before = [held(folder) for folder in folders]
    found = by(OTHER, *commands)
    for handle in locks:
        os.close(handle)
    for folder, old, case, (code, said) in zip(folders, before, cases, found, strict=True):
        now = held(folder)
        if case == (0o666, False) and code == 0:  # where the kernel lets them open such a file
            assert now["log"].startswith(old["log"])
            continue
        assert (code, said.count("\n")) == (2, 1), said
        assert "nothing was changed" in said or "Permission denied" in said
        assert {**now, ".m.changing": b""} == {**old, ".m.changing": b""}
