"""Tables that fit the terminal they are printed on."""

from __future__ import annotations

from collections.abc import Iterable

from rich.console import Console, ConsoleOptions, RenderableType
from rich.measure import Measurement


class FirstThatFits:
    """Of some tables, the first that the terminal is wide enough for, or the last.

    Parameters
    ----------
    *tables : renderable
        The one with the most in it first.
    wrapped : bool, default=False
        Whether a table also fits where words of a cell have to go on lines of their own.
    """

    def __init__(self, *tables: RenderableType, wrapped: bool = False) -> None:
        self.tables = tables
        self.wrapped = wrapped

    def __rich_console__(
        self, console: Console, options: ConsoleOptions
    ) -> Iterable[RenderableType]:
        """The table to print."""
        unbounded = options.update(width=1_000_000)
        for table in self.tables[:-1]:
            width = Measurement.get(console, unbounded, table)
            if (width.minimum if self.wrapped else width.maximum) <= options.max_width:
                yield table
                return
        yield self.tables[-1]
