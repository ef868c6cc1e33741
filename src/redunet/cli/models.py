"""The commands on model files: words to calls, nothing else."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from redunet.cli.options import Device, Memory, RecipeName, Settings, parsed, progress_bar
from redunet.cli.terminal import note, say, say_json

Model = Annotated[Path, typer.Argument(metavar="MODEL", help="A model file.")]
Data = Annotated[
    list[Path],
    typer.Argument(
        metavar="DATA",
        help=".npz, .npy, .csv or .parquet files, or folders of images, one sub-folder a class.",
    ),
]
Label = Annotated[
    str | None,
    typer.Option(
        help="Column or array of the labels, by default the one called label, class, target or y; "
        "for .npy the file that holds them."
    ),
]
SkipBad = Annotated[
    bool, typer.Option("--skip-bad", help="Leave out images that cannot be used, and name them.")
]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object instead of words.")]
Quiet = Annotated[
    bool, typer.Option("--quiet", "-q", help="Print nothing but what was asked for, and errors.")
]


def learn(
    model: Model,
    data: Data,
    estimator: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Of a new model: redunet (the default), nearest-mean, linear-discriminant, "
            "quadratic-discriminant or ridge.",
        ),
    ] = None,
    recipe: RecipeName = None,
    features: Annotated[
        str | None,
        typer.Option(help="Of a new model: pixels, standardize, standardize-pixel, lift, ..."),
    ] = None,
    settings: Settings = None,
    label: Label = None,
    skip_bad: SkipBad = False,
    device: Device = "auto",
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Create a model or extend it: new classes, or more samples of old ones.

    Data may be larger than memory. Settings are given when the model is created, and kept in it:
    an estimator, a recipe, and those of `redunet run` but for the stream's, and normalize and
    input_range. Of a recipe, estimators other than redunet take the features alone.
    Features that are learnt from data are learnt from the data of that first call.

    Example: redunet learn birds.safetensors photos/ --recipe images-fast,
    then redunet learn birds.safetensors more-photos/
    """
    from redunet.cli.files import lines, teach

    given = parsed(settings) | ({"features": features} if features else {})
    with progress_bar(quiet) as progress:
        found = teach.learn(
            model,
            data,
            given,
            _wanted(True, label, skip_bad),
            estimator=estimator,
            recipe=recipe,
            device=device,
            tell=_teller(quiet),
            progress=progress,
        )
    _say(found, lines.learnt, as_json, quiet)


def predict(
    model: Model,
    data: Data,
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", help="A .csv, .parquet or .jsonl file; else what is printed."),
    ] = None,
    label: Label = None,
    skip_bad: SkipBad = False,
    device: Device = "auto",
    memory: Memory = "2GB",
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON lines, not CSV.")] = False,
    quiet: Quiet = False,
) -> None:
    """Label samples; write labels, and scores between 0 and 1 for each class.

    Images may lie in one folder or in several, and a single image will do.

    Example: redunet predict birds.safetensors new-photos/ -o labels.csv
    """
    from redunet.cli.files import ask, lines, output
    from redunet.estimators import load

    known = load(model, device, memory)
    wanted = _wanted(False, label, skip_bad)
    if out is None:
        kind = output.json_lines if as_json else output.csv_lines
        with progress_bar(quiet) as progress, kind(sys.stdout.buffer, known.classes_) as write:
            found = ask.predict(known, data, wanted, write, progress)
        _notes(found, quiet)
        return
    with progress_bar(quiet) as progress:
        found = ask.predict(known, data, wanted, out, progress)
    _say(found, lines.predicted, as_json, quiet)


