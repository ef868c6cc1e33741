"""Options that commands share, how words become values, and the bar that shows progress."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Timer
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from redunet.errors import SettingsError

Out = Annotated[
    Path | None, typer.Option(help="Output folder; an unfinished run there is resumed.")
]
Data = Annotated[
    str | None,
    typer.Option(
        metavar="NAME|FILE",
        help="digits, mnist, fashion_mnist, cifar10, or your own .npz, .csv, .parquet or folder of "
        "images.",
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
DataDir = Annotated[Path | None, typer.Option(help="Folder where data sets may be found.")]
Device = Annotated[str, typer.Option(help="auto, cpu, cuda, ...")]
Memory = Annotated[
    str, typer.Option(help="Layers that fit are kept, others are built again when needed.")
]
Settings = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="A setting; may be given several times."),
]
Config = Annotated[Path | None, typer.Option(help="A TOML file with settings.")]
Seeds = Annotated[
    str | None, typer.Option(metavar="A,B,...", help="Seeds of what is random; by default 0.")
]
Dtype = Annotated[str | None, typer.Option(help="float64 or float32, of ReduNet's layers.")]
RecipeName = Annotated[
    str | None,
    typer.Option(
        "--recipe", metavar="NAME", help="A preset of settings; redunet recipes lists them."
    ),
]

_PATIENCE_S = 2.0


@contextmanager
def progress_bar(quiet: bool = False) -> Iterator[Callable[[str, float], None]]:
    """A bar that says what is being done, on a terminal, once that takes longer than a moment.

    Warnings about streaming are expected, and not shown.
    """
    from redunet.estimators.lazy import StreamingWarning

    console = Console(stderr=True)
    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(),
        TimeElapsedColumn(),
    )
    bar = Progress(*columns, console=console, transient=True)
    whole = bar.add_task("starting", total=1.0)
    later = Timer(_PATIENCE_S, bar.start)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", StreamingWarning)
        if console.is_terminal and not quiet:
            later.start()
        try:
            yield lambda what, share: bar.update(whole, description=what, completed=share)
        finally:
            later.cancel()
            if later.ident is not None:
                later.join()
            if bar.live.is_started:
                bar.stop()


def parsed(words: list[str] | None) -> dict[str, Any]:
    """KEY=VALUE words as a dictionary."""
    values = {}
    for word in words or []:
        key, equals, value = word.partition("=")
        if not equals:
            raise SettingsError(f"expected KEY=VALUE, got {word!r}")
        values[key.strip()] = _value(value)
    return values


def by_method(words: list[str] | None) -> dict[str, dict[str, Any]]:
    """KEY=VALUE and METHOD.KEY=VALUE words as settings of methods; KEY alone is ReduNet's."""
    changes: dict[str, dict[str, Any]] = {}
    for name, value in parsed(words).items():
        method, _, key = name.rpartition(".")
        changes.setdefault(method or "redunet", {})[key] = value
    return changes


def _value(text: str) -> Any:
    """A number, a word, true, false, none, a list, or a tuple of these between commas."""
    if text.lstrip().startswith("["):
        try:
            return json.loads(text)
        except ValueError as error:
            raise SettingsError(f"expected a list such as [[0, 1], [2]], got {text!r}") from error
    if "," in text:
        return tuple(_value(part) for part in text.split(",") if part.strip())
    text = text.strip()
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return {"none": None, "true": True, "false": False}.get(text.lower(), text)


def whole_numbers(name: str, text: str, least: int) -> list[int]:
    """Numbers between commas, each from ``least`` on."""
    from redunet.validation import whole_number

    return [whole_number(name, value, least=least) for value in as_tuple(_value(text))]


def words_of(text: str) -> list[str]:
    """Words between commas."""
    return [word.strip() for word in text.split(",") if word.strip()]


def as_tuple(value: Any) -> tuple[Any, ...]:
    """A value that may be one or several, as several."""
    return value if isinstance(value, tuple) else (value,)
