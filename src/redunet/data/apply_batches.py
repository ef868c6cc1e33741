"""Learn or withdraw labelled data all at once; an error says which part of it is wrong."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Literal, TypeAlias

from numpy.typing import NDArray

from redunet.data.matching import at, label_type, labels_of_batch, read, samples_for
from redunet.data.source import Batch, ReadOptions, Source
from redunet.errors import FileAccessError, ReduNetError
from redunet.estimators import Estimator, MomentEstimator
from redunet.progress import Progress, silent

How: TypeAlias = Literal["learning", "withdrawing"]

Apply: TypeAlias = Callable[[How, Estimator, Sequence[Source], ReadOptions, Progress], None]
"""Learns or withdraws all samples of sources, here or on other machines; none after an error."""


def apply_batches(
    how: How,
    model: Estimator,
    sources: Sequence[Source],
    options: ReadOptions | None = None,
    progress: Progress = silent,
    *,
    kind: type | None = None,
) -> None:
    """Learn or withdraw all samples of sources in this process, or none after an error.

    Parameters
    ----------
    how : {"learning", "withdrawing"}
    model : Estimator
    sources : sequence of Source
    options : ReadOptions, default=None
        For those who open the sources elsewhere; not used here.
    progress : callable
    kind : type, default=None
        Of the labels, int or str; None takes that of the model, or of the first labels.
    """
    if kind is None and model.__sklearn_is_fitted__():
        kind = label_type(model)
    learn = MomentEstimator.partial_fit_batches
    to_change = learn if how == "learning" else MomentEstimator.unlearn_batches
    try:
        pairs = ((X, y) for _, _, X, y in labelled_batches(model, sources, kind, how, progress))
        to_change(model, pairs, sources[0].columns)
    except FileAccessError:
        raise
    except ReduNetError:
        # Once more, one batch after another, on a copy: to name the batch that is wrong.
        trial = copy.copy(model)
        for source, batch, X, y in labelled_batches(model, sources, kind, how, silent):
            with at(source, batch):
                to_change(trial, [(X, y)], source.columns)
        raise


def labelled_batches(
    model: Estimator,
    sources: Sequence[Source],
    kind: type | None,
    how: str,
    progress: Progress = silent,
) -> Iterator[tuple[Source, Batch, NDArray[Any], NDArray[Any]]]:
    """Give all batches, each with samples and labels as the model takes them."""
    for source, batch in read(sources, how, progress):
        labels = labels_of(source, batch, kind)
        kind = kind or kind_of(labels)
        yield source, batch, samples_for(model, batch), labels


def labels_of(source: Source, batch: Batch, kind: type | None) -> NDArray[Any]:
    """The labels of a batch, of a type where there is one to follow."""
    with at(source, batch):
        return labels_of_batch(batch, kind)


def kind_of(labels: NDArray[Any]) -> type:
    """The type of labels: int or str."""
    return int if labels.dtype.kind in "iuf" else str
