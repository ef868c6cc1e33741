"""Labelled data, learnt or withdrawn all at once; an error says which part of it is wrong."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Literal, TypeAlias

from numpy.typing import NDArray

from redunet.data.matching import at, label_type, labels_like, read, samples_for
from redunet.data.source import Batch, ReadOptions, Source
from redunet.errors import DataError, FileAccessError, ReduNetError
from redunet.estimators import Estimator, MomentEstimator
from redunet.progress import Progress, silent

How: TypeAlias = Literal["learning", "withdrawing"]

Change: TypeAlias = Callable[[How, Estimator, Sequence[Source], ReadOptions, Progress], None]
"""What learns or withdraws all samples of sources, or none after an error."""


def change_here(
    how: How,
    model: Estimator,
    sources: Sequence[Source],
    wanted: ReadOptions,
    progress: Progress = silent,
) -> None:
    """Learn or withdraw all samples of sources in this process, or none after an error.

    Parameters
    ----------
    how : {"learning", "withdrawing"}
    model : Estimator
    sources : sequence of Source
    wanted : ReadOptions
        What was asked of the sources when they were opened.
    progress : callable
    """
    kind = label_type(model) if hasattr(model, "moments_") else None
    change(how, model, sources, kind, progress)


def change(
    how: How,
    model: Estimator,
    sources: Sequence[Source],
    kind: type | None,
    progress: Progress = silent,
) -> None:
    """The same with labels of a type, int or str; None takes that of the first."""
    learn = MomentEstimator.partial_fit_batches
    to_change = learn if how == "learning" else MomentEstimator.unlearn_batches
    try:
        pairs = ((X, y) for _, _, X, y in labelled_batches(model, sources, kind, how, progress))
        to_change(model, pairs, sources[0].columns)
    except FileAccessError:
        raise
    except ReduNetError:
        trial = copy.copy(model)
        for source, batch, X, y in labelled_batches(model, sources, kind, how, silent):
            with at(source, batch):
                to_change(trial, [(X, y)], source.columns)
        raise


def labelled_batches(
    model: Estimator, sources: Sequence[Source], kind: type | None, how: str, progress: Progress
) -> Iterator[tuple[Source, Batch, NDArray[Any], NDArray[Any]]]:
    """All batches, each with samples and labels as the model takes them."""
    for source, batch in read(sources, how, progress):
        labels = labels_of(source, batch, kind)
        kind = kind or kind_of(labels)
        yield source, batch, samples_for(model, batch), labels


def labels_of(source: Source, batch: Batch, kind: type | None) -> NDArray[Any]:
    """The labels of a batch, of a type where there is one to follow."""
    with at(source, batch):
        if batch.y is None:
            raise DataError("expected labels, got none: name them with --label")
        return labels_like(batch.y, kind)


def kind_of(labels: NDArray[Any]) -> type:
    """What labels are: int or str."""
    return int if labels.dtype.kind in "iuf" else str
