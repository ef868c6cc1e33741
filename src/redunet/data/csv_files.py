"""CSV files: their delimiter, encoding and decimal point, and their rows."""

from __future__ import annotations

import codecs
import csv
import io
import os
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import pyarrow as pa
import pyarrow.compute
import pyarrow.csv

from redunet.data.columns import label_and_others, notes_on
from redunet.data.labels import TextColumn
from redunet.data.source import Batch, ReadOptions, Source, reading
from redunet.data.tables import Table
from redunet.errors import DataError
from redunet.safety.untrusted import open_regular

BLOCK_BYTES = 2**23
"""Bytes of a file parsed at a time: a row of 100,000 columns fits, and memory stays small."""

_MARKS = {codecs.BOM_UTF16_LE: "utf-16", codecs.BOM_UTF16_BE: "utf-16"}


@dataclass(frozen=True)
class _Layout:
    """The names of a CSV file's columns, and how it is written."""

    names: list[str]
    encoding: str
    delimiter: str
    decimal: str
    newlines: bool
    block_bytes: int

    @classmethod
    def of(cls, file: BinaryIO, newlines: bool, block_bytes: int) -> _Layout:
        """The layout of a file, from its first block.

        UTF-16 where it begins with its mark, otherwise UTF-8. Of comma, semicolon and tab the
        delimiter is the one that the line of names has most of. Decimals have a comma where
        semicolons divide values, and some of them are such as 1,5.
        """
        raw = file.read(block_bytes)
        encoding = _MARKS.get(raw[:2], "utf-8-sig")
        text = codecs.getincrementaldecoder(encoding)().decode(raw).lstrip("\r\n")
        if not text:
            raise ValueError("it is empty")
        head, _, rest = text.partition("\n")
        unquoted = re.sub(r'"[^"]*"', "", head)
        delimiter = max(",;\t", key=unquoted.count)
        names = next(csv.reader(io.StringIO(text), delimiter=delimiter))
        commas = delimiter == ";" and re.search(r"(^|;)-?\d*,\d+(;|$)", rest[:10_000], re.M)
        decimal = "," if commas else "."
        encoding = "utf8" if encoding == "utf-8-sig" else encoding
        return cls(names, encoding, delimiter, decimal, newlines, block_bytes)

    def open(self, file: BinaryIO, types: dict[str, Any]) -> Any:
        """A reader of some columns as given types, block after block."""
        file.seek(0)
        return pyarrow.csv.open_csv(
            file,
            read_options=pyarrow.csv.ReadOptions(
                use_threads=False, block_size=self.block_bytes, encoding=self.encoding
            ),
            parse_options=pyarrow.csv.ParseOptions(
                delimiter=self.delimiter, newlines_in_values=self.newlines
            ),
            convert_options=pyarrow.csv.ConvertOptions(
                column_types=types,
                include_columns=list(types),
                null_values=[""],
                strings_can_be_null=True,
                decimal_point=self.decimal,
            ),
        )


def open_csv(path: Path, options: ReadOptions, block_bytes: int = BLOCK_BYTES) -> Source:
    """Open a CSV file with a line of column names; all but the labels are numbers, or one texts.

    It is opened here to find out how it is written, and once for each time that it is read.
    """
    texts = options.texts
    with reading(path, "a CSV file", pa.ArrowException, csv.Error), open_regular(path) as file:
        layout = _Layout.of(file, texts, block_bytes)
        label, columns = label_and_others(path, layout.names, options, texts)
        notes = notes_on(path, label, columns, options)
        kind = options.label_type
        if label is not None and kind is None:
            kind, doubt = _label_type(path, layout, file, label)
            notes += doubt
    table = Table(path, columns, label, kind, texts)
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
        with _naming_values(path, layout, () if texts else columns):
            yield from table.batches(blocks())

    if texts:
        return Source(path, batches, notes=notes, holds="texts")
    return Source(path, batches, columns, notes=notes)


def _label_type(path: Path, layout: _Layout, file: BinaryIO, label: str) -> tuple[type, list[str]]:
    """Whether labels are numbers or text, by all of them; and a note where that is in doubt."""
    seen = TextColumn()
    with layout.open(file, {label: pa.string()}) as reader:
        for block in reader:
            seen.look_at(block.column(0).unique().drop_null().to_pylist())
            if seen.decided:
                break
    what = f"column {label!r} of {path}"
    return seen.kind(what), seen.notes(what)


@contextmanager
def _naming_values(path: Path, layout: _Layout, numbers: Sequence[str]) -> Iterator[None]:
    """Turn errors into one line, which names a value that is no number, its column and row."""
    try:
        with reading(path, "a CSV file", pa.ArrowException, csv.Error):
            yield
    except DataError as error:
        if not isinstance(error.__cause__, pa.ArrowInvalid):
            raise
        found = _no_number(path, layout, numbers)
        if found is None:
            raise
        name, row, value = found
        raise DataError(
            f"expected numbers in column {name!r} of {path}, got {value!r} in row {row:,}: remove "
            f"the column or turn it into numbers, name it with --label if it holds the labels, or "
            f"name an encoder (--encoder minilm) if it holds texts"
        ) from error


def _no_number(path: Path, layout: _Layout, names: Sequence[str]) -> tuple[str, int, str] | None:
    """The first value that is no number, with its column and row, if there is one."""
    texts, done = dict.fromkeys(names, pa.string()), 0
    with suppress(pa.ArrowInvalid), open_regular(path) as file, layout.open(file, texts) as reader:
        for block in reader:
            for name, column in zip(names, block.columns, strict=True):
                values = pa.compute.utf8_trim_whitespace(column)
                if layout.decimal != ".":
                    values = pa.compute.replace_substring(values, layout.decimal, ".")
                if not _are_numbers(values):
                    rows = range(len(values))
                    row = next(row for row in rows if not _are_numbers(values.slice(row, 1)))
                    return name, done + row + 1, column[row].as_py()
            done += block.num_rows
    return None


def _are_numbers(values: Any) -> bool:
    try:
        values.cast(pa.float64())
    except pa.ArrowInvalid:
        return False
    return True
