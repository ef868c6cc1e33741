"""Commands on model files that take samples without labels: learn --unlabelled, calibrate."""

from __future__ import annotations

from pathlib import Path

from redunet.data.matching import all_samples, without_name_warnings
from redunet.data.model_file import ModelFile
from redunet.data.result import Result, counted
from redunet.data.source import ReadOptions
from redunet.errors import DataError, SettingsError
from redunet.estimators import Estimator, ReduNetClassifier
from redunet.safety.lock import Tell

SHARES = (0.01, 0.05, 0.1)
"""Of known samples to reject, whose thresholds are shown: those that people choose."""


def learn_unlabelled(file: ModelFile) -> Result:
    """Let a model label samples that it is certain of, and learn them, apart from labelled ones.

    Labels of the data, if it has any, are ignored. All samples are held in memory.
    """
    given: list[int] = []

    def learnt(model: ReduNetClassifier) -> ReduNetClassifier:
        sources = file.open(model, changing=True)
        X, _ = all_samples(model, sources, file.progress, labels=False)
        given.append(len(X))
        return model.learn_unlabelled(X, sources[0].columns)

    def existing() -> ReduNetClassifier:
        if not file.path.exists():
            raise DataError(
                f"expected a model that has learnt labelled samples, but there is no {file.path}: "
                f"learn some first, without --unlabelled"
            )
        return network(file.load())

    change = file.change(learnt, read=existing)
    before, now = change.before.self_labelled_counts_, change.after.self_labelled_counts_
    gained = {label: n - before.get(label, 0) for label, n in now.items()}
    labelled = counted({label: n for label, n in gained.items() if n})
    return file.result({"given": given[0], "labelled": labelled}, change)


def forget_unlabelled(path: Path, *, tell: Tell) -> Result:
    """Withdraw all samples that a model labelled itself."""
    file = ModelFile(path, (), ReadOptions(), tell=tell)
    change = file.change(ReduNetClassifier.forget_unlabelled, read=lambda: network(file.load()))
    gone = sum(change.before.self_labelled_counts_.values())
    return file.result({"withdrawn": gone}, change)


def calibrate(file: ModelFile) -> Result:
    """Let validation samples say how novel samples of known classes are, and save that.

    The data holds samples of known classes, all of which are held in memory.
    """
    given: list[int] = []

    def calibrated(model: ReduNetClassifier) -> ReduNetClassifier:
        X, _ = all_samples(model, file.open(model), file.progress, labels=False)
        given.append(len(X))
        with without_name_warnings():
            return model.calibrate_rejection(X)

    change = file.change(calibrated, read=lambda: network(file.load()))
    thresholds = [
        {
            "reject": share,
            "novelty": change.after.rejection_threshold(share),
            "before": change.before.rejection_threshold(share),
        }
        for share in SHARES
    ]
    return file.result({"validation_samples": given[0], "thresholds": thresholds}, change)


def network(model: Estimator) -> ReduNetClassifier:
    """The model, if it is one that can do what is asked."""
    if not isinstance(model, ReduNetClassifier):
        raise SettingsError(
            f"expected a model of the estimator redunet, got one of {model.name()}: only networks "
            f"say how novel samples are"
        )
    return model
