"""How fast models answer, beside linear ones: ``python -m benchmarks.answers FOLDER [CASE ...]``.

Cases: ``mnist`` (the paper's network), ``clinc150`` (150 classes of MiniLM vectors) and ``many``
(1,000 generated classes). Each writes ``FOLDER/answers-CASE-DEVICE.json``. What is compared takes
turns, and medians are told.
"""

from __future__ import annotations

import resource
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.linear_model import LogisticRegression

from benchmarks.measure import Row, clock, interleaved, machine, record
from redunet import ReduNetClassifier, from_recipe
from redunet.estimators import LinearDiscriminant, Ridge
from redunet.estimators.predictor import StreamingWarning
from redunet_lab import datasets

Array = NDArray[Any]

ROUNDS = 3
WHOLE_ROWS = 500
"""Samples that pass through all 200 layers of the paper's network in a timed turn; its time is
linear in their number."""


def mnist(device: str) -> list[Row]:
    """The paper's network for MNIST, all layers kept, beside LDA on the same moments."""
    data = datasets.load("mnist")
    X = data.x_test.reshape(len(data.x_test), -1)
    train = data.x_train.reshape(len(data.x_train), -1)
    network = from_recipe("paper-mnist", data.x_train[:1], device=device, memory="16GB")
    learn = clock(lambda: network.fit(data.x_train, data.y_train))
    first = clock(lambda: network.predict(data.x_test[:1]))
    lda = LinearDiscriminant(device=device).fit(train, data.y_train)
    sklearn_lda = LinearDiscriminantAnalysis().fit(train[::10], data.y_train[::10])
    exact = ReduNetClassifier(**network.get_params(deep=False) | {"exact": True})
    exact._state = network._state  # the same moments, and the same layers
    times = interleaved(
        {
            "cascade": lambda: network.predict(data.x_test),
            "lda": lambda: lda.predict(X),
            "scikit-learn's LDA": lambda: sklearn_lda.predict(X),
            "whole": lambda: exact.predict(data.x_test[:WHOLE_ROWS]),
            "one sample": lambda: network.predict(data.x_test[:1]),
            "one sample, lda": lambda: lda.predict(X[:1]),
        },
        ROUNDS,
        device,
    )
    rows = data.x_test if device != "cpu" else data.x_test[: 2 * WHOLE_ROWS]
    differ = int(np.sum(network.predict(rows) != exact.predict(rows)))
    whole = times["whole"] * len(X) / WHOLE_ROWS
    return [
        {
            "case": "MNIST, the paper's 200 layers, 10,000 samples",
            "learn": learn,
            "first_answer": first,
            "cascade": times["cascade"],
            "whole": whole,
            "whole_measured_on": WHOLE_ROWS,
            "lda": times["lda"],
            "sklearn_lda": times["scikit-learn's LDA"],
            "whole_over_cascade": whole / times["cascade"],
            "cascade_over_lda": times["cascade"] / times["lda"],
            "one_sample": times["one sample"],
            "one_sample_lda": times["one sample, lda"],
            "labels_compared": len(rows),
            "labels_that_differ": differ,
            "fusions": network.cascade_.summary(),
        }
    ]


