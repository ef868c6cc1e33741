"""Progress of a command: a bar on a terminal, elsewhere a line now and then."""

from __future__ import annotations

import sys
import time
import warnings
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from datetime import timedelta
from threading import Event, Thread, Timer
from typing import Any

from redunet.cli.printing import is_plain, note
from redunet.progress import Progress, silent
from redunet.safety import interrupts
from redunet.text import shown


@contextmanager
def progress_bar(
    quiet: bool = False,
    if_stopped: str = "what was finished is kept",
    *,
    patience: float = 2.0,
    every: float = 30.0,
) -> Iterator[Progress]:
    """Say what is being done once that takes a while.

    Parameters
    ----------
    quiet : bool, default=False
    if_stopped : str
        What has become of files where Ctrl-C stops the work.
    patience : float, default=2.0
        Seconds after which a person wonders whether anything happens, and a bar comes.
    every : float, default=30.0
        Seconds between two lines where there is no terminal, so that a log stays short.
    """
    interrupts.protect(if_stopped)
    showing = _bar(patience) if sys.stderr.isatty() else _lines(every)
    with warnings.catch_warnings(), showing if not quiet else nullcontext(silent) as show:
        warnings.simplefilter("ignore", UserWarning)  # commands say in a line what matters

        def tell(what: str, share: float) -> None:
            interrupts.check()
            show(shown(what), share)

        yield tell


def progress_of(quiet: bool) -> AbstractContextManager[Progress]:
    """Progress of a command that changes a file at its end or not at all."""
    return progress_bar(quiet, if_stopped="nothing was changed")


@contextmanager
def _bar(patience: float) -> Iterator[Progress]:
    """A bar, once work takes longer than a moment; Rich is loaded then."""
    what_now, share_now = "starting", 0.0
    bars: list[Any] = []

    def begin() -> None:
        from rich.progress import BarColumn, SpinnerColumn, TextColumn, TimeElapsedColumn
        from rich.progress import Progress as ProgressBar

        from redunet.cli.screen import Screen

        bar = ProgressBar(
            SpinnerColumn("line" if is_plain() else "dots"),
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            TimeElapsedColumn(),
            console=Screen(stderr=True),
            transient=True,
        )
        bar.update(bar.add_task(what_now, total=1.0), completed=share_now)
        bar.start()
        bars.append(bar)

    def show(what: str, share: float) -> None:
        nonlocal what_now, share_now
        what_now, share_now = what, share
        for bar in bars:
            bar.update(bar.task_ids[0], description=what, completed=share)

    later = Timer(patience, begin)
    later.daemon = True
    try:
        later.start()
        yield show
    finally:
        later.cancel()
        if later.ident is not None:
            later.join()
        for bar in bars:
            bar.stop()


@contextmanager
def _lines(every: float) -> Iterator[Progress]:
    """A line every half minute, from a thread, as one step of the work may take longer."""
    begun, over = time.monotonic(), Event()
    now = ["starting", 0.0]

    def show(what: str, share: float) -> None:
        now[:] = what, share

    def tell() -> None:
        while not over.wait(every):
            passed = timedelta(seconds=round(time.monotonic() - begun))
            note(f"{now[0]}, {now[1]:.0%} done after {passed}")

    thread = Thread(target=tell, daemon=True)
    try:
        thread.start()
        yield show
    finally:
        over.set()
