"""Commands on model files that take samples without labels: learn --unlabelled, calibrate."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from redunet.data.matching import all_samples, open_all, without_name_warnings
from redunet.data.result import Result, counted
from redunet.data.source import ReadOptions, Source
from redunet.errors import DataError, SettingsError
from redunet.estimators import Estimator, ReduNetClassifier, load
from redunet.progress import Progress, silent
from redunet.safety.lock import Tell
from redunet.safety.transaction import transaction

SHARES = (0.01, 0.05, 0.1)
"""Of known samples to reject, whose thresholds are shown: those that people choose."""


def learn_unlabelled(
    path: Path,
    data: Sequence[Path],
    options: ReadOptions,
    *,
    device: str = "auto",
    tell: Tell,
    progress: Progress = silent,
) -> Result:
    """Let a model label samples that it is certain of, and learn them, apart from labelled ones.

    Parameters
    ----------
    path : Path
        Of the model.
    data : sequence of Path
        Samples whose labels, if they have any, are ignored. All are held in memory.
    options : ReadOptions
    device : str, default="auto"
    tell, progress : callable

    Returns
    -------
    Result
        How many samples got which label, and what the model holds now.
    """
    sources: list[Source] = []
    given: list[int] = []

    def learnt(model: ReduNetClassifier) -> ReduNetClassifier:
        sources.extend(open_all(data, options, model, changing=True))
        X = all_samples(model, sources, progress, labels=False)[0]
        given.append(len(X))
        return model.learn_unlabelled(X, sources[0].columns)

    def existing() -> ReduNetClassifier:
        if not path.exists():
            raise DataError(
                f"expected a model that has learnt labelled samples, but there is no {path}: learn "
                f"some first, without --unlabelled"
            )
        return network(load(path, device))

    change = transaction(path, existing, learnt, tell=tell)
    before, now = change.before.self_labelled_counts_, change.after.self_labelled_counts_
    gained = {label: n - before.get(label, 0) for label, n in now.items()}
    return Result.of(
        {"given": given[0], "labelled": counted({label: n for label, n in gained.items() if n})},
        sources,
        change.notes,
        (path, change.after),
    )


def forget_unlabelled(path: Path, *, tell: Tell) -> Result:
    """Withdraw all samples that a model labelled itself."""
    change = transaction(
        path, lambda: network(load(path)), ReduNetClassifier.forget_unlabelled, tell=tell
    )
    gone = sum(change.before.self_labelled_counts_.values())
    return Result.of({"withdrawn": gone}, (), change.notes, (path, change.after))


def calibrate(
    path: Path,
    data: Sequence[Path],
    options: ReadOptions,
    *,
    device: str = "auto",
    memory: str = "2GB",
    tell: Tell,
    progress: Progress = silent,
) -> Result:
    """Let validation samples say how novel samples of known classes are, and save that.

    Parameters
    ----------
    path : Path
        Of the model.
    data : sequence of Path
        Samples of known classes, all of which are held in memory.
    options : ReadOptions
    device, memory : str
    tell, progress : callable
    """
    sources: list[Source] = []
    given: list[int] = []

    def calibrated(model: ReduNetClassifier) -> ReduNetClassifier:
        sources.extend(open_all(data, options, model))
        X = all_samples(model, sources, progress, labels=False)[0]
        given.append(len(X))
        with without_name_warnings():
            return model.calibrate_rejection(X)

    change = transaction(path, lambda: network(load(path, device, memory)), calibrated, tell=tell)
    thresholds = [
        {
            "reject": share,
            "novelty": change.after.rejection_threshold(share),
            "before": change.before.rejection_threshold(share),
        }
        for share in SHARES
    ]
    return Result.of(
        {"validation_samples": given[0], "thresholds": thresholds},
        sources,
        change.notes,
        (path, change.after),
    )


def network(model: Estimator) -> ReduNetClassifier:
    """The model, if it is one that can do what is asked."""
    if not isinstance(model, ReduNetClassifier):
        raise SettingsError(
            f"expected a model of the estimator redunet, got one of {model.name()}: only networks "
            f"say how novel samples are"
        )
    return model
