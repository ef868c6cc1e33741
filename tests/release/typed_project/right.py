"""How others use the public names, with types."""

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import redunet
from redunet import ClassMoments, ReduNetClassifier, ReduNetError, from_recipe
from redunet.estimators import Estimator, LinearDiscriminant, load


def learnt(X: NDArray[np.float64], y: list[str]) -> ReduNetClassifier:
    """A model of some samples, with one class forgotten."""
    model: ReduNetClassifier = ReduNetClassifier(n_layers=3).partial_fit(X, y)
    return model.partial_fit(X, y).forget(["magpie"])


def labels(path: Path, X: NDArray[np.float64]) -> list[str]:
    """The labels that a file gives."""
    model: Estimator = load(path, device="cpu")
    found: NDArray[Any] = model.predict(X)
    shares: NDArray[np.float64] = model.predict_proba(X)
    assert shares.shape == (len(X), len(model.classes_))
    return [str(label) for label in found]


def counts(model: ReduNetClassifier) -> dict[int | str, int]:
    """What is remembered."""
    moments: ClassMoments = model.moments_
    return dict(zip(moments.labels, moments.counts, strict=True))


def careful(path: str) -> LinearDiscriminant | None:
    """A model, or None where the file is none."""
    try:
        return LinearDiscriminant.load(path)
    except ReduNetError as error:
        print(redunet.__version__, str(error))
        return None


made: ReduNetClassifier = from_recipe("vectors")
