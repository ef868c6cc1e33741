"""The command that makes one model file of several."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch

from redunet.data.result import Result
from redunet.errors import (
    DataError,
    DataTypeError,
    FileAccessError,
    NumericalError,
    SettingsError,
)
from redunet.estimators import Estimator, load
from redunet.progress import Progress, silent
from redunet.safety.files import refuse_overwriting
from redunet.safety.lock import Tell
from redunet.safety.transaction import transaction
from redunet.safety.untrusted import file_sha256


def merge(paths: Sequence[Path], out: Path, *, tell: Tell, progress: Progress = silent) -> Result:
    """Make one model of several, as if it had seen all that they have.

    Parameters
    ----------
    paths : sequence of Path
    out : Path
        Of the new model file.
    tell, progress : callable
    """
    if len(paths) < 2:
        raise DataError(f"expected at least two models to merge, got {len(paths)}")
    refuse_overwriting(out, paths)

    def first() -> Estimator:
        if out.exists():
            raise FileAccessError(f"{out} exists already: choose another name, or remove it")
        return load(paths[0])

    def merged(whole: Estimator) -> Estimator:
        for index, path in enumerate(paths[1:], 1):
            progress(f"merging {path}", index / len(paths))
            try:
                whole.merge(load(path))
            except (SettingsError, DataTypeError) as error:
                raise type(error)(f"{paths[0]} and {path}: {error}") from error
        check_builds(whole)
        return whole

    change = transaction(out, first, merged, tell=tell)
    notes = [*change.notes, *_counted_twice(paths)]
    return Result.of({"merged": [str(path) for path in paths]}, (), notes, (out, change.after))


def check_builds(model: Estimator) -> None:
    """Raise a ReduNetError unless the model can answer a sample; done by one layer of it.

    The second moments after a layer are L Σ Lᵀ of those before it, so where the first layer can be
    made of moments that samples can have, so can the others.
    """
    first = copy.copy(model)
    if "n_layers" in first.get_params(deep=False):
        first.set_params(n_layers=min(1, first.get_params(deep=False)["n_layers"]))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of columns without names, and of what is not learnt
        try:
            first.predict(np.zeros((1, model.n_features_in_)))
        except (np.linalg.LinAlgError, torch.linalg.LinAlgError) as error:  # type: ignore[attr-defined]
            raise NumericalError(f"expected a model that can be built, but {error}") from error


def _counted_twice(paths: Sequence[Path]) -> list[str]:
    """A line about each model file that is equal to one before it."""
    first: dict[str, Path] = {}
    notes = []
    for path in paths:
        digest = file_sha256(path)
        if digest in first:
            notes.append(
                f"{first[digest]} and {path} are equal, and the samples of both were counted: "
                f"leave one out if they learnt the same data"
            )
        first.setdefault(digest, path)
    return notes
