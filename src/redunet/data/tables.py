"""Tables with a column of labels: CSV and Parquet, one block of rows at a time.

The other columns are numbers; for an encoder of texts, one of them holds the texts.
"""

from __future__ import annotations

import csv
import os
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute
import pyarrow.parquet
from numpy.typing import NDArray

from redunet.data.csv_layout import CsvLayout
from redunet.data.labels import TextColumn, checked_array, checked_text, whole_numbers
from redunet.data.row_numbers import looks_like_row_numbers
from redunet.data.source import (
    TEXTS_AT_A_TIME,
    Batch,
    ReadOptions,
    RowNames,
    Source,
    check_weight,
    label_name,
    label_note,
    reading,
    rows_at_a_time,
    text_name,
    texts_array,
)
from redunet.data.vectors_file import SAMPLE, encoder_in
from redunet.errors import DataError
from redunet.safety.untrusted import open_regular

_TRANSPOSED = 16
"""Columns that become rows at a time."""


@dataclass(frozen=True)
class _Table:
    """The columns of a table, and what is said of them.

    Parameters
    ----------
    path : Path
    columns : tuple of str
        Columns of numbers, in the order in which they become features.
    label : str, or None
        The column of labels.
    label_type : type, or None
        As what labels of text are taken: int or str.
    texts : bool, default=False
        Whether the samples are texts, in the only other column.
    sample : str, default=None
        The column of the samples' names; None numbers them.
    first_row : int, default=0
        How many rows come before those that are read.
    said : sequence of str, default=()
        What a person should see whatever the rows are.
    """

    path: Path
    columns: tuple[str, ...]
    label: str | None
    label_type: type | None = None
    texts: bool = False
    sample: str | None = None
    first_row: int = 0
    said: Sequence[str] = ()
    notes: list[str] = field(default_factory=list)

    @property
    def label_place(self) -> str:
        return f"column {self.label!r} of {self.path}"

    def batches(self, tables: Iterator[tuple[Any, float]]) -> Iterator[Batch]:
        """Rows of numbers, with their labels, block after block."""
        done = self.first_row
        self.notes[:] = self.said
        before = 0.0
        for table, share in tables:
            places = {name: index for index, name in enumerate(table.schema.names)}
            labels = None if self.label is None else self._labels(table.column(self.label), done)
            width = 0 if labels is None else labels[0].dtype.itemsize // 8
            step = TEXTS_AT_A_TIME if self.texts else rows_at_a_time(len(self.columns) + width)
            for first in range(0, table.num_rows, step):
                part = table.slice(first, step)
                if self.texts:
                    X = self._texts(part.column(places[self.columns[0]]), done)
                else:
                    X = self._numbers(part, places)
                    if not done:
                        self._note_index(X)
                y = None
                if labels is not None:
                    values, codes = labels
                    y = values[codes[first : first + part.num_rows]]
                names: Sequence[str] = RowNames(done, part.num_rows)
                if self.sample is not None:
                    names = [str(name) for name in part.column(places[self.sample]).to_pylist()]
                read = (first + part.num_rows) / table.num_rows
                yield Batch(X, y, names, before + read * (share - before))
                done += part.num_rows
            before = share
        if done == self.first_row:
            raise DataError(f"expected at least one row in {self.path}, got none")

    def _numbers(self, part: Any, places: dict[str, int]) -> NDArray[np.float64]:
        """Rows of numbers, (n, columns)."""
        X = np.empty((part.num_rows, len(self.columns)))
        # Some columns at a time: one alone would touch each line of the cache for a single value.
        for start in range(0, len(self.columns), _TRANSPOSED):
            names = self.columns[start : start + _TRANSPOSED]
            some = [part.column(places[name]).to_numpy(zero_copy_only=False) for name in names]
            X[:, start : start + len(some)] = np.stack(some).T
        return X

    def _texts(self, column: Any, done: int) -> NDArray[Any]:
        """Texts, (n,), none of which is missing."""
        missing = np.flatnonzero(column.is_null().to_numpy(zero_copy_only=False))
        if len(missing):
            raise DataError(
                f"expected a text in each row of column {self.columns[0]!r} of {self.path}, got "
                f"none in row {done + missing[0] + 1:,}: remove the row"
            )
        return texts_array(column.to_pylist())

    def _labels(self, column: Any, done: int) -> tuple[NDArray[Any], NDArray[np.intp]]:
        """The labels that occur, checked, and which of them each row has."""
        missing = np.flatnonzero(column.is_null(nan_is_null=True).to_numpy(zero_copy_only=False))
        if len(missing):
            raise DataError(
                f"expected a label in each row of {self.path}, got none in row "
                f"{done + missing[0] + 1:,}: remove the row, or name its class"
            )
        if isinstance(column, pa.ChunkedArray):
            column = column.combine_chunks()
        if not pa.types.is_dictionary(column.type):
            column = column.dictionary_encode()
        if not len(column):
            return np.empty(0, dtype=np.int64), np.empty(0, dtype=np.intp)
        column.validate(full=True)  # that each index is one of the dictionary's
        codes = column.indices.to_numpy(zero_copy_only=False).astype(np.intp)
        values = column.dictionary
        if not pa.types.is_string(values.type) and not pa.types.is_large_string(values.type):
            return checked_array(values.to_numpy(zero_copy_only=False), self.label_place), codes
        # Before any of them becomes a Python object: one may fill the memory.
        if pa.compute.max(pa.compute.binary_length(values)).as_py() > 2**16:
            raise DataError(f"expected short labels in {self.label_place}, got one of over 64 kB")
        texts = checked_text(values.to_pylist(), self.label_place)
        if self.label_type is int:
            return whole_numbers(texts, self.label_place), codes
        return np.array(texts), codes

    def _note_index(self, X: NDArray[np.float64]) -> None:
        """Say so where a column looks like the numbers of the rows."""
        for values, name in zip(X.T, self.columns, strict=True):
            if looks_like_row_numbers(name, values):
                self.notes.append(
                    f"column {name!r} of {self.path} looks like row numbers, and is taken as a "
                    f"feature: remove it if it is none (pandas: to_csv(..., index=False))"
                )


