"""Commands that ask a model: predict and evaluate."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from redunet.data.matching import at, label_type, labels_of_batch, open_all, read, samples_for
from redunet.data.prediction_file import Write
from redunet.data.result import Result
from redunet.data.source import ReadOptions, listed
from redunet.estimators import Estimator
from redunet.estimators.inspection import diagnostics
from redunet.progress import Progress, silent

Pairs = Counter[tuple[Any, Any]]
"""Counts of each pair of a true and a predicted label."""


def predict(
    model: Estimator,
    data: Sequence[Path],
    options: ReadOptions,
    table: AbstractContextManager[Write],
    progress: Progress = silent,
    threshold: float | None = None,
) -> Result:
    """Score samples, and write them into a table.

    Parameters
    ----------
    model : estimator
    data : sequence of Path
    options : ReadOptions
    table : context manager
        Opened once the data are known to be usable; see `redunet.data.prediction_file`.
    progress : callable
    threshold : float, default=None
        The novelty above which a sample is rejected; None rejects nothing.
    """
    sources = open_all(data, options, model)
    n, rejected = 0, 0
    with table as write:
        for source, batch in read(sources, "labelling", progress):
            with at(source, batch):
                samples = samples_for(model, batch)
                scores = model.predict_proba(samples)
                novelty = None
                if threshold is not None:
                    novelty = model.novelty(samples)
                    rejected += int((novelty > threshold).sum())
            write(batch.names, scores, novelty)
            n += len(scores)
    if threshold is None:
        return Result.of({"samples": n}, sources)
    estimated = (
        "what is rejected was estimated from the model alone: with validation data, "
        "`redunet calibrate` makes the share what was asked for"
    )
    return Result.of(
        {"samples": n, "rejected": rejected, "threshold": threshold},
        sources,
        [] if model.rejection_calibrated_ else [estimated],
    )


def evaluate(
    model: Estimator,
    data: Sequence[Path],
    options: ReadOptions,
    progress: Progress = silent,
) -> Result:
    """Accuracy, a row for each class, and the confusion matrix.

    Parameters
    ----------
    model : estimator
    data : sequence of Path
    options : ReadOptions
    progress : callable

    Returns
    -------
    Result
        ``confusion`` has a row for each true class and a column for each
        predicted one, in the order of ``labels``.
    """
    sources = open_all(data, options, model)
    kind, pairs = label_type(model), Pairs()
    for source, batch in read(sources, "labelling", progress):
        with at(source, batch):
            labels = model.predict(samples_for(model, batch))
            true = labels_of_batch(batch, kind).tolist()
        pairs.update(zip(true, labels.tolist(), strict=True))
    return Result.of(
        _scores(model, pairs), sources, [*_strangers(model, pairs), *diagnostics(model)]
    )


def _scores(model: Estimator, pairs: Pairs) -> dict[str, Any]:
    names = sorted({*model.classes_.tolist(), *(true for true, _ in pairs)})
    matrix = [[pairs[true, given] for given in names] for true in names]
    samples = [sum(row) for row in matrix]
    given = [sum(column) for column in zip(*matrix, strict=True)]
    hits = [pairs[name, name] for name in names]
    rows = [
        {
            "class": name,
            "samples": of_class,
            "correct": correct,
            "recall": correct / of_class if of_class else None,
            "precision": correct / as_class if as_class else None,
        }
        for name, of_class, as_class, correct in zip(names, samples, given, hits, strict=True)
    ]
    return {
        "accuracy": sum(hits) / sum(samples),
        "samples": sum(samples),
        "correct": sum(hits),
        "classes": rows,
        "labels": names,
        "confusion": matrix,
    }


def _strangers(model: Estimator, pairs: Pairs) -> list[str]:
    """A note about classes that the model cannot answer."""
    unknown = sorted({true for true, _ in pairs} - set(model.classes_.tolist()))
    if not unknown:
        return []
    of_known = {pair: n for pair, n in pairs.items() if pair[0] not in unknown}
    total, correct = sum(of_known.values()), sum(n for (a, b), n in of_known.items() if a == b)
    without = f"; without them accuracy is {correct / total:.4f}" if total else ""
    return [
        f"the model has not learnt {listed([repr(one) for one in unknown])}: all samples of such "
        f"classes count as wrong{without}"
    ]
