"""Commands on model files that take samples without labels: learn --unlabelled, calibrate."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from redunet.data import ReadOptions, Source
from redunet.data.learning import changing, counted, holdings
from redunet.data.matching import at, check_finite, open_all, read, samples_for
from redunet.errors import DataError, SettingsError
from redunet.estimators import Estimator, ReduNetClassifier, load
from redunet.progress import Progress, silent
from redunet.safety.lock import Tell

Found = dict[str, Any]


def learn_unlabelled(
    path: Path,
    data: Sequence[Path],
    wanted: ReadOptions,
    *,
    device: str = "auto",
    tell: Tell,
    progress: Progress = silent,
) -> Found:
    """Let a model label samples that it is certain of, and learn them, apart from labelled ones.

    Parameters
    ----------
    path : Path
        Of the model.
    data : sequence of Path
        Samples whose labels, if they have any, are ignored. All are held in memory.
    wanted : ReadOptions
    device : str, default="auto"
    tell : callable
    progress : callable

    Returns
    -------
    dict
        How many samples got which label, and what the model holds now.
    """
    with changing(path, tell) as notes:
        if not path.exists():
            raise DataError(
                f"expected a model that has learnt labelled samples, but there is no {path}: learn "
                f"some first, without --unlabelled"
            )
        model = network(load(path, device))
        sources = open_all(data, wanted, model, changing=True)
        X = _together(model, sources, "reading", progress)
        before = _counts(model)
        model.learn_unlabelled(X, sources[0].columns)
        model.save(path)
    gained = {label: n - before.get(label, 0) for label, n in _counts(model).items()}
    return {
        "given": len(X),
        "labelled": counted({label: n for label, n in gained.items() if n}),
        "left_out": [file for source in sources for file in source.left_out],
        "notes": notes + [note for source in sources for note in source.notes],
        **holdings(path, model),
    }


def forget_unlabelled(path: Path, *, tell: Tell) -> Found:
    """Withdraw all samples that a model labelled itself."""
    with changing(path, tell) as notes:
        model = network(load(path))
        gone = sum(_counts(model).values())
        model.forget_unlabelled()
        model.save(path)
    return {"withdrawn": gone, "notes": notes, **holdings(path, model)}


def calibrate(
    path: Path,
    data: Sequence[Path],
    wanted: ReadOptions,
    *,
    device: str = "auto",
    memory: str = "2GB",
    tell: Tell,
    progress: Progress = silent,
) -> Found:
    """Let validation samples say how novel samples of known classes are, and save that."""
    with changing(path, tell) as notes:
        model = network(load(path, device, memory))
        sources = open_all(data, wanted, model)
        X = _together(model, sources, "reading", progress)
        expected = {share: model.rejection_threshold(share) for share in (0.01, 0.05, 0.1)}
        with at(sources[0], next(sources[0].batches())):
            model.calibrate_rejection(X)
        model.save(path)
    return {
        "validation_samples": len(X),
        "thresholds": [
            {"reject": share, "novelty": model.rejection_threshold(share), "before": before}
            for share, before in expected.items()
        ],
        "left_out": [file for source in sources for file in source.left_out],
        "notes": notes + [note for source in sources for note in source.notes],
        **holdings(path, model),
    }


def network(model: Estimator) -> ReduNetClassifier:
    """The model, if it is one that can do what is asked."""
    if not isinstance(model, ReduNetClassifier):
        raise SettingsError(
            f"expected a model of the estimator redunet, got one of {model.name()}: only networks "
            f"say how novel samples are"
        )
    return model


def _counts(model: ReduNetClassifier) -> dict[Any, int]:
    own = model.self_labelled_
    return {} if own is None else dict(zip(own, own.counts, strict=True))


def _together(
    model: Estimator, sources: Sequence[Source], what: str, progress: Progress
) -> NDArray[Any]:
    """All samples, checked part by part, so that an error says where it is."""
    parts = []
    for source, batch in read(sources, what, progress):
        with at(source, batch):
            rows = samples_for(model, batch)
            check_finite(rows)
            parts.append(rows)
    return np.concatenate(parts)
