"""NumPy's files: .npy, and .npz with samples and labels."""

from __future__ import annotations

import math
import os
import tokenize
import warnings
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

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

_KIND = "an array of numbers or words that NumPy saved"

_DAMAGE = (
    KeyError,
    OverflowError,
    RuntimeError,
    SyntaxError,
    TypeError,
    tokenize.TokenError,
    zipfile.LargeZipFile,
)
"""Errors of zipfile and of NumPy's parser of headers, whose bytes make no sense."""


def open_npy(path: Path, options: ReadOptions) -> Source:
    """Open an array of samples, mapped into memory, with labels in a file of their own."""
    labels = None
    if options.label is not None and options.labels != "ignored":
        labels = _mapped(Path(options.label))
    elif options.labels == "required":
        raise DataError(f"expected labels for {path}: name the .npy file of them with --label")
    return _paired(path, _mapped(path), labels, str(options.label))


def open_npz(path: Path, options: ReadOptions) -> Source:
    """Open an archive with labels, and samples in the only other array of as many rows."""
    arrays = _members(path, options.most_unpacked)
    label = label_name(path, list(arrays), options)
    labels = None if label is None else arrays.pop(label)
    n = None if labels is None else len(labels)
    samples = [one for one in arrays.values() if one.ndim > 1 and n in (None, len(one))]
    if len(samples) != 1:
        rows = f"of {n:,} samples" if n is not None else "of samples"
        found = [f"{name} {array.shape}" for name, array in arrays.items()]
        raise DataError(
            f"expected one array {rows} in {path} beside the labels, got {listed(found)}: "
            f"save samples as X and labels as y"
        )
    labels = None if options.labels == "ignored" else labels
    return _paired(path, samples[0], labels, f"{label} in {path}")


def _mapped(path: Path) -> NDArray[Any]:
    with reading(path, _KIND, *_DAMAGE):
        open_regular(path).close()
        return _checked(lambda: npy.open_memmap(path, mode="r"), str(path))


def _members(path: Path, most_unpacked: int) -> dict[str, NDArray[Any]]:
    """The arrays of an archive, read whole after their sizes were checked."""
    arrays: dict[str, NDArray[Any]] = {}
    with (
        reading(path, _KIND, *_DAMAGE),
        open_regular(path) as file,
        zipfile.ZipFile(file) as archive,
    ):
        size, unpacked = os.fstat(file.fileno()).st_size, 0
        for info in archive.infolist():
            if not info.filename.endswith(".npy"):
                continue
            name = info.filename.removesuffix(".npy")
            # Other ways of packing unpack whole blocks, however few bytes are asked for.
            if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
                raise DataError(f"expected {name} in {path} to be packed as NumPy does it")
            check_weight(path, info.file_size, min(info.compress_size, size))
            unpacked += info.file_size  # beyond which zipfile reads nothing
            if unpacked > most_unpacked:
                raise DataError(
                    f"expected at most {most_unpacked / 1e6:,.0f} MB unpacked, as arrays in .npz "
                    f"files are read whole, got more in {path}: save it as .npy, which need not "
                    f"fit into memory"
                )
            with archive.open(info) as stream:
                arrays[name] = _checked(
                    lambda stream=stream: npy.read_array(stream, allow_pickle=False),  # type: ignore[misc]
                    f"{name} in {path}",
                )
    return arrays


def _checked(read: Callable[[], NDArray[Any]], what: str) -> NDArray[Any]:
    """An array that can hold samples or labels."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of headers that Python 2 wrote
            array = read()
    except MemoryError:
        raise ValueError("it does not fit into memory, or its header is wrong") from None
    if array.dtype.kind not in "biufU":
        raise DataError(f"expected numbers or words in {what}, got {array.dtype}: convert them")
    if not array.ndim or not array.size or not array.dtype.itemsize:
        raise DataError(f"expected at least one sample in {what}, got shape {array.shape}")
    if math.prod(array.shape[1:]) > MOST_VALUES or (
        array.dtype.kind == "U" and array.dtype.itemsize > 4 * LONGEST_LABEL
    ):
        raise DataError(
            f"expected at most {MOST_VALUES:,} values a sample in {what}, and words of at most "
            f"{LONGEST_LABEL} letters, got shape {array.shape} of {array.dtype}"
        )
    return array


def _paired(path: Path, X: NDArray[Any], y: NDArray[Any] | None, place: str) -> Source:
    """Samples, and their labels, from a place, where there are some."""
    if X.ndim < 2:
        raise DataError(f"expected samples as rows in {path}, got shape {X.shape}: reshape them")
    if y is not None and y.shape != X.shape[:1]:
        raise DataError(
            f"expected one label for each of {len(X):,} samples in {place}, got shape {y.shape}"
        )

    def batches() -> Iterator[Batch]:
        label_values = 0 if y is None else y.dtype.itemsize // 8
        step = rows_at_a_time(math.prod(X.shape[1:]) + label_values)
        for first in range(0, len(X), step):
            part = slice(first, min(first + step, len(X)))
            yield Batch(
                np.array(X[part], order="C"),
                None if y is None else checked_array(np.array(y[part]), place),
                RowNames(first, part.stop - first),
                part.stop / len(X),
            )

    return Source(path, batches, holds="images" if X.ndim > 2 else "vectors")
