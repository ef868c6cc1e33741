"""What runs on workers: the moments of one partition, and sums of such. Pure functions only.

A partition is learnt by a copy of the model that has learnt nothing, with the code that learns in
one process. As tasks are pure, a worker that dies loses nothing: its tasks run again elsewhere.
"""

from __future__ import annotations

import itertools
import pickle
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from redunet import _version
from redunet.core.exact_columns import Columns
from redunet.core.grouped_moments import GroupedMoments
from redunet.core.labels import Label, check_labels
from redunet.core.moment import Moment
from redunet.core.moments import ClassMoments
from redunet.core.packing import of_parts, parts_of
from redunet.data import ReadOptions, open_source
from redunet.data.apply_batches import apply_batches
from redunet.data.matching import check_columns
from redunet.data.source import rows_at_a_time
from redunet.errors import DataError, ReduNetError, SettingsError
from redunet.estimators import Estimator

Pair = tuple[Any, Any]


@dataclass(frozen=True)
class Job:
    """The model that learns, as bytes; it travels once to each worker.

    Parameters
    ----------
    version : str
        Of this package, where the job was made.
    model : bytes
        The pickle of an estimator that has learnt nothing: its settings, and its feature map.
    kind : type, or None
        What labels must be, int or str; None takes what comes.
    """

    version: str
    model: bytes
    kind: type | None

    @classmethod
    def of(cls, model: Estimator, kind: type | None) -> Job:
        """The job of a model that has learnt nothing."""
        if not model.in_partitions:
            raise SettingsError(
                f"expected a model of vectors to learn in several processes, got one of "
                f"{model.name()}: learn it in one, or learn several and merge them"
            )
        return cls(_version.__version__, pickle.dumps(model), kind)

    def open(self) -> Estimator:
        """The model, where this worker has the version that made the job."""
        if self.version != _version.__version__:
            raise DataError(
                f"expected redunet {self.version} on every worker, got {_version.__version__}: "
                f"install the same version everywhere"
            )
        model: Estimator = pickle.loads(self.model)  # noqa: S301 - Dask itself sends pickles
        return model


@dataclass(frozen=True, eq=False)
class Partial:
    """The moments of some partitions.

    Pickled, as between workers, each second moment is its packed triangle, or its columns where
    it is held by such; of groups of features, that of each group.

    Parameters
    ----------
    moments : ClassMoments, or None
        None of partitions without samples.
    n_columns : int, default=0
        The number of values of a raw sample.
    left_out, notes : list of str
        As of a Source.
    """

    moments: ClassMoments | None = None
    n_columns: int = 0
    left_out: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def __reduce__(self) -> tuple[Callable[..., Partial], tuple[Any, ...]]:
        facts = (self.n_columns, self.left_out, self.notes)
        if not self.moments:
            return _unpacked, ([], False, *facts)
        grouped = isinstance(self.moments, GroupedMoments)
        return _unpacked, ([*map(_packed, _tables(self.moments))], grouped, *facts)

    def __sizeof__(self) -> int:
        """Bytes in memory, by which Dask decides where to add and what to move to disk."""
        if self.moments is None:
            return object.__sizeof__(self)
        return sum(_bytes(table[label]) for table in _tables(self.moments) for label in table)


def _tables(moments: ClassMoments) -> tuple[ClassMoments, ...]:
    """The tables of all groups, or the only one."""
    return moments.groups if isinstance(moments, GroupedMoments) else (moments,)


def _packed(table: ClassMoments) -> tuple[int, dict[Label, tuple[Any, ...]]]:
    """The features and the classes of a table, as arrays, which Dask sends without a copy."""
    moments = {label: table[label] for label in table}
    return table.n_features, {
        label: (moment.count, *(part.numpy() for part in parts_of(moment)))
        for label, moment in moments.items()
    }


def _bytes(moment: Moment) -> int:
    held = moment.storage
    entries = held.columns if isinstance(held, Columns) else held
    return 8 * (len(moment.sum) + entries.numel())


def _unpacked(
    packed: list[tuple[int, dict[Label, tuple[Any, ...]]]],
    grouped: bool,
    n_columns: int,
    left_out: list[str],
    notes: list[str],
) -> Partial:
    tables = [
        ClassMoments(
            n_features,
            {label: of_parts(n, *map(_tensor, parts)) for label, (n, *parts) in classes.items()},
        )
        for n_features, classes in packed
    ]
    if not tables:
        return Partial(None, n_columns, left_out, notes)
    moments = GroupedMoments.of_groups(tables) if grouped else tables[0]
    return Partial(moments, n_columns, left_out, notes)