def open_csv(path: Path, wanted: ReadOptions) -> Source:
    """A CSV file with a line of column names; all but the labels are numbers."""
    texts = wanted.texts
    with _reading_csv(path):
        layout = CsvLayout.of(path, newlines=texts)
        label, columns = _columns(path, layout.names, wanted)
        kind, said = _label_kind(path, layout, label, wanted)
    table = _Table(path, columns, label, kind, texts, said=said)
    # A column that begins with whole numbers may go on with fractions.
    types = dict.fromkeys(columns, pa.string() if texts else pa.float64())
    if label is not None:
        types[label] = pa.string()

    def blocks() -> Iterator[tuple[Any, float]]:
        with open_regular(path) as file:
            size = os.fstat(file.fileno()).st_size
            with layout.open(file, types) as reader:
                for block in reader:
                    yield block, 1.0 if file.closed else min(1.0, file.tell() / size)

    def batches() -> Iterator[Batch]:
        with _reading_csv(path, layout, () if texts else columns):
            yield from table.batches(blocks())

    if texts:
        return Source(path, batches, notes=table.notes, holds="texts")
    return Source(path, batches, columns, notes=table.notes)


def _label_kind(
    path: Path, layout: CsvLayout, label: str | None, wanted: ReadOptions
) -> tuple[type | None, list[str]]:
    """Whether labels of text are numbers, and notes where that or their column is in doubt."""
    said = label_note(path, label, wanted)
    if label is None or wanted.label_type is not None:
        return wanted.label_type, said
    seen = TextColumn()
    with open_regular(path) as file, layout.open(file, {label: pa.string()}) as reader:
        for block in reader:
            seen.look_at(block.column(0).unique().drop_null().to_pylist())
            if seen.decided:
                break
    what = f"column {label!r} of {path}"
    note = seen.note(what)
    return seen.kind(what), said if note is None else [*said, note]


@contextmanager
def _reading_csv(
    path: Path, layout: CsvLayout | None = None, numbers: Sequence[str] = ()
) -> Iterator[None]:
    """As `reading`, but a value that is no number is said to be one, with its column."""
    try:
        with reading(path, "a CSV file", pa.ArrowException, csv.Error):
            yield
    except DataError as error:
        if layout is None or not isinstance(error.__cause__, pa.ArrowInvalid):
            raise
        found = _no_number(path, layout, numbers)
        if found is None:
            raise
        raise DataError(
            f"expected numbers in column {found[0]!r} of {path}, got {found[1]!r}: remove the "
            f"column or turn it into numbers, name it with --label if it holds the labels, or name "
            f"an encoder (--encoder minilm) if it holds texts"
        ) from error


def _no_number(path: Path, layout: CsvLayout, names: Sequence[str]) -> tuple[str, str] | None:
    """A column of a CSV file and a value in it that is no number, if there is one."""

    def is_number(values: Any) -> bool:
        try:
            values.cast(pa.float64())
        except pa.ArrowInvalid:
            return False
        return True

    texts = dict.fromkeys(names, pa.string())
    with suppress(pa.ArrowInvalid), open_regular(path) as file, layout.open(file, texts) as reader:
        for block in reader:
            for name, column in zip(names, block.columns, strict=True):
                values = pa.compute.utf8_trim_whitespace(column)
                if layout.decimal != ".":
                    values = pa.compute.replace_substring(values, layout.decimal, ".")
                if not is_number(values):
                    rows = range(len(values))
                    row = next(row for row in rows if not is_number(values.slice(row, 1)))
                    return name, column[row].as_py()
    return None


