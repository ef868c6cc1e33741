"""The command `redunet`: words to calls, nothing else."""

from __future__ import annotations

import io
import sys
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from typer.core import TyperGroup

from redunet._version import __version__
from redunet.cli.experiments import EXPERIMENT_COMMANDS, WithSettings
from redunet.cli.models import COMMANDS
from redunet.cli.options import (
    DataDir,
    Device,
    Memory,
    progress_bar,
    whole_numbers,
    words_of,
)
from redunet.errors import ReduNetError


class OneLineErrors(TyperGroup):
    """A user's mistake is one line and exit code 2; an interruption one line and exit code 1."""

    def invoke(self, ctx: Any) -> Any:
        """Run the command that was asked for."""
        if isinstance(sys.stdout, io.TextIOWrapper):  # names of files may not be text
            sys.stdout.reconfigure(errors="backslashreplace")
        try:
            return super().invoke(ctx)
        except ReduNetError as error:
            typer.echo(f"redunet: {error}", err=True)
            ctx.exit(2)
        except KeyboardInterrupt as stop:
            said = stop.args[0] if stop.args else "stopped; what was finished is kept"
            typer.echo(f"redunet: {said}", err=True)
            ctx.exit(1)
        except (MemoryError, RuntimeError) as error:
            if not isinstance(error, MemoryError) and "memory" not in str(error):
                raise
            typer.echo("redunet: not enough memory; what was there before is unchanged", err=True)
            ctx.exit(1)


main = typer.Typer(
    cls=OneLineErrors,
    help="Class-incremental learning that never forgets, exactly.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    epilog="Exit codes: 0, done; 1, stopped before the end, by Ctrl-C or for want of memory; "
    "2, something given could not be used, and one line says what. After 1 and 2 a model file is "
    "as it was.",
)


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"redunet {__version__}")
        raise typer.Exit


@main.callback()
def redunet(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_show_version, is_eager=True, help="Say which version."),
    ] = False,
) -> None:
    """Class-incremental learning that never forgets, exactly."""


@main.command()
def report(
    sources: Annotated[
        list[Path],
        typer.Argument(metavar="MODEL|RECORD...", help="Model files, or record.json of a command."),
    ],
    out: Annotated[Path, typer.Option("--out", "-o", help="The page.")] = Path("page.html"),
    samples: Annotated[
        str | None,
        typer.Option(metavar="DATA", help="A data set, .npy, or .npz with x and perhaps y."),
    ] = None,
    rows: Annotated[
        str, typer.Option(metavar="I,J,...", help="Samples to follow; the first of each class.")
    ] = "",
    classes: Annotated[
        str, typer.Option(metavar="A,B,...", help="Classes to show; of many, the most similar.")
    ] = "",
    layers: Annotated[
        bool | None,
        typer.Option(
            "--layers/--no-layers",
            help="Show what the layers do; by default where they fit into --memory.",
        ),
    ] = None,
    data_dir: DataDir = None,
    device: Device = "auto",
    memory: Memory = "2GB",
) -> None:
    """Write a page that shows models and records, to open in any browser without a network.

    Of a record: accuracies over tasks beside other methods', accuracy by task, confusion matrices,
    cost, settings. Of a model: angles between classes, their spectra, their leading directions
    where features are pixels, ΔR by layer, and with --samples the confusion matrix and memberships
    layer by layer.

    Example: redunet report demo/digits.safetensors --samples digits -o page.html
    """
    from redunet.report import page

    with progress_bar() as tell:
        size = page(
            sources,
            out,
            samples=samples,
            rows=whole_numbers("rows", rows, least=0) if rows else [],
            classes=words_of(classes) if classes else [],
            layers=layers,
            device=device,
            memory=memory,
            data_dir=data_dir,
            progress=tell,
        )
    Console().print(f"Wrote {out}, {size / 1e6:.1f} MB", soft_wrap=True, highlight=False)


for experiment in EXPERIMENT_COMMANDS:
    main.command(cls=WithSettings)(experiment)
for command in COMMANDS:
    main.command()(command)
