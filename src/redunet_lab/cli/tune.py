"""The command that chooses the settings of an experiment."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from redunet.cli.messages import best
from redunet.cli.options import (
    Config,
    DataDir,
    Device,
    Dtype,
    Memory,
    RecipeName,
    Search,
    Settings,
    TuneOut,
)
from redunet.cli.printing import say
from redunet.cli.progress import progress_bar
from redunet.cli.values import as_tuple, parsed, whole_numbers
from redunet_lab.cli.options import Data, Label


def tune(
    context: typer.Context,
    data: Data = None,
    label: Label = None,
    out: TuneOut = None,
    search: Search = None,
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
    max_candidates: Annotated[
        int | None,
        typer.Option(
            "--max-candidates",
            "--most",
            metavar="N",
            help="Try N combinations, drawn at random; by default all.",
        ),
    ] = None,
    first_task: Annotated[
        bool, typer.Option("--first-task", help="Use the first task's samples alone.")
    ] = False,
    data_dir: DataDir = None,
    device: Device = "auto",
    memory: Memory = "2GB",
) -> None:
    """Choose the settings of an experiment on its training data.

    Settings of the network or of another method, and of the features, on part of the training data,
    all of it or the first task's; test data is never used.

    SETTINGS

    Example:

        redunet tune --data digits --search eps=0.3,0.5,1 --search sharpness=1,5
        redunet tune --data digits --method lda --search shrinkage=0.001,0.01,0.1
        redunet tune --data mnist --recipe images-fast --search pool_cells=2,3,4 --search window=0,3
    """
    grid = {key: list(as_tuple(value)) for key, value in parsed(search).items()}
    out = out or Path("runs/tune")
    from redunet_lab.experiment import Experiment
    from redunet_lab.tune_experiment import tune_experiment

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
            most=max_candidates,
            first_task=first_task,
            device=device,
            memory=memory,
            data_dir=data_dir,
            progress=tell,
        )
    say(*best(record), f"Wrote {out / 'tune.json'}")
