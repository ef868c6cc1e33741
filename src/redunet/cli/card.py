"""The command that writes the card of a model."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from redunet.cli.options import Model, Offload, Quiet
from redunet.cli.printing import say


def card(
    model: Model,
    record: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="RECORD",
            help="Results to state: record.json of an experiment, or what `redunet evaluate "
            "--json` printed; may be given several times.",
        ),
    ] = None,
    out: Annotated[Path, typer.Option("--out", "-o", help="The card.")] = Path("README.md"),
    name: Annotated[
        str | None, typer.Option(help="What the model is called; by default the file's name.")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace a file that is there.")] = False,
    quiet: Quiet = False,
    offload: Offload = None,
) -> None:
    """Write a model card: classes, counts, settings, what the file reveals, results.

    It is a README.md with YAML at its top, as Hugging Face reads it, to go beside the model file.

    Example:

        redunet card birds.safetensors --record evaluation.json -o birds/README.md
    """
    from redunet.errors import FileAccessError
    from redunet.report.card import card as written
    from redunet.safety.files import write_bytes

    if out.exists() and not force:
        raise FileAccessError(
            f"expected {out} not to be there yet: name another with --out, or replace it with "
            f"--force"
        )
    text = written(model, record or [], name)
    write_bytes(out, text.encode())
    if not quiet:
        say(f"Wrote {out}")
