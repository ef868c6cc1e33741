"""Samples of no known class: ``python -m benchmarks.unknown FOLDER [CASE ...]``.

``clinc150``: scores that tell CLINC150's out-of-scope questions from those of its 150 intents: the
novelty of the recipe ``embeddings``, and probabilities, scores and distances of other models.
Settings of the others are chosen by the area under ROC on validation data. Test data was read again
when the formula of novelty changed, which was chosen on validation data too.
``shares``: which share of held-out samples thresholds from the moments alone reject, on several
data sets. Each writes ``FOLDER/unknown-CASE.json``.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.datasets import load_breast_cancer, load_iris, load_wine
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.preprocessing import StandardScaler

from benchmarks.measure import Row, clock, machine, record
from redunet.estimators import LinearDiscriminant
from redunet_lab import datasets
from redunet_lab.recipes import from_recipe

Array = NDArray[Any]
Score = Callable[[Array], Array]
"""From samples to how much each looks like none of the known classes."""

ASKED = 0.05
SHRINKAGE = (0.001, 0.01, 0.1, 0.5, 0.9)
PUBLISHED = (
    {"case": "BERT with a threshold (theirs)", "found": 0.523},
    {"case": "USE + MLP with a threshold (theirs)", "found": 0.491},
)
"""Larson et al., EMNLP 2019, table 2: recall of out-of-scope questions, all training data."""


def separation(score: Score, known: Array, unknown: Array, threshold: float) -> dict[str, float]:
    """The area under ROC, and the shares of both kinds above a threshold."""
    inside, outside = score(known), score(unknown)
    kinds = np.r_[np.zeros(len(inside)), np.ones(len(outside))]
    return {
        "auc": float(roc_auc_score(kinds, np.r_[inside, outside])),
        "rejected": float(np.mean(inside > threshold)),
        "found": float(np.mean(outside > threshold)),
    }


def scored(case: str, data: Any, score: Score, threshold: float | None = None) -> Row:
    """One way to score; its threshold is from validation data, unless it is given."""
    by_val = float(np.quantile(score(data.x_val), 1 - ASKED))
    threshold = by_val if threshold is None else threshold
    val = separation(score, data.x_val, data.x_oos_val, threshold)
    test = separation(score, data.x_test, data.x_oos_test, threshold)
    return {"case": case, "threshold": threshold, "val": val, **test}


def mahalanobis(data: Any, shrinkage: float) -> Score:
    """The squared distance to the nearest mean, by the shrunk covariance that all classes share."""
    labels, places = np.unique(data.y_train, return_inverse=True)
    X = data.x_train.astype(np.float64)
    means = np.stack([X[places == j].mean(axis=0) for j in range(len(labels))])
    W = np.cov((X - means[places]).T, bias=True)
    W = (1 - shrinkage) * W + shrinkage * np.trace(W) / len(W) * np.eye(len(W))
    root = np.linalg.inv(np.linalg.cholesky(W)).T
    centres = means @ root

    def score(X: Array) -> Array:
        Z = X.astype(np.float64) @ root
        squares = (Z**2).sum(axis=1)[:, None] + (centres**2).sum(axis=1)
        nearest: Array = (squares - 2 * Z @ centres.T).min(axis=1)
        return nearest

    return score


def best_on_val(case: str, data: Any, made: Callable[[float], Score], values: Any) -> Row:
    """The one of several scores that separates validation data best."""
    rows = [scored(f"{case} {value:g}", data, made(value)) for value in values]
    return max(rows, key=lambda row: row["val"]["auc"])


def clinc150(device: str) -> list[Row]:
    """Scores of out-of-scope questions."""
    data: Any = datasets.load("clinc150")
    X, y = data.x_train, data.y_train
    model = from_recipe("embeddings", device=device).fit(X, y)
    regression = LogisticRegression(max_iter=1000, C=10.0).fit(X, y)

    def discriminant(shrinkage: float) -> LinearDiscriminant:
        return LinearDiscriminant(shrinkage=shrinkage, device=device).fit(X, y)

    def unlikely(known: Any) -> Score:
        return lambda rows: 1 - known.predict_proba(rows).max(axis=1)

    def low(known: Any) -> Score:
        return lambda rows: -known.decision_function(rows).max(axis=1)

    from_moments = model.rejection_threshold(ASKED)
    rows = [
        scored("novelty, threshold from validation data", data, model.novelty),
        scored("novelty, threshold from the moments", data, model.novelty, from_moments),
        scored("predict_proba of the same network", data, unlikely(model)),
        best_on_val(
            "softmax of LDA, shrinkage", data, lambda s: unlikely(discriminant(s)), SHRINKAGE
        ),
        best_on_val(
            "largest score of LDA, shrinkage", data, lambda s: low(discriminant(s)), SHRINKAGE
        ),
        scored("softmax of logistic regression, C 10", data, unlikely(regression)),
        scored("largest score of logistic regression, C 10", data, low(regression)),
        best_on_val("Mahalanobis, shrinkage", data, lambda s: mahalanobis(data, s), SHRINKAGE),
        *(dict(row) for row in PUBLISHED),
    ]
    rows[0]["seconds_per_thousand"] = clock(lambda: model.novelty(data.x_test[:1000]), device)
    rows[0]["eps"] = model.eps
    return rows


def held_out() -> Iterator[tuple[str, str, Array, Array, Array]]:
    """Names, recipes, and parts of training data to learn and to ask for."""
    data: Any = datasets.load("clinc150")
    for n in (100, 20, 5):
        rows = np.concatenate(
            [np.flatnonzero(data.y_train == c)[:n] for c in np.unique(data.y_train)]
        )
        yield (
            f"CLINC150, {n} a class",
            "embeddings",
            data.x_train[rows],
            data.y_train[rows],
            data.x_val,
        )
    plain = {"iris": load_iris, "wine": load_wine, "breast cancer": load_breast_cancer}
    tables = {name: load(return_X_y=True) for name, load in plain.items()}
    tables = {name: (StandardScaler().fit_transform(X), y) for name, (X, y) in tables.items()}
    for name in ("digits", "mnist", "fashion_mnist"):
        images = datasets.load(name)
        X = images.x_train.reshape(len(images.x_train), -1)
        tables[{"fashion_mnist": "Fashion-MNIST", "mnist": "MNIST"}.get(name, name)] = (
            X,
            images.y_train,
        )
    for name, (X, y) in tables.items():
        order = np.random.default_rng(0).permutation(len(X))[:10_000]
        learnt, asked = order[: 3 * len(order) // 4], order[3 * len(order) // 4 :]
        yield f"{name}, {len(learnt)} in all", "features", X[learnt], y[learnt], X[asked]


def shares(device: str) -> list[Row]:
    """What thresholds from the moments reject of held-out samples of known classes."""
    rows = []
    for case, recipe, X, y, new in held_out():
        model = from_recipe(recipe, device=device).fit(X, y)
        novelty = model.novelty(new)
        row: Row = {"case": case, "recipe": recipe}
        for asked in (0.01, ASKED, 0.1):
            row[f"{asked:g}"] = float(np.mean(novelty > model.rejection_threshold(asked)))
        rows.append(row)
        print(row, flush=True)
    return rows


def summary(rows: list[Row]) -> str:
    """The rows of a case as a Markdown table."""
    names = {"auc": "area under ROC", "found": "unknown found", "rejected": "known rejected"}
    if "auc" not in rows[0]:
        names = {f"{asked:g}": f"{asked:.0%} asked for" for asked in (0.01, 0.05, 0.1)}
    keys = tuple(names)
    lines = [
        f"| | {' | '.join(names.values())} |",
        "| --- | " + " | ".join(["---:"] * len(keys)) + " |",
    ]
    for row in rows:
        cells = [f"{row[key]:.3f}" if key in row else "–" for key in keys]
        lines.append(f"| {row['case']} | {' | '.join(cells)} |")
    return "\n".join(lines)


CASES: dict[str, Callable[[str], list[Row]]] = {"clinc150": clinc150, "shares": shares}


def main() -> None:
    """Measure the cases named on the command line, or all."""
    folder, *names = Path(sys.argv[1]), *sys.argv[2:]
    device = "cuda" if torch.cuda.is_available() else "cpu"
    for name in names or CASES:
        about, rows = machine(device), CASES[name](device)
        record(folder / f"unknown-{name}.json", about, rows)
        print(summary(rows), flush=True)


if __name__ == "__main__":
    main()
