"""The commands on recipes, and on the order of classes: words to calls, nothing else."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from redunet.cli.options import (
    DataDir,
    DataName,
    Device,
    Memory,
    RecipeName,
    Settings,
    by_method,
    parsed,
    progress_bar,
    whole_numbers,
)
from redunet.cli.terminal import Screen as Console


def recipes() -> None:
    """List the recipes: settings under one name, what each is for, takes and reached.

    Example: redunet recipes, then redunet run --data mnist --recipe images-fast
    """
    from redunet.cli.commands import recipe_table
    from redunet.estimators.recipes import RECIPES

    Console().print(recipe_table(RECIPES))


def ablate(
    recipe: Annotated[str, typer.Option(help="The recipe, by name.")] = "images-fast",
    data: Annotated[str, typer.Option(help="digits, mnist, fashion_mnist or cifar10.")] = "digits",
    seeds: Annotated[str, typer.Option(help="Seeds of what is random.")] = "0",
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="KEY=VALUE",
            help="A setting of the recipe, or METHOD.KEY of a rival; may be given several times.",
        ),
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="Folder; by default runs/ablate-RECIPE-DATA.")
    ] = None,
    ingredients: Annotated[bool, typer.Option(help="Take it apart, first seed.")] = True,
    joint: Annotated[bool, typer.Option(help="Compare with joint training, first seed.")] = True,
    data_dir: DataDir = None,
    device: Device = "auto",
    memory: Memory = "2GB",
) -> None:
    """Take a recipe apart: what it reaches, and what each of its ingredients adds.

    One model learns task after task. From its moments come the recipe's network, the closed-form
    rivals ncm, lda, ridge and qda on the same features, and the network with each ingredient alone
    and together: features, whitening, layers, read-outs.

    Example: redunet ablate --data digits --recipe features --set lda.regularization=0.1
    """
    from redunet.cli.commands import findings
    from redunet.experiments import ablation

    words = [f"--set {word}" for word in settings or []]
    command = f"redunet ablate --data {data} --recipe {recipe} --seeds {seeds}"
    out = out or Path("runs") / f"ablate-{recipe}-{data}"
    with progress_bar() as tell:
        record = ablation.ablate(
            data,
            recipe,
            out,
            " ".join([command, *words]),
            seeds=whole_numbers("seeds", seeds, least=0),
            changes=by_method(settings, "redunet"),
            device=device,
            memory=memory,
            ingredients=ingredients,
            joint=joint,
            data_dir=data_dir,
            progress=tell,
        )
    Console().print(*findings(record, out), sep="\n")


def orders(
    data: DataName = "digits",
    number: Annotated[int, typer.Option("--orders", help="How many orders.")] = 5,
    out: Annotated[Path | None, typer.Option(help="Folder; by default runs/orders-DATA.")] = None,
    recipe: RecipeName = None,
    settings: Settings = None,
    data_dir: DataDir = None,
    device: Device = "auto",
) -> None:
    """Learn a data set in random orders of its classes, and compare the model files.

    No network is built: what is learnt, and so the file, says all. The feature map is the same
    for each order.

    Example: redunet orders --data digits --orders 25
    """
    from redunet.cli.commands import orders_verdict
    from redunet.experiments.orders import learn_in_orders
    from redunet.experiments.plan import planned
    from redunet.validation import whole_number

    plan = planned(recipe).changed({"data": data, **parsed(settings)})
    words = [f"--orders {number}", *([f"--recipe {recipe}"] if recipe else [])]
    words += [f"--set {word}" for word in settings or []]
    out = out or Path("runs") / f"orders-{data}"
    with progress_bar() as tell:
        record = learn_in_orders(
            plan,
            out,
            " ".join(["redunet orders --data", data, *words]),
            seeds=range(whole_number("orders", number, least=1)),
            device=device,
            data_dir=data_dir,
            progress=tell,
        )
    Console().print(*orders_verdict(record, out), sep="\n")


RECIPE_COMMANDS = (recipes, ablate, orders)
