"""Predictions as CSV, Parquet or JSON lines, batch after batch."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import IO, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet
from numpy.typing import NDArray

from redunet.errors import DataError
from redunet.safety.files import writing
from redunet.text import csv_cell

Write = Callable[[Sequence[str], NDArray[Any], NDArray[Any] | None], None]
"""Takes names of samples (n,), their scores (n, k), and their novelty (n,) where it is needed."""

Cell = Callable[[str], str]
"""Gives a label or the name of a sample as it is written into CSV."""


@dataclass(frozen=True)
class Columns:
    """What is written of each sample: the best labels with their scores, or all scores.

    Parameters
    ----------
    classes : array of shape (k,)
        In the order of the scores.
    top : int, default=1
        How many labels, the best first.
    every : bool, default=False
        Whether the scores of all classes follow.
    threshold : float, default=None
        The novelty above which a sample is rejected: it has no label then, and a column says
        so, as a label can be an empty text. None rejects nothing.
    """

    classes: NDArray[Any]
    top: int = 1
    every: bool = False
    threshold: float | None = None

    def names(self) -> list[str]:
        """Headings: label, score, label_2, score_2, ..., rejected, novelty, score_CLASS, ..."""
        ranks = ["", *(f"_{rank}" for rank in range(2, self._top() + 1))]
        best = [name for rank in ranks for name in (f"label{rank}", f"score{rank}")]
        novel = [] if self.threshold is None else ["rejected", "novelty"]
        every = [f"score_{label}" for label in self._labels() if self.every]
        return ["sample", *best, *novel, *every]

    def rows(
        self, names: Sequence[str], scores: NDArray[Any], novelty: NDArray[Any] | None
    ) -> Iterator[list[Any]]:
        """The values of each sample, in the order of the headings."""
        labels = self._labels()
        best = np.argsort(-scores, axis=1, kind="stable")[:, : self._top()]
        values = [None] * len(scores) if novelty is None else novelty.tolist()
        for name, order, row, value in zip(
            names, best.tolist(), scores.tolist(), values, strict=True
        ):
            rejected = self.threshold is not None and value > self.threshold
            pairs = [
                cell
                for index in order
                for cell in (None if rejected else labels[index], row[index])
            ]
            novel = [] if self.threshold is None else [rejected, value]
            yield [name, *pairs, *novel, *(row if self.every else ())]

    def _labels(self) -> list[Any]:
        labels: list[Any] = self.classes.tolist()
        return labels

    def _top(self) -> int:
        return min(self.top, len(self.classes))


Writer = Callable[[IO[bytes], Columns], AbstractContextManager[Write]]
"""Opens a table of predictions in a file."""


@contextmanager
def predictions_file(path: Path, columns: Columns, cell: Cell = csv_cell) -> Iterator[Write]:
    """A file of predictions, whose ending says how; it is there when all are written."""
    writers: dict[str, Writer] = {
        ".csv": partial(csv_lines, cell=cell),
        ".parquet": _parquet,
        ".jsonl": json_lines,
    }
    writer = writers.get(path.suffix.lower())
    if writer is None:
        raise DataError(f"expected a name that ends in {', '.join(writers)}, got {path}")
    with writing(path) as file, writer(file, columns) as write:
        yield write


@contextmanager
def csv_lines(file: IO[bytes], columns: Columns, cell: Cell = csv_cell) -> Iterator[Write]:
    """A table with a row for each sample."""

    class Text:
        def write(self, line: str) -> int:
            return file.write(line.encode())

    table = csv.writer(Text(), lineterminator="\n")
    headings = [[cell(name) for name in columns.names()]]

    def write(
        names: Sequence[str], scores: NDArray[Any], novelty: NDArray[Any] | None = None
    ) -> None:
        # Not before there is something below them: an error may come first.
        while headings:
            table.writerow(headings.pop())
        for row in columns.rows(names, scores, novelty):
            table.writerow([_csv_value(value, cell) for value in row])
        file.flush()

    yield write


def _csv_value(value: Any, cell: Cell) -> Any:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return cell(value) if isinstance(value, str) else value


@contextmanager
def json_lines(file: IO[bytes], columns: Columns) -> Iterator[Write]:
    """One object a sample; the scores of all classes are an object in it."""
    keys = columns.names()
    classes = [str(label) for label in columns.classes.tolist()]
    first = len(keys) - len(classes) if columns.every else len(keys)

    def write(
        names: Sequence[str], scores: NDArray[Any], novelty: NDArray[Any] | None = None
    ) -> None:
        for row in columns.rows(names, scores, novelty):
            line = dict(zip(keys[:first], row[:first], strict=True))
            if columns.every:
                line["scores"] = dict(zip(classes, row[first:], strict=True))
            file.write(json.dumps(line).encode() + b"\n")
        file.flush()

    yield write


@contextmanager
def _parquet(file: IO[bytes], columns: Columns) -> Iterator[Write]:
    label_type = pa.int64() if columns.classes.dtype.kind in "iu" else pa.string()

    def kind(name: str) -> Any:
        if name == "rejected":
            return pa.bool_()
        return pa.float64() if name.startswith(("score", "novelty")) else label_type

    sample, *others = columns.names()
    schema = pa.schema([(sample, pa.string()), *((name, kind(name)) for name in others)])
    with pyarrow.parquet.ParquetWriter(file, schema) as writer:

        def write(
            names: Sequence[str], scores: NDArray[Any], novelty: NDArray[Any] | None = None
        ) -> None:
            values = zip(*columns.rows(names, scores, novelty), strict=True)
            arrays = [
                pa.array(column, field.type) for column, field in zip(values, schema, strict=True)
            ]
            writer.write_batch(pa.record_batch(arrays, schema=schema))

        yield write
