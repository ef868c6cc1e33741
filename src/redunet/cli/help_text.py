"""Help texts whose examples stay a line each."""

from __future__ import annotations

import re
from typing import Any

import typer.core
from typer.core import TyperCommand

typer.core.HAS_RICH = False  # brackets of help texts stand as written, and help comes at once


class Command(TyperCommand):
    """A command whose docstring may end in examples, indented."""

    def format_help_text(self, ctx: Any, formatter: Any) -> None:
        """Write the help, its examples as they are."""
        written, self.help = self.help, verbatim_examples(self.help or "")
        super().format_help_text(ctx, formatter)
        self.help = written


def verbatim_examples(text: str) -> str:
    """Mark indented paragraphs, which Click would fill otherwise."""
    return re.sub(r"\n\n(?=    )", "\n\n\b\n", text)
