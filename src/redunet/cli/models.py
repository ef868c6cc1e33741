"""The commands on model files: words to calls, nothing else."""

from __future__ import annotations

import sys
from contextlib import nullcontext
from pathlib import Path
from typing import Annotated

import typer

from redunet.cli.answers import Json, Quiet, progress_of, say_found, say_notes, teller
from redunet.cli.card import card
from redunet.cli.encode import encode
from redunet.cli.export import export
from redunet.cli.on_dask import Scheduler, Workers, change_of
from redunet.cli.options import (
    Config,
    Device,
    Dtype,
    Memory,
    Offload,
    RecipeName,
    Settings,
    parsed,
    size_of,
)
from redunet.cli.own_data import Data, EncoderName, Label, SkipBad, Text, wanted_of
from redunet.cli.receipts import Receipt, SignKey, receipts_of
from redunet.cli.serve import serve
from redunet.cli.unlabelled import calibrate
from redunet.errors import SettingsError
from redunet.safety import interrupts
from redunet.text import csv_cell, shown

Model = Annotated[Path, typer.Argument(metavar="MODEL", help="A model file.")]


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
    pairwise-discriminant). Of a recipe, estimators other than redunet take the features alone.
    Features that are learnt from data are learnt from the data of the first call.

    Example:

        redunet learn wine.safetensors wine.csv --label cultivar --recipe tables
        redunet learn birds.safetensors photos/ --recipe vectors \
            --encoder efficientnet-lite0
        redunet learn birds.safetensors more-photos/
        redunet learn intents.safetensors texts.csv --recipe vectors \
            --encoder minilm
    """
    from redunet.cli import lines
    from redunet.data import learning
    from redunet.validation import settings_in_file

    given = settings_in_file(config) if config else {}
    given |= parsed(settings)
    given |= {k: v for k, v in (("features", features), ("dtype", dtype)) if v}
    if unlabelled:
        from redunet.cli.unlabelled import learn_unlabelled

        if given or estimator or recipe or resize:
            raise SettingsError(
                "expected no settings with --unlabelled, which is for a model that exists"
            )
        if workers or scheduler:
            raise SettingsError("expected --unlabelled without --workers or --scheduler, got both")
        wanted = wanted_of("ignored", label, skip_bad, text, encoder, device)
        learn_unlabelled(model, data, wanted, device, as_json, quiet)
        return
    with progress_of(quiet) as progress:
        found = learning.learn(
            model,
            data,
            given,
            wanted_of("required", label, skip_bad, text, encoder, device),
            estimator=estimator,
            recipe=recipe,
            resize=size_of(resize),
            device=device,
            tell=teller(quiet),
            progress=progress,
            apply=change_of(workers, scheduler),
        )
    say_found(found, lines.learnt, as_json, quiet)


def predict(
    model: Model,
    data: Data,
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", help="A .csv, .parquet or .jsonl file; by default print CSV."),
    ] = None,
    top: Annotated[
        int, typer.Option(min=1, metavar="N", help="Write the N most likely labels, and scores.")
    ] = 1,
    scores: Annotated[bool, typer.Option("--scores", help="Write a score for each class.")] = False,
    reject: Annotated[
        float | None,
        typer.Option(
            metavar="SHARE",
            help="Give no label to samples as novel as this share, such as 0.05, of those of known "
            "classes; redunet calibrate makes it exact.",
        ),
    ] = None,
    exact: Annotated[
        bool,
        typer.Option(
            "--exact", help="Scores by all layers, slower; by default estimated within 0.001."
        ),
    ] = False,
    encoder: EncoderName = None,
    text: Text = None,
    label: Label = None,
    skip_bad: SkipBad = 0,
    device: Device = "auto",
    memory: Memory = "2GB",
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON lines, not CSV.")] = False,
    raw_csv: Annotated[
        bool, typer.Option("--raw-csv", help="Write no apostrophe before =, +, -, @ in CSV.")
    ] = False,
    quiet: Quiet = False,
    offload: Offload = None,
) -> None:
    """Predict the labels of samples, each with a score between 0 and 1.

    Images may be in one folder or in several, and a single image is enough. In CSV, a label or name
    that begins with =, +, - or @ and is no number gets an apostrophe in front, so that no
    spreadsheet runs it as a formula. With --reject there are two columns more, rejected (yes or no)
    and novelty, and a sample that is rejected has no label: an empty cell, in JSON null.

    Example:

        redunet predict birds.safetensors new-photos/ -o labels.csv --top 3
    """
    from redunet.cli import lines
    from redunet.cli.unlabelled import threshold_of
    from redunet.data import predicting, prediction_file
    from redunet.estimators import load
    from redunet.safety.files import refuse_overwriting

    if top > 1 and scores:
        raise SettingsError("expected --top or --scores, got both: --scores writes every score")
    if out is not None:
        refuse_overwriting(out, [model, *data, *([label] if label else [])])
    known = load(model, device, memory)
    if exact and "exact" in known.get_params(deep=False):
        known.set_params(exact=True)
    threshold = None if reject is None else threshold_of(known, reject)
    columns = prediction_file.Columns(known.classes_, top, scores, threshold)
    cell = str if raw_csv else csv_cell
    if out is not None:
        table = prediction_file.predictions_file(out, columns, cell)
    elif as_json:
        table = prediction_file.json_lines(sys.stdout.buffer, columns)
    else:
        # A terminal would act on control characters in a name; a file takes names as they are.
        show = (lambda text: shown(cell(text))) if sys.stdout.isatty() else cell
        table = prediction_file.csv_lines(sys.stdout.buffer, columns, show)
    with progress_of(quiet) as progress, interrupts.outcome(out) if out else nullcontext():
        found = predicting.predict(
            known,
            data,
            wanted_of("ignored", label, skip_bad, text, encoder, device),
            table,
            progress,
            threshold,
        )
    if out is None:
        say_notes(found.to_dict(), quiet)
    else:
        say_found({"out": str(out), **found.to_dict()}, lines.predicted, as_json, quiet)


def evaluate(
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
    """Compare predictions with true labels: accuracy, recall of classes, confusion matrix.

    Example:

        redunet evaluate birds.safetensors test-photos/
    """
    from redunet.cli import lines
    from redunet.data import predicting
    from redunet.estimators import load

    with progress_of(quiet) as progress:
        known = load(model, device, memory)
        wanted = wanted_of("required", label, skip_bad, text, encoder, device)
        found = predicting.evaluate(known, data, wanted, progress)
    say_found(found, lines.evaluated, as_json, quiet, answer=True)


def forget(
    model: Model,
    classes: Annotated[
        list[str] | None, typer.Argument(metavar="[CLASS...]", help="Classes to remove.")
    ] = None,
    unlabelled: Annotated[
        bool,
        typer.Option("--unlabelled", help="Remove all samples that the model labelled itself."),
    ] = False,
    receipt: Receipt = None,
    sign_key: SignKey = None,
    as_json: Json = False,
    quiet: Quiet = False,
    offload: Offload = None,
) -> None:
    """Remove classes: the file is then, to the byte, as if they had never been learnt.

    Example:

        redunet forget birds.safetensors magpie
    """
    from redunet.cli import lines
    from redunet.data import withdrawing

    if bool(classes) == unlabelled:
        got = "both" if unlabelled else "neither"
        raise SettingsError(f"expected classes to remove, or --unlabelled, got {got}")
    log = receipts_of(receipt, sign_key, model)
    if unlabelled:
        from redunet.data.unlabelled import forget_unlabelled

        if log is not None:
            raise SettingsError("expected --receipt without --unlabelled, got both")
        withdrawn = forget_unlabelled(model, tell=teller(quiet))
        say_found(withdrawn, lines.forgotten_unlabelled, as_json, quiet)
        return
    classes = classes or []
    found = withdrawing.forget(model, classes, tell=teller(quiet), receipts=log)
    say_found(found, lines.forgotten, as_json, quiet)


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
    """Remove samples: the file is then, to the byte, as if they had never been learnt.

    Samples that cannot have been learnt are refused; in a class of many samples, one that was
    never learnt may go undetected.

    Example:

        redunet unlearn birds.safetensors withdrawn-photos/
    """
    from redunet.cli import lines
    from redunet.data import withdrawing

    with progress_of(quiet) as progress:
        found = withdrawing.unlearn(
            model,
            data,
            wanted_of("required", label, skip_bad, text, encoder, device),
            device=device,
            tell=teller(quiet),
            progress=progress,
            apply=change_of(workers, scheduler),
            receipts=receipts_of(receipt, sign_key, model),
        )
    say_found(found, lines.withdrawn, as_json, quiet)


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
    from redunet.cli import lines
    from redunet.data import merging

    with progress_of(quiet) as progress:
        found = merging.merge(models, out, tell=teller(quiet), progress=progress)
    say_found(found, lines.merged, as_json, quiet)


def inspect(
    model: Model,
    device: Device = "auto",
    memory: Memory = "2GB",
    as_json: Json = False,
    quiet: Quiet = False,
    offload: Offload = None,
) -> None:
    """Show what is in a model: classes, settings, ΔR by layer, angles between classes.

    Example:

        redunet inspect birds.safetensors
    """
    from redunet.cli.inspection_lines import inspected
    from redunet.data import inspecting

    with progress_of(quiet) as progress:
        progress("building the network", 0.0)
        found = inspecting.inspect(model, device, memory)
    say_found(found, inspected, as_json, quiet, answer=True)


def verify(
    model: Model, as_json: Json = False, quiet: Quiet = False, offload: Offload = None
) -> None:
    """Check a model file, every byte of it; the exit code is 2 if it is damaged.

    Example:

        redunet verify birds.safetensors
    """
    from redunet.cli import lines
    from redunet.data import inspecting

    say_found(inspecting.verify(model), lines.verified, as_json, quiet)


COMMANDS = (
    learn,
    predict,
    evaluate,
    calibrate,
    forget,
    unlearn,
    merge,
    encode,
    export,
    inspect,
    verify,
    card,
    serve,
)
