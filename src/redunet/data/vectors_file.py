"""Vectors in a Parquet file that says which encoder made them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet

from redunet.data.source import Batch, Source
from redunet.encoders import EncoderId
from redunet.errors import DataError
from redunet.progress import Progress, silent
from redunet.safety.files import writing

SAMPLE = "sample"
"""The column of the samples' names: files, or rows from 1."""

_ENTRY = b"redunet.encoder"


def encoder_in(schema: Any, path: Path) -> EncoderId | None:
    """The encoder that a Parquet file's schema names, or None."""
    raw = (schema.metadata or {}).get(_ENTRY)
    if raw is None:
        return None
    try:
        return EncoderId(**json.loads(raw))
    except (TypeError, ValueError) as error:
        raise DataError(f"{path} names an encoder that makes no sense: encode it again") from error


def write_vectors(
    out: Path, source: Source, encoder: EncoderId, progress: Progress = silent
) -> int:
    """Write the vectors of a source, their names and labels; the file is there when all are.

    Parameters
    ----------
    out : Path
        Ends in .parquet.
    source : Source
        Of texts or images that were turned into vectors.
    encoder : EncoderId
        What did that.
    progress : callable

    Returns
    -------
    int
        How many vectors were written.
    """
    if out.suffix.lower() != ".parquet":
        raise DataError(f"expected a name that ends in .parquet, got {out}")
    if source.encoder != encoder:
        found = "numbers" if source.encoder is None else f"vectors of {source.encoder}"
        raise DataError(
            f"expected texts or images to encode, got {found} in {source.path}: they can be learnt "
            f"as they are"
        )
    written = 0
    with writing(out) as file, _table(file, encoder) as write:
        for batch in source.batches():
            write(batch)
            written += len(batch.X)
            progress(f"encoding {source.path}", batch.share)
    return written


@contextmanager
def _table(file: Any, encoder: EncoderId) -> Iterator[Any]:
    """A function that writes a batch; the first one decides the columns."""
    writers: list[Any] = []

    def write(batch: Batch) -> None:
        columns: dict[str, Any] = {SAMPLE: pa.array(_plain(batch.names), pa.string())}
        if batch.y is not None:
            columns["label"] = pa.array(batch.y.tolist())
        for index, values in enumerate(batch.X.T):
            columns[f"v{index}"] = pa.array(values, pa.float32())
        table = pa.table(columns)
        metadata = {_ENTRY: json.dumps(encoder.to_dict()).encode()}
        schema = table.schema.with_metadata(metadata)
        if not writers:
            writers.append(pyarrow.parquet.ParquetWriter(file, schema))
        writers[0].write_table(table.cast(schema))

    try:
        yield write
    finally:
        for writer in writers:
            writer.close()


def _plain(names: Sequence[str]) -> list[str]:
    return [names[index] for index in range(len(names))]
