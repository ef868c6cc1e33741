"""Data that can be read in batches, and the errors that reading it can end in."""

from __future__ import annotations

import struct
import zipfile
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from redunet.encoders import Encoder, EncoderId
from redunet.errors import DataError, FileAccessError, ReduNetError

BATCH_BYTES = 2**24
"""About how much of the data is in memory at a time, as float64: little, and long to read."""

LARGEST_BATCH_BYTES = 2**27
"""Most of it, where a batch is as large as the second moment: for 4,000 features and more."""

TEXTS_AT_A_TIME = 256
"""Texts of a batch: an encoder takes a second or so for them."""

MOST_VALUES = 2**24
"""Most values of one sample, more than any photograph has pixels that a model could learn."""

MOST_UNPACKED = 2**32
"""Bytes of an array in an .npz file, which is read whole: half of what a laptop of today has."""

_MOST_SWELLING = 200  # times; data of real files unpacks to less than 50 times their size
_HARMLESS = 2**27  # bytes; any machine has as many

_DAMAGE: tuple[type[Exception], ...] = (
    EOFError,
    ValueError,
    struct.error,
    zipfile.BadZipFile,
    zlib.error,
)
"""Errors of readers whose bytes make no sense; any other error is a mistake of ours."""


@dataclass(frozen=True)
class ReadOptions:
    """Options of reading data.

    Parameters
    ----------
    labels : {"required", "optional", "ignored"}, default="required"
        Whether each sample must have a label; optional ones are read where there are some.
    label : str, default=None
        The name of the column or array of labels, or the file of a .npy's; None finds it.
    label_type : type, default=None
        int or str, where the model has labels already; None takes them as they are.
    columns : tuple of str, default=()
        The columns that the model knows, none of which holds labels.
    shape : tuple of int, default=None
        Of an image, (height, width) or (height, width, 3); None takes the first one's.
    resize : bool, default=False
        Whether images are turned, scaled, cropped and converted to that shape.
    most_bad : float, default=0.0
        The largest share of images that may be left out because they cannot be used.
    encoder : Encoder, default=None
        Turns texts or images into vectors; None takes samples as they are.
    text : str, default=None
        The name of the column of texts; None finds it.
    pieces : (int, int), default=None
        The first piece to read and the first not to: of a Parquet file its row groups, of a
        folder its images. None reads all.
    most_unpacked : int, default=MOST_UNPACKED
        Bytes that an array in an .npz file may take.
    """

    labels: Literal["required", "optional", "ignored"] = "required"
    label: str | None = None
    label_type: type | None = None
    columns: tuple[str, ...] = ()
    shape: tuple[int, ...] | None = None
    resize: bool = False
    most_bad: float = 0.0
    encoder: Encoder | None = None
    text: str | None = None
    pieces: tuple[int, int] | None = None
    most_unpacked: int = MOST_UNPACKED

    @property
    def texts(self) -> bool:
        """Whether the samples are texts."""
        return self.encoder is not None and self.encoder.takes == "texts"


@dataclass(frozen=True, eq=False)
class Batch:
    """Some samples.

    Parameters
    ----------
    X : ndarray of shape (n, ...)
    y : ndarray of shape (n,), or None
    names : sequence of n str
        Which samples they are: file names, or row numbers from 1.
    share : float
        How much of the source is read with this batch.
    """

    X: NDArray[Any]
    y: NDArray[Any] | None
    names: Sequence[str]
    share: float


@dataclass(frozen=True, eq=False)
class Source:
    """Data that can be read in batches, any number of times.

    Parameters
    ----------
    path : Path
    batches : callable
        Reads the batches from the first on.
    columns : tuple of str, or None
        What the values of a sample are called, in order.
    left_out : list of str
        Samples that could not be used in the last reading, with the reason.
    notes : list of str
        Lines that a person should see, complete after a reading.
    holds : {"vectors", "texts", "images"}, default="vectors"
        What the samples are, for an encoder.
    encoder : EncoderId, default=None
        Whose vectors the samples are; None where that is not known.
    n_pieces : int, default=1
        Of how many pieces some can be read without the others.
    """

    path: Path
    batches: Callable[[], Iterator[Batch]]
    columns: tuple[str, ...] | None = None
    left_out: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    holds: Literal["vectors", "texts", "images"] = "vectors"
    encoder: EncoderId | None = None
    n_pieces: int = 1


class RowNames(Sequence[str]):
    """The numbers of some rows, from 1, as words made when they are asked for."""

    def __init__(self, first: int, count: int) -> None:
        self._rows = range(first + 1, first + 1 + count)

    def __len__(self) -> int:
        return len(self._rows)

    def __getitem__(self, index: Any) -> Any:
        rows = self._rows[index]
        return str(rows) if isinstance(rows, int) else [str(row) for row in rows]


@contextmanager
def reading(path: Path, kind: str, *damage: type[Exception]) -> Iterator[None]:
    """Turn whatever libraries say of a file into one line that names it.

    Parameters
    ----------
    path : Path
    kind : str
        What the file claims to be, with its article.
    damage : exceptions that mean that it is not.
    """
    try:
        yield
    except (MemoryError, ReduNetError):
        raise
    except (*_DAMAGE, *damage) as error:
        why = " ".join(str(error).split())[:200] or type(error).__name__
        raise DataError(f"{path} is not {kind}, or is damaged: {why}") from error
    except OSError as error:
        why = error.strerror or " ".join(str(error).split())[:200]
        raise FileAccessError(f"cannot read {path}: {why}") from error


def read_once(source: Source, most_bytes: int) -> Source:
    """A source whose batches stay in memory after they are read, unless they take more than that.

    Parameters
    ----------
    source : Source
        Read by one reader at a time.
    most_bytes : int
    """
    kept: list[Batch] = []
    opened: list[Iterator[Batch]] = []  # at the batch after those that are kept

    def batches() -> Iterator[Batch]:
        if not opened and not kept:
            opened.append(source.batches())
        yield from kept
        while opened:
            batch = next(opened[0], None)
            if batch is None:
                opened.clear()
                return
            kept.append(batch)
            yield batch
            if sum(one.X.nbytes for one in kept) > most_bytes:
                rest = opened.pop()
                kept.clear()
                yield from rest

    return Source(**{**vars(source), "batches": batches})


def texts_array(texts: Sequence[str]) -> NDArray[Any]:
    """Texts as an array of objects, (n,)."""
    array = np.empty(len(texts), dtype=object)
    array[:] = texts
    return array


def check_weight(path: Path, unpacked: int, packed: int) -> None:
    """Raise a DataError where data unpacks to far more than it weighs, and than is harmless."""
    if unpacked > _HARMLESS and unpacked > _MOST_SWELLING * packed:
        raise DataError(
            f"{path} unpacks to {unpacked / 1e6:,.0f} MB from {packed / 1e6:,.1f} MB, which data "
            f"hardly ever does: save it without compression if it is your own"
        )


def rows_at_a_time(row_values: int) -> int:
    """The number of samples of so many values that make a batch.

    As many samples as values take no more room than their second moment does,
    and each batch costs at least one pass over that.
    """
    rows = max(BATCH_BYTES // (8 * row_values), row_values)
    return max(1, min(rows, LARGEST_BATCH_BYTES // (8 * row_values)))


def listed(names: Sequence[str]) -> str:
    """The first of many names, and how many there are."""
    shown = ", ".join(names[:10])
    return f"{shown}, … ({len(names)} in all)" if len(names) > 10 else shown or "none"
