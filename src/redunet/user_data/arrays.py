"""NumPy's files: .npy, and .npz with samples and labels."""

from __future__ import annotations

import math
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
from redunet.user_data.source import (
    MOST_VALUES,
    Batch,
    RowNames,
    Source,
    Wanted,
    check_weight,
    label_name,
    reading,
    rows_at_a_time,
)

_HEADERS = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}
_MOST_BYTES = 1024
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
    member: str | None = None

    def __str__(self) -> str:
        return f"{self.member} in {self.path}" if self.member else str(self.path)

    def open(self, stack: ExitStack) -> IO[bytes]:
        """The stream of its bytes."""
        if self.member is None:
            return stack.enter_context(self.path.open("rb"))
        archive = stack.enter_context(zipfile.ZipFile(self.path))
        return stack.enter_context(archive.open(f"{self.member}.npy"))

    def header(self) -> Header:
        """Its shape and type, checked."""
        with reading(self.path, _KIND), ExitStack() as stack:
            stream = self.open(stack)
            header = self._header(stream)
            if self._size() - stream.tell() != header.shape[0] * header.row_bytes:
                raise ValueError("it is not as long as its header says")
            return header

    def _size(self) -> int:
        if self.member is None:
            return self.path.stat().st_size
        with zipfile.ZipFile(self.path) as archive:
            return archive.getinfo(f"{self.member}.npy").file_size

    def batches(self, rows: int) -> Iterator[NDArray[Any]]:
        """So many rows at a time."""
        with reading(self.path, _KIND), ExitStack() as stack:
            stream = self.open(stack)
            header = self._header(stream)
            whole = self._by_columns(stream, header, stack) if header.fortran else None
            for first in range(0, header.shape[0], rows):
                count = min(rows, header.shape[0] - first)
                if whole is not None:
                    yield np.ascontiguousarray(whole[first : first + count])
                    continue
                raw = _exactly(stream, count * header.row_bytes)
                yield np.frombuffer(raw, header.dtype).reshape(count, *header.shape[1:])

    def _header(self, stream: IO[bytes]) -> Header:
        version = npy.read_magic(stream)
        if version not in _HEADERS:
            raise ValueError(f"format {version[0]}.{version[1]} is unknown")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                shape, fortran, dtype = _HEADERS[version](stream)
            except (MemoryError, tokenize.TokenError):
                raise ValueError("its header makes no sense") from None
        if dtype.hasobject:
            raise DataError(
                f"{self} holds Python objects, which are never unpickled: save numbers or words"
            )
        if dtype.kind not in "biufU":
            raise DataError(f"expected numbers or words in {self}, got {dtype}: convert them")
        header = Header(shape, fortran and len(shape) > 1, dtype)
        if not shape or min(shape) < 1 or not header.row_bytes:
            raise DataError(f"expected at least one sample in {self}, got shape {shape}")
        if math.prod(shape[1:]) > MOST_VALUES or dtype.itemsize > _MOST_BYTES:
            raise DataError(
                f"expected at most {MOST_VALUES:,} values a sample in {self}, and words of at most "
                f"{_MOST_BYTES // 4} letters, got shape {shape} of {dtype}"
            )
        return header

    def _by_columns(self, stream: IO[bytes], header: Header, stack: ExitStack) -> NDArray[Any]:
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
    if wanted.labels or wanted.label is not None:
        if wanted.label is None:
            raise DataError(f"expected labels for {path}: name the .npy file of them with --label")
        labels = Stored(Path(wanted.label))
    return _paired(path, Stored(path), labels)


def open_npz(path: Path, wanted: Wanted) -> Source:
    """An archive with labels, and samples in the only other array of as many rows."""
    with reading(path, "an .npz archive"), zipfile.ZipFile(path) as archive:
        members = [info for info in archive.infolist() if info.filename.endswith(".npy")]
        for info in members:
            check_weight(path, info.file_size, info.compress_size)
    arrays = {
        info.filename.removesuffix(".npy"): Stored(path, info.filename.removesuffix(".npy"))
        for info in members
    }
    label = label_name(path, list(arrays), wanted)
    headers = {name: stored.header() for name, stored in arrays.items() if name != label}
    labels = arrays[label] if label else None
    n = labels.header().shape[0] if labels else None
    samples = [
        name
        for name, header in headers.items()
        if len(header.shape) > 1 and n in (None, header.shape[0])
    ]
    if len(samples) != 1:
        found = ", ".join(f"{name} {header.shape}" for name, header in headers.items()) or "none"
        rows = f"of {n:,} samples" if n is not None else "of samples"
        raise DataError(
            f"expected one array {rows} in {path} beside the labels, got {found}: "
            f"save samples as X and labels as y"
        )
    return _paired(path, arrays[samples[0]], labels)


def _paired(path: Path, samples: Stored, labels: Stored | None) -> Source:
    """Samples, and their labels where there are some."""
    shape = samples.header().shape
    if len(shape) < 2:
        raise DataError(f"expected samples as rows in {samples}, got shape {shape}: reshape them")
    if labels is not None and (found := labels.header().shape) != shape[:1]:
        raise DataError(
            f"expected one label for each of {shape[0]:,} samples in {labels}, got shape {found}"
        )

    def batches() -> Iterator[Batch]:
        step, done = rows_at_a_time(math.prod(shape[1:])), 0
        of_labels = labels.batches(step) if labels else None
        for X in samples.batches(step):
            y = next(of_labels) if of_labels else None
            done += len(X)
            yield Batch(X, y, RowNames(done - len(X), len(X)), done / shape[0])

    return Source(path, batches, None, [])


def _exactly(stream: IO[bytes], size: int) -> bytes:
    raw = stream.read(size)
    if len(raw) != size:
        raise EOFError("it ends before its header says")
    return raw
