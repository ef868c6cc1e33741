"""The command as a process of its own, from its streams to its exit code."""

from __future__ import annotations

from typing import cast

from redunet.cli import streams
from redunet.safety import interrupts


def run() -> int:
    """Run the command that the words of this process ask for; give its exit code."""
    is_open = streams.prepare()
    from redunet.cli.app import main
    from redunet.cli.printing import note

    if not is_open:
        note("standard output is closed: send it to /dev/null to discard what is printed")
        return 2
    try:
        return cast(int, main(standalone_mode=False))
    except KeyboardInterrupt:
        interrupts.ignore()
        note(interrupts.message())
        return 1
