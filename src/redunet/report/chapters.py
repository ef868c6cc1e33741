"""Models and records of every kind as chapters of a page."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from redunet.errors import DataError, FileAccessError, ModelFileError, SettingsError
from redunet.estimators.classifier import ReduNetClassifier
from redunet.files import refuse_overwriting, write_bytes
from redunet.progress import Progress, silent
from redunet.report.ablation import ablation_sections
from redunet.report.blocks import Block, Chapter, Grid, Picture, Plot, Section, Words
from redunet.report.comparison import comparison_sections
from redunet.report.model_sections import model_sections
from redunet.report.page import page
from redunet.report.plots import Curve
from redunet.report.record_plots import accuracy_plot, rate_view
from redunet.report.samples import read_samples
from redunet.report.sections import in_words, plain, sections
from redunet.report.seeds import Record


def write_page(
    paths: Sequence[Path],
    out: Path,
    *,
    samples: str | None = None,
    rows: Sequence[int] = (),
    device: str = "auto",
    memory: str = "2GB",
    data_dir: Path | None = None,
    progress: Progress = silent,
) -> int:
    """Write one page of models and records.

    Parameters
    ----------
    paths : sequence of Path
        Model files, and records of `reproduce`, `run`, `compare`, `ablate` or `demo`.
    out : Path
        The page; written whole or not at all.
    samples : str, default=None
        A data set or a file of samples, to show what the models make of them.
    rows : sequence of int, default=the first of each class
        Which of them to show layer by layer.
    device, memory
        As for `ReduNetClassifier`.
    data_dir : Path, default=None
        Where a data set may lie already.
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
    chapters = []
    models = 0
    for index, path in enumerate(paths):

        def tell(what: str, share: float, index: int = index, path: Path = path) -> None:
            progress(f"{path.name}, {what}", (index + share) / len(paths))

        tell("reading", 0.0)
        read = read_source(path)
        if not isinstance(read, ReduNetClassifier):
            chapters.append(record_chapter(read, path))
            continue
        models += 1
        read.device, read.memory = device, memory
        named = read_samples(samples, read, rows, data_dir) if samples else None
        with warnings.catch_warnings():
            # scikit-learn: arrays have no column names; the reader has matched these already.
            warnings.filterwarnings("ignore", message="X does not have valid feature names")
            chapters.append(Chapter(f"Model {path.name}", model_sections(read, named, tell)))
    if samples and not models:
        raise SettingsError("expected a model to show --samples of, got records only")
    data = page(chapters).encode()
    write_bytes(out, data)
    return len(data)


def read_source(path: Path) -> ReduNetClassifier | dict[str, Any]:
    """The model or the record in a file."""
    try:
        with open(path, "rb") as file:
            # The first byte of a model's file is that of a length, a multiple of eight.
            is_record = file.read(1) == b"{"
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or error
        raise FileAccessError(f"cannot read {path}: {why}") from error
    if not is_record:
        try:
            return ReduNetClassifier.load(path)
        except ModelFileError as error:
            raise ModelFileError(f"expected a model or a record, but {error}") from error
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        raise DataError(f"expected a record in {path}, but it is not JSON: {error}") from None
    found: dict[str, Any] = record
    return found


def record_chapter(record: Record, path: Path) -> Chapter:
    """A chapter of a record of any kind: a recipe, comparison, reproduction, the demonstration."""
    kinds: dict[str, Callable[[Record], list[Section]]] = {
        "ablation": ablation_sections,
        "methods": comparison_sections,
        "variants": sections,
        "calibration_error": demo_sections,
    }
    kind = next((kinds[key] for key in kinds if key in record), None)
    if kind is None:
        raise DataError(
            f"expected {path} to be a record of reproduce, run, compare, ablate or demo, got one "
            f"of something else: give the record.json that the command left in its --out folder"
        )
    try:
        chapter = Chapter(str(record["what"]), kind(record))
        page([chapter])  # words and numbers that are neither come to light only here
        return chapter
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        said = f"{type(error).__name__} {error}"
        raise DataError(f"expected {path} to be a whole record, but it is not: {said}") from error


def demo_sections(record: Record) -> list[Section]:
    """What a page says of the demonstration."""
    rows = record["tasks"]
    lines = {
        "incremental, no old data kept": [row["accuracy"] for row in rows],
        "joint, all data at once": [row["joint_accuracy"] for row in rows],
    }
    curves = [
        Curve(name, values, color, marker, dash, width)
        for (name, values), (color, marker, dash, width) in zip(
            lines.items(), (("#0072B2", "o", "-", 2.4), ("#D55E00", "D", ":", 1.4)), strict=True
        )
    ]
    alt = in_words("Line chart of accuracy against the number of tasks seen", lines)
    picture = Picture("accuracy", alt, "Accuracy on all classes seen, after each task.")
    rates = {key: record[key] for key in ("R", "R_c", "delta_R")}
    ends = in_words("Line chart by layer", {"ΔR": rates["delta_R"], "R": rates["R"]})
    hashes = record["forgetting"]
    same = "the same" if hashes["after"] == hashes["never_seen"] else "different"
    said = (
        f"After class {hashes['class']} was forgotten, the model's file and that of a model that "
    )
    said += f"never saw it are {same}, to the byte."
    settings = [[key, plain(value)] for key, value in record["settings"].items()]
    objective: list[Block] = [Plot("ΔR = R − R_c before each layer.", [rate_view(rates, ends)])]
    return [
        Section("Result", [accuracy_plot(curves, picture), Words(said)]),
        Section("The objective, layer by layer", objective),
        Section("What was run", [Grid("Settings", ["setting", "value"], settings, 2)]),
    ]
