"""How settings for vectors were chosen: ``python -m benchmarks.splits``.

Settings on CLINC150's training and validation questions: five splits of the training questions,
in blocks of 20 a class as they stand in the file (similar questions stand together, so shuffled
splits would be easier than new questions are), and the validation questions. 18,000 answers by
models that had not learnt them; test questions are left alone. Writes
``benchmarks/results/splits-clinc150.json`` and fills the table of ``results/recipes.md``.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.measure import machine
from benchmarks.readme import between
from redunet import ReduNetClassifier, from_recipe
from redunet.safety.files import write_bytes
from redunet_lab.datasets import clinc150

RECORD = Path(__file__).parent / "results" / "splits-clinc150.json"
PAGE = Path(__file__).parents[1] / "results" / "recipes.md"
MARK = "splits table: ../benchmarks/results/splits-clinc150.json"
BLOCK = 20

BEFORE = {"step": 0.8, "sharpness": 100.0, "readout": "discriminant", "ridge": 0.1}
CANDIDATES: dict[str, dict[str, Any]] = {
    "no layers, linear discriminant": {"n_layers": 0, "readout": "discriminant"},
    "no layers, quadratic": {"n_layers": 0},
    "one layer, linear discriminant, as the recipe had it before": BEFORE,
    "one layer, quadratic: the recipe": {},
}
"""Changes to the recipe `embeddings`."""

Pair = tuple[NDArray[Any], NDArray[Any]]


def splits() -> Iterator[tuple[Pair, Pair]]:
    """Questions to learn and questions to answer, six times."""
    data = clinc150.load(None)
    X, y = data.x_train, data.y_train
    place = np.empty(len(y), dtype=int)  # of a question among those of its class
    for label in np.unique(y):
        of_class = np.flatnonzero(y == label)
        place[of_class] = np.arange(len(of_class))
    for block in range(place.max() // BLOCK + 1):
        out = place // BLOCK == block
        yield (X[~out], y[~out]), (X[out], y[out])
    yield (X, y), (data.x_val, data.y_val)


def filled(page: str, record: dict[str, Any]) -> str:
    """The text of the page with the table of the record in its place."""
    lines = ["|  | six splits | of them validation |", "| --- | ---: | ---: |"]
    lines += [
        f"| {row['case']} | {row['accuracy']:.4f} | {row['validation_accuracy']:.4f} |"
        for row in record["rows"]
    ]
    return between(page, MARK, "\n".join(lines))


def main() -> None:
    """Answer with all candidates on all splits, and write the record."""
    right: dict[str, list[int]] = {name: [] for name in CANDIDATES}
    asked = []
    usual = from_recipe("vectors").get_params()
    for (X, y), (x_new, y_new) in splits():
        model = ReduNetClassifier(**usual).fit(X, y)
        asked.append(len(y_new))
        for name, changes in CANDIDATES.items():
            model.set_params(**{**usual, **changes})  # the moments stay
            right[name].append(int(np.sum(model.predict(x_new) == y_new)))
            print(name, right[name], flush=True)
    rows = [
        {
            "case": name,
            "accuracy": sum(found) / sum(asked),
            "validation_accuracy": found[-1] / asked[-1],
            "settings": {**from_recipe("vectors").own_settings(), **CANDIDATES[name]},
        }
        for name, found in right.items()
    ]
    text = json.dumps({"machine": machine(), "asked": asked, "rows": rows}, indent=1)
    write_bytes(RECORD, (text + "\n").encode())
    write_bytes(PAGE, filled(PAGE.read_text(encoding="utf-8"), json.loads(text)).encode())


if __name__ == "__main__":
    main()
