"""The bar that shows progress: only on a terminal, only after a while, not when all is quiet."""

from __future__ import annotations

import io
import threading
from collections.abc import Callable

import pytest
from rich.console import Console

from redunet.cli import options


def shown(monkeypatch: pytest.MonkeyPatch, *, terminal: bool, patience: float, quiet: bool) -> str:
    """What a bar leaves on a screen."""
    screen = io.StringIO()
    made: Callable[..., Console] = Console
    monkeypatch.setattr(
        options,
        "Console",
        lambda stderr: made(stderr=stderr, file=screen, force_terminal=terminal, width=80),
    )
    monkeypatch.setattr(options, "_PATIENCE_S", patience)
    with options.progress_bar(quiet) as tell:
        for timer in threading.enumerate():  # the bar comes from a thread of its own
            if isinstance(timer, threading.Timer) and patience == 0:
                timer.join()
        tell("learning photos", 0.5)
    return screen.getvalue()


def test_a_bar_says_what_is_being_done(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "learning photos" in shown(monkeypatch, terminal=True, patience=0, quiet=False)


@pytest.mark.parametrize(
    ("terminal", "patience", "quiet"), [(False, 0, False), (True, 0, True), (True, 60, False)]
)
def test_no_bar(
    monkeypatch: pytest.MonkeyPatch, terminal: bool, patience: float, quiet: bool
) -> None:
    assert shown(monkeypatch, terminal=terminal, patience=patience, quiet=quiet) == ""
