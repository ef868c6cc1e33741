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
    """The columns of a table of predictions.

    Parameters
    ----------
    classes : array of shape (k,)
        In the order of the scores.
    top : int, default=1
        How many labels, the best first, each with its score.
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
        ranks = ["", *(f"_{rank}" for rank in range(2, min(self.top, len(self.classes)) + 1))]
        best = [name for rank in ranks for name in (f"label{rank}", f"score{rank}")]
        novel = [] if self.threshold is None else ["rejected", "novelty"]
        every = [f"score_{label}" for label in self.classes.tolist() if self.every]
        return ["sample", *best, *novel, *every]

    def rows(
        self, names: Sequence[str], scores: NDArray[Any], novelty: NDArray[Any] | None
    ) -> Iterator[list[Any]]:
        """The values of each sample, in the order of the headings."""
        labels = self.classes.tolist()
        values = np.zeros(len(scores)) if novelty is None else novelty
        for name, order, row, value in zip(
            names, best(scores, self.top).tolist(), scores.tolist(), values.tolist(), strict=True
        ):
            rejected = self.threshold is not None and value > self.threshold
            pairs = [(None if rejected else labels[index], row[index]) for index in order]
            novel = [] if self.threshold is None else [rejected, value]
            yield [name, *(cell for pair in pairs for cell in pair), *novel, *row * self.every]


def best(scores: NDArray[Any], top: int) -> NDArray[np.intp]:
    """The places of the highest scores of each sample, (n, top), the best first.

    Examples
    --------
    >>> best(np.array([[0.1, 0.6, 0.3], [0.5, 0.5, 0.0]]), 2).tolist()
    [[1, 2], [0, 1]]
    """
    order: NDArray[np.intp]
    if top == 1:
        order = scores.argmax(axis=1)[:, None]
    else:
        order = np.argsort(-scores, axis=1, kind="stable")[:, :top]
    return order


@contextmanager
def predictions_file(path: Path, columns: Columns, cell: Cell = csv_cell) -> Iterator[Write]:
    """Open a file of predictions, whose ending says how; it is there when all are written."""
    writers: dict[str, Callable[[IO[bytes], Columns], AbstractContextManager[Write]]] = {
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
    """Write a row for each sample."""

    class Text:
        def write(self, line: str) -> int:
            return file.write(line.encode())

    def value(given: Any) -> Any:
        if isinstance(given, bool):
            return "yes" if given else "no"
        return cell(given) if isinstance(given, str) else given

    table = csv.writer(Text(), lineterminator="\n")
    headings = [list(map(value, columns.names()))]

    def write(
        names: Sequence[str], scores: NDArray[Any], novelty: NDArray[Any] | None = None
    ) -> None:
        # Not before there is something below them: an error may come first.
        while headings:
            table.writerow(headings.pop())
        for row in columns.rows(names, scores, novelty):
            table.writerow(map(value, row))
        file.flush()

    yield write


@contextmanager
def json_lines(file: IO[bytes], columns: Columns) -> Iterator[Write]:
    """Write an object for each sample; the scores of all classes are an object in it."""
    classes = [str(label) for label in columns.classes.tolist()]
    keys = columns.names()
    first = len(keys) - len(classes) * columns.every

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
    import pyarrow as pa
    import pyarrow.parquet

    label_type = pa.int64() if columns.classes.dtype.kind in "iu" else pa.string()

    def kind(name: str) -> Any:
        if name in ("sample", "rejected"):
            return pa.string() if name == "sample" else pa.bool_()
        return pa.float64() if name.startswith(("score", "novelty")) else label_type

    schema = pa.schema([(name, kind(name)) for name in columns.names()])
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
