"""Parquet files: tables, and vectors that say which encoder made them."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet

from redunet.data.columns import label_and_others, notes_on
from redunet.data.source import (
    TEXTS_AT_A_TIME,
    Batch,
    ReadOptions,
    Source,
    check_weight,
    reading,
    rows_at_a_time,
)
from redunet.data.tables import Table, is_text
from redunet.encoders import EncoderId
from redunet.errors import DataError
from redunet.progress import Progress, silent
from redunet.safety.files import writing
from redunet.safety.untrusted import open_regular

_SAMPLE = "sample"  # the column of the samples' names, beside vectors
_ENTRY = b"redunet.encoder"


def open_parquet(path: Path, options: ReadOptions) -> Source:
    """Open a Parquet file; all columns but the labels are numbers, or one of them holds texts.

    Of a file that `redunet encode` wrote, only the vectors and labels are read.
    """
    kind = "a Parquet file"
    with reading(path, kind, pa.ArrowException), open_regular(path) as file:
        size = os.fstat(file.fileno()).st_size
        with pyarrow.parquet.ParquetFile(file) as parquet:
            schema, metadata = parquet.schema_arrow, parquet.metadata
        encoder = _encoder_in(schema, path)
        texts = options.texts and encoder is None
        options = options if texts else replace(options, encoder=None)
        named = [name for name in schema.names if encoder is None or name != _SAMPLE]
        label, columns = label_and_others(path, named, options, texts)
        _check_types(path, schema, columns, label, texts)
        bits = 0 if texts else sum(max(8, schema.field(name).type.bit_width) for name in columns)
        check_weight(path, metadata.num_rows * bits // 8, size)
        groups = range(*(options.pieces or (0, metadata.num_row_groups)))
        rows = [metadata.row_group(group).num_rows for group in range(groups.stop)]
        check_weight(path, sum(metadata.row_group(one).total_byte_size for one in groups), size)
    sample = _SAMPLE if encoder is not None and _SAMPLE in schema.names else None
    table = Table(path, columns, label, str, texts, sample, sum(rows[: groups.start]))
    read = [*columns, *(name for name in (label, sample) if name is not None)]
    # Read as a dictionary, a long label is in memory once, not once a row.
    repeated = [label] if label is not None and is_text(schema.field(label).type) else None
    step = TEXTS_AT_A_TIME if texts else rows_at_a_time(len(columns))

    def blocks() -> Iterator[tuple[Any, float]]:
        done, n_rows = 0, sum(rows[groups.start :])
        with (
            open_regular(path) as file,
            pyarrow.parquet.ParquetFile(
                file, pre_buffer=False, read_dictionary=repeated
            ) as parquet,
        ):
            for block in parquet.iter_batches(step, groups, read, use_threads=False):
                done += block.num_rows
                yield block, done / max(done, n_rows)

    def batches() -> Iterator[Batch]:
        with reading(path, kind, pa.ArrowException):
            yield from table.batches(blocks())

    return Source(
        path,
        batches,
        None if texts or encoder is not None else columns,
        notes=notes_on(path, label, columns, options),
        holds="texts" if texts else "vectors",
        encoder=encoder,
        n_pieces=max(1, metadata.num_row_groups),
    )


def write_vectors(
    out: Path, source: Source, encoder: EncoderId, progress: Progress = silent
) -> int:
    """Write the vectors of a source, their names and labels; the file is there when all are."""
    if out.suffix.lower() != ".parquet":
        raise DataError(f"expected a name that ends in .parquet, got {out}")
    if source.encoder != encoder:
        found = "numbers" if source.encoder is None else f"vectors of {source.encoder}"
        raise DataError(
            f"expected texts or images to encode, got {found} in {source.path}: they can be learnt "
            f"as they are"
        )
    written, writer, metadata = 0, None, {_ENTRY: json.dumps(encoder.to_dict()).encode()}
    with writing(out) as file:
        try:
            for batch in source.batches():
                table = _vectors(batch).replace_schema_metadata(metadata)
                writer = writer or pyarrow.parquet.ParquetWriter(file, table.schema)
                writer.write_table(table)
                written += len(batch.X)
                progress(f"encoding {source.path}", batch.share)
        finally:
            if writer is not None:
                writer.close()
    return written


def _vectors(batch: Batch) -> Any:
    """A table of the names, labels and vectors of a batch."""
    columns: dict[str, Any] = {_SAMPLE: pa.array(list(batch.names), pa.string())}
    if batch.y is not None:
        columns["label"] = pa.array(batch.y.tolist())
    for index, values in enumerate(batch.X.T):
        columns[f"v{index}"] = pa.array(values, pa.float32())
    return pa.table(columns)


def _encoder_in(schema: Any, path: Path) -> EncoderId | None:
    """The encoder that a schema names, or None."""
    raw = (schema.metadata or {}).get(_ENTRY)
    if raw is None:
        return None
    try:
        return EncoderId(**json.loads(raw))
    except (TypeError, ValueError) as error:
        raise DataError(f"{path} names an encoder that makes no sense: encode it again") from error


def _check_types(
    path: Path, schema: Any, columns: tuple[str, ...], label: str | None, texts: bool
) -> None:
    types = pa.types
    for name in columns:
        of = schema.field(name).type
        if texts and not is_text(of.value_type if types.is_dictionary(of) else of):
            raise DataError(
                f"expected texts in column {name!r} of {path}, got {of}: name another with --text"
            )
        if not texts and not (
            types.is_integer(of) or types.is_floating(of) or types.is_boolean(of)
        ):
            raise DataError(
                f"expected numbers in column {name!r} of {path}, got {of}: "
                f"leave it out, turn it into numbers, name it with --label if it holds the labels, "
                f"or name an encoder (--encoder minilm) if it holds texts"
            )
    if label is not None:
        of = schema.field(label).type
        of = of.value_type if types.is_dictionary(of) else of
        if not (types.is_integer(of) or types.is_floating(of) or types.is_null(of) or is_text(of)):
            raise DataError(
                f"expected labels that are whole numbers or text in column {label!r} of {path}, "
                f"got {of}: convert them"
            )
