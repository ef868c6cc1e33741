"""Choosing the settings of a model on validation data, without learning anything again.

A network is a function of the class moments, so a candidate costs its layers and a pass of
the validation samples; all read-outs of one network share that pass. Candidates come in a
fixed order, the most promising first: the present settings, settings that suit many data,
then neighbours of the best network so far. A budget cuts that list, and changes nothing else.
"""

from __future__ import annotations

import math
import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from redunet.core.calibration import best_temperature, probabilities
from redunet.core.readouts import ReadoutChoice, read_outs
from redunet.errors import DataError, ReduNetError, SettingsError, is_out_of_memory
from redunet.estimators.candidates import OF_READOUT, Candidates
from redunet.estimators.checks import checked_labels, checked_samples
from redunet.estimators.predictor import Predictor
from redunet.estimators.protocol import copied
from redunet.estimators.settings import Settings
from redunet.progress import Progress, silent

if TYPE_CHECKING:
    from redunet.estimators.classifier import ReduNetClassifier

LEAST_FOR_TEMPERATURE = 100
"""Validation samples from which a temperature is set; of fewer the moments know more."""

LEAD = 1.5
"""Standard errors that a candidate must be ahead by: the best of hundreds is ahead by chance, too.
On held-out digits, with 20 to 100 validation samples, good settings then never gave way to worse
ones (by one standard error in up to half of the draws); with 100, 98 % improved poor ones."""

MANY = 1000
"""Of so many samples a quarter is looked at first, and a network that is hopeless there left: its
accuracy, behind by three standard errors, is then known within 3 %."""

_UNITS = {"s": 1.0, "min": 60.0, "h": 3600.0}

Hits = NDArray[np.bool_]

Outcome = Hits | str | None
"""Which samples a candidate labels correctly; why it failed; None where it was left as hopeless."""


@dataclass(frozen=True)
class Tuning:
    """Candidates that were tried on validation data, and the settings that were chosen.

    Attributes
    ----------
    chosen : dict
        The settings that were changed; empty where the present ones are kept.
    accuracy_before, accuracy : float
        On all validation samples, by the model's own labels.
    standard_error : float
        Of the difference between both.
    calibration_error_before, calibration_error : float
        Of the probabilities on these samples.
    samples : int
    candidates : list of dict
        The settings of each candidate, in the order in which they were tried, and its
        ``accuracy``; None where a network was left after a quarter of the samples, and where a
        candidate failed, which then says in ``failed`` why.
    tried, planned : int
        Candidates that were tried, of how many.
    networks : int
        Different networks among those tried.
    seconds : float
    """

    chosen: dict[str, Any]
    accuracy_before: float
    accuracy: float
    standard_error: float
    calibration_error_before: float
    calibration_error: float
    samples: int
    candidates: list[dict[str, Any]]
    tried: int
    planned: int
    networks: int
    seconds: float

    def to_dict(self) -> dict[str, Any]:
        """Plain values."""
        return asdict(self)


@dataclass(frozen=True)
class Budget:
    """The end of a search: after a time, or after a number of candidates."""

    seconds: float = math.inf
    candidates: float = math.inf

    @classmethod
    def of(cls, value: Any) -> Budget:
        """From a number of candidates, or a time such as "60s", "5min" or "1h".

        Examples
        --------
        >>> Budget.of("1.5min")
        Budget(seconds=90.0, candidates=inf)
        >>> Budget.of(200)
        Budget(seconds=inf, candidates=200)
        """
        found = re.fullmatch(r"\s*(\d{1,9}(?:\.\d+)?)\s*(s|min|h|)\s*", str(value))
        if found is not None and not isinstance(value, bool):
            if found[2] and float(found[1]) > 0:
                return cls(seconds=float(found[1]) * _UNITS[found[2]])
            if not found[2] and found[1].isdecimal() and int(found[1]) > 0:
                return cls(candidates=int(found[1]))
        raise SettingsError(
            f"expected a budget such as '60s', '5min' or a number of candidates, got {value!r}"
        )


