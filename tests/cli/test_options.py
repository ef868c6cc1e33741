"""Progress: a bar on a terminal after a while, elsewhere nothing."""

from __future__ import annotations

import io
import sys
import threading

import pytest

from redunet.cli.progress import progress_bar
from redunet.safety import interrupts


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def printed(
    monkeypatch: pytest.MonkeyPatch, patience: float = 0, quiet: bool = False, what: str = "photos"
) -> str:
    """The bar of some work on a terminal."""
    screen = Terminal()
    monkeypatch.setattr(sys, "stderr", screen)
    monkeypatch.setenv("TERM", "xterm")
    with progress_bar(quiet, patience=patience) as tell:
        for timer in threading.enumerate():  # the bar comes from a thread of its own
            if isinstance(timer, threading.Timer) and patience == 0:
                timer.join()
        tell(f"learning {what}", 0.5)
    return screen.getvalue()


def test_a_bar_says_what_is_being_done_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = printed(monkeypatch, what="[red]\x1b]0;x\x07.npz")
    assert "learning [red]\\x1b]0;x\\x07.npz" in seen


@pytest.mark.parametrize(("patience", "quiet"), [(0, True), (60, False)])
def test_no_bar(monkeypatch: pytest.MonkeyPatch, patience: float, quiet: bool) -> None:
    assert printed(monkeypatch, patience, quiet) == ""


def test_work_stops_at_its_next_step_if_an_interruption_was_lost(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with progress_bar() as tell:
        tell("learning", 0.1)
        monkeypatch.setattr(interrupts, "_heard", True)
        with pytest.raises(KeyboardInterrupt):
            tell("learning", 0.2)
