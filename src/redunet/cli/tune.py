"""The command that chooses settings: of a model file, or of an experiment."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from redunet.cli.answers import Json, Quiet, progress_of, say_notes, teller
from redunet.cli.options import (
    Config,
    Data,
    DataDir,
    Device,
    Dtype,
    Memory,
    RecipeName,
    Settings,
    as_tuple,
    parsed,
    progress_bar,
    whole_numbers,
)
from redunet.cli.own_data import EncoderName, Label, SkipBad, Text, wanted_of
from redunet.cli.terminal import say, say_json
from redunet.errors import SettingsError

OF_MODEL = {
    "write": "--write",
    "budget": "--budget",
    "encoder": "--encoder",
    "text": "--text",
    "skip_bad": "--skip-bad",
    "as_json": "--json",
    "quiet": "--quiet",
}
OF_DATA = {
    "data": "--data",
    "method": "--method",
    "recipe": "--recipe",
    "config": "--config",
    "settings": "--set",
    "dtype": "--dtype",
    "components": "--components",
    "per_class": "--per-class",
    "no_paper_rule": "--no-paper-rule",
    "most": "--most",
    "first_task": "--first-task",
    "data_dir": "--data-dir",
}


def tune(
    context: typer.Context,
    model: Annotated[
        Path | None, typer.Argument(metavar="[MODEL", help="A model file.", show_default=False)
    ] = None,
    validation: Annotated[
        list[Path] | None,
        typer.Argument(
            metavar="VALIDATION...]",
            help="Samples that the model has not learnt, as `redunet learn` takes them.",
            show_default=False,
        ),
    ] = None,
    data: Data = None,
    label: Label = None,
    out: Annotated[
        Path | None, typer.Option(help="Output folder for tune.json, by default runs/tune.")
    ] = None,
    search: Annotated[
        list[str] | None,
        typer.Option(metavar="KEY=V1,V2,...", help="Values to try; may be given several times."),
    ] = None,
    write: Annotated[
        bool, typer.Option("--write", help="Of a model: change the file to the settings chosen.")
    ] = False,
    budget: Annotated[
        str,
        typer.Option(
            metavar="TIME|N", help="Of a model: a time such as 60s or 5min, or N candidates."
        ),
    ] = "60s",
    encoder: EncoderName = None,
    text: Text = None,
    skip_bad: SkipBad = 0,
    method: Annotated[
        str, typer.Option(help="redunet, lda, ridge, qda, air, fecam, ranpac, ...")
    ] = "redunet",
    recipe: RecipeName = None,
    config: Config = None,
    settings: Settings = None,
    dtype: Dtype = None,
    components: Annotated[str, typer.Option(help="Numbers of components to try, for redunet.")] = (
        "5,8,10,12,15,20,28,40,60"
    ),
    per_class: Annotated[int, typer.Option(help="Training samples to evaluate on.")] = 200,
    no_paper_rule: Annotated[
        bool,
        typer.Option("--no-paper-rule", help="For redunet: leave out the paper's own rule."),
    ] = False,
    most: Annotated[
        int | None,
        typer.Option(metavar="N", help="Try N combinations, drawn at random; by default all."),
    ] = None,
    first_task: Annotated[
        bool, typer.Option("--first-task", help="Use the first task's samples alone.")
    ] = False,
    data_dir: DataDir = None,
    device: Device = "auto",
    memory: Memory = "2GB",
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Choose settings: of a model on validation data, or of an experiment on its training data.

    Of a model, network, read-out, regularisation and temperature; nothing is learnt again, and the
    file changes only with --write. The present settings are the first candidate and stay unless
    another one is more accurate by more than 1.5 standard errors. The budget cuts the list of
    candidates, the most promising of which come first.

    With --data, of an experiment: settings of the network or of another method, and of the
    features, on part of the training data, all of it or the first task's; test data is never used.

    SETTINGS

    Example:

        redunet tune intents.safetensors validation.csv --budget 60s --write
        redunet tune --data digits --search eps=0.3,0.5,1 --search sharpness=1,5
        redunet tune --data digits --method lda --search shrinkage=0.001,0.01,0.1
        redunet tune --data mnist --recipe images-fast --search cells=2,3,4 --search window=0,3
    """
    wrong = OF_DATA if model is not None else OF_MODEL
    for name, option in wrong.items():
        source = context.get_parameter_source(name)
        if source is not None and source.name == "COMMANDLINE":
            what = "a model and" if model is not None else "no model but"
            raise SettingsError(
                f"expected MODEL VALIDATION, or --data and its options, got {what} {option}"
            )
    grid = {key: list(as_tuple(value)) for key, value in parsed(search).items()}
    out = out or Path("runs/tune")
    if model is not None:
        if not validation:
            raise SettingsError(
                f"expected validation data after the model, got none: "
                f"redunet tune {model} validation.csv"
            )
        wanted = wanted_of("required", label, skip_bad, text, encoder, device)
        _tune_model(
            model,
            validation,
            wanted,
            out,
            context.obj,
            as_json,
            quiet,
            {"budget": budget, "search": grid or None, "write": write}
            | {"device": device, "memory": memory},
        )
        return
    from redunet.cli.screen import best
    from redunet.experiments.experiment import Experiment
    from redunet.experiments.tune_experiment import tune_experiment

    changes = {**parsed(settings), **({"dtype": dtype} if dtype else {})}
    experiment = Experiment.of(data, recipe=recipe, config=config, changes=changes, label=label)
    with progress_bar() as tell:
        record = tune_experiment(
            experiment,
            out,
            context.obj,
            grid,
            method=method,
            n_components=whole_numbers("components", components, least=1),
            per_class=per_class,
            paper_rule=not no_paper_rule,
            most=most,
            first_task=first_task,
            device=device,
            memory=memory,
            data_dir=data_dir,
            progress=tell,
        )
    say(*best(record), f"Wrote {out / 'tune.json'}")


def _tune_model(
    model: Path,
    validation: list[Path],
    wanted: Any,
    out: Path,
    command: str | None,
    as_json: bool,
    quiet: bool,
    how: dict[str, Any],
) -> None:
    from redunet.cli.screen import best, tuned
    from redunet.experiments.tune_experiment import record_of_model
    from redunet.files import make_folder
    from redunet.user_data import model_tuning

    make_folder(out)  # an error comes before the work
    with progress_of(quiet) as progress:
        found = model_tuning.tune(
            model, validation, wanted, **how, tell=teller(quiet), progress=progress
        )
    record = record_of_model(found, out, command)
    if as_json:
        say_json(found)
        return
    say(*([] if quiet else best(record)), *tuned(found))
    if not quiet:
        say(f"Wrote {out / 'tune.json'}")
    say_notes(found, quiet)
