"""Data as a model wants it: its columns, its type of labels, and errors that say where."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from redunet.data import IMAGE_ENDINGS, open_source
from redunet.data.labels import whole_numbers
from redunet.data.source import Batch, ReadOptions, Source
from redunet.encoders import Encoder, EncoderId, encoder_of
from redunet.errors import DataError, GroupError, ReduNetError
from redunet.estimators import Estimator
from redunet.estimators.checks import checked_labels
from redunet.estimators.settings import resolve_device
from redunet.estimators.state import shown
from redunet.progress import Progress


def open_all(
    data: Sequence[Path],
    options: ReadOptions,
    model: Estimator | None,
    *,
    changing: bool = False,
) -> list[Source]:
    """Sources of what a model can take.

    Parameters
    ----------
    data : sequence of Path
    options : ReadOptions
    model : Estimator, or None
        None is a model that is still to be made.
    changing : bool, default=False
        Whether the data is to be learnt or withdrawn. It must then have the column
        names of the model, or none where the model has none.
    """
    if model is not None:
        options = options_for(model, options)
    known = None if model is None else model.encoder_
    sources: list[Source] = []
    for path in data:
        source = open_source(path, options)
        if model is None and not sources:  # the others are to be like the first
            options = replace(options, columns=source.columns or ())
            known = source.encoder
        check_encoder(known, source, changing)
        check_columns(options.columns or None, source, changing)
        sources.append(source)
    return sources


def options_for(model: Estimator, options: ReadOptions) -> ReadOptions:
    """Options for data that a model can take, beside those of a caller."""
    return replace(
        options,
        label_type=label_type(model),
        columns=tuple(getattr(model, "feature_names_in_", ())),
        shape=_image_shape(model),
        resize=model.resize_images_,
        encoder=_encoder_for(model, options.encoder),
    )


def _encoder_for(model: Estimator, given: Encoder | None) -> Encoder | None:
    """The encoder of texts and images for a model; None where it has none, or none is at hand."""
    known = model.encoder_
    if given is None:
        return None if known is None else encoder_of(known, resolve_device(model.device))
    if known is None:
        raise DataError(
            f"expected vectors, as the model was not made with an encoder, got "
            f"--encoder {given.id.name}: leave it out, or make a new model"
        )
    if given.id != known:
        raise DataError(f"expected the encoder {known} of the model, got {given.id}")
    return given


def check_encoder(known: EncoderId | None, source: Source, changing: bool = False) -> None:
    """Raise a DataError unless samples are vectors of the encoder that the model knows.

    Vectors that do not say whose they are cannot be learnt or withdrawn where the
    model knows its encoder, nor the other way round.
    """
    found = source.encoder
    if found == known:
        return
    asked = "vectors that name no encoder" if known is None else f"vectors of the encoder {known}"
    if known is not None and source.holds != "vectors":
        raise DataError(
            f"expected {asked}, got {source.holds} in {source.path}: name the encoder's folder "
            f"with --encoder"
        )
    if changing or None not in (found, known):
        got = "some that name none" if found is None else f"those of {found}"
        raise DataError(
            f"expected {asked}, got {got} in {source.path}: pass what `redunet encode` writes, "
            f"name the same encoder with --encoder, or learn it in a model of its own"
        )


def to_resize(data: Sequence[Path], size: tuple[int, int], options: ReadOptions) -> ReadOptions:
    """Options for a new model that takes images of a size, (height, width)."""
    from redunet.data.images import shape_to_resize_to

    for path in data:
        if not path.is_dir() and path.suffix.lower() not in IMAGE_ENDINGS:
            raise DataError(f"expected folders of images to resize, got {path}: leave out --resize")
    return replace(options, shape=shape_to_resize_to(data, size), resize=True)


def _image_shape(model: Estimator) -> tuple[int, ...] | None:
    """The shape of images that a model takes; None where it knows of none."""
    shape: tuple[int, ...] = () if model.features is None else model.features.input_shape
    if len(shape) == 3 and shape[2] == 1:
        shape = shape[:2]
    return shape if len(shape) > 1 else None


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


def all_samples(
    model: Estimator, sources: Sequence[Source], progress: Progress, labels: bool = True
) -> tuple[NDArray[Any], NDArray[Any]]:
    """All samples, (n, values), checked part by part, and their labels, (n,) or none."""
    X, y = [], [np.empty(0, dtype=np.int64)][labels:]
    for source, batch in read(sources, "reading", lambda what, share: progress(what, 0.0)):
        with at(source, batch):
            X.append(model._rows_to_predict(model._fitted(), samples_for(model, batch)))
            if labels:
                y.append(labels_of_batch(batch, label_type(model)))
    if not X:
        raise DataError("expected samples, got none")
    return np.concatenate(X), np.concatenate(y)


def labels_of_batch(batch: Batch, kind: type | None) -> NDArray[Any]:
    """The labels of a batch, of a type where there is one to follow."""
    if batch.y is None:
        raise DataError("expected labels, got none: name them with --label")
    return labels_like(batch.y, kind)


def label_type(model: Estimator) -> type:
    """The type of the model's labels: int or str."""
    return type(model.classes_.tolist()[0])


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
        values, codes = np.unique(labels, return_inverse=True)
        return whole_numbers(values.tolist(), "the data")[codes]
    if kind is str and labels.dtype.kind in "iuf":
        return np.array([str(label) for label in checked_labels(labels, len(labels))])
    return labels


