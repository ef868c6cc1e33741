"""What commands on model files say: their answer, what is to be known beside it, and progress."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Annotated, Any

import typer

from redunet.cli.options import progress_bar
from redunet.cli.terminal import note, say, say_json
from redunet.progress import Progress

if TYPE_CHECKING:
    from redunet.data.result import Result

Json = Annotated[bool, typer.Option("--json", help="Print one JSON object instead of text.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print only the answer and errors.")]


def progress_of(quiet: bool) -> AbstractContextManager[Progress]:
    """Progress of a command that changes a file at its end or not at all."""
    return progress_bar(quiet, if_stopped="nothing was changed")


def teller(quiet: bool) -> Callable[[str], None]:
    """What prints a line beside the answer, unless all should be quiet."""
    return lambda said: None if quiet else note(said)


def say_found(
    result: Result | dict[str, Any],
    words: Callable[[dict[str, Any]], list[Any]],
    as_json: bool,
    quiet: bool,
    answer: bool = False,
) -> None:
    """Print what was found; an answer that was asked for even when all should be quiet."""
    found = result if isinstance(result, dict) else result.to_dict()
    if as_json:
        say_json(found)
        return
    if answer or not quiet:
        say(*words(found))
    say_notes(found, quiet)


def say_notes(found: dict[str, Any], quiet: bool) -> None:
    """What a person may want to know beside the answer."""
    tell = teller(quiet)
    left_out = found.get("left_out", [])
    if left_out:
        first = ", ".join(left_out[:5]) + (", …" if len(left_out) > 5 else "")
        images = "image" if len(left_out) == 1 else "images"
        tell(f"left out {len(left_out):,} {images} that cannot be used: {first}")
    for said in found["notes"]:
        tell(said)
