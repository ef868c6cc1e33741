"""The command that turns texts and images into vectors."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from redunet.cli import messages
from redunet.cli.options import Device, Json, Label, Quiet, SkipBad, Text, read_options
from redunet.cli.printing import say_result
from redunet.cli.progress import progress_of
from redunet.safety import interrupts


def encode(
    data: Annotated[
        Path,
        typer.Argument(
            metavar="DATA...",
            help="Texts in a .csv, .parquet or .jsonl file, a folder of images, or images in a "
            ".npz or .npy file.",
        ),
    ],
    encoder: Annotated[
        str,
        typer.Option(
            metavar="NAME|FOLDER",
            help="minilm (texts), efficientnet-lite0, efficientnet-lite2 (images), or a folder in "
            "Hugging Face layout.",
        ),
    ],
    out: Annotated[Path, typer.Option("--out", "-o", help="The .parquet file to write.")],
    text: Text = None,
    label: Label = None,
    skip_bad: SkipBad = 0,
    device: Device = "auto",
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Turn texts or images into vectors, once, to be learnt as often as one likes.

    The file holds the vectors, the labels where there are some, and which encoder made them, by
    the hash of its weights: a model takes vectors of one encoder only. Nothing is fetched: weights
    come from the packages of redunet[text] and redunet[images], or from a folder. The vector of a
    text or image is the same, to the bit, whatever else is encoded with it.

    Example:

        redunet encode questions.csv -o vectors.parquet --encoder minilm
        redunet learn intents.safetensors vectors.parquet --recipe vectors
    """
    from redunet.data import open_source
    from redunet.data.parquet_files import write_vectors
    from redunet.data.result import Result
    from redunet.safety.files import refuse_overwriting

    refuse_overwriting(out, [data])
    with progress_of(quiet) as progress, interrupts.outcome(out):
        labels: Literal["required", "optional"] = "required" if label else "optional"
        wanted = read_options(labels, device, label, skip_bad, text, encoder)
        source = open_source(data, wanted)
        written = write_vectors(out, source, wanted.encoder.id, progress)
    found = {
        "out": str(out),
        "samples": written,
        "features": wanted.encoder.n_features,
        "encoder": wanted.encoder.id.to_dict(),
    }
    say_result(Result.of(found, [source]), messages.encoded, as_json, quiet)
