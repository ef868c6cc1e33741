"""Progress of a command: a bar on a terminal, elsewhere nothing."""

from __future__ import annotations

import sys
import time
import warnings
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from threading import Timer
from typing import Any

from redunet.cli.printing import is_plain
from redunet.progress import Progress, silent
from redunet.safety import interrupts
from redunet.text import shown

_BEGUN = time.monotonic()


@contextmanager
def progress_bar(
    quiet: bool = False,
    if_stopped: str = "what was finished is kept",
    *,
    patience: float | None = None,
) -> Iterator[Progress]:
    """Say what is being done once that takes a while.

    Parameters
    ----------
    quiet : bool, default=False
    if_stopped : str
        What has become of files where Ctrl-C stops the work.
    patience : float, default=None
        Seconds until a bar comes; by default two since the process began, as it loads PyTorch.
    """
    interrupts.protect(if_stopped)
    terminal = sys.stderr is not None and sys.stderr.isatty()
    if patience is None:
        patience = max(0.0, 2.0 - (time.monotonic() - _BEGUN))
    showing = _bar(patience) if terminal and not quiet else nullcontext(silent)
    with warnings.catch_warnings(), showing as show:
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
