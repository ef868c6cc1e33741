"""Commands under torchrun: several processes run one command, and one of them speaks and writes."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable

from redunet import torchrun
from redunet.cli import streams
from redunet.cli.terminal import note
from redunet.errors import ReduNetError, SettingsError
from redunet.safety import interrupts

TOGETHER = ("predict", "evaluate", "inspect")
"""Commands that several processes can run together: none of them changes a model."""

GRACE_SECONDS = 5
"""How long an interrupted process may take to remove its unfinished files; torchrun waits 30."""


def run_together(command: Callable[[], int]) -> int:
    """Run the command of this process as one of a group.

    Parameters
    ----------
    command : callable
        Gives an exit code.

    Returns
    -------
    int
        The exit code.
    """
    streams.share(torchrun.is_first_to_speak, mute=not torchrun.is_first_rank())
    interrupts.ask_before_speaking(streams.claim_last_line)
    _end_when_stuck()
    from redunet.distributed.group import group

    try:
        with group():
            return command()
    except ReduNetError as error:  # the others could not be met
        streams.claim_last_line()
        note(str(error))
        return 2


def check_command(name: str) -> None:
    """Raise a SettingsError where a command of this name is for one process."""
    if torchrun.is_used() and name not in TOGETHER:
        raise SettingsError(
            f"expected {', '.join(TOGETHER[:-1])} or {TOGETHER[-1]} under torchrun, got {name}: "
            f"run it in one process; learn and unlearn also take --workers"
        )


def _end_when_stuck() -> None:
    """End a process that is to stop, but waits for others and so does not look at signals."""
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    signal.set_wakeup_fd(writing, warn_on_full_buffer=False)

    def watch() -> None:
        while (number := os.read(reading, 1)[0]) not in (signal.SIGINT, signal.SIGTERM):
            pass
        interrupts.record(number)
        time.sleep(GRACE_SECONDS)
        interrupts.end()

    threading.Thread(target=watch, daemon=True).start()
