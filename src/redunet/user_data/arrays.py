"""NumPy's files: .npy, and .npz with samples and labels."""

from __future__ import annotations

import math
import os
import tempfile
import tokenize
import warnings
import zipfile
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from redunet.errors import DataError
from redunet.untrusted import open_regular
from redunet.user_data.labels import LONGEST_LABEL, checked_array
from redunet.user_data.source import (
    MOST_VALUES,
    Batch,
    RowNames,
    Source,
    Wanted,
    check_weight,
    label_name,
    listed,
    reading,
    rows_at_a_time,
)

_HEADERS = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}
_KIND = "an array that NumPy saved"


@dataclass(frozen=True)
class Header:
    """What a .npy file says of its array before the first value."""

    shape: tuple[int, ...]
    fortran: bool
    dtype: np.dtype[Any]

    @property
    def row_bytes(self) -> int:
        """Bytes of a sample."""
        return math.prod(self.shape[1:]) * self.dtype.itemsize


@dataclass(frozen=True)
class Stored:
    """One array: a .npy file, or a member of an .npz archive."""

    path: Path
    header: Header
    member: str | None = None

    def __str__(self) -> str:
        return _shown(self.path, self.member)

    def batches(self, rows: int) -> Iterator[NDArray[Any]]:
        """So many rows at a time."""
        header = self.header
        with reading(self.path, _KIND), ExitStack() as stack:
            stream: IO[bytes] = stack.enter_context(open_regular(self.path))
            if self.member is not None:
                archive = stack.enter_context(zipfile.ZipFile(stream))
                stream = stack.enter_context(archive.open(f"{self.member}.npy"))
            if _read_header(stream, self.path, self.member) != header:
                raise ValueError("it changed while it was read")
            whole = _by_columns(stream, header, stack) if header.fortran else None
            for first in range(0, header.shape[0], rows):
                count = min(rows, header.shape[0] - first)
                if whole is not None:
                    yield np.ascontiguousarray(whole[first : first + count])
                    continue
                raw = _exactly(stream, count * header.row_bytes)
                yield np.frombuffer(raw, header.dtype).reshape(count, *header.shape[1:])


def _shown(path: Path, member: str | None) -> str:
    return f"{member} in {path}" if member else str(path)


def _read_header(
    stream: IO[bytes], path: Path, member: str | None = None, size: int | None = None
) -> Header:
    """The shape and type of an array, checked; and its length, where the file's size is given."""
    version = npy.read_magic(stream)
    if version not in _HEADERS:
        raise ValueError(f"format {version[0]}.{version[1]} is unknown")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            shape, fortran, dtype = _HEADERS[version](stream)
        except (MemoryError, tokenize.TokenError):
            raise ValueError("its header makes no sense") from None
    what = _shown(path, member)
    if dtype.hasobject:
        raise DataError(
            f"{what} holds Python objects, which are never unpickled: save numbers or words"
        )
    if dtype.kind not in "biufU":
        raise DataError(f"expected numbers or words in {what}, got {dtype}: convert them")
    header = Header(shape, fortran and len(shape) > 1, dtype)
    if not shape or min(shape) < 1 or not header.row_bytes:
        raise DataError(f"expected at least one sample in {what}, got shape {shape}")
    if math.prod(shape[1:]) > MOST_VALUES or dtype.itemsize > 4 * LONGEST_LABEL:
        raise DataError(
            f"expected at most {MOST_VALUES:,} values a sample in {what}, and words of at most "
            f"{LONGEST_LABEL} letters, got shape {shape} of {dtype}"
        )
    if size is not None and size - stream.tell() != shape[0] * header.row_bytes:
        raise ValueError("it is not as long as its header says")
    return header


def _by_columns(stream: IO[bytes], header: Header, stack: ExitStack) -> NDArray[Any]:
    """An array stored column by column, as a map of a file, so that rows can be taken."""
    # A member of an archive cannot be mapped, so it is unpacked, without a name.
    file: IO[bytes] = stack.enter_context(tempfile.TemporaryFile())  # noqa: SIM115
    left = header.shape[0] * header.row_bytes
    while left:
        left -= file.write(_exactly(stream, min(left, 2**20)))
    file.flush()
    return np.memmap(file, header.dtype, "r", shape=header.shape, order="F")


def open_npy(path: Path, wanted: Wanted) -> Source:
    """An array of samples, with labels in a file of their own."""
    labels = None
    if wanted.label is not None and wanted.labels != "ignored":
        labels = _stored(Path(wanted.label))
    elif wanted.labels == "required":
        raise DataError(f"expected labels for {path}: name the .npy file of them with --label")
    return _paired(path, _stored(path), labels)


def _stored(path: Path) -> Stored:
    with reading(path, _KIND), open_regular(path) as stream:
        size = os.fstat(stream.fileno()).st_size
        return Stored(path, _read_header(stream, path, size=size))


def open_npz(path: Path, wanted: Wanted) -> Source:
    """An archive with labels, and samples in the only other array of as many rows."""
    arrays = _members(path)
    label = label_name(path, list(arrays), wanted)
    labels = arrays.pop(label) if label else None
    n = labels.header.shape[0] if labels else None
    samples = [
        stored
        for stored in arrays.values()
        if len(stored.header.shape) > 1 and n in (None, stored.header.shape[0])
    ]
    if len(samples) != 1:
        rows = f"of {n:,} samples" if n is not None else "of samples"
        found = [f"{name} {stored.header.shape}" for name, stored in arrays.items()]
        raise DataError(
            f"expected one array {rows} in {path} beside the labels, got {listed(found)}: "
            f"save samples as X and labels as y"
        )
    return _paired(path, samples[0], None if wanted.labels == "ignored" else labels)


def _members(path: Path) -> dict[str, Stored]:
    """The arrays of an archive, which is gone through once."""
    arrays = {}
    with (
        reading(path, "an .npz archive"),
        open_regular(path) as file,
        zipfile.ZipFile(file) as archive,
    ):
        size = os.fstat(file.fileno()).st_size
        for info in archive.infolist():
            if not info.filename.endswith(".npy"):
                continue
            name = info.filename.removesuffix(".npy")
            if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
                raise DataError(f"expected {name} in {path} to be packed as NumPy does it")
            check_weight(path, info.file_size, min(info.compress_size, size))
            with archive.open(info) as stream:
                arrays[name] = Stored(path, _read_header(stream, path, name, info.file_size), name)
    return arrays


def _paired(path: Path, samples: Stored, labels: Stored | None) -> Source:
    """Samples, and their labels where there are some."""
    shape = samples.header.shape
    if len(shape) < 2:
        raise DataError(f"expected samples as rows in {samples}, got shape {shape}: reshape them")
    if labels is not None and (found := labels.header.shape) != shape[:1]:
        raise DataError(
            f"expected one label for each of {shape[0]:,} samples in {labels}, got shape {found}"
        )

    def batches() -> Iterator[Batch]:
        label_values = labels.header.dtype.itemsize // 8 if labels else 0
        step, done = rows_at_a_time(math.prod(shape[1:]) + label_values), 0
        of_labels = labels.batches(step) if labels else None
        for X in samples.batches(step):
            y = checked_array(next(of_labels), str(labels)) if of_labels else None
            done += len(X)
            yield Batch(X, y, RowNames(done - len(X), len(X)), done / shape[0])

    return Source(path, batches, holds="images" if len(shape) > 2 else "vectors")


def _exactly(stream: IO[bytes], size: int) -> bytes:
    raw = stream.read(size)
    if len(raw) != size:
        raise EOFError("it ends before its header says")
    return raw
