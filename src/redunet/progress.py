"""Progress of long work, told to whoever shows it."""

from __future__ import annotations

from collections.abc import Callable

Progress = Callable[[str, float], None]
"""Told what begins, and which share of the whole is done."""


def silent(what: str, share: float) -> None:
    """Tell nobody."""


def part_of(progress: Progress, first: float, last: float) -> Progress:
    """Progress of a part of the work, as progress of the whole between two shares."""

    def tell(what: str, share: float) -> None:
        progress(what, first + share * (last - first))

    return tell
