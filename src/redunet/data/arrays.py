"""NumPy's files: .npy, and .npz with samples and labels."""

from __future__ import annotations

import math
import os
import tokenize
import warnings
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from redunet.data.columns import label_name
from redunet.data.labels import LONGEST_LABEL, checked_array
from redunet.data.source import (
    MOST_VALUES,
    Batch,
    ReadOptions,
    RowNames,
    Source,
    check_weight,
    listed,
    reading,
    rows_at_a_time,
)
from redunet.errors import DataError
from redunet.safety.untrusted import open_regular

_HEADERS = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}
_KIND = "an array that NumPy saved"

_BY_ZIPFILE = (KeyError, NotImplementedError, OverflowError, RuntimeError)
"""With which it says that a member is gone, of a strange kind, far beyond the end, or locked."""


@dataclass(frozen=True)
class _Stored:
    """One array: a .npy file, or a member of an .npz archive; its header has been checked."""

    path: Path
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    member: str | None = None

    def __str__(self) -> str:
        return f"{self.member} in {self.path}" if self.member else str(self.path)

    def array(self) -> NDArray[Any]:
        """Its values: a .npy file mapped into memory, a member of an archive read whole."""
        with reading(self.path, _KIND, *_BY_ZIPFILE):
            array: NDArray[Any]
            if self.member is None:
                array = np.load(self.path, mmap_mode="r", allow_pickle=False)
            else:
                with (
                    open_regular(self.path) as file,
                    np.load(file, allow_pickle=False) as archive,
                ):
                    array = archive[f"{self.member}.npy"]
            if (array.shape, array.dtype) != (self.shape, self.dtype):
                raise ValueError("it changed while it was read")
            return array


def open_npy(path: Path, options: ReadOptions) -> Source:
    """Open an array of samples, with labels in a file of their own."""
    labels = None
    if options.label is not None and options.labels != "ignored":
        labels = _stored(Path(options.label))
    elif options.labels == "required":
        raise DataError(f"expected labels for {path}: name the .npy file of them with --label")
    return _paired(path, _stored(path), labels)


def open_npz(path: Path, options: ReadOptions) -> Source:
    """Open an archive with labels, and samples in the only other array of as many rows."""
    arrays = _members(path, options.most_unpacked)
    label = label_name(path, list(arrays), options)
    labels = arrays.pop(label) if label else None
    n = labels.shape[0] if labels else None
    samples = [one for one in arrays.values() if len(one.shape) > 1 and n in (None, one.shape[0])]
    if len(samples) != 1:
        rows = f"of {n:,} samples" if n is not None else "of samples"
        found = [f"{name} {stored.shape}" for name, stored in arrays.items()]
        raise DataError(
            f"expected one array {rows} in {path} beside the labels, got {listed(found)}: "
            f"save samples as X and labels as y"
        )
    return _paired(path, samples[0], None if options.labels == "ignored" else labels)


def _stored(path: Path) -> _Stored:
    with reading(path, _KIND), open_regular(path) as stream:
        return _checked(stream, os.fstat(stream.fileno()).st_size, path)


def _members(path: Path, most_unpacked: int) -> dict[str, _Stored]:
    """The arrays of an archive, which is gone through once."""
    arrays = {}
    with (
        reading(path, "an .npz archive", *_BY_ZIPFILE),
        open_regular(path) as file,
        zipfile.ZipFile(file) as archive,
    ):
        size = os.fstat(file.fileno()).st_size
        for info in archive.infolist():
            if not info.filename.endswith(".npy"):
                continue
            name = info.filename.removesuffix(".npy")
            # Other ways of packing unpack whole blocks, however few bytes are asked for.
            if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
                raise DataError(f"expected {name} in {path} to be packed as NumPy does it")
            check_weight(path, info.file_size, min(info.compress_size, size))
            if info.file_size > most_unpacked:  # beyond which zipfile reads nothing
                raise DataError(
                    f"expected at most {most_unpacked / 1e6:,.0f} MB unpacked, as arrays in .npz "
                    f"files are read whole, got {info.file_size / 1e6:,.0f} MB of {name} in "
                    f"{path}: save it as .npy, which need not fit into memory"
                )
            with archive.open(info) as stream:
                arrays[name] = _checked(stream, info.file_size, path, name)
    return arrays


def _checked(stream: IO[bytes], size: int, path: Path, member: str | None = None) -> _Stored:
    """An array whose header says what can be learnt from, in a file of that many bytes."""
    version = npy.read_magic(stream)
    if version not in _HEADERS:
        raise ValueError(f"format {version[0]}.{version[1]} is unknown")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            shape, _, dtype = _HEADERS[version](stream)
        except (MemoryError, RecursionError, SyntaxError, TypeError, tokenize.TokenError):
            # MemoryError: of Python's parser, where brackets are nested deeply.
            raise ValueError("its header makes no sense") from None
    what = _Stored(path, shape, dtype, member)
    if dtype.hasobject:
        raise DataError(
            f"{what} holds Python objects, which are never unpickled: save numbers or words"
        )
    if dtype.kind not in "biufU":
        raise DataError(f"expected numbers or words in {what}, got {dtype}: convert them")
    if not shape or min(shape) < 1 or not dtype.itemsize:
        raise DataError(f"expected at least one sample in {what}, got shape {shape}")
    if math.prod(shape[1:]) > MOST_VALUES or dtype.itemsize > 4 * LONGEST_LABEL:
        raise DataError(
            f"expected at most {MOST_VALUES:,} values a sample in {what}, and words of at most "
            f"{LONGEST_LABEL} letters, got shape {shape} of {dtype}"
        )
    # NumPy makes room for what the header claims before it reads a value.
    if size - stream.tell() != math.prod(shape) * dtype.itemsize:
        raise ValueError("it is not as long as its header says")
    return what


def _paired(path: Path, samples: _Stored, labels: _Stored | None) -> Source:
    """Samples, and their labels where there are some."""
    shape = samples.shape
    if len(shape) < 2:
        raise DataError(f"expected samples as rows in {samples}, got shape {shape}: reshape them")
    if labels is not None and (found := labels.shape) != shape[:1]:
        raise DataError(
            f"expected one label for each of {shape[0]:,} samples in {labels}, got shape {found}"
        )

    def batches() -> Iterator[Batch]:
        label_values = labels.dtype.itemsize // 8 if labels else 0
        step = rows_at_a_time(math.prod(shape[1:]) + label_values)
        X, y = samples.array(), labels.array() if labels else None
        for first in range(0, len(X), step):
            part = slice(first, min(first + step, len(X)))
            yield Batch(
                np.array(X[part], order="C"),
                None if y is None else checked_array(np.array(y[part]), str(labels)),
                RowNames(first, part.stop - first),
                part.stop / len(X),
            )

    return Source(path, batches, holds="images" if len(shape) > 2 else "vectors")
