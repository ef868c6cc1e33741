"""The command `redunet`: words to calls, nothing else."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from typer.core import TyperGroup

from redunet._version import __version__
from redunet.errors import ReduNetError


class OneLineErrors(TyperGroup):
    """A user's mistake is one line and exit code 2; an interruption one line and exit code 1."""

    def invoke(self, ctx: Any) -> Any:
        """Run the command that was asked for."""
        try:
            return super().invoke(ctx)
        except ReduNetError as error:
            typer.echo(f"redunet: {error}", err=True)
            ctx.exit(2)
        except KeyboardInterrupt:
            typer.echo("redunet: stopped; what was finished is kept", err=True)
            ctx.exit(1)


main = typer.Typer(
    cls=OneLineErrors,
    help="Class-incremental learning that never forgets, exactly.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
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
def demo(
    out: Annotated[Path, typer.Option(help="Where to leave model, figure and record.")] = Path(
        "demo"
    ),
) -> None:
    """Learn scikit-learn's digits in five tasks, then forget a class; no download.

    Example: redunet demo --out demo
    """
    from redunet.demo import run_demo

    run_demo(out, Console())
