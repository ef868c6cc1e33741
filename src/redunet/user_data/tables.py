"""Tables with a column of labels: CSV and Parquet, one block of rows at a time."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
from numpy.typing import NDArray

from redunet.errors import DataError
from redunet.user_data.source import (
    Batch,
    RowNames,
    Source,
    Wanted,
    check_weight,
    label_name,
    reading,
    rows_at_a_time,
)

_BLOCK_BYTES = 2**23


def open_csv(path: Path, wanted: Wanted) -> Source:
    """A CSV file with a line of column names; all but the labels are numbers."""
    kind = "a CSV file"
    blocks = pyarrow.csv.ReadOptions(use_threads=False, block_size=_BLOCK_BYTES)
    with reading(path, kind, pa.ArrowException):
        with pyarrow.csv.open_csv(path, read_options=blocks) as reader:
            schema = reader.schema
        label, columns = _columns(path, schema.names, wanted)
        # A column that begins with whole numbers may go on with fractions.
        types = dict.fromkeys(columns, pa.float64())
        if label is not None:
            types[label] = _label_type(schema.field(label).type, wanted)
        convert = pyarrow.csv.ConvertOptions(
            column_types=types,
            include_columns=list(types),
            null_values=[""],
            strings_can_be_null=True,
        )
        weight = path.stat().st_size

    def tables() -> Iterator[tuple[Any, float]]:
        with (
            pa.OSFile(str(path)) as file,
            pyarrow.csv.open_csv(file, read_options=blocks, convert_options=convert) as reader,
        ):
            for table in reader:
                yield table, 1.0 if file.closed else file.tell() / weight

    return Source(path, lambda: _batches(path, kind, tables(), columns, label), columns, [])


def open_parquet(path: Path, wanted: Wanted) -> Source:
    """A Parquet file; all columns but the labels are numbers."""
    kind = "a Parquet file"
    with reading(path, kind, pa.ArrowException):
        with pyarrow.parquet.ParquetFile(path) as file:
            schema, n_rows = file.schema_arrow, file.metadata.num_rows
        label, columns = _columns(path, schema.names, wanted)
        types = {name: schema.field(name).type for name in columns}
        for name, of in types.items():
            if not (pa.types.is_integer(of) or pa.types.is_floating(of) or pa.types.is_boolean(of)):
                raise DataError(
                    f"expected numbers in column {name!r} of {path}, got {of}: "
                    f"leave it out, or turn it into numbers"
                )
        width = sum(of.bit_width for of in types.values())
        check_weight(path, n_rows * width // 8, path.stat().st_size)

    def tables() -> Iterator[tuple[Any, float]]:
        done, step = 0, rows_at_a_time(len(columns))
        named = [*columns, *([] if label is None else [label])]
        with pyarrow.parquet.ParquetFile(path, pre_buffer=False) as file:
            for table in file.iter_batches(step, columns=named, use_threads=False):
                done += table.num_rows
                yield table, done / n_rows

    return Source(path, lambda: _batches(path, kind, tables(), columns, label), columns, [])


def _columns(path: Path, names: list[str], wanted: Wanted) -> tuple[str | None, tuple[str, ...]]:
    """The column of labels, and the others in their order."""
    twice = [name for name in names if names.count(name) > 1]
    if twice:
        raise DataError(f"expected columns of different names in {path}, got {twice[0]!r} twice")
    label = label_name(path, names, wanted)
    columns = tuple(name for name in names if name != label)
    if not columns:
        raise DataError(f"expected columns of numbers in {path}, got only the labels")
    return label, columns


def _label_type(found: Any, wanted: Wanted) -> Any:
    """As what labels of a CSV file are read."""
    numbers = pa.types.is_integer(found) or pa.types.is_floating(found)
    if wanted.label_type is str or not numbers:
        return pa.string()
    return pa.int64() if pa.types.is_integer(found) else pa.float64()


def _batches(
    path: Path,
    kind: str,
    tables: Iterator[tuple[Any, float]],
    columns: tuple[str, ...],
    label: str | None,
) -> Iterator[Batch]:
    """Rows of numbers, with their labels, block after block."""
    done = 0
    with reading(path, kind, pa.ArrowException):
        for table, share in tables:
            step = rows_at_a_time(len(columns))
            for first in range(0, table.num_rows, step):
                part = table.slice(first, step)
                X = np.empty((part.num_rows, len(columns)))
                for index, name in enumerate(columns):
                    X[:, index] = part.column(name).to_numpy(zero_copy_only=False)
                y = None if label is None else _labels(path, part.column(label), done)
                yield Batch(X, y, RowNames(done, part.num_rows), share)
                done += part.num_rows
        if not done:
            raise DataError(f"expected at least one row in {path}, got none")


def _labels(path: Path, column: Any, done: int) -> NDArray[Any]:
    """Labels as whole numbers or words, none of them missing."""
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    missing = np.flatnonzero(column.is_null(nan_is_null=True).to_numpy(zero_copy_only=False))
    if len(missing):
        raise DataError(
            f"expected a label in each row of {path}, got none in row {done + missing[0] + 1:,}: "
            f"remove the row, or name its class"
        )
    values: NDArray[Any] = column.to_numpy(zero_copy_only=False)
    if values.dtype == object and all(isinstance(value, str) for value in values):
        return values.astype(str)
    return values
