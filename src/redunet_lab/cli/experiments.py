"""The commands that run experiments: words to calls, nothing else."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import suppress
from functools import wraps
from pathlib import Path
from typing import Annotated, Any

import typer

from redunet.cli.options import (
    Config,
    DataDir,
    Device,
    Dtype,
    Memory,
    RecipeName,
    Settings,
    Workers,
)
from redunet.cli.printing import say
from redunet.cli.progress import progress_bar
from redunet.cli.values import parsed, whole_numbers, words_of
from redunet_lab.cli.help_text import WithSettings
from redunet_lab.cli.options import Data, Label, Out, Seeds, Test, by_method
from redunet_lab.cli.tune import tune


def demo(out: Out = None, workers: Workers = None) -> None:
    """Learn scikit-learn's digits in five tasks, then forget a class; no download.

    With --workers, processes do it once more, and end in the same model file.

    Example:

        redunet demo --out demo
    """
    from redunet_lab.demo import MODEL, run_demo

    out = out or Path("demo")
    with progress_bar() as tell:
        record = run_demo(out, workers, tell)
    _print(record, out)
    say(f"Wrote {out / MODEL}, the model, for redunet.load and redunet predict")
    say("Next: open that page in a browser; for data of your own, see redunet learn --help")


def run(
    context: typer.Context,
    data: Data = None,
    label: Label = None,
    test: Test = None,
    out: Out = None,
    recipe: RecipeName = None,
    config: Config = None,
    settings: Settings = None,
    seeds: Seeds = None,
    dtype: Dtype = None,
    joint: Annotated[bool, typer.Option(help="Compare with joint training, first seed.")] = True,
    orders: Annotated[
        int | None,
        typer.Option(
            metavar="N", help="Instead: learn the classes in N random orders, compare the files."
        ),
    ] = None,
    data_dir: DataDir = None,
    device: Device = "auto",
    memory: Memory = "2GB",
) -> None:
    """Learn a data set task after task, evaluate after each task, and write a report.

    Settings come from a recipe, then a TOML file, then --set; later ones replace earlier ones.

    SETTINGS

    Example:

        redunet run --data digits --set n_tasks=10 --set order_seed=1
        redunet run --data wine.csv --label cultivar --recipe tables --set n_tasks=3
        redunet run --data digits --orders 25
    """
    from redunet.validation import whole_number
    from redunet_lab.experiment import Experiment
    from redunet_lab.orders import learn_in_orders
    from redunet_lab.reproduce import run_network

    changes = {**parsed(settings), **({"dtype": dtype} if dtype else {})}
    experiment = Experiment.of(
        data, recipe=recipe, config=config, changes=changes, label=label, test=test
    )
    numbers = whole_numbers("seeds", seeds, least=0) if seeds else [experiment.seed]
    experiment = experiment.changed({"seed": numbers[0]})
    with progress_bar() as tell:
        if orders is not None:
            record = learn_in_orders(
                experiment,
                out or Path("runs/orders"),
                context.obj,
                seeds=range(whole_number("orders", orders, least=1)),
                device=device,
                data_dir=data_dir,
                progress=tell,
            )
        else:
            record = run_network(
                experiment,
                out or Path("runs/run"),
                context.obj,
                seeds=numbers,
                device=device,
                memory=memory,
                joint=joint,
                data_dir=data_dir,
                progress=tell,
            )
    _print(record, out or Path("runs/orders" if orders is not None else "runs/run"))


def reproduce(
    context: typer.Context,
    name: Annotated[str, typer.Argument(help="mnist, mnist-tuned, cifar10 or cifar10-uncentred.")],
    out: Out = None,
    config: Config = None,
    seeds: Seeds = None,
    settings: Settings = None,
    dtype: Dtype = None,
    joint: Annotated[bool, typer.Option(help="Compare with joint training, first seed.")] = True,
    dry_run: Annotated[
        bool,
        typer.Option(
            "--dry-run", help="Only print what would be done, and how long a record says it took."
        ),
    ] = False,
    data_dir: DataDir = None,
    device: Device = "auto",
    memory: Memory = "2GB",
) -> None:
    """Run an experiment of the paper, and compare the result with the paper's.

    Example:

        redunet reproduce mnist --dry-run
        redunet reproduce mnist --dtype float32 --out runs/mnist
    """
    from redunet.validation import settings_in_file
    from redunet_lab.paper import find
    from redunet_lab.reproduce import run_network

    wanted = find(name)
    out = out or Path("runs") / name
    numbers = whole_numbers("seeds", seeds or "0", least=0)
    changes = settings_in_file(config) if config else {}
    changes |= {**parsed(settings), **({"dtype": dtype} if dtype else {})}
    experiment = wanted.experiment(**changes)
    if dry_run:
        layers = experiment.model_settings["n_layers"]
        say(
            f"redunet reproduce {name} would build five networks of {layers} layers, after each of "
            f"five tasks of two classes, and write record.json, report.md, report.html and figures "
            f"to {out}."
        )
        for path in (out / "record.json", Path("results", f"{name}.json")):
            with suppress(OSError, ValueError, KeyError, TypeError):
                found = json.loads(path.read_text(encoding="utf-8"))
                minutes, machine = max(1, round(found["seconds"] / 60)), found["machine"]
                on = machine["gpu"] or machine["processor"]
                say(f"About {minutes} minutes by the record {path}: {found['command']}, on {on}.")
                break
        return
    with progress_bar() as tell:
        record = run_network(
            experiment,
            out,
            context.obj,
            what=wanted.what,
            readings=wanted.readings,
            paper=wanted.data,
            seeds=numbers,
            device=device,
            memory=memory,
            joint=joint,
            data_dir=data_dir,
            progress=tell,
        )
    _print(record, out)


def compare(
    context: typer.Context,
    data: Data = None,
    label: Label = None,
    test: Test = None,
    methods: Annotated[
        str | None, typer.Option(metavar="A,B,...", help="By default all that are named above.")
    ] = None,
    out: Out = None,
    recipe: RecipeName = None,
    config: Config = None,
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="[METHOD.]KEY=VALUE",
            help="A setting of ReduNet and the stream, or of a method; may be given several times.",
        ),
    ] = None,
    seeds: Seeds = None,
    dtype: Dtype = None,
    ablate: Annotated[
        bool,
        typer.Option(
            "--ablate", help="Evaluate ReduNet's parts alone too, first seed; methods on moments."
        ),
    ] = False,
    joint: Annotated[
        bool | None,
        typer.Option(
            help="Compare ReduNet with joint training, first seed; by default if --ablate."
        ),
    ] = None,
    checkpoints: Annotated[
        bool,
        typer.Option(
            help="Save models after each task, so that an unfinished run is resumed from there; "
            "without, it learns its finished tasks once more."
        ),
    ] = True,
    data_dir: DataDir = None,
    device: Device = "auto",
    memory: Memory = "2GB",
) -> None:
    """Compare methods over the same stream of tasks.

    Methods: redunet; by gradient descent, for images, finetune, joint (all classes at once), lwf,
    ewc, si, and with exemplars icarl, er, derpp; in closed form ncm, lda, ridge, qda, and subspace
    (ReduNet without layers); for vectors also slda, air, fecam, ranpac, klda. Those in closed form
    share ReduNet's features and class moments, which are learnt once; ranpac and klda have features
    of their own behind them. Several commands may work on different methods of one --out at the
    same time; the tables show all that is finished there. The regularisation of closed-form methods
    was chosen for some recipes and data sets; for others choose it with redunet tune --method lda,
    and give it by --set lda.shrinkage=VALUE.

    SETTINGS

    Example:

        redunet compare --data digits --methods redunet,lda,er --set er.epochs=5
        redunet compare --data wine.csv --label cultivar --methods redunet,lda,qda
    """
    from redunet_lab.compare import compare as run_comparison

    changes = by_method(settings)
    if dtype:
        changes["redunet"] = {"dtype": dtype, **changes.get("redunet", {})}
    out = out or Path("runs") / f"compare-{Path(data or 'digits').stem}"
    with progress_bar() as tell:
        record = run_comparison(
            data,
            out,
            context.obj,
            methods=None if methods is None else words_of(methods),
            seeds=whole_numbers("seeds", seeds or "0", least=0),
            recipe=recipe,
            config=config,
            changes=changes,
            label=label,
            test=test,
            ablate=ablate,
            joint=joint,
            checkpoints=checkpoints,
            device=device,
            memory=memory,
            data_dir=data_dir,
            progress=tell,
        )
    _print(record, out)


def _print(record: Any, out: Path) -> None:
    from redunet_lab.cli.printing import say_record

    say_record(record)
    say(f"Wrote {out / 'report.html'}, report.md, record.json and figures")


@wraps(compare)
def ablate(*words: Any, **options: Any) -> None:
    """Compare with --ablate: the name that earlier records have for it."""
    compare(*words, **{**options, "ablate": True})


def add(main: typer.Typer, name: str) -> None:
    """Add the command of an entry point to the command `redunet`."""
    commands: dict[str, Callable[..., None]] = {
        "demo": demo,
        "run": run,
        "reproduce": reproduce,
        "compare": compare,
        "tune-data": tune,  # shown in the help of tune
    }
    how: dict[str, Any] = {"rich_help_panel": "Experiments", "cls": WithSettings}
    main.command(name, hidden=name == "tune-data", **how)(commands[name])
    if name == "compare":
        main.command("ablate", hidden=True, **how)(ablate)
