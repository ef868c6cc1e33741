"""The options that commands share, each declared once."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from redunet.errors import SettingsError

Model = Annotated[Path, typer.Argument(metavar="MODEL", help="A model file.")]
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
        metavar="NAME",
        help="Column or array of the labels, by default the one called label, class, target or y; "
        "for .npy data, the .npy file of the labels.",
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
Workers = Annotated[
    int | None,
    typer.Option(min=1, metavar="N", help="Read and learn with N processes; needs redunet[dask]."),
]
Scheduler = Annotated[
    str | None,
    typer.Option(
        metavar="ADDRESS",
        help="Have the workers of this Dask scheduler read and learn, such as "
        "tcp://10.0.0.1:8786; they need the same paths.",
    ),
]
Receipt = Annotated[
    Path | None,
    typer.Option(
        metavar="LOG",
        help="Append a deletion receipt to this log; `redunet receipts verify` checks it.",
    ),
]
SignKey = Annotated[
    Path | None,
    typer.Option(metavar="PEM", help="Sign the receipt with this Ed25519 private key."),
]
Device = Annotated[str, typer.Option(help="auto, cpu, cuda, cuda:1, ...")]
Memory = Annotated[
    str,
    typer.Option(
        help="Memory for layers; those that do not fit are computed again when they are needed."
    ),
]
RecipeName = Annotated[
    str | None,
    typer.Option(
        "--recipe", metavar="NAME", help="A preset of settings; redunet recipes lists them."
    ),
]
Config = Annotated[Path | None, typer.Option(help="A TOML file with settings.")]
Settings = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="A setting; may be given several times."),
]
Dtype = Annotated[str | None, typer.Option(help="float64 or float32, of ReduNet's layers.")]
Search = Annotated[
    list[str] | None,
    typer.Option(metavar="KEY=V1,V2,...", help="Values to try; may be given several times."),
]
TuneOut = Annotated[
    Path | None, typer.Option(help="Output folder for tune.json, by default runs/tune.")
]
DataDir = Annotated[Path | None, typer.Option(help="Folder where the data set may already be.")]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object instead of text.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print only the answer and errors.")]


def _offload(context: typer.Context, folder: Path | None) -> None:
    """Hold models in files of a folder until the command ends."""
    if folder is not None:
        from redunet.estimators import offloading

        context.with_resource(offloading.offload(folder))


Offload = Annotated[
    Path | None,
    typer.Option(
        metavar="FOLDER",
        callback=_offload,
        help="Hold the model in memory-mapped files in FOLDER, for one larger than memory.",
    ),
]


def read_options(
    labels: Literal["required", "optional", "ignored"],
    device: str,
    label: str | None = None,
    skip_bad: int = 0,
    text: str | None = None,
    encoder: str | None = None,
) -> Any:
    """Options for reading data, from words of the command line."""
    from redunet.data.source import ReadOptions

    opened = None
    if encoder is not None:
        from redunet.encoders import open_encoder
        from redunet.estimators.settings import resolve_device

        opened = open_encoder(encoder, resolve_device(device))
    most_bad = (0.0, 0.1, 1.0)[min(skip_bad, 2)]
    return ReadOptions(labels=labels, label=label, most_bad=most_bad, encoder=opened, text=text)


def learner(workers: int | None, scheduler: str | None) -> Any:
    """The function that learns or unlearns data: in this process, or by workers."""
    from redunet.data.apply_batches import apply_batches

    if workers is None and scheduler is None:
        return apply_batches
    if workers is not None and scheduler is not None:
        raise SettingsError("expected --workers or --scheduler, got both: leave one out")
    from redunet.distributed.dask_cluster import dask_packages
    from redunet.distributed.dask_learning import OnDask

    dask_packages()
    return OnDask(workers, scheduler)


def receipts_of(log: Path | None, sign_key: Path | None, model: Path) -> Any:
    """The log of a model that receipts are appended to; None where there are to be none."""
    if log is None:
        if sign_key is not None:
            raise SettingsError("expected --receipt LOG with --sign-key, got --sign-key alone")
        return None
    from redunet.safety.receipts import Receipts

    receipts = Receipts(log, sign_key)
    receipts.refuse_files("the model", [model])
    return receipts
