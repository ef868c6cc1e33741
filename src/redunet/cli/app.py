"""The command `redunet`: words to calls, nothing else."""

from __future__ import annotations

from importlib.metadata import entry_points
from pathlib import Path
from textwrap import fill, indent
from typing import Annotated

import typer

from redunet._version import __version__
from redunet.cli.asking import evaluate, inspect, predict, verify
from redunet.cli.card import card
from redunet.cli.changing import calibrate, forget, learn, merge, unlearn
from redunet.cli.encode import encode
from redunet.cli.errors import EXIT_CODES, OneLineErrors
from redunet.cli.export import export
from redunet.cli.help_text import Command
from redunet.cli.options import DataDir, Device, Memory
from redunet.cli.printing import say
from redunet.cli.progress import progress_bar
from redunet.cli.receipts import receipts
from redunet.cli.serve import serve
from redunet.cli.tune import tune
from redunet.cli.values import whole_numbers, words_of

HELP = """Class-incremental learning that never forgets, exactly.

Start here:

    redunet demo                              a first look; no data needed
    redunet learn birds.safetensors photos/   a model of your own data
    redunet learn --help                      options and examples of a command
"""

main = typer.Typer(
    cls=OneLineErrors,
    help=HELP,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    epilog=EXIT_CODES,
)


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"redunet {__version__}")
        raise typer.Exit


@main.callback()
def redunet(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_show_version, is_eager=True, help="Show the version and exit."
        ),
    ] = False,
) -> None:
    """Class-incremental learning that never forgets, exactly."""


def recipes() -> None:
    """List the recipes, which are presets of settings: purpose, cost, accuracy.

    Example:

        redunet recipes
        redunet run --data digits --recipe images
    """
    from redunet.estimators.recipes import RECIPES

    for name, recipe in RECIPES.items():
        settings = ", ".join(f"{key}={value}" for key, value in recipe.settings.items())
        said = {"Costs": recipe.cost, "Reached": recipe.reached, "Settings": settings}
        lines = [recipe.purpose, *(f"{word}: {text}" for word, text in said.items() if text)]
        say(name, *(indent(fill(line, 78), "  ") for line in lines), "")
    say("More for run, compare and tune --data: redunet_lab/recipes/*.toml in the package.")


for command in (
    *(learn, predict, evaluate, calibrate, forget, unlearn, merge),
    *(encode, export, inspect, verify, card, serve, tune, recipes),
):
    main.command(rich_help_panel="Models", cls=Command)(command)

main.add_typer(receipts, name="receipts", rich_help_panel="Models")


@main.command(rich_help_panel="Models", cls=Command)
def report(
    sources: Annotated[
        list[Path],
        typer.Argument(metavar="MODEL|RECORD...", help="Model files, or record.json of a command."),
    ],
    out: Annotated[Path, typer.Option("--out", "-o", help="The page.")] = Path("page.html"),
    samples: Annotated[
        str | None,
        typer.Option(metavar="DATA", help="A data set, or data as `redunet learn` takes it."),
    ] = None,
    rows: Annotated[
        str,
        typer.Option(
            metavar="I,J,...",
            help="Rows to plot layer by layer (default: the first of each class).",
        ),
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
    figures: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="Write the figures as PNG files too.")
    ] = None,
    data_dir: DataDir = None,
    device: Device = "auto",
    memory: Memory = "2GB",
) -> None:
    """Write a page that shows models and records, to open in any browser without a network.

    Of a record: accuracies over tasks beside other methods', accuracy by task, confusion matrices,
    cost, settings. Of a model: angles between classes, their spectra, their leading directions
    where features are pixels, ΔR by layer, and with --samples the confusion matrix and
    memberships layer by layer.

    Example:

        redunet report demo/digits.safetensors --samples digits -o page.html
        redunet report runs/run/record.json
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
            figures=figures,
            progress=tell,
        )
    pictures = "" if figures is None else f"; its figures are in {figures}"
    say(f"Wrote {out}, {size / 1e6:.1f} MB{pictures}")


# Installed packages add commands. NAME-data is NAME where an option of it alone is given.
for entry in entry_points(group="redunet.commands"):
    entry.load()(main, entry.name)
