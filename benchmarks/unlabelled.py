"""Few labels and many samples without any: ``python -m benchmarks.unlabelled FOLDER [SEEDS]``.

CLINC150 with 1, 3, 5 and 10 labelled questions an intent, drawn by each seed, and the rest of the
training questions without labels: accuracy of the recipe ``embeddings`` before and after
`learn_unlabelled`. Rounds and share were chosen with seed 0 on validation data; test data is read
once. Writes ``FOLDER/unlabelled-clinc150.json``.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from benchmarks.measure import Row, machine, record
from redunet import from_recipe
from redunet.core.self_labelling import ROUNDS, SHARE
from redunet_lab import datasets

LABELS = (1, 3, 5, 10)


def chosen(y: NDArray[Any], n: int, seed: int) -> NDArray[np.bool_]:
    """Which samples keep their labels: n of each class, drawn at random."""
    draw = np.random.default_rng(seed)
    kept = np.zeros(len(y), dtype=bool)
    for label in np.unique(y):
        kept[draw.permutation(np.flatnonzero(y == label))[:n]] = True
    return kept


def measured(data: Any, n: int, seed: int, device: str) -> Row:
    """Accuracy before and after, with n labels a class."""
    kept = chosen(data.y_train, n, seed)
    model = from_recipe("vectors", device=device).set_params(exact=True)

    def accuracies() -> dict[str, float]:
        parts = {"val": (data.x_val, data.y_val), "test": (data.x_test, data.y_test)}
        return {part: float(np.mean(model.predict(X) == y)) for part, (X, y) in parts.items()}

    model.fit(data.x_train[kept], data.y_train[kept])
    before = accuracies()
    start = time.perf_counter()
    model.learn_unlabelled(data.x_train[~kept])
    seconds = time.perf_counter() - start
    after, own = accuracies(), model.self_labelled_
    return {
        "case": f"CLINC150, {n} labels a class, seed {seed}",
        "labels": n,
        "seed": seed,
        "unlabelled": int((~kept).sum()),
        "learnt": 0 if own is None else sum(own.counts),
        "before": before,
        "after": after,
        "seconds": seconds,
    }


def summary(rows: list[Row], part: str = "test") -> str:
    """A Markdown table: means over the seeds, and the gain, with its smallest."""
    lines = [
        "| labels a class | without the others | with them | gain | smallest gain |",
        "| ---: | ---: | ---: | ---: | ---: |",
    ]
    for n in LABELS:
        pairs = [(row["before"][part], row["after"][part]) for row in rows if row["labels"] == n]
        if pairs:
            before, after = (float(np.mean(one)) for one in zip(*pairs, strict=True))
            least = min(b - a for a, b in pairs)
            lines.append(
                f"| {n} | {before:.4f} | {after:.4f} | {after - before:+.4f} | {least:+.4f} |"
            )
    return "\n".join(lines)


def main() -> None:
    """Measure with the seeds named on the command line, or with three."""
    folder, *seeds = Path(sys.argv[1]), *sys.argv[2:]
    device = "cuda" if torch.cuda.is_available() else "cpu"
    data, about, rows = datasets.load("clinc150"), machine(device), []
    about |= {"rounds": ROUNDS, "share": SHARE, "recipe": "vectors"}
    for seed in map(int, seeds or (0, 1, 2)):
        for n in LABELS:
            rows.append(measured(data, n, seed, device))
            print(rows[-1], flush=True)
            record(folder / "unlabelled-clinc150.json", about, rows)
    print(summary(rows))


if __name__ == "__main__":
    main()
