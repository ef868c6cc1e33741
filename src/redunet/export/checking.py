"""Check that a program gives the labels of its model, and how close its scores are."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from redunet.core.cascade import FACTOR
from redunet.core.class_samples import class_samples
from redunet.core.moments import Label
from redunet.core.second_moments import SecondMoments
from redunet.estimators import Estimator
from redunet.estimators.inputs import constant
from redunet.export.program import input_shape

DRAWN = 1024
"""Samples that are made where none are given."""

BATCH, BATCH_VALUES = 64, 2**22
"""Samples in a batch, and numbers that all classes' projections of them may have."""

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Answers:
    """A model's labels and scores, (n, k), of samples; of two classes, 0 and the difference."""

    X: NDArray[Any]
    labels: list[Label]
    scores: Floats

    @classmethod
    def of(cls, model: Estimator, X: NDArray[Any]) -> Answers:
        """A model's answers for samples as it takes them."""
        with warnings.catch_warnings():
            # scikit-learn: arrays have no column names; those of the samples are checked before.
            warnings.filterwarnings("ignore", message="X does not have valid feature names")
            scores = model.decision_function(X)
        if scores.ndim == 1:
            scores = np.stack([np.zeros_like(scores), scores], axis=1)
        known = model.moments_.labels
        return cls(X, [known[place] for place in scores.argmax(axis=1)], scores)


@dataclass(frozen=True)
class Comparison:
    """A program's answers beside its model's."""

    samples: int
    differ: int  # labels that are not the same
    unsafe: int  # labels that would not be, were the program's errors FACTOR times as large
    largest: float  # difference of a score


def compare(
    answers: Answers,
    run: Callable[[Floats], tuple[list[Label], Floats]],
    shape: tuple[int, ...],
) -> Comparison:
    """Run a program on the samples of a model's answers."""
    labels, scores = [], []
    for part in _batches(answers, shape):
        found = run(part)
        labels += found[0]
        scores.append(found[1])
    theirs = np.concatenate(scores)
    if theirs.shape[1] == 2:
        theirs = theirs - theirs[:, :1]
    error = theirs - answers.scores
    rows = np.arange(len(error))
    top = answers.scores.argmax(axis=1)
    margins = answers.scores[rows, top][:, None] - answers.scores
    apart = np.abs(error[rows, top][:, None] - error)
    others = np.arange(error.shape[1]) != top[:, None]
    unsafe = ((margins <= FACTOR * apart) & (apart > 0) & others).any(axis=1)
    differ = sum(one != other for one, other in zip(labels, answers.labels, strict=True))
    return Comparison(len(labels), differ, int(unsafe.sum()), float(np.abs(error).max(initial=0)))


def _batches(answers: Answers, shape: tuple[int, ...]) -> Iterator[Floats]:
    rows = max(1, min(BATCH, BATCH_VALUES // (int(np.prod(shape)) * answers.scores.shape[1])))
    for start in range(0, len(answers.X), rows):
        part = answers.X[start : start + rows]
        yield np.ascontiguousarray(part.reshape(len(part), *shape), dtype=np.float64)


def drawn_vectors(model: Estimator) -> Floats:
    """Samples for a model without a feature map, drawn from its classes' second moments: (n, d)."""
    moments = model.moments_
    tables = getattr(moments, "groups", (moments,))
    parts = []
    for one in tables:
        first = SecondMoments.of(one, torch.float64, "cpu")
        parts.append(class_samples(first, first.inside(one.means()), one.counts, DRAWN)[0])
    Z = torch.cat(parts, dim=1).numpy()
    if model.input_range is not None:
        low, high = model.input_range
        Z = np.clip(Z * max(abs(low), abs(high)), low, high)
    if model.normalize == "constant":  # the sample that becomes this vector, or its opposite
        last = Z[:, -1:]
        Z = Z[:, :-1] * constant(Z.shape[1] - 1) / np.where(last == 0, 1.0, last)
    return Z


def random_samples(model: Estimator) -> Floats:
    """Random raw samples for a model with a feature map: pixels from 0 to 255, or vectors."""
    random, shape = np.random.RandomState(0), input_shape(model)
    if len(shape) > 1:
        return random.randint(0, 256, (DRAWN, *shape)).astype(np.float64)
    return random.standard_normal((DRAWN, *shape))
