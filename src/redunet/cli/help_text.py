"""Help texts as they are shown: brackets as written, paragraphs that fill the width, examples."""

from __future__ import annotations

import re
from typing import Any

from rich.markup import escape
from typer.core import TyperCommand


class Command(TyperCommand):
    """A command whose docstring may end in examples, indented, which stay a line each."""

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Write the help."""
        written, self.help = self.help, shown_help(self.help or "")
        for option in without_types(self.get_params(ctx)):
            if getattr(option, "help", None):
                option.help = _bracketed(option.help)
        super().format_help(ctx, formatter)
        self.help = written


def without_types(params: Any) -> Any:
    """Options, of which those that take no value show none in the help."""
    for option in params:
        if getattr(option, "is_flag", False):
            option.metavar = ""
        elif getattr(option, "count", False):
            option.metavar, option.show_default = "", False
    return params


def shown_help(text: str) -> str:
    r"""A docstring as Rich's markup.

    Examples
    --------
    >>> print(shown_help("Needs redunet[x]\nand y.\n\nExample:\n\n    redunet a \\\n        b"))
    Needs redunet\[x] and y.
    <BLANKLINE>
    Example:
    [not dim]  redunet a \\[/]
    [not dim]    b[/]
    """
    joined = re.sub(r":\n\n(?= )", ":\n", re.sub(r"(?<!\n)\n(?!\s)", " ", text))
    indented = re.compile(r"((?:    )+)(.*)")
    lines = []
    for line in joined.split("\n"):
        example = indented.fullmatch(line)
        marked = f"[not dim]{example[1][::2]}{_bracketed(example[2])}[/]" if example else ""
        lines.append(marked or _bracketed(line))
    return "\n".join(lines)


def _bracketed(text: str) -> str:
    """Text in which brackets are brackets, also where it was told so before."""
    return escape(text.replace("\\[", "["))
