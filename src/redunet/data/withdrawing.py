"""The commands that withdraw classes or samples from a model file, with receipts if asked for."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from redunet.data.apply_batches import Apply, apply_batches, labelled_batches
from redunet.data.matching import label_type, labels_like
from redunet.data.model_file import ModelFile
from redunet.data.result import Result
from redunet.data.source import ReadOptions
from redunet.estimators import Estimator
from redunet.estimators.base import LearntFeaturesWarning, SelfLabelledWarning
from redunet.safety.lock import Tell
from redunet.safety.receipts import Receipts, Withdrawal
from redunet.safety.transaction import Change


def forget(
    path: Path, classes: Sequence[str], *, tell: Tell, receipts: Receipts | None = None
) -> Result:
    """Withdraw classes, as if they had never been seen.

    Parameters
    ----------
    path : Path
        Of the model.
    classes : sequence of str
    tell : callable
    receipts : Receipts, default=None
        Where a receipt of it is written.
    """

    def forgotten(model: Estimator) -> Estimator:
        return model.forget(_classes(model, classes))

    record = None if receipts is None else Withdrawal(receipts)
    file = ModelFile(path, (), ReadOptions(), tell=tell)
    change = _withdraw(file, forgotten, record)
    found = {"forgotten": _classes(change.before, classes), **_receipt(record)}
    return file.result(found, change)


def unlearn(
    file: ModelFile, *, apply: Apply = apply_batches, receipts: Receipts | None = None
) -> Result:
    """Withdraw samples, as if they had never been seen.

    Parameters
    ----------
    file : ModelFile
    apply : callable, default=apply_batches
        Withdraws the data: in this process, or on others.
    receipts : Receipts, default=None
        Where a receipt of it is written.
    """
    if receipts is not None:
        receipts.refuse_files("data", file.data)

    def unlearnt(model: Estimator) -> Estimator:
        sources = file.open(model, changing=True)
        apply("withdrawing", model, sources, file.options, file.progress)
        return model

    def samples(model: Estimator) -> Iterable[tuple[Any, Any]]:
        batches = labelled_batches(model, file.sources, label_type(model), "hashing")
        return ((X, y) for _, _, X, y in batches)

    record = None if receipts is None else Withdrawal(receipts, samples)
    change = _withdraw(file, unlearnt, record)
    before, after = change.before.class_counts_, change.after.class_counts_
    withdrawn = sum(before.values()) - sum(after.values())
    return file.result({"withdrawn": withdrawn, **_receipt(record)}, change)


def _withdraw(
    file: ModelFile, apply: Callable[[Estimator], Estimator], record: Withdrawal | None
) -> Change[Estimator, Estimator]:
    """Change a model file; what the model warns of becomes notes."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("ignore")
        for category in (LearntFeaturesWarning, SelfLabelledWarning):
            warnings.simplefilter("always", category)
        change = file.change(apply, [] if record is None else [record])
    change.notes.extend(dict.fromkeys(str(one.message) for one in caught))
    return change


def _classes(model: Estimator, classes: Sequence[str]) -> list[Any]:
    """Classes as the model has them: whole numbers or text."""
    gone: list[Any] = labels_like(np.array(classes), label_type(model)).tolist()
    return gone


def _receipt(record: Withdrawal | None) -> dict[str, Any]:
    return {} if record is None else {"receipt": record.receipt}
