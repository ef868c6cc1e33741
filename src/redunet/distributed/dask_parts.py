"""Data in parts for a Dask cluster: blocks of Dask collections, files, and pieces of files."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from redunet.data import ReadOptions, Source, open_source
from redunet.data.apply_batches import apply_batches, kind_of, labels_of
from redunet.data.columns import label_name
from redunet.data.matching import check_columns, label_type, options_for
from redunet.distributed.dask_cluster import dask_packages
from redunet.distributed.task import Part, Task
from redunet.errors import DataError, DataTypeError
from redunet.estimators import Estimator

PARTS_PER_WORKER = 4
"""Parts into which files are split for each worker where they can be: the last are then short."""


@dataclass(frozen=True)
class Work:
    """A part of the data, and the function that learns it on a worker.

    Parameters
    ----------
    name : str
    learn : callable
        From a `Task` and the blocks to a `Part`, or None where there are no samples.
    blocks : sequence
        Delayed blocks of a collection, or plain values.
    """

    name: str
    learn: Callable[..., Part | None]
    blocks: Sequence[Any]


def of_collection(model: Estimator, data: Any, label: str | None) -> list[Work]:
    """The partitions of a Dask data frame, or of a pair of Dask arrays."""
    dask_packages()
    import dask.array as da
    import dask.dataframe as dd

    if isinstance(data, dd.DataFrame):
        of_labels, columns = _frame_columns(model, list(data.columns), label)
        batches = partial(frame_batches, columns=columns, label=of_labels)
        blocks = [[one] for one in data.to_delayed()]
        return _partitions(partial(of_blocks, batches=batches, names=columns), blocks)
    if isinstance(data, tuple) and len(data) == 2:
        X, y = data
        if isinstance(X, da.Array) and isinstance(y, da.Array):
            X, y = _aligned(X, y)
            pairs = list(zip(X.to_delayed().ravel(), y.to_delayed(), strict=True))
            return _partitions(partial(of_blocks, batches=array_batches, names=None), pairs)
    found = type(data).__name__
    if isinstance(data, tuple):
        found = f"({', '.join(type(one).__name__ for one in data)})"
    raise DataTypeError(
        f"expected two Dask arrays (X, y), a Dask data frame, or paths of files, got {found}: use "
        f"partial_fit for data in memory"
    )


def _partitions(learn: Callable[..., Part | None], blocks: Sequence[Sequence[Any]]) -> list[Work]:
    names = (f"partition {number} of {len(blocks)}" for number in range(1, len(blocks) + 1))
    return [
        Work(name, partial(learn, name=name), some)
        for name, some in zip(names, blocks, strict=True)
    ]


def _aligned(X: Any, y: Any) -> tuple[Any, Any]:
    """Arrays in the same blocks of whole samples."""
    if y.ndim != 1:
        raise DataError(f"expected labels of shape (n,), got {y.shape}: pass y.ravel()")
    if X.ndim < 2:
        raise DataError(f"expected samples of shape (n, d), got {X.shape}: reshape them")
    X = X.rechunk(dict.fromkeys(range(1, X.ndim), -1))
    known = not any(map(math.isnan, (X.shape[0], y.shape[0])))
    if known and len(X) != len(y):
        raise DataError(f"expected one label for each of {len(X):,} samples, got {len(y):,}")
    if known:
        return X, y.rechunk((X.chunks[0],))
    if X.numblocks[0] != y.numblocks[0]:
        raise DataError(
            f"expected samples and labels in the same blocks, got {X.numblocks[0]} and "
            f"{y.numblocks[0]} of unknown lengths: call compute_chunk_sizes() on both"
        )
    return X, y


def _frame_columns(
    model: Estimator, names: list[Any], label: str | None
) -> tuple[str, tuple[str, ...]]:
    """The column of labels, and the others in the model's order, or in their own."""
    if not all(isinstance(name, str) for name in names):
        raise DataTypeError(f"expected columns that have names, str, got {names[:5]}: rename them")
    known = tuple(getattr(model, "feature_names_in_", ()))
    options = ReadOptions(label=label, columns=known)
    of_labels = label_name(Path("the data frame"), names, options) or ""
    columns = tuple(name for name in names if name != of_labels)
    return of_labels, known if set(columns) == set(known) else columns


def of_sources(
    model: Estimator, sources: Sequence[Source], options: ReadOptions, n_workers: int
) -> tuple[list[Work], str]:
    """Files and folders, in pieces where they have such, and the type of their labels.

    They are open here, to know that they go together; workers open them again.
    """
    if hasattr(model, "moments_"):
        kind = label_type(model)
        options = options_for(model, options)
    else:
        first = next(iter(sources[0].batches()))
        kind = kind_of(labels_of(sources[0], first, None))
        if sources[0].holds == "images" and options.shape is None:
            options = replace(options, shape=first.X.shape[1:])
    if options.encoder is not None:
        options = replace(options, encoder=replace(options.encoder))  # without its network
    options = replace(options, columns=sources[0].columns or ())
    most = math.ceil(PARTS_PER_WORKER * n_workers / len(sources))
    work = [
        Work(str(source.path), of_file, (source.path.absolute(), one))
        for source in sources
        for one in _pieces(source, options, most)
    ]
    return work, kind.__name__


def _pieces(source: Source, options: ReadOptions, most: int) -> list[ReadOptions]:
    """The options for each of at most so many parts of a source."""
    n, parts = source.n_pieces, min(most, source.n_pieces)
    if parts == 1 or options.most_bad:  # which is a share of all images
        return [options]
    bounds = [n * part // parts for part in range(parts + 1)]
    return [replace(options, pieces=(start, stop)) for start, stop in itertools.pairwise(bounds)]


# What follows runs on workers.


def of_blocks(
    task: Task,
    *blocks: Any,
    name: str,
    batches: Callable[..., Iterator[Any]],
    names: tuple[str, ...] | None,
) -> Part | None:
    """Learn one partition of a collection."""
    return task.learn(name, batches(*blocks), names)


def array_batches(X: Any, y: Any) -> Iterator[Any]:
    """The one batch of blocks of two arrays, or none where they are empty."""
    if len(X) or len(y):
        yield X, y


def frame_batches(frame: Any, columns: tuple[str, ...], label: str) -> Iterator[Any]:
    """The one batch of a partition of a data frame, or none where it is empty."""
    if differ := {*frame.columns} ^ {*columns, label}:
        raise DataError(
            f"expected the same columns in all partitions, but this one lacks or adds "
            f"{min(differ)!r}: pass the same columns"
        )
    if len(frame):
        yield frame[list(columns)], frame[label].to_numpy()


def of_file(task: Task, path: Path, options: ReadOptions) -> Part:
    """Learn a file or folder, or some pieces of it, which this worker opens."""
    model = task.open()
    source = open_source(path, options)
    check_columns(options.columns or None, source, changing=True)
    apply_batches("learning", model, [source], kind=task.label_type)
    part = task.part(model)
    # Of a table, what is noted about its first rows is noted about each piece.
    first = options.pieces is None or options.pieces[0] == 0
    notes = source.notes if first or source.holds == "images" else []
    return replace(part, left_out=source.left_out, notes=notes)
