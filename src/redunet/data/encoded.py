"""Samples turned into vectors by an encoder, each once, however often they are read."""

from __future__ import annotations

import tempfile
import weakref
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from redunet.data.source import Batch, Source
from redunet.encoders import Encoder
from redunet.encoders.fitting import fitted_arrays
from redunet.errors import DataError


def encoded(source: Source, encoder: Encoder) -> Source:
    """The vectors of a source's texts or images."""
    if source.holds != encoder.takes:
        raise DataError(
            f"expected {encoder.takes} for the encoder {encoder.id.name}, got {source.holds} in "
            f"{source.path}: name another encoder"
        )
    kept = _Vectors(encoder.n_features)
    shape = encoder.image_shape

    def batches() -> Iterator[Batch]:
        for number, batch in enumerate(source.batches()):
            if number == len(kept):
                # Images of an array are scaled and cropped like files.
                samples: Any = batch.X if shape is None else fitted_arrays(batch.X, shape)
                kept.add(encoder(samples))
            yield replace(batch, X=kept[number])

    return replace(source, batches=batches, holds="vectors", encoder=encoder.id)


class _Vectors:
    """Arrays of vectors, (n, d), in a file without a name: there may be more than fit in memory."""

    def __init__(self, n_features: int) -> None:
        self._n_features = n_features
        self._places: list[tuple[int, int]] = []
        self._file = tempfile.TemporaryFile()  # noqa: SIM115 - it is closed with this object
        weakref.finalize(self, self._file.close)

    def __len__(self) -> int:
        return len(self._places)

    def add(self, vectors: NDArray[np.float32]) -> None:
        start = self._file.seek(0, 2)
        self._file.write(np.ascontiguousarray(vectors).data)
        self._places.append((start, len(vectors)))

    def __getitem__(self, number: int) -> NDArray[np.float32]:
        start, n = self._places[number]
        self._file.seek(start)
        raw = self._file.read(4 * n * self._n_features)
        return np.frombuffer(raw, dtype=np.float32).reshape(n, self._n_features)
