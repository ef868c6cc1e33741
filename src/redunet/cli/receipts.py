"""Deletion receipts on the command line: written by forget and unlearn, and verified."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from redunet.cli import messages
from redunet.cli.help_text import Command
from redunet.cli.options import EncoderName, Json, Label, Quiet, Text, read_options
from redunet.cli.printing import say_result
from redunet.cli.progress import progress_of

receipts = typer.Typer(rich_markup_mode=None, help="Check deletion receipts.", no_args_is_help=True)


@receipts.callback()
def about() -> None:
    """Check deletion receipts."""


@receipts.command(cls=Command)
def verify(
    log: Annotated[Path, typer.Argument(metavar="LOG", help="A log of receipts.")],
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="The model file.")],
    data: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="DATA",
            help="All data that remains; may be given several times. The model must equal, to the "
            "byte, one that learnt these and nothing else.",
        ),
    ] = None,
    withdrawn: Annotated[
        list[Path] | None,
        typer.Option(metavar="DATA", help="Samples that a receipt must be about; needs --salt."),
    ] = None,
    salt: Annotated[
        str | None, typer.Option(metavar="HEX", help="The salt that `unlearn` printed.")
    ] = None,
    public_key: Annotated[
        Path | None,
        typer.Option(metavar="PEM", help="The Ed25519 key that every line must be signed with."),
    ] = None,
    encoder: EncoderName = None,
    text: Text = None,
    label: Label = None,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Check a log of receipts and the model file as it is now; the exit code is 2 if one is wrong.

    A line that was altered, removed from the middle or put elsewhere is found by the chain. Lines
    removed from the end are not: keep the head, which this prints, somewhere else, or sign.

    Example:

        redunet receipts verify receipts.jsonl birds.safetensors --data photos/
    """
    from redunet.data import verifying

    with progress_of(quiet) as progress:
        found = verifying.verify(
            log,
            model,
            data=data or [],
            withdrawn=withdrawn or [],
            salt=salt,
            key=public_key,
            options=read_options("required", "auto", label, 0, text, encoder),
            progress=progress,
        )
    say_result(found, messages.receipts_verified, as_json, quiet)
