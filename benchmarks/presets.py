"""Presets out of the box, without tuning: ``python -m benchmarks.presets [DATA ...] [cost]``.

Nearest mean, linear discriminant analysis, the paper's settings and the presets for vectors and
tables. On four small tables of scikit-learn: five-fold cross-validation, repeated four times. On
CLINC150: training questions are learnt, validation questions answered; test questions are left
alone; ``cost`` measures what the presets for vectors take there. Adds to
``benchmarks/results/presets.json`` and fills the tables of ``results/recipes.md``.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.datasets import load_breast_cancer, load_digits, load_iris, load_wine
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.model_selection import RepeatedStratifiedKFold, cross_val_score
from sklearn.neighbors import NearestCentroid
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from benchmarks.measure import machine
from benchmarks.readme import between
from redunet import ReduNetClassifier
from redunet.safety.files import write_bytes
from redunet_lab.datasets import clinc150
from redunet_lab.recipes import from_recipe

RECORD = Path(__file__).parent / "results" / "presets.json"
PAGE = Path(__file__).parents[1] / "results" / "recipes.md"
MARK = "presets table: ../benchmarks/results/presets.json"
COST_MARK = "cost table: ../benchmarks/results/presets.json"

TABLES: dict[str, Callable[..., Any]] = {
    "digits": load_digits,
    "wine": load_wine,
    "breast cancer": load_breast_cancer,
    "iris": load_iris,
}
FOLDS, REPEATS = 5, 4


class FromFirst(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """A recipe whose feature map is made from the samples that it is fitted with."""

    def __init__(self, recipe: str) -> None:
        self.recipe = recipe

    def fit(self, X: Any, y: Any) -> FromFirst:
        """Make the map of the samples, then learn them."""
        self.model_ = from_recipe(self.recipe, X).fit(X, y)
        self.classes_ = self.model_.classes_
        return self

    def predict(self, X: Any) -> Any:
        """The class of each sample."""
        return self.model_.predict(X)


def methods(*, vectors: bool) -> dict[str, Any]:
    """What is compared, by name; ``vectors`` adds what is for vectors of encoders."""

    def scaled(model: Any) -> Any:
        return make_pipeline(StandardScaler(), model)

    found = {
        "nearest mean, standardized": scaled(NearestCentroid()),
        "LDA, standardized": scaled(LinearDiscriminantAnalysis()),
        "`ReduNetClassifier()`, the paper's settings, standardized": scaled(ReduNetClassifier()),
        "preset `features`, standardized": scaled(from_recipe("features")),
        "preset `tables`, columns as they are": FromFirst("tables"),
    }
    if vectors:
        found["preset `embeddings`, vectors as they are"] = from_recipe("embeddings")
        found["preset `embeddings-wide`, vectors as they are"] = FromFirst("embeddings-wide")
    return found


def measured(data: str) -> dict[str, float]:
    """Accuracies on one data set, by name of the method."""
    warnings.simplefilter("ignore", UserWarning)
    found = {}
    if data == "clinc150":
        texts = clinc150.load(None)
        for name, model in methods(vectors=True).items():
            labels = clone(model).fit(texts.x_train, texts.y_train).predict(texts.x_val)
            found[name] = float(np.mean(labels == texts.y_val))
            print(data, name, found[name], flush=True)
        return found
    X, y = TABLES[data](return_X_y=True)
    folds = RepeatedStratifiedKFold(n_splits=FOLDS, n_repeats=REPEATS, random_state=0)
    for name, model in methods(vectors=False).items():
        found[name] = float(cross_val_score(model, X, y, cv=folds).mean())
        print(data, name, found[name], flush=True)
    return found


def cost(recipe: str) -> dict[str, float]:
    """Processor seconds and bytes that a recipe takes on CLINC150, learnt in ten tasks."""
    data = clinc150.load(None)
    model = from_recipe(recipe, data.x_train)
    tasks = np.array_split(np.unique(data.y_train), 10)
    rows = [np.isin(data.y_train, task) for task in tasks]

    def seconds(work: Callable[[], object]) -> float:
        start = time.process_time()
        work()
        return time.process_time() - start

    found = {
        "learn": seconds(
            lambda: [model.partial_fit(data.x_train[some], data.y_train[some]) for some in rows]
        ),
        "first_answer": seconds(lambda: model.predict(data.x_val[:1])),
        "thousand_answers": seconds(lambda: model.predict(data.x_val[:1000])),
    }
    with tempfile.TemporaryDirectory() as folder:
        model.save(Path(folder) / "model")
        found["bytes"] = (Path(folder) / "model").stat().st_size
    print(recipe, found, flush=True)
    return found


def cost_table(record: dict[str, Any]) -> str:
    """What the recipes take, as a table in Markdown."""
    lines = [
        "|  | learn, s | first answer, s | 1,000 answers, s | file, MB |",
        "| --- | ---: | ---: | ---: | ---: |",
    ]
    for recipe, found in record["cost"].items():
        times = [found[key] for key in ("learn", "first_answer", "thousand_answers")]
        cells = [*(f"{seconds:.1f}" for seconds in times), f"{found['bytes'] / 1e6:.0f}"]
        lines.append(f"| {recipe} | {' | '.join(cells)} |")
    return "\n".join(lines)


def table(record: dict[str, Any]) -> str:
    """The record as a table in Markdown: a row a method, a column a data set."""
    names = [*methods(vectors=True)]
    columns = [data for data in (*TABLES, "clinc150") if data in record["accuracy"]]
    heads = ["CLINC150, validation" if data == "clinc150" else data for data in columns]
    lines = [f"|  | {' | '.join(heads)} |", f"| --- |{' ---: |' * len(columns)}"]
    for name in names:
        cells = [record["accuracy"][data].get(name) for data in columns]
        shown = ["–" if cell is None else f"{cell:.3f}" for cell in cells]
        lines.append(f"| {name} | {' | '.join(shown)} |")
    return "\n".join(lines)


def filled(text: str, record: dict[str, Any]) -> str:
    """The text of the page with both tables in their places."""
    text = between(text, COST_MARK, cost_table(record))
    return between(text, MARK, table(record))


def main() -> None:
    """Measure the data sets named on the command line, or all, and write record and page."""
    record = json.loads(RECORD.read_text()) if RECORD.exists() else {"accuracy": {}}
    for data in sys.argv[1:] or [*TABLES, "clinc150", "cost"]:
        if data == "cost":
            record["cost"] = {name: cost(name) for name in ("embeddings", "embeddings-wide")}
        else:
            record["accuracy"][data] = measured(data)
        record["machine"] = machine("cpu")
        record["folds"], record["repeats"] = FOLDS, REPEATS
        write_bytes(RECORD, (json.dumps(record, indent=1) + "\n").encode())
    write_bytes(PAGE, filled(PAGE.read_text(encoding="utf-8"), record).encode())


if __name__ == "__main__":
    main()
