"""The one printer: answers, notes and tables, in which nothing is a command to the terminal."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import typer

from redunet.text import shown

if TYPE_CHECKING:
    from redunet.data.result import Result

Lines = list[str]


def say(*lines: str) -> None:
    """Print lines, one below another; a path is never broken in two."""
    for line in lines:
        typer.echo("\n".join(map(shown, line.split("\n"))))


def say_json(value: object) -> None:
    """Print one JSON object."""
    typer.echo(json.dumps(value).replace("\x7f", "\\u007f"))


def note(text: str) -> None:
    """Print one line beside the answer, to standard error."""
    with suppress(OSError):  # there is nobody to tell that it could not be written
        typer.echo(f"redunet: {shown(text)}", err=True)


def teller(quiet: bool) -> Callable[[str], None]:
    """A function that prints a line beside the answer, unless all should be quiet."""
    return lambda said: None if quiet else note(said)


def say_result(
    result: Result,
    lines: Callable[[dict[str, Any]], Lines],
    as_json: bool,
    quiet: bool,
    always: bool = False,
) -> None:
    """Print the result of a command, and its notes.

    Parameters
    ----------
    result : Result
    lines : callable
        Gives the lines of what was found.
    as_json, quiet : bool
    always : bool, default=False
        Whether the lines are printed even where all should be quiet, as they were asked for.
    """
    if as_json:
        say_json(result.to_dict())
        return
    if always or not quiet:
        say(*lines(result.to_dict()))
    say_notes(result, quiet)


def say_notes(result: Result, quiet: bool) -> None:
    """Print what a person may want to know beside the answer."""
    tell, left_out = teller(quiet), result.left_out
    if left_out:
        first = ", ".join(left_out[:5]) + (", …" if len(left_out) > 5 else "")
        images = "image" if len(left_out) == 1 else "images"
        tell(f"left out {len(left_out):,} {images} that cannot be used: {first}")
    for said in result.notes:
        tell(said)


def table(
    title: str, headings: Sequence[str], rows: Iterable[Sequence[object]], names: int = 1
) -> str:
    """A table of plain text.

    Parameters
    ----------
    title : str
    headings : sequence of str
    rows : iterable of sequences
        A value for each heading.
    names : int, default=1
        How many columns, the first ones, are of names and stand to the left.

    Examples
    --------
    >>> print(table("Counts", ["class", "samples"], [["ant", 15], ["bee", 7]]))
    Counts
      class  samples
      ─────  ───────
      ant         15
      bee          7
    """
    cells = [[shown(str(cell)) for cell in row] for row in [headings, *rows]]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    cells.insert(1, ["─" * width for width in widths])
    lines = [
        "  ".join(
            cell.ljust(width) if place < names else cell.rjust(width)
            for place, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        for row in cells
    ]
    return "\n".join([title, *(f"  {line.rstrip()}" for line in lines)])


def fits(text: str) -> bool:
    """Whether text is no wider than the terminal."""
    return max(map(len, text.split("\n"))) <= shutil.get_terminal_size().columns


def is_plain() -> bool:
    """Whether standard error shows ASCII alone."""
    return not (getattr(sys.stderr, "encoding", None) or "").lower().startswith("utf")
