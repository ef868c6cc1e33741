"""JSON lines: an object a line, with a text and its label; for encoders of texts."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from redunet.data.columns import label_and_others, notes_on
from redunet.data.labels import checked_text
from redunet.data.source import (
    TEXTS_AT_A_TIME,
    Batch,
    ReadOptions,
    RowNames,
    Source,
    reading,
    texts_array,
)
from redunet.errors import DataError
from redunet.safety.untrusted import open_regular

_LONGEST_LINE = 2**22  # bytes; no encoder looks at more than the first pages of a text
_KIND = "a file of JSON lines"


def open_json_lines(path: Path, options: ReadOptions) -> Source:
    """Open a file with an object on each line; labels are whole numbers or text, as written."""
    if not options.texts:
        raise DataError(
            f"expected an encoder of texts for {path}: name one, such as --encoder minilm"
        )
    with reading(path, _KIND), open_regular(path) as file:
        first = next(_objects(file, path), None)
    if first is None:
        raise DataError(f"expected at least one line in {path}, got none")
    label, (text,) = label_and_others(path, list(first), options, texts=True)
    kind: Any = None if label is None else type(first[label])
    if kind not in (None, int, str):
        raise DataError(
            f"expected labels that are whole numbers or text in {label!r} of {path}, got "
            f"{first[label or '']!r}: convert them"
        )

    def batches() -> Iterator[Batch]:
        with reading(path, _KIND), open_regular(path) as file:
            size = os.fstat(file.fileno()).st_size
            texts: list[str] = []
            labels: list[Any] = []
            done = 0
            for row, line in enumerate(_objects(file, path), 1):
                texts.append(_value(line, text, str, f"row {row:,} of {path}"))
                if label is not None:
                    labels.append(_value(line, label, kind, f"row {row:,} of {path}"))
                if len(texts) == TEXTS_AT_A_TIME:
                    yield batch(texts, labels, done, file.tell() / size)
                    texts, labels, done = [], [], row
            if texts:
                yield batch(texts, labels, done, 1.0)

    def batch(texts: list[str], labels: list[Any], done: int, share: float) -> Batch:
        y = None if label is None else _labels(labels, kind, f"{label!r} of {path}")
        return Batch(texts_array(texts), y, RowNames(done, len(texts)), share)

    notes = notes_on(path, label, (), options)
    return Source(path, batches, notes=notes, holds="texts")


def _objects(file: BinaryIO, path: Path) -> Iterator[dict[str, Any]]:
    """The object on each line that is not empty."""
    number = 0
    while line := file.readline(_LONGEST_LINE + 1):
        number += 1
        if len(line) > _LONGEST_LINE:
            raise DataError(f"expected short lines in {path}, got one of over 4 MB, line {number}")
        if not line.strip():
            continue
        try:
            found = json.loads(line)
        except RecursionError:
            found = None
        if not isinstance(found, dict):
            raise DataError(f"expected a JSON object on each line of {path}, not on line {number}")
        yield found


def _value(line: dict[str, Any], name: str, kind: type, where: str) -> Any:
    value = line.get(name)
    if type(value) is not kind or value == "":
        what = "a text" if kind is str else "a whole number"
        raise DataError(f"expected {what} as {name!r} in {where}, got {value!r}: remove the row")
    return value


def _labels(labels: list[Any], kind: Any, what: str) -> NDArray[Any]:
    """Labels as an array, (n,)."""
    if kind is str:
        return np.array(checked_text(labels, what))
    if not all(-(2**63) <= number < 2**63 for number in labels):
        raise DataError(f"expected labels of at most 64 bits in {what}: use text")
    return np.array(labels, dtype=np.int64)
