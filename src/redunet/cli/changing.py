"""The commands that change a model file: learn, calibrate, forget, unlearn, merge."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from redunet.cli import messages
from redunet.cli.options import (
    Config,
    Data,
    Device,
    Dtype,
    EncoderName,
    Json,
    Label,
    Memory,
    Model,
    Offload,
    Quiet,
    Receipt,
    RecipeName,
    Scheduler,
    Settings,
    SignKey,
    SkipBad,
    Text,
    Workers,
    learner,
    read_options,
    receipts_of,
)
from redunet.cli.printing import say_result, teller
from redunet.cli.progress import progress_of
from redunet.cli.values import parsed, size_of
from redunet.errors import SettingsError


def learn(
    model: Model,
    data: Data,
    estimator: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Of a new model: redunet (the default), nearest-mean, linear-discriminant, "
            "quadratic-discriminant, pairwise-discriminant or ridge.",
        ),
    ] = None,
    recipe: RecipeName = None,
    config: Config = None,
    features: Annotated[
        str | None,
        typer.Option(help="Of a new model: pixels, standardize-columns, lift, ..."),
    ] = None,
    settings: Settings = None,
    dtype: Dtype = None,
    resize: Annotated[
        str | None,
        typer.Option(
            metavar="SIZE",
            help="Of a new model: scale images and crop them around the centre to SIZE pixels, "
            "such as 32 or 48x32 (width x height); kept in the model.",
        ),
    ] = None,
    encoder: EncoderName = None,
    text: Text = None,
    label: Label = None,
    unlabelled: Annotated[
        bool,
        typer.Option(
            "--unlabelled",
            help="The model labels those samples that it is certain of, and learns them; they are "
            "kept apart, and all held in memory.",
        ),
    ] = False,
    skip_bad: SkipBad = 0,
    workers: Workers = None,
    scheduler: Scheduler = None,
    device: Device = "auto",
    as_json: Json = False,
    quiet: Quiet = False,
    offload: Offload = None,
) -> None:
    r"""Create a model, or add new classes or more samples to it.

    For tables of numbers add --recipe tables. With --encoder, texts (a column of CSV, Parquet or
    JSON lines) and images become vectors first; later commands on the model do so by themselves.
    Data may be larger than memory. With --workers or --scheduler, other processes or machines read
    and learn it; the file is the same to the byte.

    Settings are given when the model is created, and kept in it. --set takes those of the model
    that `redunet run --help` lists, and of other estimators: shrinkage (linear-discriminant),
    shrinkage and distance, gaussian or correlation (quadratic-discriminant), ridge (ridge and
    pairwise-discriminant). Other estimators use only a recipe's features. Features that are learnt
    from data are learnt from the data of the first call.

    Example:

        redunet learn wine.safetensors wine.csv --label cultivar --recipe tables
        redunet learn birds.safetensors photos/ --recipe vectors \
            --encoder efficientnet-lite0
        redunet learn birds.safetensors more-photos/
        redunet learn intents.safetensors texts.csv --recipe vectors \
            --encoder minilm
    """
    from redunet.data import learning
    from redunet.data.model_file import ModelFile
    from redunet.validation import settings_in_file

    given = settings_in_file(config) if config else {}
    given |= parsed(settings)
    given |= {k: v for k, v in (("features", features), ("dtype", dtype)) if v}
    if unlabelled:
        if given or estimator or recipe or resize:
            raise SettingsError(
                "expected no settings with --unlabelled, which is for a model that exists"
            )
        if workers or scheduler:
            raise SettingsError("expected --unlabelled without --workers or --scheduler, got both")
        from redunet.data.unlabelled import learn_unlabelled

        options = read_options("ignored", device, label, skip_bad, text, encoder)
        with progress_of(quiet) as progress:
            file = ModelFile(model, data, options, device, tell=teller(quiet), progress=progress)
            found = learn_unlabelled(file)
        say_result(found, messages.labelled_itself, as_json, quiet)
        return
    with progress_of(quiet) as progress:
        options = read_options("required", device, label, skip_bad, text, encoder)
        found = learning.learn(
            ModelFile(model, data, options, device, tell=teller(quiet), progress=progress),
            given,
            estimator=estimator,
            recipe=recipe,
            resize=size_of(resize),
            apply=learner(workers, scheduler),
        )
    say_result(found, messages.learnt, as_json, quiet)


def calibrate(
    model: Model,
    data: Data,
    encoder: EncoderName = None,
    text: Text = None,
    label: Label = None,
    skip_bad: SkipBad = 0,
    device: Device = "auto",
    memory: Memory = "2GB",
    as_json: Json = False,
    quiet: Quiet = False,
    offload: Offload = None,
) -> None:
    """Measure on validation samples which ones `predict --reject` rejects; saved in the model.

    DATA holds samples of known classes that were not learnt; labels are ignored. Without this,
    thresholds are estimated from the model alone. They hold for the model as it is: whatever is
    learnt or removed later drops them.

    Example:

        redunet calibrate intents.safetensors validation.csv
        redunet predict intents.safetensors new.csv --reject 0.05
    """
    from redunet.data import unlabelled
    from redunet.data.model_file import ModelFile

    with progress_of(quiet) as progress:
        options = read_options("ignored", device, label, skip_bad, text, encoder)
        found = unlabelled.calibrate(
            ModelFile(model, data, options, device, memory, teller(quiet), progress)
        )
    say_result(found, messages.calibrated, as_json, quiet)


def forget(
    model: Model,
    classes: Annotated[
        list[str] | None, typer.Argument(metavar="[CLASS...]", help="Classes to forget.")
    ] = None,
    unlabelled: Annotated[
        bool,
        typer.Option("--unlabelled", help="Unlearn all samples that the model labelled itself."),
    ] = False,
    receipt: Receipt = None,
    sign_key: SignKey = None,
    as_json: Json = False,
    quiet: Quiet = False,
    offload: Offload = None,
) -> None:
    """Forget classes: the file is then, to the byte, as if they had never been learnt.

    Example:

        redunet forget birds.safetensors magpie
    """
    from redunet.data import withdrawing

    if bool(classes) == unlabelled:
        got = "both" if unlabelled else "neither"
        raise SettingsError(f"expected classes to remove, or --unlabelled, got {got}")
    log = receipts_of(receipt, sign_key, model)
    if not unlabelled:
        found = withdrawing.forget(model, classes or [], tell=teller(quiet), receipts=log)
        say_result(found, messages.forgotten, as_json, quiet)
        return
    if log is not None:
        raise SettingsError("expected --receipt without --unlabelled, got both")
    from redunet.data.unlabelled import forget_unlabelled

    found = forget_unlabelled(model, tell=teller(quiet))
    say_result(found, messages.forgotten_unlabelled, as_json, quiet)


def unlearn(
    model: Model,
    data: Data,
    encoder: EncoderName = None,
    text: Text = None,
    label: Label = None,
    skip_bad: SkipBad = 0,
    workers: Workers = None,
    scheduler: Scheduler = None,
    receipt: Receipt = None,
    sign_key: SignKey = None,
    device: Device = "auto",
    as_json: Json = False,
    quiet: Quiet = False,
    offload: Offload = None,
) -> None:
    """Unlearn samples: the file is then, to the byte, as if they had never been learnt.

    Samples that cannot have been learnt are refused; in a class of many samples, one that was
    never learnt may go undetected.

    Example:

        redunet unlearn birds.safetensors withdrawn-photos/
    """
    from redunet.data import withdrawing
    from redunet.data.model_file import ModelFile

    with progress_of(quiet) as progress:
        options = read_options("required", device, label, skip_bad, text, encoder)
        found = withdrawing.unlearn(
            ModelFile(model, data, options, device, tell=teller(quiet), progress=progress),
            apply=learner(workers, scheduler),
            receipts=receipts_of(receipt, sign_key, model),
        )
    say_result(found, messages.unlearnt, as_json, quiet)


def merge(
    models: Annotated[list[Path], typer.Argument(metavar="MODEL...", help="Model files.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="The model file to write.")],
    as_json: Json = False,
    quiet: Quiet = False,
    offload: Offload = None,
) -> None:
    """Merge models into one, as if it had learnt the data of all of them.

    Example:

        redunet merge here.safetensors there.safetensors -o both.safetensors
    """
    from redunet.data import merging

    with progress_of(quiet) as progress:
        found = merging.merge(models, out, tell=teller(quiet), progress=progress)
    say_result(found, messages.merged, as_json, quiet)
