"""The command that writes a model as a file that runs without this package."""

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
    Offload,
    Quiet,
    SkipBad,
    Text,
    read_options,
)
from redunet.cli.printing import say_result
from redunet.cli.progress import progress_of
from redunet.safety import interrupts


def export(
    model: Model,
    out: Annotated[
        Path,
        typer.Option("--out", "-o", help="The file to write: .onnx, or .pt2 for torch.export."),
    ],
    samples: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="DATA",
            help="Data as `redunet predict` takes it, to check labels on; may be given several "
            "times. Without it samples are made.",
        ),
    ] = None,
    layers: Annotated[
        str,
        typer.Option(
            metavar="auto|all",
            help="auto: as few as give the model's labels on all samples; all: every layer.",
        ),
    ] = "auto",
    without_features: Annotated[
        bool,
        typer.Option(
            "--without-features", help="Leave out the feature map; samples are feature vectors."
        ),
    ] = False,
    file_format: Annotated[
        str | None,
        typer.Option("--format", metavar="onnx|torch", help="By default the suffix decides."),
    ] = None,
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
    """Write a model as an ONNX graph or a torch.export program, to run without redunet.

    The graph goes from raw samples (after an encoder, if the model has one) to labels, scores and
    probabilities. It has one layer for each of some blocks of the network's layers, as few as give
    the labels of the model on all samples with room to spare. The file is run on the samples before
    it is written; it is not written where a label differs. What it reveals of the classes'
    moments is said at the end.

    Example:

        redunet export birds.safetensors -o birds.onnx --samples test-photos/
    """
    from redunet.data import exporting
    from redunet.safety.files import refuse_overwriting

    refuse_overwriting(out, [model, *(samples or []), *([label] if label else [])])
    with progress_of(quiet) as progress, interrupts.outcome(out):
        found = exporting.export(
            model,
            out,
            samples or [],
            read_options("ignored", device, label, skip_bad, text, encoder),
            layers=layers,
            without_features=without_features,
            file_format=file_format,
            device=device,
            memory=memory,
            progress=progress,
        )
    say_result(found, messages.exported, as_json, quiet)
