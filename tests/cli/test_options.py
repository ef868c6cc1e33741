"""Progress: a bar on a terminal after a while, a line now and then elsewhere, or nothing."""

from __future__ import annotations

import io
import threading
import time
from collections.abc import Callable

import pytest

from redunet.cli import options
from redunet.cli.terminal import Screen
from redunet.safety import interrupts


def printed(
    monkeypatch: pytest.MonkeyPatch,
    *,
    terminal: bool,
    patience: float = 60,
    quiet: bool = False,
    what: str = "learning photos",
) -> str:
    """What a bar leaves on a screen."""
    screen = io.StringIO()
    made: Callable[..., Screen] = Screen
    monkeypatch.setattr(
        options,
        "Screen",
        lambda stderr: made(stderr=stderr, file=screen, force_terminal=terminal, width=80),
    )
    monkeypatch.setattr(options, "_PATIENCE_S", patience)
    with options.progress_bar(quiet) as tell:
        for timer in threading.enumerate():  # the bar comes from a thread of its own
            if isinstance(timer, threading.Timer) and patience == 0:
                timer.join()
        tell(what, 0.5)
    return screen.getvalue()


def test_a_bar_says_what_is_being_done(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "learning photos" in printed(monkeypatch, terminal=True, patience=0)


def test_a_bar_shows_names_as_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = printed(monkeypatch, terminal=True, patience=0, what="learning [red]\x1b]0;x\x07.npz")
    assert "learning [red]\\x1b]0;x\\x07.npz" in seen


@pytest.mark.parametrize(
    ("terminal", "patience", "quiet"), [(False, 0, False), (True, 0, True), (True, 60, False)]
)
def test_no_bar(
    monkeypatch: pytest.MonkeyPatch, terminal: bool, patience: float, quiet: bool
) -> None:
    assert printed(monkeypatch, terminal=terminal, patience=patience, quiet=quiet) == ""


@pytest.mark.parametrize("quiet", [False, True])
def test_lines_now_and_then_where_there_is_no_terminal(
    monkeypatch: pytest.MonkeyPatch, quiet: bool
) -> None:
    told: list[str] = []
    monkeypatch.setattr(options, "note", told.append)
    monkeypatch.setattr(options, "_EVERY_S", 0.001)
    with options.progress_bar(quiet) as tell:
        tell("learning \x1b[2Jphotos", 0.5)
        seen = len(told)
        while not quiet and len(told) < seen + 2:
            time.sleep(0.001)
    assert quiet == (told == [])
    if not quiet:
        assert "learning \\x1b[2Jphotos, 50% done after 0:00:0" in told[seen + 1]


def test_work_stops_at_its_next_step_if_an_interruption_was_lost(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with options.progress_bar() as tell:
        tell("learning", 0.1)
        monkeypatch.setattr(interrupts, "_heard", True)
        with pytest.raises(KeyboardInterrupt):
            tell("learning", 0.2)
