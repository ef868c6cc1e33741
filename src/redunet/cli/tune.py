"""The command that chooses the settings of a model file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from redunet.cli import messages
from redunet.cli.options import (
    Device,
    EncoderName,
    Json,
    Label,
    Memory,
    Model,
    Quiet,
    Search,
    SkipBad,
    Text,
    TuneOut,
    read_options,
)
from redunet.cli.printing import say, say_json, say_notes, teller
from redunet.cli.progress import progress_of
from redunet.cli.values import as_tuple, parsed


def tune(
    context: typer.Context,
    model: Model,
    validation: Annotated[
        list[Path],
        typer.Argument(
            metavar="VALIDATION...",
            help="Samples that the model has not learnt, as `redunet learn` takes them.",
        ),
    ],
    label: Label = None,
    out: TuneOut = None,
    search: Search = None,
    write: Annotated[
        bool, typer.Option("--write", help="Change the file to the settings chosen.")
    ] = False,
    budget: Annotated[
        str, typer.Option(metavar="TIME|N", help="A time such as 60s or 5min, or N candidates.")
    ] = "60s",
    encoder: EncoderName = None,
    text: Text = None,
    skip_bad: SkipBad = 0,
    device: Device = "auto",
    memory: Memory = "2GB",
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Choose the settings of a model on validation data; with --data, those of an experiment.

    Network, read-out, regularisation and temperature; nothing is learnt again, and the file changes
    only with --write. The present settings are the first candidate and stay unless another one is
    more accurate by more than 1.5 standard errors. The budget cuts the list of candidates, the most
    promising of which come first.

    Settings of an experiment are chosen on its training data: see
    redunet tune --data digits --help.

    Example:

        redunet tune intents.safetensors validation.csv --budget 60s --write
    """
    from redunet.data import tuning
    from redunet.data.model_file import ModelFile
    from redunet.safety.files import make_folder

    out = make_folder(out or Path("runs/tune"))  # an error comes before the work
    grid = {key: list(as_tuple(value)) for key, value in parsed(search).items()}
    with progress_of(quiet) as progress:
        options = read_options("required", device, label, skip_bad, text, encoder)
        file = ModelFile(model, validation, options, device, memory, teller(quiet), progress)
        result = tuning.tune(file, budget=budget, search=grid or None, write=write)
    found = result.to_dict()
    record = tuning.record_of(found, out, context.obj)
    if as_json:
        say_json(found)
        return
    say(*([] if quiet else messages.best(record)), *messages.tuned(found))
    if not quiet:
        say(f"Wrote {out / 'tune.json'}")
    say_notes(result, quiet)
