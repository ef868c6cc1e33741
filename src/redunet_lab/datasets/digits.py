"""Digits: 1,797 images of 8×8 that come with scikit-learn."""

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from redunet_lab.datasets.dataset import Dataset

SEED = 0


def split(labels: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Choose a third of each class for the test set.

    Parameters
    ----------
    labels : ndarray of int64, shape (n,)
        Labels.

    Returns
    -------
    ndarray of bool, shape (n,)
        True for the samples of the test set: of each class, in the order of
        the labels, the first third (rounded) of a permutation by one
        ``RandomState(0)``, whose stream NumPy has promised never to change.
    """
    # The newer generators carry no such promise.
    random = np.random.RandomState(SEED)
    test = np.zeros(len(labels), dtype=np.bool_)
    for label in np.unique(labels):
        members = random.permutation(np.flatnonzero(labels == label))
        test[members[: round(len(members) / 3)]] = True
    return test


def load(data_dir: Path | None = None) -> Dataset:
    """Load digits: images (n, 8, 8) with values 0 to 16, a third of each class for the test.

    The order of scikit-learn is kept within each part. The data is bundled, so
    `data_dir` makes no difference.
    """
    from sklearn.datasets import load_digits

    bunch = load_digits()
    images, labels = bunch.images.astype(np.uint8), bunch.target.astype(np.int64)
    test = split(labels)
    return Dataset(
        "digits", images[~test], labels[~test], images[test], labels[test], "scikit-learn"
    )
