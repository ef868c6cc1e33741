"""Data in partitions, each of which becomes a task: Dask collections, files and folders."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from redunet.data import ReadOptions, Source
from redunet.data.apply_batches import kind_of, labels_of
from redunet.data.columns import label_name
from redunet.data.matching import label_type, options_for
from redunet.distributed.cluster import dask_packages
from redunet.distributed.partial import (
    array_batches,
    bag_batches,
    frame_batches,
    of_blocks,
    of_file,
)
from redunet.errors import DataError, DataTypeError
from redunet.estimators import Estimator

PARTS_PER_WORKER = 4
"""Into how many parts, for each worker, files are split that can be: the last are then short."""


@dataclass(frozen=True)
class Partitions:
    """Data that is to be learnt in parts.

    Parameters
    ----------
    columns : tuple of str, or None
        Names of the columns.
    kind : type, or None
        What labels must be, int or str; None where the model has not learnt any.
    tasks : callable
        From the job, as a task, and the number of workers to a name and a task for each part.
    """

    columns: tuple[str, ...] | None
    kind: type | None
    tasks: Callable[[Any, int], list[tuple[str, Any]]]


def of_collection(model: Estimator, data: Any, label: str | None) -> Partitions:
    """Partitions of a Dask data frame, a bag of pairs, or a pair of Dask arrays."""
    dask_packages()
    import dask.array as da
    import dask.bag as db
    import dask.dataframe as dd

    kind = label_type(model) if hasattr(model, "moments_") else None
    if isinstance(data, dd.DataFrame):
        label, columns = _frame_columns(model, list(data.columns), label)
        batches = partial(frame_batches, columns=columns, label=label)
        return _blocks(batches, columns, kind, data.to_delayed())
    if isinstance(data, db.Bag):
        return _blocks(bag_batches, None, kind, data.to_delayed())
    if isinstance(data, tuple) and len(data) == 2:
        X, y = data
        if isinstance(X, da.Array) and isinstance(y, da.Array):
            X, y = _aligned(X, y)
            return _blocks(array_batches, None, kind, X.to_delayed().ravel(), y.to_delayed())
    found = type(data).__name__
    if isinstance(data, tuple):
        found = f"({', '.join(type(one).__name__ for one in data)})"
    raise DataTypeError(
        f"expected two Dask arrays (X, y), a Dask data frame, a Dask bag of pairs, or paths of "
        f"files, got {found}: use partial_fit for data in memory"
    )


def _blocks(
    batches: Callable[..., Any],
    columns: tuple[str, ...] | None,
    kind: type | None,
    *blocks: Sequence[Any],
) -> Partitions:
    def tasks(job: Any, n_workers: int) -> list[tuple[str, Any]]:
        import dask

        learnt = dask.delayed(of_blocks, pure=False)
        names = [
            f"partition {number} of {len(blocks[0])}" for number in range(1, len(blocks[0]) + 1)
        ]
        return [
            (name, learnt(job, name, batches, columns, *some))
            for name, *some in zip(names, *blocks, strict=True)
        ]

    return Partitions(columns, kind, tasks)


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
    wanted = ReadOptions(label=label, columns=known)
    of_labels = label_name(Path("the data frame"), names, wanted) or ""  # there is one, or an error
    columns = tuple(name for name in names if name != of_labels)
    return of_labels, known if set(columns) == set(known) else columns


def of_sources(model: Estimator, sources: Sequence[Source], wanted: ReadOptions) -> Partitions:
    """Files and folders, in pieces where they have such; workers open them again.

    Parameters
    ----------
    model : Estimator
    sources : sequence of Source
        Opened here, to know that they go together.
    wanted : ReadOptions
        What was asked of them.
    """
    if hasattr(model, "moments_"):
        kind = label_type(model)
        wanted = options_for(model, wanted)
    else:
        first = next(iter(sources[0].batches()))
        kind = kind_of(labels_of(sources[0], first, None))
        if sources[0].holds == "images" and wanted.shape is None:
            wanted = replace(wanted, shape=first.X.shape[1:])
    columns = sources[0].columns
    if wanted.encoder is not None:
        wanted = replace(wanted, encoder=replace(wanted.encoder))  # without its network
    wanted = replace(wanted, columns=columns or ())

    def tasks(job: Any, n_workers: int) -> list[tuple[str, Any]]:
        import dask

        learnt = dask.delayed(of_file, pure=False)
        most = math.ceil(PARTS_PER_WORKER * n_workers / len(sources))
        return [
            (str(source.path), learnt(job, source.path.absolute(), one))
            for source in sources
            for one in _pieces(source, wanted, most)
        ]

    return Partitions(columns, kind, tasks)


def _pieces(source: Source, wanted: ReadOptions, most: int) -> list[ReadOptions]:
    """What is asked of each of at most so many parts of a source."""
    if wanted.most_bad:  # a share of all images
        return [wanted]
    n, parts = source.n_pieces, min(most, source.n_pieces)
    if parts == 1:
        return [wanted]
    bounds = [n * part // parts for part in range(parts + 1)]
    return [replace(wanted, pieces=(start, stop)) for start, stop in itertools.pairwise(bounds)]