def check_columns(known: Sequence[str] | None, source: Source, changing: bool = False) -> None:
    """Raise a DataError unless columns are those that the model knows.

    Names on one side only are an error where the model is to be changed.
    """
    found = source.columns
    if changing and known is None and found is not None:
        raise DataError(
            f"expected data without column names, like that learnt before, got {source.path} with "
            f"the columns {shown(found)}: save it as .npz, or learn it in a model of its own"
        )
    if changing and known is not None and found is None:
        raise DataError(
            f"expected the columns {shown(known)}, got {source.path} without column names: "
            f"save it as .csv or .parquet, or learn it in a model of its own"
        )
    if known is None or found is None or list(known) == list(found):
        return
    lacks = [name for name in known if name not in set(found)]
    also = [name for name in found if name not in set(known)]
    what = f"lacks {lacks[0]!r}" if lacks else f"also has {also[0]!r}"
    raise DataError(
        f"expected the {len(known)} columns of numbers that were learnt, but {source.path} {what}: "
        f"pass the same columns"
    )


@contextmanager
def at(source: Source, batch: Batch) -> Iterator[None]:
    """Let an error say which data it is about."""
    try:
        with without_name_warnings():
            yield
    except GroupError:  # about no data
        raise
    except ReduNetError as error:
        raise type(error)(f"{_place(source, batch)}: {error}") from error


@contextmanager
def without_name_warnings() -> Iterator[None]:
    """Keep scikit-learn from warning that arrays have no column names: they are checked here."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="X does not have valid feature names")
        yield


def check_finite(X: NDArray[Any]) -> None:
    """Raise a DataError where numbers are missing or infinite."""
    if X.dtype.kind == "f" and not np.isfinite(X).all():
        raise DataError(
            "expected finite numbers, got NaN or infinity: remove or impute these values first"
        )


def _place(source: Source, batch: Batch) -> str:
    if not batch.names[0].isdecimal():
        return str(source.path)
    X = batch.X.reshape(len(batch.X), -1)
    if X.dtype.kind == "f" and not np.isfinite(X).all():
        row, column = divmod(int((~np.isfinite(X)).argmax()), X.shape[1])
        names = source.columns or ()
        named = f", column {names[column]!r}" if len(names) == X.shape[1] else ""
        return f"{source.path}, row {batch.names[row]}{named}"
    return f"{source.path}, rows {batch.names[0]} to {batch.names[-1]}"
