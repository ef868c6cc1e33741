"""Deletion receipts on the command line: written by forget and unlearn, and verified."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from redunet.cli.answers import Json, Quiet, progress_of, say_found
from redunet.cli.help_text import Command
from redunet.cli.own_data import EncoderName, Label, Text, wanted_of
from redunet.errors import SettingsError

Receipt = Annotated[
    Path | None,
    typer.Option(
        metavar="LOG",
        help="Append a deletion receipt to this log; `redunet receipts verify` checks it.",
    ),
]
SignKey = Annotated[
    Path | None,
    typer.Option(metavar="PEM", help="Sign the receipt with this Ed25519 private key."),
]

receipts = typer.Typer(help="Check deletion receipts.", no_args_is_help=True)


def receipts_of(log: Path | None, sign_key: Path | None, model: Path) -> Any:
    """The log of a model that receipts are appended to; None where there are to be none."""
    from redunet.safety.receipts import Receipts

    if log is None:
        if sign_key is not None:
            raise SettingsError("expected --receipt LOG with --sign-key, got --sign-key alone")
        return None
    receipts = Receipts(log, sign_key)
    receipts.refuse_files("the model", [model])
    return receipts


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
    from redunet.cli import lines
    from redunet.data import verifying

    with progress_of(quiet) as progress:
        found = verifying.verify(
            log,
            model,
            data=data or [],
            withdrawn=withdrawn or [],
            salt=salt,
            key=public_key,
            options=wanted_of("required", label, 0, text, encoder, "auto"),
            progress=progress,
        )
    say_found(found, lines.receipts_verified, as_json, quiet)