def open_parquet(path: Path, wanted: ReadOptions) -> Source:
    """A Parquet file; all columns but the labels are numbers, or one of them holds texts.

    Of a file that `redunet encode` wrote, only the vectors and labels are read.
    """
    kind = "a Parquet file"
    with reading(path, kind, pa.ArrowException), open_regular(path) as file:
        size = os.fstat(file.fileno()).st_size
        with pyarrow.parquet.ParquetFile(file) as parquet:
            schema, metadata = parquet.schema_arrow, parquet.metadata
        encoder = encoder_in(schema, path)
        texts = wanted.texts and encoder is None
        of_vectors = [name for name in schema.names if name != SAMPLE]
        names = schema.names if encoder is None else of_vectors
        label, columns = _columns(path, names, wanted if texts else replace(wanted, encoder=None))
        _check_types(path, schema, columns, label, texts)
        fields = [schema.field(name) for name in columns]
        bits = 0 if texts else sum(max(8, one.type.bit_width) for one in fields)
        check_weight(path, metadata.num_rows * bits // 8, size)
        groups = range(*(wanted.pieces or (0, metadata.num_row_groups)))
        rows = [metadata.row_group(group).num_rows for group in range(groups.stop)]
        check_weight(path, sum(metadata.row_group(one).total_byte_size for one in groups), size)
    sample = SAMPLE if encoder is not None and SAMPLE in schema.names else None
    before = sum(rows[: groups.start])
    said = label_note(path, label, wanted)
    table = _Table(path, columns, label, str, texts, sample, before, said)
    n_rows = sum(rows[groups.start :])
    names = [*columns, *(name for name in (label, sample) if name is not None)]
    repeated = [label] if label is not None and _is_text(schema.field(label).type) else None

    def blocks() -> Iterator[tuple[Any, float]]:
        done = 0
        with (
            open_regular(path) as file,
            # Read as a dictionary, a long label is in memory once, not once a row.
            pyarrow.parquet.ParquetFile(
                file, pre_buffer=False, read_dictionary=repeated
            ) as parquet,
        ):
            step = TEXTS_AT_A_TIME if texts else rows_at_a_time(len(columns))
            for block in parquet.iter_batches(step, groups, names, use_threads=False):
                done += block.num_rows
                yield block, done / max(done, n_rows)

    def batches() -> Iterator[Batch]:
        with reading(path, kind, pa.ArrowException):
            yield from table.batches(blocks())

    n_pieces = max(1, metadata.num_row_groups)
    if texts:
        return Source(path, batches, notes=table.notes, holds="texts", n_pieces=n_pieces)
    named = columns if encoder is None else None
    return Source(path, batches, named, notes=table.notes, encoder=encoder, n_pieces=n_pieces)


def _check_types(
    path: Path, schema: Any, columns: tuple[str, ...], label: str | None, texts: bool
) -> None:
    for name in columns:
        of = schema.field(name).type
        if texts:
            of = of.value_type if pa.types.is_dictionary(of) else of
            if not _is_text(of):
                raise DataError(
                    f"expected texts in column {name!r} of {path}, got {of}: name another with "
                    f"--text"
                )
        elif not (pa.types.is_integer(of) or pa.types.is_floating(of) or pa.types.is_boolean(of)):
            raise DataError(
                f"expected numbers in column {name!r} of {path}, got {of}: "
                f"leave it out, turn it into numbers, name it with --label if it holds the labels, "
                f"or name an encoder (--encoder minilm) if it holds texts"
            )
    if label is not None:
        of = schema.field(label).type
        of = of.value_type if pa.types.is_dictionary(of) else of
        if not (
            pa.types.is_integer(of)
            or pa.types.is_floating(of)
            or pa.types.is_null(of)
            or _is_text(of)
        ):
            raise DataError(
                f"expected labels that are whole numbers or text in column {label!r} of {path}, "
                f"got {of}: convert them"
            )


def _is_text(of: Any) -> bool:
    return bool(pa.types.is_string(of) or pa.types.is_large_string(of))


def _columns(
    path: Path, names: list[str], wanted: ReadOptions
) -> tuple[str | None, tuple[str, ...]]:
    """The column of labels, and the others in the model's order, or in their own."""
    most, times = Counter(names).most_common(1)[0] if names else ("", 0)
    if times > 1:
        raise DataError(f"expected columns of different names in {path}, got {most!r} twice")
    label = label_name(path, names, wanted)
    if wanted.texts:
        text = text_name(path, names, label, wanted)
        return None if wanted.labels == "ignored" else label, (text,)
    columns = tuple(name for name in names if name != label)
    if not columns:
        raise DataError(f"expected columns of numbers in {path}, got only the labels")
    if set(columns) == set(wanted.columns):
        columns = wanted.columns
    return None if wanted.labels == "ignored" else label, columns
