"""The commands that ask a model: predict, evaluate, inspect, verify."""

from __future__ import annotations

import sys
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from redunet.cli import messages
from redunet.cli.options import (
    Data,
    Device,
    EncoderName,
    Json,
    Label,
    Memory,
    Model,
    Offload,
    Quiet,
    SkipBad,
    Text,
    read_options,
)
from redunet.cli.printing import say_notes, say_result
from redunet.cli.progress import progress_of
from redunet.errors import SettingsError
from redunet.safety import interrupts
from redunet.text import csv_cell, shown


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
            help="Reject unusual samples; 0.05 rejects about 5 % of known ones. `redunet "
            "calibrate` makes the share exact.",
        ),
    ] = None,
    exact: Annotated[
        bool,
        typer.Option("--exact", help="Use every layer (slower); the default is accurate to 0.001."),
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
    from redunet.data import predicting, prediction_file, unlabelled
    from redunet.estimators import load
    from redunet.safety.files import refuse_overwriting

    if top > 1 and scores:
        raise SettingsError("expected --top or --scores, got both: --scores writes every score")
    if out is not None:
        refuse_overwriting(out, [model, *data, *([label] if label else [])])
    cell = str if raw_csv else csv_cell
    options = read_options("ignored", device, label, skip_bad, text, encoder)
    with progress_of(quiet) as progress, interrupts.outcome(out) if out else nullcontext():
        progress("loading the model", 0.0)
        known = load(model, device, memory)
        if exact and "exact" in known.get_params(deep=False):
            known.set_params(exact=True)
        threshold = None
        if reject is not None:
            threshold = unlabelled.network(known).rejection_threshold(reject)
        columns = prediction_file.Columns(known.classes_, top, scores, threshold)
        if out is not None:
            table = prediction_file.predictions_file(out, columns, cell)
        elif as_json:
            table = prediction_file.json_lines(sys.stdout.buffer, columns)
        else:
            # A terminal would act on control characters in a name; a file takes them as they are.
            show = (lambda text: shown(cell(text))) if sys.stdout.isatty() else cell
            table = prediction_file.csv_lines(sys.stdout.buffer, columns, show)
        found = predicting.predict(known, data, options, table, progress, threshold)
    if out is None:
        say_notes(found, quiet)
    else:
        found = replace(found, found={"out": str(out), **found.found})
        say_result(found, messages.predicted, as_json, quiet)


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
    from redunet.data import predicting
    from redunet.estimators import load

    with progress_of(quiet) as progress:
        known = load(model, device, memory)
        options = read_options("required", device, label, skip_bad, text, encoder)
        found = predicting.evaluate(known, data, options, progress)
    say_result(found, messages.evaluated, as_json, quiet, always=True)


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
    from redunet.data import inspecting

    with progress_of(quiet) as progress:
        progress("building the network", 0.0)
        found = inspecting.inspect(model, device, memory)
    say_result(found, messages.inspected, as_json, quiet, always=True)


def verify(
    model: Model, as_json: Json = False, quiet: Quiet = False, offload: Offload = None
) -> None:
    """Check a model file, every byte of it; the exit code is 2 if it is damaged.

    Example:

        redunet verify birds.safetensors
    """
    from redunet.data import inspecting

    with progress_of(quiet) as progress:
        progress("reading", 0.0)
        found = inspecting.verify(model)
    say_result(found, messages.verified, as_json, quiet)
