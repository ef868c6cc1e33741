"""Labels by the cascade and by every layer: ``python -m benchmarks.labels FOLDER [DATA ...]``.

For each data set and each recipe that suits it: how many labels of the test samples differ (none
should), and how many samples went through all layers. Writes ``FOLDER/labels-DATA-DEVICE.json``.
"""

from __future__ import annotations

import sys
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks.measure import Row, machine, record
from redunet import ReduNetClassifier
from redunet.estimators.predictor import StreamingWarning
from redunet_lab import datasets
from redunet_lab.recipes import from_recipe

RECIPES = {
    "digits": ("defaults", "directions", "embeddings", "images-fast"),
    "mnist": ("paper-mnist", "images-fast", "images-fixed", "directions"),
    "fashion_mnist": ("paper-mnist", "images-small"),
    "cifar10": ("paper-cifar10", "images-small", "images-cpu", "images-best"),
    "clinc150": ("defaults", "directions", "embeddings", "embeddings-wide"),
}
"""The recipes to compare on each data set."""

TRAIN_PER_CLASS = 6000
"""At most so many training samples of each class."""


def compared(data: Any, recipe: str, device: str, per_class: int) -> Row:
    """One recipe on one data set."""
    rows = np.concatenate(
        [np.flatnonzero(data.y_train == label)[:per_class] for label in np.unique(data.y_train)]
    )
    x_train, y_train = data.x_train[rows], data.y_train[rows]
    x_test, x_first = data.x_test, x_train[y_train == y_train[0]]
    if recipe in ("directions", "embeddings", "defaults"):
        x_train, x_test = (x.reshape(len(x), -1) for x in (x_train, x_test))
    model = ReduNetClassifier(device=device, memory="24GB")
    if recipe in ("directions", "embeddings"):
        model = from_recipe(recipe, device=device, memory="24GB")
    elif recipe != "defaults":
        small = {"n_filters": 20, "patch_size": 3} if data.name == "digits" else {}
        model = from_recipe(recipe, x_first, device=device, memory="24GB", **small)
    start = time.perf_counter()
    labels = model.fit(x_train, y_train).predict(x_test)
    seconds = time.perf_counter() - start
    fusions = model.cascade_.summary()
    exact = model.set_params(exact=True).predict(x_test)
    return {
        "case": f"{data.name}, {recipe}",
        "train_samples": len(y_train),
        "samples": len(labels),
        "labels_that_differ": int(np.sum(labels != exact)),
        "accuracy": float(np.mean(labels == data.y_test)),
        "learn_and_answer": seconds,
        "fusions": fusions,
    }


def main() -> None:
    """Compare on the data sets named on the command line, or on all."""
    folder, *names = Path(sys.argv[1]), *sys.argv[2:]
    device = "cuda" if torch.cuda.is_available() else "cpu"
    warnings.simplefilter("ignore", StreamingWarning)
    for name in names or RECIPES:
        name, _, most = name.partition(":")
        data, about, rows = datasets.load(name), machine(device), []
        for recipe in RECIPES[name]:
            rows.append(compared(data, recipe, device, int(most or TRAIN_PER_CLASS)))
            print(rows[-1], flush=True)
            record(folder / f"labels-{name}-{device}.json", about, rows)
            if device != "cpu":
                torch.cuda.empty_cache()


if __name__ == "__main__":
    main()
