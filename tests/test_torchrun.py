"""Processes of torchrun: one of them is heard, and one that is stuck ends all the same."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from redunet import torchrun

ENVIRONMENT = {"TORCHELASTIC_RUN_ID": "1", "WORLD_SIZE": "2", "RANK": "1"}


def test_the_first_that_asks_is_the_one_to_speak(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert not torchrun.is_used()
    assert torchrun.is_first_rank()
    assert torchrun.is_first_to_speak()
    assert torchrun.is_first_to_speak()  # one process may speak as often as it likes
    for name, value in ENVIRONMENT.items():
        monkeypatch.setenv(name, value)
    assert torchrun.is_used()
    assert not torchrun.is_first_rank()
    assert not torchrun.is_first_to_speak()  # where nothing else is known, it is the first rank
    (tmp_path / "0").mkdir()
    monkeypatch.setenv("TORCHELASTIC_ERROR_FILE", str(tmp_path / "0" / "error.json"))
    assert torchrun.is_first_to_speak()
    assert not torchrun.is_first_to_speak()
    monkeypatch.setenv("TORCHELASTIC_ERROR_FILE", str(tmp_path / "gone" / "0" / "error.json"))
    assert not torchrun.is_first_to_speak()
    monkeypatch.setenv("WORLD_SIZE", "1")
    assert not torchrun.is_used()


PROGRAM = """
import ctypes, os, signal, sys, threading
from redunet.safety import interrupts
interrupts.listen()
from redunet.cli import on_ranks, streams
on_ranks.GRACE_SECONDS = 0.2

def command():
    if sys.argv[1] == "begun":
        interrupts.protect("nothing was changed")
    os.kill(os.getpid(), int(sys.argv[2]))
    return 0

def stuck():
    on_ranks._end_when_stuck()
    threading.Timer(0.1, os.kill, (os.getpid(), int(sys.argv[2]))).start()
    libc, mutex = ctypes.CDLL(None), ctypes.create_string_buffer(256)
    libc.pthread_mutex_init(mutex, None)
    for _ in range(2):  # the second waits for ever, and no signal ends that
        libc.pthread_mutex_lock(mutex)

streams.prepare()
streams.share(lambda: True, mute=True)
interrupts.ask_before_speaking(streams.claim_last_line)
print("never heard")
try:
    stuck() if sys.argv[1] == "stuck" else command()
except KeyboardInterrupt:
    streams.claim_last_line()
    os.write(2, f"redunet: {interrupts.message()}".encode())
    sys.exit(1)
"""


@pytest.mark.parametrize("where", ["begun", "not begun", "stuck"])
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_process_that_is_to_stop_says_so_and_ends(where: str, number: int) -> None:
    words = [sys.executable, "-c", PROGRAM, where, str(int(number))]
    environment = os.environ | ENVIRONMENT
    result = subprocess.run(words, capture_output=True, text=True, env=environment, timeout=60)
    why = "stopped"
    if number == signal.SIGTERM:
        why = "stopped, as another process of the group has ended"
    assert (result.returncode, result.stdout) == (1, "")
    assert result.stderr.strip() == f"redunet: {why}; nothing was changed"