def _tensor(array: NDArray[np.int64]) -> torch.Tensor:
    """A tensor of what came over the wire, which may be read-only memory."""
    return torch.from_numpy(np.require(array, requirements="W"))


def shared(job: Job) -> Job:
    """The job, as a task: sent to a worker once, and again should all who have it die."""
    return job


def of_blocks(
    given: Job,
    name: str,
    batches: Callable[..., Iterator[Pair]],
    names: tuple[str, ...] | None,
    *blocks: Any,
) -> Partial:
    """The moments of one partition of a Dask collection.

    Parameters
    ----------
    given : Job
    name : str
        Of the partition, for errors.
    batches : callable
        Gives batches, X and y, of the blocks.
    names : tuple of str, or None
        Of the columns.
    blocks : what Dask computed of the partition
    """
    model = given.open()
    try:
        found = batches(*blocks)
        first = next(found, None)
        if first is None:
            return Partial()
        model.partial_fit_batches(itertools.chain([first], found), names)
        if given.kind is not None:
            check_labels([given.kind(0), *model.moments_.labels])
    except ReduNetError as error:
        raise type(error)(f"{name}: {error}") from error
    return Partial(model.moments_, model.n_features_in_)


def array_batches(X: Any, y: Any) -> Iterator[Pair]:
    """The one batch of blocks of two arrays, or none where they are empty."""
    if len(X) or len(y):
        yield X, y


def frame_batches(frame: Any, columns: tuple[str, ...], label: str) -> Iterator[Pair]:
    """The one batch of a partition of a data frame, or none where it is empty."""
    found = list(frame.columns)
    if set(found) != {*columns, label}:
        lacks = [name for name in (*columns, label) if name not in found]
        also = [name for name in found if name not in (*columns, label)]
        what = f"lacks {lacks[0]!r}" if lacks else f"also has {also[0]!r}"
        raise DataError(
            f"expected the same columns in all partitions, but this one {what}: "
            f"pass the same columns"
        )
    if len(frame):
        yield frame[list(columns)], frame[label].to_numpy()


def bag_batches(items: Iterable[Any]) -> Iterator[Pair]:
    """Batches of a partition of a bag of pairs, sample and label."""
    remaining = iter(items)
    step = 1
    while some := list(itertools.islice(remaining, step)):
        try:
            samples, labels = zip(*some, strict=True)
        except (TypeError, ValueError):
            raise DataError(
                f"expected a bag of pairs, (sample, label), got {str(some[0])[:50]!r}: "
                f"map it to pairs"
            ) from None
        try:
            X = np.stack([np.asarray(sample) for sample in samples])
        except ValueError:
            raise DataError(
                "expected samples of one shape throughout: pass data of one kind"
            ) from None
        yield X, list(labels)
        step = rows_at_a_time(max(1, X[0].size))


def of_file(given: Job, path: Path, wanted: ReadOptions) -> Partial:
    """The moments of a file or folder, or of some pieces of it, which this worker opens."""
    model = given.open()
    source = open_source(path, wanted)
    check_columns(wanted.columns or None, source, changing=True)
    apply_batches("learning", model, [source], kind=given.kind)
    first = wanted.pieces is None or wanted.pieces[0] == 0
    # Of a table, what is noted about its first rows is noted about each piece.
    notes = source.notes if first or source.holds == "images" else []
    return Partial(model.moments_, model.n_features_in_, source.left_out, notes)


def added(one: Partial, other: Partial) -> Partial:
    """The moments of all partitions of two."""
    if one.moments is None or other.moments is None:
        return other if one.moments is None else one
    if one.n_columns != other.n_columns:
        raise DataError(
            f"expected samples of as many values in all partitions, got {one.n_columns} and "
            f"{other.n_columns}: pass the same columns"
        )
    return Partial(one.moments + other.moments, one.n_columns)


def said_of(part: Partial) -> tuple[list[str], list[str]]:
    """What a person may want to know of a partition: samples left out, and notes."""
    return part.left_out, part.notes
