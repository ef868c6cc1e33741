"""A page of models and records as one file."""

from __future__ import annotations

import json
import warnings
from collections.abc import Mapping, Sequence
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

from jinja2 import TemplateError

from redunet.errors import DataError, ModelFileError, SettingsError
from redunet.estimators import Estimator, load
from redunet.estimators.predictor import StreamingWarning
from redunet.progress import Progress, silent
from redunet.report.blocks import Chapter, Figure
from redunet.report.html import around, article
from redunet.report.model import model_sections
from redunet.report.model_view import ModelView
from redunet.report.samples import read_samples
from redunet.safety.files import make_folder, refuse_overwriting, write_bytes
from redunet.safety.untrusted import open_regular

Record = Mapping[str, Any]

MOST_RECORD_BYTES = 2**28
"""What is read of a record, far beyond any real one."""


def page(
    paths: Sequence[Path],
    out: Path,
    *,
    samples: str | None = None,
    rows: Sequence[int] = (),
    classes: Sequence[str] = (),
    layers: bool | None = None,
    device: str = "auto",
    memory: str = "2GB",
    data_dir: Path | None = None,
    figures: Path | None = None,
    progress: Progress = silent,
) -> int:
    """Write one page of models and records.

    Parameters
    ----------
    paths : sequence of Path
        Model files, and records of version 2.
    out : Path
        The page; written whole or not at all.
    samples : str, default=None
        A data set or a file of samples, to show how the models label them.
    rows : sequence of int, default=the first of each class
        Which of them to show layer by layer.
    classes : sequence of str, default=all, or of many the most similar
        Which of a model's classes to show.
    layers : bool, default=None
        Whether to show what a model's layers do; None means where they fit into
        ``memory`` or samples pass through them anyway.
    device, memory
        As for `ReduNetClassifier`.
    data_dir : Path, default=None
        Where a data set may lie already.
    figures : Path, default=None
        A folder for the figures as PNG files too.
    progress : callable, default=nothing
        Told what begins, and which share of the whole is done.

    Returns
    -------
    int
        Bytes of the page.
    """
    if rows and samples is None:
        raise SettingsError("expected --rows of samples, got none: name them with --samples")
    refuse_overwriting(out, [*paths, *([samples] if samples else [])])
    chapters, articles = [], []
    models = 0
    for index, path in enumerate(paths):

        def tell(what: str, share: float, index: int = index, path: Path = path) -> None:
            progress(f"{path.name}, {what}", (index + share) / len(paths))

        tell("reading", 0.0)
        read = _read(path, device, memory)
        if isinstance(read, dict):
            found, drawn = _of_record(read, path, index, len(paths) > 1)
        else:
            models += 1
            named = read_samples(samples, read, rows, data_dir) if samples else None
            view = ModelView(read, named, classes, layers, add_mistake=not rows)
            with warnings.catch_warnings():
                # scikit-learn: arrays have no column names; the reader has matched these already.
                warnings.filterwarnings("ignore", message="X does not have valid feature names")
                warnings.simplefilter("ignore", StreamingWarning)  # a page makes few passes
                found = Chapter(f"Model {path.name}", model_sections(view, tell))
            drawn = article(found, index, len(paths) > 1)
        chapters.append(found)
        articles.append(drawn)
    if samples and not models:
        raise SettingsError("expected a model to show --samples of, got records only")
    data = around(chapters, articles).encode()
    write_bytes(out, data)
    if figures is not None:
        _write_figures(chapters, make_folder(figures))
    return len(data)


def _write_figures(chapters: Sequence[Chapter], folder: Path) -> None:
    """Each figure as a PNG file; those of several chapters have numbers before their names."""
    from redunet.report.figures import png

    for number, one in enumerate(chapters, 1):
        before = f"{number}-" if len(chapters) > 1 else ""
        for figure in [b for section in one.sections for b in section.blocks]:
            if isinstance(figure, Figure):
                data = png(figure)
                write_bytes(folder / f"{before}{figure.name}.png", data)


def _read(path: Path, device: str, memory: str) -> Estimator | Record:
    """The model or the record in a file."""
    with open_regular(path) as file:
        # The first byte of a model's file is that of a length, a multiple of eight.
        is_record = file.read(1) == b"{"
    if is_record:
        return read_record(path)
    try:
        return load(path, device, memory)
    except ModelFileError as error:
        raise ModelFileError(f"expected a model or a record, but {error}") from error


def read_record(path: Path) -> Record:
    """The record in a file."""
    with open_regular(path) as file:
        text = file.read(MOST_RECORD_BYTES)
    try:
        record = json.loads(text.decode("utf-8"), parse_constant=_no_number)
        json.dumps(record, ensure_ascii=False).encode()  # half a character cannot be written
    except (ValueError, RecursionError) as error:
        raise DataError(f"expected a record in {path}, but it is not JSON: {error}") from None
    if not isinstance(record, dict):
        raise DataError(f"expected a record in {path}, got a {type(record).__name__}")
    return record


def _no_number(word: str) -> None:
    raise ValueError(f"expected a number, got {word}")


def _of_record(record: Record, path: Path, number: int, several: bool) -> tuple[Chapter, str]:
    """The chapter of a record that somebody else may have written, and as part of a page."""
    try:
        found = _chapter(record)
        return found, article(found, number, several)  # what cannot be drawn shows only here
    except DataError as error:
        raise DataError(f"cannot show {path}: {error}") from None
    except (
        ArithmeticError,
        AttributeError,
        LookupError,
        TemplateError,
        TypeError,
        ValueError,
    ) as error:
        said = " ".join(f"{type(error).__name__} {error}".split())
        raise DataError(f"expected {path} to be a whole record, but it is not: {said}") from error


def _chapter(record: Record) -> Chapter:
    """The chapter that an installed package makes of a record."""
    for entry in entry_points(group="redunet.report", name="record"):
        found: Chapter = entry.load()(record)
        return found
    raise DataError("expected a model, got a record, which no installed package can show")
