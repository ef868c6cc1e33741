"""A person's own files as a data set with samples for training and for test."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from redunet.data import ReadOptions, open_source
from redunet.errors import DataError
from redunet_lab.datasets.dataset import Samples
from redunet_lab.streams import drawn

TEST_SHARE, SPLIT_SEED = 0.25, 0


def is_file(name: str) -> bool:
    """Whether a name is that of a file or folder rather than of a data set."""
    return bool(Path(name).suffix) or "/" in name or Path(name).exists()


def load(path: Path, label: str | None = None, test: Path | None = None) -> Samples:
    """Read a file or a folder of images; without test data, split off a part of each class.

    Parameters
    ----------
    path : Path
        .npz, .npy, .csv, .parquet, or a folder of images with a folder for each class.
    label : str, default=None
        The column or array of labels; None finds it.
    test : Path, default=None
        Test data of the same kind. Without it a quarter of the samples of each
        class, chosen with a fixed seed, becomes test data.
    """
    x, y, columns = _read(path, ReadOptions(label=label))
    if test is None:
        held_out = _held_out(path, y)
        split = f"{TEST_SHARE:.0%} of the samples of each class, chosen with seed {SPLIT_SEED}"
        parts = x[~held_out], y[~held_out], x[held_out], y[held_out]
        return Samples(*parts, path.name, split=split)
    shape = None if x.ndim == 2 else x.shape[1:]
    kind = int if y.dtype.kind in "iu" else str
    wanted = ReadOptions(label=label, label_type=kind, columns=columns or (), shape=shape)
    x_test, y_test, of_test = _read(test, wanted)
    if of_test != columns or x_test.shape[1:] != x.shape[1:]:
        raise DataError(
            f"expected test data of the same kind as {path}, with samples of shape "
            f"{x.shape[1:]}, got {x_test.shape[1:]} in {test}"
        )
    unknown = np.setdiff1d(y_test, y)
    if len(unknown):
        raise DataError(
            f"expected test data of the classes of {path}, got class {unknown[0]!r} in {test}"
        )
    return Samples(x, y, x_test, y_test, path.name, split=f"the samples of {test.name}")


def _read(path: Path, wanted: ReadOptions) -> tuple[NDArray[Any], NDArray[Any], Any]:
    source = open_source(path, wanted)
    batches = list(source.batches())
    labels = [batch.y for batch in batches if batch.y is not None]
    x = np.concatenate([batch.X for batch in batches])
    return x, np.concatenate(labels), source.columns


def _held_out(path: Path, y: NDArray[Any]) -> NDArray[np.bool_]:
    labels, counts = np.unique(y, return_counts=True)
    if counts.min() < 2:
        raise DataError(
            f"expected at least two samples of each class in {path}, got one of "
            f"{labels[counts.argmin()]!r}: add samples, or name test data with --test"
        )
    return drawn(y, SPLIT_SEED, lambda n: max(1, round(TEST_SHARE * n)))
