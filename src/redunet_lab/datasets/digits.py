"""Digits: 1,797 images of 8×8 that come with scikit-learn."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from redunet_lab.datasets.dataset import Samples

TITLE = "digits"


def split(labels: NDArray[np.int64]) -> NDArray[np.bool_]:
    """A mask of the test samples: of each class the first third of a fixed permutation."""
    # NumPy has promised that this generator's stream never changes; newer ones carry no promise.
    random = np.random.RandomState(0)
    test = np.zeros(len(labels), dtype=np.bool_)
    for label in np.unique(labels):
        members = random.permutation(np.flatnonzero(labels == label))
        test[members[: round(len(members) / 3)]] = True
    return test


def load(data_dir: Path | None = None) -> Samples:
    """Load digits: images (n, 8, 8) with values 0 to 16, a third of each class for the test.

    The order of scikit-learn is kept within each part; ``data_dir`` makes no difference.
    """
    from sklearn.datasets import load_digits

    bunch = load_digits()
    x, y = bunch.images.astype(np.uint8), bunch.target.astype(np.int64)
    test = split(y)
    return Samples(x[~test], y[~test], x[test], y[test], "digits", "scikit-learn")