def tune(
    model: ReduNetClassifier,
    X: ArrayLike,
    y: ArrayLike,
    *,
    budget: str | int = "60s",
    search: Mapping[str, Sequence[Any]] | None = None,
    progress: Progress = silent,
) -> Tuning:
    """Find better settings of a fitted model; the model is not changed.

    Parameters
    ----------
    model : ReduNetClassifier
    X, y, budget, search, progress
        As for `ReduNetClassifier.tune`.

    Returns
    -------
    Tuning
    """
    begun, limit = time.monotonic(), Budget.of(budget)
    trial = copied(model)  # over one state, whatever another thread makes of the model
    trial._state = model._fitted()
    labels, classes = trial.classes_, _checked_classes(trial, X, y)
    progress("the present settings", 0.0)
    present = trial._settings()
    before = after = trial.predict(X) == labels[classes]
    samples = _Samples.of(trial, X, classes)
    scores = samples.scores(present)
    error_before = samples.calibration_error(scores, trial.temperature_)
    plan = Candidates(present, trial.moments_, samples.predictor.memory, search)
    tried = {present: before[samples.rows]}
    described, done = [_described(present, tried[present])], 0
    seen = {present}
    for group in plan.groups(lambda: _best(tried)):
        share = max(done / limit.candidates, (time.monotonic() - begun) / limit.seconds)
        if done and share >= 1:
            break
        progress(f"candidate {done + 1} of {plan.planned}", min(max(share, done / plan.planned), 1))
        group = group[: int(min(len(group), limit.candidates - done))]
        done += len(group)
        new = [one for one in dict.fromkeys(group) if one not in seen]
        seen.update(new)
        outcomes = samples.outcomes(new, tried[_best(tried)]) if new else []
        for settings, outcome in zip(new, outcomes, strict=True):
            described.append(_described(settings, outcome))
            if isinstance(outcome, np.ndarray):
                tried[settings] = outcome
    progress("the settings chosen", 1.0)
    chosen = _winner(tried, present)
    if chosen != present:
        after = trial.set_params(**chosen.to_dict()).predict(X) == labels[classes]
        if after.sum() <= before.sum():  # estimates of labels had it ahead, labels do not
            chosen, after = present, before
    scores = scores if chosen == present else samples.scores(chosen)
    if len(samples.rows) >= LEAST_FOR_TEMPERATURE:
        T = best_temperature(scores, torch.from_numpy(samples.classes))
        chosen = chosen.changed({"temperature": T})
    elif chosen != present:
        chosen = chosen.changed({"temperature": None})
    trial.set_params(**chosen.to_dict())
    changes = {
        name: value for name, value in chosen.to_dict().items() if value != getattr(present, name)
    }
    return Tuning(
        chosen=changes,
        accuracy_before=float(before.mean()),
        accuracy=float(after.mean()),
        standard_error=standard_error(before, after),
        calibration_error_before=error_before,
        calibration_error=samples.calibration_error(scores, trial.temperature_),
        samples=len(before),
        candidates=described,
        tried=done,
        planned=plan.planned,
        networks=len({replace(one, readout="coding", n_components=1, ridge=1.0) for one in seen}),
        seconds=time.monotonic() - begun,
    )