def clinc150(device: str) -> list[Row]:
    """150 intents of MiniLM vectors: the defaults, and what is recommended for vectors."""
    data = datasets.load("clinc150")
    X, y, new = data.x_train, data.y_train, data.x_test
    makers: dict[str, Callable[[], Any]] = {
        "ReduNet, defaults": lambda: ReduNetClassifier(device=device, memory="4GB"),
        "ReduNet, recipe vectors": lambda: from_recipe("vectors", device=device),
        "LDA": lambda: LinearDiscriminant(device=device),
        "ridge": lambda: Ridge(device=device),
        "scikit-learn's LDA": LinearDiscriminantAnalysis,
        "logistic regression": lambda: LogisticRegression(max_iter=1000, C=10.0),
    }
    rows: list[Row] = []
    models = {}
    for name, make in makers.items():
        model = models[name] = make()
        row: Row = {"case": f"CLINC150, {name}"}
        row["learn"] = clock(partial(model.fit, X, y))
        row["first_answer"] = clock(partial(model.predict, new[:1]))
        row["accuracy"] = float(np.mean(model.predict(new) == data.y_test))
        if hasattr(model, "moments_"):
            row["bytes"] = file_bytes(model)
        rows.append(row)
    works: dict[str, Callable[[], object]] = {}
    for name, model in models.items():
        works[name] = partial(model.predict, new)
        works[f"{name}, one"] = partial(model.predict, new[:1])
    times = interleaved(works, ROUNDS, device)
    for row, (name, model) in zip(rows, models.items(), strict=True):
        row["answers"], row["one_answer"] = times[name], times[f"{name}, one"]
        row["over_lda"] = times[name] / times["LDA"]
        if isinstance(model, ReduNetClassifier):
            row["fusions"] = model.cascade_.summary()
            predicted = model.predict(new)
            row["labels_that_differ"] = int(
                np.sum(model.set_params(exact=True).predict(new) != predicted)
            )
            row["labels_compared"] = len(new)
    return rows


def many(device: str) -> list[Row]:
    """Classes that overlap, 50 samples each of 768 features; up to 1,000 of them."""
    rows: list[Row] = []
    for k in (100, 300, 1000):
        X, y = overlapping(k, 50)
        new, _ = overlapping(k, max(1, 1000 // k), seed=1)
        model = from_recipe("vectors", device=device, memory="4GB")
        case = f"{k:,} classes, d 768, 50 samples a class, recipe vectors"
        row: Row = {"case": case, "classes": k}
        row["learn"] = clock(partial(model.fit, X, y))
        row["first_answer"] = clock(partial(model.predict, new[:1]))
        row["answers"] = interleaved({"all": partial(model.predict, new)}, ROUNDS, device)["all"]
        row["bytes"] = file_bytes(model)
        row["peak_memory_bytes"] = 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        if device != "cpu":
            row["peak_device_memory_bytes"] = torch.cuda.max_memory_allocated()
        row["fusions"] = model.cascade_.summary()
        rows.append(row)
    return rows


def overlapping(k: int, n: int, d: int = 768, seed: int = 0) -> tuple[Array, Array]:
    """Vectors of k classes: directions that all share, the class's own mean, and noise."""
    shared = np.random.default_rng(0)
    common = shared.standard_normal((64, d))
    centres = shared.standard_normal((k, d)) + shared.standard_normal((k, 64)) @ common / 8
    rng = np.random.default_rng(seed + 1)
    y = np.repeat(np.arange(k), n)
    noise = rng.standard_normal((k * n, 64)) @ common / 8 + rng.standard_normal((k * n, d))
    return (centres[y] + noise).astype(np.float32), y


def file_bytes(model: Any) -> int:
    """The size of the file that a model saves."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.safetensors"
        model.save(path)
        return path.stat().st_size


CASES: dict[str, Callable[[str], list[Row]]] = {"mnist": mnist, "clinc150": clinc150, "many": many}


def main() -> None:
    """Measure the cases named on the command line, or all."""
    folder, *names = Path(sys.argv[1]), *sys.argv[2:]
    device = "cuda" if torch.cuda.is_available() else "cpu"
    warnings.simplefilter("ignore", StreamingWarning)
    for name in names or CASES:
        about, start = machine(device), time.perf_counter()
        rows = CASES[name](device)
        record(folder / f"answers-{name}-{device}.json", about, rows)
        for row in rows:
            print({key: value for key, value in row.items() if key != "fusions"})
            print("  ", row.get("fusions", ""))
        print(f"{name}: {time.perf_counter() - start:.0f} s")


if __name__ == "__main__":
    main()
