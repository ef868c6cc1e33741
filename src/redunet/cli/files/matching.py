"""Data as a model wants it: its columns, its type of labels, and errors that say where."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from redunet.errors import DataError, ReduNetError
from redunet.estimators import Estimator
from redunet.estimators.base import LearntFeaturesWarning
from redunet.progress import Progress
from redunet.user_data import Batch, Source, Wanted, open_source


def open_all(data: Sequence[Path], wanted: Wanted, model: Estimator | None) -> list[Source]:
    """Sources of what a model can take; None is a model that is still to be made."""
    if model is not None:
        shape = None if model.features is None else model.features.input_shape
        if shape is not None and len(shape) == 3 and shape[2] == 1:
            shape = shape[:2]
        wanted = replace(
            wanted,
            label_type=label_type(model),
            columns=tuple(getattr(model, "feature_names_in_", ())),
            shape=shape if shape is not None and len(shape) > 1 else None,
        )
    sources = [open_source(path, wanted) for path in data]
    for source in sources:
        check_columns(
            sources[0].columns if model is None else wanted.columns or None,
            source,
        )
    return sources


def read(
    sources: Sequence[Source], what: str, progress: Progress
) -> Iterator[tuple[Source, Batch]]:
    """The batches of all sources, one after another."""
    for index, source in enumerate(sources):
        for batch in source.batches():
            yield source, batch
            progress(f"{what} {source.path}", (index + batch.share) / len(sources))


def samples_for(model: Estimator, batch: Batch) -> NDArray[Any]:
    """Samples as the model takes them: in rows, unless its feature map knows their shape."""
    return batch.X.reshape(len(batch.X), -1) if model.features is None else batch.X


def label_type(model: Estimator) -> type:
    """What the model's labels are: int or str."""
    return type(model.moments_.labels[0])


def labels_like(labels: NDArray[Any], kind: type | None) -> NDArray[Any]:
    """Labels as whole numbers or as words, whichever the model has.

    Examples
    --------
    >>> labels_like(np.array(["7", "12"]), int).tolist()
    [7, 12]
    >>> labels_like(np.array([7, 12]), str).tolist()
    ['7', '12']
    """
    if kind is int and labels.dtype.kind in "UO":
        for label in labels.tolist():
            if not re.fullmatch(r"-?\d{1,18}", str(label), re.ASCII):
                raise DataError(
                    f"expected whole numbers as labels, as the model has them, got {label!r}"
                )
        return labels.astype(np.int64)
    if kind is str and labels.dtype.kind in "iu":
        return labels.astype(str)
    if kind is str and labels.dtype.kind == "f" and (labels == np.round(labels)).all():
        return labels.astype(np.int64).astype(str)
    return labels


def check_columns(known: Sequence[str] | None, source: Source) -> None:
    """Complain of columns that are not those that the model knows, in their order."""
    found = source.columns
    if known is None or found is None or list(known) == list(found):
        return
    if len(known) != len(found):
        lacks, also = sorted(set(known) - set(found)), sorted(set(found) - set(known))
        what = f"lacks {lacks[0]!r}" if lacks else f"also has {also[0]!r}"
        raise DataError(
            f"expected {len(known)} columns of numbers, got {len(found)}: {source.path} {what}; "
            f"pass the same columns"
        )
    first = next(pair for pair in zip(known, found, strict=True) if pair[0] != pair[1])
    same = sorted(known) == sorted(found)
    raise DataError(
        f"expected column {first[0]!r} where {source.path} has {first[1]!r}: "
        + ("put the columns in the model's order" if same else "pass the same columns")
    )


@contextmanager
def at(source: Source, batch: Batch) -> Iterator[None]:
    """Let an error say which data it is about."""
    try:
        with warnings.catch_warnings():
            # scikit-learn: arrays have no column names; here these are checked already.
            warnings.filterwarnings("ignore", message="X does not have valid feature names")
            yield
    except ReduNetError as error:
        raise type(error)(f"{_place(source, batch)}: {error}") from error


def _place(source: Source, batch: Batch) -> str:
    if not batch.names[0].isdecimal():
        return str(source.path)
    X = batch.X.reshape(len(batch.X), -1)
    if X.dtype.kind == "f" and not np.isfinite(X).all():
        return f"{source.path}, row {batch.names[int((~np.isfinite(X)).any(axis=1).argmax())]}"
    return f"{source.path}, rows {batch.names[0]} to {batch.names[-1]}"


@contextmanager
def noting(notes: list[str]) -> Iterator[None]:
    """Collect what a model warns of, each once."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("ignore")
        warnings.simplefilter("always", LearntFeaturesWarning)
        yield
    notes.extend(dict.fromkeys(str(one.message) for one in caught))
