"""Blocks of rows of a table as batches: numbers or texts, and labels."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute
from numpy.typing import NDArray

from redunet.data.labels import checked_array, checked_text, whole_numbers
from redunet.data.source import TEXTS_AT_A_TIME, Batch, RowNames, rows_at_a_time, texts_array
from redunet.errors import DataError

_LONGEST_LABEL_BYTES = 2**16  # beyond any label's 256 letters


@dataclass(frozen=True)
class Table:
    """The columns of a table.

    Parameters
    ----------
    path : Path
    columns : tuple of str
        Columns of numbers, in the order in which they become features, or the one of texts.
    label : str, or None
        The column of labels.
    label_type : type, or None
        As what labels of text are taken: int or str.
    texts : bool, default=False
        Whether the samples are texts.
    sample : str, default=None
        The column of the samples' names; None numbers them.
    first_row : int, default=0
        How many rows come before those that are read.
    """

    path: Path
    columns: tuple[str, ...]
    label: str | None
    label_type: type | None = None
    texts: bool = False
    sample: str | None = None
    first_row: int = 0

    def batches(self, blocks: Iterator[tuple[Any, float]]) -> Iterator[Batch]:
        """Samples with their labels, block after block; with each its share of the table."""
        done = self.first_row
        for block, share in blocks:
            labels = None if self.label is None else self._labels(block.column(self.label), done)
            width = 0 if labels is None else labels[0].dtype.itemsize // 8
            step = TEXTS_AT_A_TIME if self.texts else rows_at_a_time(len(self.columns) + width)
            for first in range(0, block.num_rows, step):
                part = block.slice(first, step)
                y = None
                if labels is not None:
                    values, codes = labels
                    y = values[codes[first : first + part.num_rows]]
                names: Sequence[str] = RowNames(done, part.num_rows)
                if self.sample is not None:
                    names = [str(name) for name in part.column(self.sample).to_pylist()]
                X = self._texts(part, done) if self.texts else self._numbers(part)
                yield Batch(X, y, names, share)
                done += part.num_rows
        if done == self.first_row:
            raise DataError(f"expected at least one row in {self.path}, got none")

    def _numbers(self, part: Any) -> NDArray[np.float64]:
        """Rows of numbers, (n, columns)."""
        places = {name: index for index, name in enumerate(part.schema.names)}
        columns = [
            part.column(places[name]).to_numpy(zero_copy_only=False) for name in self.columns
        ]
        return np.ascontiguousarray(np.stack(columns).T, dtype=np.float64)

    def _texts(self, part: Any, done: int) -> NDArray[Any]:
        """Texts, (n,), none of which is missing."""
        column = part.column(self.columns[0])
        missing = np.flatnonzero(column.is_null().to_numpy(zero_copy_only=False))
        if len(missing):
            raise DataError(
                f"expected a text in each row of column {self.columns[0]!r} of {self.path}, got "
                f"none in row {done + missing[0] + 1:,}: remove the row"
            )
        return texts_array(column.to_pylist())

    def _labels(self, column: Any, done: int) -> tuple[NDArray[Any], NDArray[np.intp]]:
        """The labels that occur, checked, and which of them each row has."""
        what = f"column {self.label!r} of {self.path}"
        missing = np.flatnonzero(column.is_null(nan_is_null=True).to_numpy(zero_copy_only=False))
        if len(missing):
            raise DataError(
                f"expected a label in each row of {self.path}, got none in row "
                f"{done + missing[0] + 1:,}: remove the row, or name its class"
            )
        if not pa.types.is_dictionary(column.type):
            column = column.dictionary_encode()
        if not len(column):
            return np.empty(0, dtype=np.int64), np.empty(0, dtype=np.intp)
        column.validate(full=True)  # that each index is one of the dictionary's
        codes = column.indices.to_numpy(zero_copy_only=False).astype(np.intp)
        values = column.dictionary
        if not is_text(values.type):
            return checked_array(values.to_numpy(zero_copy_only=False), what), codes
        # Before any of them becomes a Python object: one may fill the memory.
        if pa.compute.max(pa.compute.binary_length(values)).as_py() > _LONGEST_LABEL_BYTES:
            raise DataError(f"expected short labels in {what}, got one of over 64 kB")
        texts = checked_text(values.to_pylist(), what)
        return (whole_numbers(texts, what) if self.label_type is int else np.array(texts)), codes


def is_text(of: Any) -> bool:
    """Whether an Arrow type is one of texts."""
    return bool(pa.types.is_string(of) or pa.types.is_large_string(of))
