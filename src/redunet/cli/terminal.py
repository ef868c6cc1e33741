"""The one place where lines are printed: nothing in them is a command to the terminal."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable
from typing import Any

import typer
from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.text import Text

from redunet.text import shown


class Screen(Console):
    """A console that shows text as it is: no markup in it, no control characters."""

    def __init__(self, *, stderr: bool = False, **options: Any) -> None:
        super().__init__(**{"stderr": stderr, "highlight": False, "markup": False, **options})

    def render_str(self, text: str, **options: Any) -> Text:
        """Text of a string, or of a cell of a table that is one."""
        return super().render_str("\n".join(map(shown, text.split("\n"))), **options)

    def render(
        self, renderable: RenderableType, options: ConsoleOptions | None = None
    ) -> Iterable[Segment]:
        """What is printed for text, a table, or anything else."""
        if isinstance(renderable, Text):
            lines = renderable.plain.split("\n")
            safe = "\n".join(map(shown, lines))
            if safe != renderable.plain:
                renderable = renderable.blank_copy(safe)
        return super().render(renderable, options)


def say(*lines: RenderableType) -> None:
    """Print lines and tables, one below another; a path is never broken in two."""
    Screen(soft_wrap=True).print(*lines, sep="\n")


def say_json(value: object) -> None:
    """Print one JSON object."""
    typer.echo(json.dumps(value).replace("\x7f", "\\u007f"))


def note(text: str) -> None:
    """Print one line beside the answer, to standard error."""
    typer.echo(f"redunet: {shown(text)}", err=True)


def is_plain() -> bool:
    """Whether standard error shows ASCII alone."""
    return not (getattr(sys.stderr, "encoding", None) or "").lower().startswith("utf")
