"""The command that chooses the settings of a model file on validation data."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from redunet.errors import DataError, SettingsError
from redunet.estimators import Estimator, ReduNetClassifier, load
from redunet.lock import Tell
from redunet.progress import Progress, silent
from redunet.user_data.for_model import at, label_type, labels_like, open_all, read, samples_for
from redunet.user_data.model_changes import changing
from redunet.user_data.source import Source, Wanted

Found = dict[str, Any]


def tune(
    path: Path,
    data: Sequence[Path],
    wanted: Wanted,
    *,
    budget: str = "60s",
    search: Mapping[str, Sequence[Any]] | None = None,
    write: bool = False,
    device: str = "auto",
    memory: str = "2GB",
    tell: Tell,
    progress: Progress = silent,
) -> Found:
    """Choose settings of a model file; see `ReduNetClassifier.tune`.

    Parameters
    ----------
    path : Path
        Of the model.
    data : sequence of Path
        Held in memory.
    wanted : Wanted
    budget, search
        As for `ReduNetClassifier.tune`.
    write : bool, default=False
        Whether to change the file. It is then held alone until the end.
    device, memory : str
    tell, progress : callable

    Returns
    -------
    dict
        What `Tuning` has, the settings before, and whether the file was changed.
    """
    with changing(path, tell) if write else nullcontext(list[str]()) as notes:
        model = load(path, device, memory)
        if not isinstance(model, ReduNetClassifier):
            raise SettingsError(
                f"expected a model of redunet to tune, got one of {model.name()}: choose its "
                f"settings with redunet tune --data FILE --method, and learn it with them"
            )
        before = model.own_settings()
        sources = open_all(data, wanted, model)
        X, y = _everything(model, sources, progress)
        with warnings.catch_warnings():
            # scikit-learn: arrays have no column names; those of the data are checked already.
            warnings.filterwarnings("ignore", message="X does not have valid feature names")
            found = model.tune(X, y, budget=budget, search=search, progress=progress).tuning_
        written = write and bool(found.chosen)
        if written:
            model.save(path)
    return {
        "model": str(path),
        "data": [str(one) for one in data],
        "budget": budget,
        "settings": before,
        **found.to_dict(),
        "written": written,
        "left_out": [name for source in sources for name in source.left_out],
        "notes": notes + [said for source in sources for said in source.notes],
    }


def _everything(
    model: Estimator, sources: Sequence[Source], progress: Progress
) -> tuple[NDArray[Any], NDArray[Any]]:
    """All samples, (n, values), and their labels."""
    kind, state = label_type(model), model._fitted()
    rows, labels = [], []
    for source, batch in read(sources, "reading", lambda what, share: progress(what, 0.0)):
        with at(source, batch):
            if batch.y is None:
                raise DataError("expected labels, got none: name them with --label")
            rows.append(model._rows_to_predict(state, samples_for(model, batch)))
            labels.append(labels_like(batch.y, kind))
    if not rows:
        raise DataError("expected validation samples, got none")
    return np.concatenate(rows), np.concatenate(labels)
