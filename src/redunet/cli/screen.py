"""A console of Rich that shows text as it is: for bars, and for tables that grow."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.text import Text

from redunet.text import shown


class Screen(Console):
    """A console without markup, unless it is asked for, and without control characters."""

    def __init__(self, *, stderr: bool = False, **options: Any) -> None:
        super().__init__(**{"stderr": stderr, "highlight": False, "markup": False, **options})

    def render_str(self, text: str, **options: Any) -> Text:
        """Text of a string, or of a cell of a table that is one."""
        return super().render_str("\n".join(map(shown, text.split("\n"))), **options)

    def render(
        self, renderable: RenderableType, options: ConsoleOptions | None = None
    ) -> Iterable[Segment]:
        """Segments of text, a table, or anything else."""
        if isinstance(renderable, Text):
            safe = "\n".join(map(shown, renderable.plain.split("\n")))
            if safe != renderable.plain:
                renderable = renderable.blank_copy(safe)
        return super().render(renderable, options)
