"""The command `redunet`: words to calls, nothing else."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from redunet._version import __version__
from redunet.cli.interrupts import begin
from redunet.cli.models import COMMANDS
from redunet.cli.one_line import EXIT_CODES, OneLineErrors
from redunet.cli.options import (
    DataDir,
    DataName,
    Device,
    Memory,
    Out,
    RecipeName,
    Settings,
    as_tuple,
    by_method,
    parsed,
    progress_bar,
    whole_numbers,
    words_of,
)
from redunet.cli.recipes import RECIPE_COMMANDS
from redunet.cli.terminal import Screen as Console

EXPERIMENTS = "Experiments"

main = typer.Typer(
    cls=OneLineErrors,
    help="Class-incremental learning that never forgets, exactly.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
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
        typer.Option("--version", callback=_show_version, is_eager=True, help="Say which version."),
    ] = False,
) -> None:
    """Class-incremental learning that never forgets, exactly."""


for command in COMMANDS:
    main.command(rich_help_panel="Models")(command)


@main.command(rich_help_panel=EXPERIMENTS)
def demo(out: Out = Path("demo")) -> None:
    """Learn scikit-learn's digits in five tasks, then forget a class; no download.

    Example: redunet demo --out demo
    """
    from redunet.experiments.demo import run_demo

    begin("what was finished is kept")
    run_demo(out, Console(markup=True, highlight=True))


@main.command(rich_help_panel=EXPERIMENTS)
def run(
    data: Annotated[
        str | None, typer.Option(help="digits, mnist, fashion_mnist or cifar10.")
    ] = None,
    out: Out = Path("runs/run"),
    recipe: RecipeName = None,
    config: Annotated[Path | None, typer.Option(help="A TOML file with settings.")] = None,
    settings: Settings = None,
    joint: Annotated[bool, typer.Option(help="Compare with joint training at the end.")] = True,
    data_dir: DataDir = None,
    device: Device = "auto",
    memory: Memory = "2GB",
) -> None:
    """Learn any data set task after task, and write down what happened.

    Settings come from a recipe, from a TOML file, from --set; what comes later in this list
    replaces what came before. Of the stream: n_tasks, tasks,
    order_seed, train_per_class, test_per_class. Of the features: features (pixels, standardize,
    standardize-pixel, lift, lift-linear, scattering, finer-scattering, patches, patches-kmeans, or
    several with + between them), statistics_from (first-task, whole-training-set, nowhere),
    mean_per, n_kernels, centred, n_scales, pool, n_filters, patch_size, cells, threshold, mirrored,
    root, standardized, seed. Of the network:
    n_layers, eps, step, step_decay, step_kind, sharpness, n_components, whitening, readout, ridge,
    dtype.

    Example: redunet run --data digits --set n_tasks=10 --set order_seed=1 --set n_layers=20
    """
    from redunet.cli.commands import own_experiment, verdict
    from redunet.experiments.plan import planned
    from redunet.experiments.reproduce import carry_out

    plan = planned(recipe)
    plan = plan.changed_by_file(config) if config else plan
    plan = plan.changed({"data": data} if data else {}).changed(parsed(settings))
    words = [f"--recipe {recipe}"] if recipe else []
    words += [f"--set {word}" for word in settings or []]
    command = " ".join(["redunet run --data", plan.data, *words])
    with progress_bar() as tell:
        record = carry_out(
            own_experiment(plan, data_dir),
            out,
            command,
            seeds=[plan.seed],
            device=device,
            memory=memory,
            joint=joint,
            data_dir=data_dir,
            progress=tell,
        )
    Console().print(*verdict(record, out), sep="\n")


@main.command(rich_help_panel=EXPERIMENTS)
def tune(
    data: DataName = "digits",
    out: Out = Path("runs/tune"),
    method: Annotated[str, typer.Option(help="redunet, lda, ridge or qda.")] = "redunet",
    recipe: RecipeName = None,
    settings: Settings = None,
    search: Annotated[
        list[str] | None,
        typer.Option(metavar="KEY=V1,V2,...", help="Values to try; may be given several times."),
    ] = None,
    components: Annotated[str, typer.Option(help="Numbers of components to try, for redunet.")] = (
        "5,8,10,12,15,20,28,40,60"
    ),
    per_class: Annotated[int, typer.Option(help="Training samples to evaluate on.")] = 200,
    paper_rule: Annotated[
        bool, typer.Option(help="For redunet: compute the paper's rule too.")
    ] = True,
    most: Annotated[
        int | None,
        typer.Option(metavar="N", help="Try N combinations, drawn at random; by default all."),
    ] = None,
    first_task: Annotated[
        bool, typer.Option("--first-task", help="Look at the first task's samples alone.")
    ] = False,
    data_dir: DataDir = None,
    device: Device = "auto",
    memory: Memory = "2GB",
) -> None:
    """Choose settings on training data, all of it or the first task's; test data is never read.

    Example: redunet tune --data digits --search eps=0.3,0.5,1 --search sharpness=1,5,
    or redunet tune --data digits --method lda --search regularization=0.001,0.01,0.1
    """
    from redunet.cli.commands import Search, tune_plan, tune_rival
    from redunet.experiments.plan import planned

    plan = planned(recipe).changed({"data": data, **parsed(settings)})
    grid = {key: list(as_tuple(value)) for key, value in parsed(search).items()}
    wanted = Search(grid, per_class, most, first_task)
    numbers = whole_numbers("components", components, least=1)
    with progress_bar() as tell:
        if method == "redunet":
            said = tune_plan(plan, wanted, numbers, paper_rule, out, device, memory, data_dir, tell)
        else:
            said = tune_rival(method, plan, wanted, out, device, data_dir, tell)
    Console().print(*said, sep="\n")


@main.command(rich_help_panel=EXPERIMENTS)
def reproduce(
    name: Annotated[str, typer.Argument(help="mnist, mnist-tuned, cifar10 or cifar10-uncentred.")],
    out: Annotated[Path | None, typer.Option(help="Folder; by default runs/NAME.")] = None,
    seeds: Annotated[str, typer.Option(help="Seeds of what is random.")] = "0",
    dtype: Annotated[str, typer.Option(help="float64 or float32, of the layers.")] = "float64",
    joint: Annotated[bool, typer.Option(help="Compare with joint training, first seed.")] = True,
    dry_run: Annotated[bool, typer.Option(help="Only say what would be done.")] = False,
    data_dir: DataDir = None,
    device: Device = "auto",
    memory: Memory = "2GB",
) -> None:
    """Run the paper's experiment, and set the result beside the paper's.

    Example: redunet reproduce mnist --dtype float32 --out runs/mnist
    """
    from redunet.cli import commands
    from redunet.experiments import reproduce

    out = out or Path("runs") / name
    numbers = whole_numbers("seeds", seeds, least=0)
    if dry_run:
        cost = reproduce.estimate(name, numbers, device, dtype, joint)
        Console().print(*commands.forecast(name, cost, out), sep="\n")
        return
    with progress_bar() as tell:
        wanted = reproduce.find(name)
        record = reproduce.carry_out(
            replace(wanted, plan=wanted.plan.changed({"dtype": dtype})),
            out,
            f"redunet reproduce {name} --seeds {seeds} --dtype {dtype}",
            seeds=numbers,
            device=device,
            memory=memory,
            joint=joint,
            data_dir=data_dir,
            progress=tell,
        )
    Console().print(*commands.verdict(record, out), sep="\n")


@main.command(rich_help_panel=EXPERIMENTS)
def compare(
    data: DataName = "digits",
    methods: Annotated[
        str | None, typer.Option(metavar="A,B,...", help="By default all that are named above.")
    ] = None,
    seeds: Annotated[str, typer.Option(help="Seeds of what is random.")] = "0",
    recipe: RecipeName = None,
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set", metavar="METHOD.KEY=VALUE", help="A setting; may be given several times."
        ),
    ] = None,
    out: Annotated[Path | None, typer.Option(help="Folder; by default runs/compare-DATA.")] = None,
    dtype: Annotated[
        str | None, typer.Option(help="float64 or float32, of ReduNet's layers.")
    ] = None,
    data_dir: DataDir = None,
    device: Device = "auto",
    memory: Memory = "2GB",
) -> None:
    """Set methods beside one another, over the same stream of five tasks.

    Methods: redunet; by gradient descent finetune, joint (the upper bound), lwf, ewc, si, and with
    exemplars icarl, er, derpp; in closed form ncm, lda, ridge, qda. Each run has a folder of its
    own, so several commands may work on different methods of one --out side by side; the tables
    are of all that is finished there. A recipe is ReduNet's, and its features are also those of
    the closed-form methods, whose regularisation was chosen for pixels: choose it anew with
    redunet tune --method lda --recipe NAME, and give it by --set lda.regularization=VALUE.

    Example: redunet compare --data digits --methods redunet,er,lda --seeds 0,1 --set er.epochs=5
    """
    from redunet.cli.commands import standings
    from redunet.experiments import compare as comparison
    from redunet.experiments.entrants import NAMES

    changes = by_method(settings)
    if dtype:
        changes["redunet"] = {"dtype": dtype, **changes.get("redunet", {})}
    out = out or Path("runs") / f"compare-{data}"
    with progress_bar() as tell:
        record = comparison.compare(
            data,
            out,
            methods=tuple(NAMES) if methods is None else words_of(methods),
            seeds=whole_numbers("seeds", seeds, least=0),
            recipe=recipe,
            changes=changes,
            device=device,
            memory=memory,
            data_dir=data_dir,
            progress=tell,
        )
    Console().print(*standings(record, out), sep="\n")


@main.command(rich_help_panel=EXPERIMENTS)
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


for experiment in RECIPE_COMMANDS:
    main.command(rich_help_panel=EXPERIMENTS)(experiment)