def evaluate(
    model: Model,
    data: Data,
    label: Label = None,
    skip_bad: SkipBad = False,
    device: Device = "auto",
    memory: Memory = "2GB",
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Compare a model's labels with the true ones: accuracy, classes, confusion matrix.

    Example: redunet evaluate birds.safetensors test-photos/
    """
    from redunet.cli.files import ask, lines
    from redunet.estimators import load

    with progress_bar(quiet) as progress:
        known = load(model, device, memory)
        found = ask.evaluate(known, data, _wanted(True, label, skip_bad), progress)
    _say(found, lines.evaluated, as_json, quiet, answer=True)


def forget(
    model: Model,
    classes: Annotated[list[str], typer.Argument(metavar="CLASS", help="Classes to withdraw.")],
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Withdraw classes, as if they had never been seen, to the last byte.

    Example: redunet forget birds.safetensors magpie
    """
    from redunet.cli.files import lines, teach

    found = teach.forget(model, classes, tell=_teller(quiet))
    _say(found, lines.forgotten, as_json, quiet)


def unlearn(
    model: Model,
    data: Data,
    label: Label = None,
    skip_bad: SkipBad = False,
    device: Device = "auto",
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Withdraw samples, as if they had never been seen, to the last byte.

    Samples that cannot have been learnt are refused; with many samples in a class a stranger's
    may pass for one that was.

    Example: redunet unlearn birds.safetensors withdrawn-photos/
    """
    from redunet.cli.files import lines, teach

    with progress_bar(quiet) as progress:
        found = teach.unlearn(
            model,
            data,
            _wanted(True, label, skip_bad),
            device=device,
            tell=_teller(quiet),
            progress=progress,
        )
    _say(found, lines.withdrawn, as_json, quiet)


def merge(
    models: Annotated[list[Path], typer.Argument(metavar="MODEL", help="Model files.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="The model file to write.")],
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Make one model of several, as if it had seen all that they saw.

    Example: redunet merge here.safetensors there.safetensors -o both.safetensors
    """
    from redunet.cli.files import lines, teach

    found = teach.merge(models, out, tell=_teller(quiet))
    _say(found, lines.merged, as_json, quiet)


def inspect(
    model: Model,
    device: Device = "auto",
    memory: Memory = "2GB",
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Say what a model holds: classes, settings, ΔR by layer, how close its classes are.

    Example: redunet inspect birds.safetensors
    """
    from redunet.cli.files import lines, look

    with progress_bar(quiet) as progress:
        progress("building the network", 0.0)
        found = look.inspect(model, device, memory)
    _say(found, lines.inspected, as_json, quiet, answer=True)


def verify(model: Model, as_json: Json = False, quiet: Quiet = False) -> None:
    """Check a model file from its first byte to its last; exit code 2 says that it is damaged.

    Example: redunet verify birds.safetensors
    """
    from redunet.cli.files import lines, look

    _say(look.verify(model), lines.verified, as_json, quiet)


COMMANDS = (learn, predict, evaluate, forget, unlearn, merge, inspect, verify)


def _wanted(labels: bool, label: str | None, skip_bad: bool) -> Any:
    from redunet.user_data import Wanted

    return Wanted(labels=labels, label=label, skip_bad=skip_bad)


def _teller(quiet: bool) -> Callable[[str], None]:
    return lambda said: None if quiet else note(said)


def _say(
    found: dict[str, Any],
    words: Callable[[dict[str, Any]], list[Any]],
    as_json: bool,
    quiet: bool,
    answer: bool = False,
) -> None:
    """Print what was found; an answer that was asked for even when all should be quiet."""
    if as_json:
        say_json(found)
        return
    if answer or not quiet:
        say(*words(found))
    _notes(found, quiet)


def _notes(found: dict[str, Any], quiet: bool) -> None:
    """What a person may want to know beside the answer."""
    tell = _teller(quiet)
    left_out = found.get("left_out", [])
    if left_out:
        first = ", ".join(left_out[:5]) + (", …" if len(left_out) > 5 else "")
        images = "image" if len(left_out) == 1 else "images"
        tell(f"left out {len(left_out):,} {images} that cannot be used: {first}")
    for said in found["notes"]:
        tell(said)
