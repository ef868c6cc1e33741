"""Predictions as CSV, Parquet or JSON lines, batch after batch."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from pathlib import Path
from typing import IO, Any

import pyarrow as pa
import pyarrow.parquet
from numpy.typing import NDArray

from redunet.errors import DataError
from redunet.files import writing
from redunet.text import csv_cell

Write = Callable[[Sequence[str], NDArray[Any], NDArray[Any]], None]
"""Takes names of samples (n,), their labels (n,), their scores (n, k)."""

Writer = Callable[[IO[bytes], NDArray[Any]], AbstractContextManager[Write]]
"""Opens a table of predictions in a file, given the classes."""

Cell = Callable[[str], str]
"""Gives a label or the name of a sample as it is written into CSV."""


@contextmanager
def predictions_file(path: Path, classes: NDArray[Any], cell: Cell = csv_cell) -> Iterator[Write]:
    """A file of predictions, whose ending says how; it is there when all are written."""
    writers: dict[str, Writer] = {
        ".csv": partial(csv_lines, cell=cell),
        ".parquet": _parquet,
        ".jsonl": json_lines,
    }
    writer = writers.get(path.suffix.lower())
    if writer is None:
        raise DataError(f"expected a name that ends in {', '.join(writers)}, got {path}")
    with writing(path) as file, writer(file, classes) as write:
        yield write


@contextmanager
def csv_lines(file: IO[bytes], classes: NDArray[Any], cell: Cell = csv_cell) -> Iterator[Write]:
    """A table with a column of scores for each class."""

    class Text:
        def write(self, line: str) -> int:
            return file.write(line.encode())

    rows = csv.writer(Text(), lineterminator="\n")
    headings = [["sample", "label", *map(cell, _score_names(classes))]]

    def write(names: Sequence[str], labels: NDArray[Any], scores: NDArray[Any]) -> None:
        # Not before there is something below them: an error may come first.
        while headings:
            rows.writerow(headings.pop())
        for name, label, row in zip(names, labels.tolist(), scores.tolist(), strict=True):
            rows.writerow([cell(name), cell(label) if isinstance(label, str) else label, *row])
        file.flush()

    yield write


@contextmanager
def json_lines(file: IO[bytes], classes: NDArray[Any]) -> Iterator[Write]:
    """One object a sample."""
    keys = [str(label) for label in classes.tolist()]

    def write(names: Sequence[str], labels: NDArray[Any], scores: NDArray[Any]) -> None:
        for name, label, row in zip(names, labels.tolist(), scores.tolist(), strict=True):
            line = {"sample": name, "label": label, "scores": dict(zip(keys, row, strict=True))}
            file.write(json.dumps(line).encode() + b"\n")
        file.flush()

    yield write


@contextmanager
def _parquet(file: IO[bytes], classes: NDArray[Any]) -> Iterator[Write]:
    label_type = pa.int64() if classes.dtype.kind in "iu" else pa.string()
    scores_of = [(name, pa.float64()) for name in _score_names(classes)]
    schema = pa.schema([("sample", pa.string()), ("label", label_type), *scores_of])
    with pyarrow.parquet.ParquetWriter(file, schema) as writer:

        def write(names: Sequence[str], labels: NDArray[Any], scores: NDArray[Any]) -> None:
            columns = [list(names), labels.tolist(), *scores.T]
            arrays = [
                pa.array(column, field.type) for column, field in zip(columns, schema, strict=True)
            ]
            writer.write_batch(pa.record_batch(arrays, schema=schema))

        yield write


def _score_names(classes: NDArray[Any]) -> list[str]:
    return [f"score_{label}" for label in classes.tolist()]