@dataclass(frozen=True, eq=False)
class _Samples:
    """Validation samples as vectors before whitening and layers.

    Parameters
    ----------
    predictor : Predictor
        Of the model, by its present settings.
    rows : ndarray of shape (n,), int
        Which of the samples they are, in the order in which they are looked at.
    Z : Tensor of shape (n, d)
    classes : ndarray of shape (n,), int
        Indices in the order of the labels.
    """

    predictor: Predictor
    rows: NDArray[np.int64]
    Z: Tensor
    classes: NDArray[np.int64]

    @classmethod
    def of(cls, model: ReduNetClassifier, X: ArrayLike, classes: NDArray[np.int64]) -> _Samples:
        """Samples as the model takes them, as many as fit an eighth of its memory."""
        predictor = model._predictor()
        state = predictor.state
        every = checked_samples(X, state.pipeline.features, model)
        most = max(MANY, predictor.memory // (64 * state.moments.n_features))
        rows = np.random.RandomState(0).permutation(len(every))[:most]
        return cls(predictor, rows, predictor.vectors(every[rows]), classes[rows])

    def outcomes(self, group: Sequence[Settings], best: Hits) -> list[Outcome]:
        """Outcomes of candidates of one network, beside the hits of the best one so far."""
        own = self.predictor.settings
        same = {name: getattr(own, name) for name in OF_READOUT}
        predictor = replace(self.predictor, settings=group[0].changed(same))
        try:
            predictor.built()
        except Exception as error:  # noqa: BLE001 - raised again where it is unforeseen
            return [_reason(error)] * len(group)
        try:
            return self._hits(predictor, group, best)
        except Exception as error:  # noqa: BLE001 - as above
            reason = _reason(error)
        if len(group) == 1:
            return [reason]
        return [one for each in group for one in self.outcomes([each], best)]

    def _hits(self, predictor: Predictor, group: Sequence[Settings], best: Hits) -> list[Outcome]:
        """Which samples each candidate labels correctly; None for each where that is hopeless."""
        d = self.Z.shape[1]
        choices = [ReadoutChoice(one.readout, one.components(d), one.ridge) for one in group]
        readouts = read_outs(predictor.built().network, choices)

        def right(part: slice) -> list[Hits]:
            Z = self._features(predictor, part)
            labels = (one.scores(Z).argmax(dim=1).cpu().numpy() for one in readouts)
            return [one == self.classes[part] for one in labels]

        if len(self.rows) < MANY:
            return [*right(slice(None))]
        first = slice(len(self.rows) // 4)
        found = right(first)
        if all(_hopeless(one, best[first]) for one in found):
            return [None] * len(group)
        others = right(slice(first.stop, None))
        return [np.concatenate(pair) for pair in zip(found, others, strict=True)]

    def scores(self, settings: Settings) -> Tensor:
        """Estimated scores of all samples, (n, k), on the CPU."""
        predictor = replace(self.predictor, settings=settings)
        readout, Z = predictor.readout(), self._features(predictor, slice(None))
        return torch.cat([readout.scores(part).cpu() for part in torch.split(Z, 4096)])

    def calibration_error(self, scores: Tensor, T: float) -> float:
        """The expected calibration error of softmax(scores / T), from scores, (n, k)."""
        right = scores.argmax(dim=1).numpy() == self.classes
        return calibration_error(probabilities(scores, T).numpy(), right)

    def _features(self, predictor: Predictor, part: slice) -> Tensor:
        """Features after the last layer of some of the samples."""
        Z = predictor.whitened(self.Z[part])
        return predictor.cascade().estimate(Z, lambda features: features)


def calibration_error(probabilities: ArrayLike, correct: ArrayLike, n_bins: int = 15) -> float:
    """Expected calibration error of the largest probabilities.

    Samples are sorted into ``n_bins`` bins of equal width by their largest
    probability; the error is the mean, weighted by the samples in a bin, of
    |accuracy − mean largest probability| in it.

    Parameters
    ----------
    probabilities : array-like of shape (n, k)
    correct : array-like of shape (n,), bool
        Whether the class of the largest probability is the true one.
    n_bins : int, default=15

    Examples
    --------
    >>> calibration_error([[0.75, 0.25], [0.25, 0.75]], [True, False])
    0.25
    """
    confidence = np.asarray(probabilities, dtype=np.float64).max(axis=1)
    hit = np.asarray(correct, dtype=np.float64)
    bins = np.minimum((confidence * n_bins).astype(int), n_bins - 1)
    error = 0.0
    for index in range(n_bins):
        inside = bins == index
        if inside.any():
            error += inside.mean() * abs(hit[inside].mean() - confidence[inside].mean())
    return float(error)


def standard_error(one: Hits, other: Hits) -> float:
    """The standard error of the difference between two accuracies on the same samples."""
    return float(np.std(one.astype(float) - other.astype(float)) / math.sqrt(len(one)))


def _reason(error: Exception) -> str:
    """Why a candidate failed, in one line; an error that is nobody's mistake is raised again."""
    if is_out_of_memory(error):
        return "out of memory"
    if isinstance(error, ReduNetError):
        return str(error)
    raise error


def _hopeless(hits: Hits, best: Hits) -> bool:
    """Whether accuracy is behind the best by more than three standard errors."""
    return float(best.mean() - hits.mean()) > 3 * standard_error(hits, best)


def _best(tried: Mapping[Settings, Hits]) -> Settings:
    """The settings that label most samples correctly; the first of equals."""
    return max(tried, key=lambda settings: int(tried[settings].sum()))


def _winner(tried: Mapping[Settings, Hits], present: Settings) -> Settings:
    """The best settings if they are ahead of the present ones by `LEAD`, or those."""
    best = _best(tried)
    ahead = float(tried[best].mean() - tried[present].mean())
    return best if ahead > LEAD * standard_error(tried[present], tried[best]) else present


def _checked_classes(model: ReduNetClassifier, X: ArrayLike, y: ArrayLike) -> NDArray[np.int64]:
    """The classes of validation samples, (n,), as indices in the order of the labels."""
    state = model._fitted()
    places = {label: place for place, label in enumerate(state.moments.labels)}
    if len(places) < 2:
        raise DataError("expected a model of at least two classes to tune, got one")
    rows = checked_samples(X, state.pipeline.features, model)
    labels = checked_labels(y, len(rows))
    for label in labels:
        if label not in places:
            raise DataError(
                f"expected validation samples of classes that the model has learnt, got "
                f"{label!r}: leave these samples out, or learn the class first"
            )
    return np.array([places[label] for label in labels])


def _described(settings: Settings, outcome: Outcome) -> dict[str, Any]:
    """A candidate for a table: the settings that matter, and its accuracy or why it failed."""
    shown: dict[str, Any] = {"n_layers": settings.n_layers}
    if settings.n_layers:
        for name in ("eps", "step", "step_kind", "sharpness", "sharpness_kind"):
            shown[name] = getattr(settings, name)
    shown |= {"whitening": settings.whitening, "readout": settings.readout}
    if settings.readout == "subspace":
        shown["n_components"] = settings.n_components
    elif settings.readout != "coding":
        shown["ridge"] = settings.ridge
    if isinstance(outcome, str):
        return {**shown, "accuracy": None, "failed": outcome}
    return {**shown, "accuracy": None if outcome is None else float(outcome.mean())}
