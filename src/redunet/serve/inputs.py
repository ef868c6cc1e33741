"""Samples and labels that clients send, read like files of the command line."""

from __future__ import annotations

import re
import shutil
import tempfile
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from redunet.data import IMAGE_ENDINGS
from redunet.data.labels import checked_text
from redunet.data.matching import label_type, labels_like, open_all, options_for
from redunet.data.source import Batch, ReadOptions, RowNames, Source, texts_array
from redunet.encoders import Encoder
from redunet.errors import DataError, ReduNetError
from redunet.estimators import Estimator
from redunet.estimators.inspection import picture_shape

Found = dict[str, Any]
Label = int | str

ENDINGS = (*IMAGE_ENDINGS, ".npz", ".npy", ".csv", ".tsv", ".jsonl")
"""Of files that may be sent: no Parquet, whose pages may unpack to more than its footer says."""

MOST_FILES = 1000

_MOST_UNPACKED = 2**27
"""Bytes of an array in an .npz file that was sent: twice the longest body."""

_encoding = threading.Lock()  # an encoder sets the number of threads while it works


def input_of(model: Estimator, encoder: Encoder | None) -> Found:
    """A description of a model's samples, for people and the page."""
    shape, guessed = picture_shape(model)
    given = () if model.features is None else tuple(model.features.input_shape)
    if len(given) == 3 and given[2] == 1:
        given = given[:2]
    if shape is None and len(given) > 1:
        shape = given
    kind = "images" if shape is not None else "vectors"
    if model.encoder_ is not None:
        kind = "vectors" if encoder is None else encoder.takes
        shape = None if encoder is None else encoder.image_shape
    names = getattr(model, "feature_names_in_", None)
    return {
        "kind": kind,
        "values": model.n_features_in_,
        "shape": None if shape is None else list(shape),
        "guessed": guessed,
        "resized": model.resize_images_ or (kind == "images" and model.encoder_ is not None),
        "columns": None if names is None else names.tolist(),
        "encoder": None if model.encoder_ is None else model.encoder_.name,
        "labels": label_type(model).__name__,
    }


def rows_of(model: Estimator, samples: Sequence[Sequence[float]]) -> NDArray[np.float64]:
    """Vectors, or the values of images row by row, as an array of shape (n, d)."""
    try:
        X = np.array(samples, dtype=np.float64)
    except ValueError:
        raise DataError("expected samples of equal length") from None
    if X.ndim != 2 or X.shape[1] != model.n_features_in_:
        got = X.shape[1] if X.ndim == 2 else 0
        raise DataError(f"expected {model.n_features_in_} values a sample, got {got}")
    return X


def texts_of(texts: Sequence[str], encoder: Encoder | None) -> NDArray[np.float32]:
    """The vectors of texts."""
    if encoder is None or encoder.takes != "texts":
        raise DataError("expected samples, as the model has no encoder of texts, got texts")
    with _encoding:
        return encoder(texts_array(list(texts)))


def labels_of(model: Estimator, labels: Sequence[Label], n: int) -> NDArray[Any]:
    """Labels as the model has them, one for each of n samples; a single one is for all."""
    if len(labels) == 1 and n > 1:
        labels = [labels[0]] * n
    if len(labels) != n:
        raise DataError(f"expected a label for each of {n} samples, got {len(labels)}")
    whole = all(isinstance(label, int) for label in labels)
    if not whole:
        labels = checked_text(map(str, labels), "the request")
    if any(label == "" for label in labels):
        raise DataError("expected a label, got an empty one")
    try:
        array = np.array(list(labels), dtype=np.int64 if whole else np.str_)
    except OverflowError:
        raise DataError("expected labels of at most 64 bits, or text") from None
    return labels_like(array, label_type(model))


def source_of(model: Estimator, X: NDArray[Any], y: NDArray[Any]) -> Source:
    """Samples and labels of a request as a source of one batch."""
    names = getattr(model, "feature_names_in_", None)
    batch = Batch(X, y, RowNames(0, len(X)), 1.0)
    return Source(Path("the request"), lambda: iter([batch]), columns=names)


@contextmanager
def own_folder() -> Iterator[Path]:
    """A folder for what was sent, until the end; clients are not told where it is."""
    with tempfile.TemporaryDirectory(prefix="redunet-") as folder:
        try:
            yield Path(folder)
        except ReduNetError as error:
            said = str(error).replace(f" in {folder}/images ", " ")
            said = re.sub(re.escape(folder) + r"(/images)?/?", "", said)
            raise type(error)(said) from None


def sources_of(
    model: Estimator,
    folder: Path,
    files: Sequence[tuple[str, BinaryIO]],
    encoder: Encoder | None,
    labels: Sequence[Label] | None = None,
) -> list[Source]:
    """Files that were sent as sources for a model.

    Parameters
    ----------
    model : Estimator
    folder : Path
        Where they are put, under names of ours.
    files : sequence of pairs
        The name that a client gave, of which the ending alone is used, and the content: all
        images, or all tables and arrays.
    encoder : Encoder, or None
    labels : sequence of labels, default=None
        Of images; tables and arrays hold their own. None where the model is only asked.
    """
    changing = labels is not None
    paths = _written(folder, files)
    wanted = replace(
        options_for(model, ReadOptions(encoder=encoder)),
        labels="required" if changing else "ignored",
        most_unpacked=_MOST_UNPACKED,
    )
    images = [path for path in paths if path.suffix in IMAGE_ENDINGS]
    if not images:
        return [_named(one) for one in open_all(paths, wanted, model, changing=changing)]
    if len(images) < len(paths):
        raise DataError("expected images, or tables and arrays, got both in one request")
    if wanted.shape is None and not wanted.resize:
        wanted = replace(wanted, shape=picture_shape(model)[0])
    opened = open_all([images[0].parent], replace(wanted, labels="ignored"), model)[0]
    if labels is None:
        return [_named(opened)]
    if opened.encoder != model.encoder_:
        raise DataError("expected vectors of the model's encoder, which is not at hand, got images")
    return [_named(opened, labels_of(model, labels, len(images)))]


def _written(folder: Path, files: Sequence[tuple[str, BinaryIO]]) -> list[Path]:
    """Files that were sent, under names of ours."""
    if not 0 < len(files) <= MOST_FILES:
        raise DataError(f"expected 1 to {MOST_FILES} files, got {len(files)}")
    paths = []
    for number, (name, content) in enumerate(files):
        ending = Path(name).suffix.lower() if len(name) < 1024 and "\0" not in name else ""
        if ending not in ENDINGS:
            raise DataError(f"expected files that end in {', '.join(ENDINGS)}, got another ending")
        place = folder / "images" if ending in IMAGE_ENDINGS else folder
        place.mkdir(exist_ok=True)
        paths.append(place / f"{number:06}{ending}")
        with open(paths[-1], "xb") as out:
            shutil.copyfileobj(content, out)
    return paths


def _named(source: Source, labels: NDArray[Any] | None = None) -> Source:
    """A source under a name that says nothing of this machine's folders.

    Parameters
    ----------
    source : Source
    labels : array, default=None
        Of images, each at the place that its name tells.
    """

    def batches() -> Iterator[Batch]:
        remaining = source.batches()
        while True:
            with _encoding:
                batch = next(remaining, None)
            if batch is None:
                return
            if labels is not None:
                batch = replace(batch, y=labels[[int(Path(name).stem) for name in batch.names]])
            yield batch

    return replace(source, path=Path(source.path.name), batches=batches)
