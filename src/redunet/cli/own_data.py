"""Options that name a person's own data, and how to read it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

import typer

Data = Annotated[
    list[Path],
    typer.Argument(
        metavar="DATA...",
        help=".npz, .npy, .csv, .parquet or .jsonl files, or folders of images, one sub-folder a "
        "class.",
    ),
]
EncoderName = Annotated[
    str | None,
    typer.Option(
        "--encoder",
        metavar="NAME|FOLDER",
        help="minilm (texts), efficientnet-lite0, efficientnet-lite2 (images), or a folder in "
        "Hugging Face layout; a model keeps its encoder.",
    ),
]
Text = Annotated[
    str | None,
    typer.Option(
        metavar="NAME", help="Column of the texts for an encoder, by default the one called text."
    ),
]
Label = Annotated[
    str | None,
    typer.Option(
        help="Column or array of the labels, by default the one called label, class, target or y; "
        "for .npy data, the .npy file of the labels."
    ),
]
SkipBad = Annotated[
    int,
    typer.Option(
        "--skip-bad",
        count=True,
        help="Skip images that cannot be used, up to a tenth, and list them; twice: any number.",
    ),
]


def wanted_of(
    labels: Literal["required", "optional", "ignored"],
    label: str | None,
    skip_bad: int,
    text: str | None,
    encoder: str | None,
    device: str,
) -> Any:
    """What is asked of data, from words of the command line."""
    from redunet.data import ReadOptions
    from redunet.encoders import open_encoder
    from redunet.estimators.settings import resolve_device

    return ReadOptions(
        labels=labels,
        label=label,
        most_bad=(0.0, 0.1, 1.0)[min(skip_bad, 2)],
        encoder=None if encoder is None else open_encoder(encoder, resolve_device(device)),
        text=text,
    )
