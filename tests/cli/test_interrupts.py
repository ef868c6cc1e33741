"""Ctrl-C: one line and exit code 1 at every moment, and the line is true."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from redunet.safety import interrupts
from tests.fuzz.interrupts import sigint_storm


def test_interrupted_at_any_moment() -> None:
    assert sigint_storm(3, seed=0) == []  # `make fuzz` makes it a thousand


PROGRAMS = {
    "in a finaliser": """
class Lost:
    def __del__(self):
        os.kill(os.getpid(), signal.SIGINT)
interrupts.protect("what was finished is kept")
Lost()
""",
    "as another error": """
interrupts.protect("what was finished is kept")
try:
    os.kill(os.getpid(), signal.SIGINT)
except KeyboardInterrupt:
    raise ImportError("cannot import name 'x'")
""",
    "in nothing but a cleanup": """
interrupts.protect("what was finished is kept")
with contextlib.suppress(BaseException):
    os.kill(os.getpid(), signal.SIGINT)
""",
    "before anything has begun": """
with contextlib.suppress(BaseException):
    os.kill(os.getpid(), signal.SIGINT)
""",
}


@pytest.mark.parametrize("where", PROGRAMS)
def test_an_interruption_is_never_lost(where: str) -> None:
    body = "\n    ".join(PROGRAMS[where].splitlines())
    program = f"""
import contextlib, os, signal, sys
from redunet.safety import interrupts
signal.signal(signal.SIGINT, signal.default_int_handler)
interrupts.listen()
import redunet.cli.app as app
@app.main.command()
def lose():
    {body}
    print("went on to the end")
sys.argv = ["redunet", "lose"]
from redunet.cli.process import run
code = run()
os.kill(os.getpid(), signal.SIGINT)
sys.exit(code)
"""
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    kept = "nothing was changed" if "before" in where else "what was finished is kept"
    assert (result.returncode, result.stderr) == (1, f"redunet: stopped; {kept}\n")


def test_where_the_caller_has_it_ignored_it_stays_ignored() -> None:
    program = """
import os, signal
from redunet.safety import interrupts
signal.signal(signal.SIGINT, signal.SIG_IGN)
interrupts.listen()
os.kill(os.getpid(), signal.SIGINT)
"""
    assert subprocess.run([sys.executable, "-c", program]).returncode == 0


def test_the_line_says_whether_a_file_was_changed(tmp_path: Path) -> None:
    path = tmp_path / "m"
    with interrupts.outcome(path):
        assert interrupts.message() == f"stopped; {path} is as it was"
        path.write_text("new")
        assert interrupts.message() == f"stopped; {path} was saved before that"
    os.utime(path, (0, 0))
    assert interrupts.message() == f"stopped; {path} was saved before that"
    with interrupts.outcome(path):
        pass
    path.unlink()  # by somebody else
    assert interrupts.message() == f"stopped; {path} is as it was"
    interrupts.reset()
    assert interrupts.message() == "stopped; nothing was changed"
    assert signal.getsignal(signal.SIGINT) is not signal.SIG_IGN
