"""The command as a process of its own, from its streams to its exit code."""

from __future__ import annotations

import os
import sys
from typing import cast

from redunet.safety import interrupts


def run() -> int:
    """Run the command that the words of this process ask for; give its exit code."""
    closed = sys.stdout is None
    for number in range(3):  # else a model file gets the number, and what libraries print
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)
    for stream in (sys.stdout, sys.stderr):
        if stream is not None:  # what the terminal's encoding lacks is written out
            stream.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]
    from redunet.cli.app import main
    from redunet.cli.printing import note

    if closed:
        note("standard output is closed: send it to /dev/null to discard what is printed")
        return 2
    try:
        return cast(int, main(standalone_mode=False))
    except KeyboardInterrupt:
        interrupts.ignore()
        note(interrupts.message())
        return 1
