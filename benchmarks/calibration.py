"""How far probabilities can be trusted: ``python -m benchmarks.calibration [CASE ...]``.

Some training samples of each class are held out (CLINC150 has a validation part of its own) and
the others are learnt. The expected calibration error on the test samples, which nothing was
chosen on, is measured with the temperature of the release before, with that from the moments alone,
and with that from the samples held out. Writes ``results/calibration.json``, the table of
``docs/tuning.md``.
"""

from __future__ import annotations

import json
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from benchmarks.measure import Row, machine, record
from redunet import ReduNetClassifier
from redunet.core.calibration import best_temperature, log_loss, probabilities
from redunet.core.subspaces import principal_subspaces
from redunet.estimators.predictor import StreamingWarning
from redunet.estimators.settings import Settings
from redunet.estimators.tuning import calibration_error
from redunet_lab import datasets
from redunet_lab.recipes import from_recipe
from redunet_lab.tuning import held_out_rows

RECORD = Path(__file__).parent / "results" / "calibration.json"

CASES = {
    "digits, defaults": ("digits", 30),
    "digits, features": ("digits", 30),
    "clinc150, embeddings": ("clinc150", 0),
    "clinc150, features": ("clinc150", 0),
    "mnist, paper-mnist": ("mnist", 200),
}
"""The data set of each case, and how many training samples of each class are held out."""

Split = tuple[NDArray[Any], NDArray[Any]]


def parts(name: str, per_class: int) -> tuple[Split, Split, Split]:
    """What is learnt, validation samples and test samples, each X and y."""
    data: Any = datasets.load(name)
    test = data.x_test, data.y_test
    if not per_class:
        return (data.x_train, data.y_train), (data.x_val, data.y_val), test
    out = held_out_rows(data.y_train, per_class, seed=0)
    learnt, held = ((data.x_train[rows], data.y_train[rows]) for rows in (~out, out))
    return learnt, held, test


def measured(case: str) -> Row:
    """The errors of one case."""
    (x, y), held, test = parts(*CASES[case])
    recipe = case.partition(", ")[2]
    small = {"dtype": "float32", "memory": "6GB"} if recipe == "paper-mnist" else {}
    model = ReduNetClassifier() if recipe == "defaults" else from_recipe(recipe, **small)
    model.fit(x.reshape(len(x), -1), y)
    scores, classes = {}, {}
    for name, (X, labels) in {"validation": held, "test": test}.items():
        scores[name] = torch.from_numpy(model.decision_function(X.reshape(len(X), -1)))
        classes[name] = torch.from_numpy(np.searchsorted(model.classes_, labels))
    right = (scores["test"].argmax(dim=1) == classes["test"]).numpy()
    temperatures = {
        "before": _before(model),
        "moments": model.temperature_,
        "validation": best_temperature(scores["validation"], classes["validation"]),
    }
    found: Row = {
        "case": case,
        "learnt": len(y),
        "validation_samples": len(classes["validation"]),
        "test_samples": len(right),
        "accuracy": float(right.mean()),
        "temperature": temperatures,
    }
    for key, T in temperatures.items():
        P = probabilities(scores["test"], T).numpy()
        found[f"error_{key}"] = calibration_error(P, right)
        found[f"log_loss_{key}"] = log_loss(scores["test"], classes["test"], T)
    return found


def _before(model: ReduNetClassifier) -> float:
    """T before: of subspaces twice the mean residual of the learnt samples, of others 1."""
    if model.readout != "subspace":
        return 1.0
    outside = total = 0.0
    n = Settings.of(model).components(model.moments_.n_features)
    for _, values, basis, trace in principal_subspaces(model.network_.layers.last, n):
        outside += trace - float(values[: basis.shape[1]].sum())
        total += trace
    return 2 * outside / total


def main() -> None:
    """Measure the cases named on the command line, or all; others stay in the record."""
    warnings.simplefilter("ignore", StreamingWarning)
    known = json.loads(RECORD.read_text())["rows"] if RECORD.exists() else []
    rows = {row["case"]: row for row in known}
    for case in sys.argv[1:] or CASES:
        rows[case] = measured(case)
        print(rows[case], flush=True)
        record(RECORD, machine("cpu"), [rows[one] for one in CASES if one in rows])


if __name__ == "__main__":
    main()
