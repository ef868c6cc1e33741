"""Options that commands share, how words become values, and the bar that shows progress."""

from __future__ import annotations

import json
import re
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from datetime import timedelta
from pathlib import Path
from threading import Event, Thread, Timer
from typing import Annotated, Any

import typer
from rich.progress import BarColumn, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.progress import Progress as ProgressBar

from redunet.cli.terminal import Screen, is_plain, note
from redunet.errors import SettingsError
from redunet.progress import Progress, silent
from redunet.safety import interrupts
from redunet.text import shown

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
DataDir = Annotated[Path | None, typer.Option(help="Folder where the data set may already be.")]
Device = Annotated[str, typer.Option(help="auto, cpu, cuda, cuda:1, ...")]
Memory = Annotated[
    str,
    typer.Option(
        help="Memory for layers; those that do not fit are computed again when they are needed."
    ),
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
RecipeName = Annotated[
    str | None,
    typer.Option(
        "--recipe", metavar="NAME", help="A preset of settings; redunet recipes lists them."
    ),
]

_PATIENCE_S = 2.0
_EVERY_S = 30.0


@contextmanager
def progress_bar(
    quiet: bool = False, if_stopped: str = "what was finished is kept"
) -> Iterator[Progress]:
    """Say what is being done once that takes a while: by a bar, or by a line now and then.

    On a terminal a bar comes after two seconds. Elsewhere standard error gets
    a line every half minute. Warnings about layers are not shown.
    """
    from redunet.estimators.predictor import CoverageWarning, StreamingWarning

    interrupts.protect(if_stopped)
    screen = Screen(stderr=True)
    showing = _bar(screen) if screen.is_terminal else _lines()
    with warnings.catch_warnings(), showing if not quiet else nullcontext(silent) as show:
        warnings.simplefilter("ignore", StreamingWarning)
        warnings.simplefilter("ignore", CoverageWarning)  # commands say it in a line

        def tell(what: str, share: float) -> None:
            interrupts.check()
            show(shown(what), share)

        yield tell


@contextmanager
def _bar(screen: Screen) -> Iterator[Progress]:
    columns = (
        SpinnerColumn("line" if is_plain() else "dots"),
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        TimeElapsedColumn(),
    )
    bar = ProgressBar(*columns, console=screen, transient=True)
    whole = bar.add_task("starting", total=1.0)
    later = Timer(_PATIENCE_S, bar.start)
    later.daemon = True
    try:
        later.start()
        yield lambda what, share: bar.update(whole, description=what, completed=share)
    finally:
        later.cancel()
        if later.ident is not None:
            later.join()
        if bar.live.is_started:
            bar.stop()


@contextmanager
def _lines() -> Iterator[Progress]:
    """A line every half minute, from a thread, as one step of the work may take longer."""
    begun, over = time.monotonic(), Event()
    now = ["starting", 0.0]

    def show(what: str, share: float) -> None:
        now[:] = what, share

    def tell() -> None:
        while not over.wait(_EVERY_S):
            passed = timedelta(seconds=round(time.monotonic() - begun))
            note(f"{now[0]}, {now[1]:.0%} done after {passed}")

    thread = Thread(target=tell, daemon=True)
    try:
        thread.start()
        yield show
    finally:
        over.set()


def parsed(words: list[str] | None) -> dict[str, Any]:
    """KEY=VALUE words as a dictionary."""
    values = {}
    for word in words or []:
        key, equals, value = word.partition("=")
        if not equals:
            raise SettingsError(f"expected KEY=VALUE, got {word!r}")
        values[key.strip()] = _value(value)
    return values


def size_of(word: str | None) -> tuple[int, int] | None:
    """The height and width that a word such as 32 or 48x32, width first, asks for.

    Examples
    --------
    >>> size_of("32"), size_of("48x32")
    ((32, 32), (32, 48))
    """
    if word is None:
        return None
    found = re.fullmatch(r"([1-9]\d{0,3})(?:x([1-9]\d{0,3}))?", word)
    if found is None:
        raise SettingsError(f"expected --resize 32 or --resize 48x32 (pixels), got {word!r}")
    width = int(found[1])
    return int(found[2] or width), width


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
