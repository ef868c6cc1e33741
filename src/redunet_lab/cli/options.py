"""The options that commands on experiments share, and words about methods as settings."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from redunet.cli.values import parsed

Out = Annotated[
    Path | None, typer.Option(help="Output folder; an unfinished run there is resumed.")
]
Data = Annotated[
    str | None,
    typer.Option(
        metavar="NAME|FILE",
        help="digits, mnist, fashion_mnist, cifar10 or clinc150, NAME+ENCODER for images as "
        "vectors, or your own .npz, .csv, .parquet or folder of images.",
    ),
]
Label = Annotated[
    str | None, typer.Option(metavar="NAME", help="Of your own data: the column of labels.")
]
Test = Annotated[
    str | None,
    typer.Option(
        metavar="FILE",
        help="Of your own data: the test data; without it a quarter of each class is split off.",
    ),
]
Seeds = Annotated[
    str | None, typer.Option(metavar="A,B,...", help="Seeds of what is random; by default 0.")
]


def by_method(words: list[str] | None) -> dict[str, dict[str, Any]]:
    """KEY=VALUE and METHOD.KEY=VALUE words as settings of methods; KEY alone is ReduNet's."""
    changes: dict[str, dict[str, Any]] = {}
    for name, value in parsed(words).items():
        method, _, key = name.rpartition(".")
        changes.setdefault(method or "redunet", {})[key] = value
    return changes
