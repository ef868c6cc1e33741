"""What shifts do to labels: ``python -m benchmarks.shifts``, for ``results/shifts.md``.

The recipe ``invariant`` and the paper's network, with 50 of its 200 layers, learn 1,000 training
images a class of MNIST, then label the first 1,000 test images, moved by 0 to 7 pixels in a random
direction of eight, once cut at the border of the image and once around it. Writes
``results/shifts.json`` here and ``results/shifts.png``; the figures of the whole data set are made
by ``redunet run``.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray

from benchmarks.measure import machine
from redunet_lab import datasets
from redunet_lab.recipes import from_recipe
from redunet_lab.streams import moved

RECORD = Path(__file__).parent / "results" / "shifts.json"
PICTURE = Path(__file__).parent.parent / "results" / "shifts.png"
PER_CLASS, TESTED, MOST = 1000, 1000, 7
SHOWN = (0, 2, 4, 6, 7)
NAMES = {"invariant": "invariant", "paper-mnist": "of vectors (paper-mnist)"}
COLOURS = {"invariant": "#0969da", "paper-mnist": "#8c959f"}


def measured() -> dict[str, Any]:
    """Accuracies over the length of the move, and the labels of one image."""
    data, random = datasets.load("mnist"), np.random.RandomState(0)
    rows = np.concatenate([np.flatnonzero(data.y_train == j)[:PER_CLASS] for j in range(10)])
    X, y = data.x_train[rows], data.y_train[rows]
    tests, labels = data.x_test[:TESTED], data.y_test[:TESTED]
    directions = random.randint(-1, 2, (TESTED, 2))
    directions[~directions.any(axis=1)] = (0, 1)
    found: dict[str, Any] = {}
    for name in NAMES:
        fewer: dict[str, Any] = {} if name == "invariant" else {"n_layers": 50, "dtype": "float32"}
        model: Any = from_recipe(name, X[y < 2], device="cpu", **fewer)
        model.fit(X, y)
        cut, around, one = [], [], []
        still = model.predict(tests)
        for pixels in range(MOST + 1):
            moves = pixels * directions
            answers = model.predict(moved(tests, moves))
            cut.append(float(np.mean(answers == labels)))
            wrapped = np.stack([np.roll(a, m, (0, 1)) for a, m in zip(tests, moves, strict=True)])
            turned = model.predict(wrapped)
            around.append(
                {
                    "accuracy": float(np.mean(turned == labels)),
                    "changed": int((turned != still).sum()),
                }
            )
            one.append(int(model.predict(moved(tests[:1], np.array([[0, pixels]])))[0]))
        found[name] = {"cut": cut, "around": around, "labels_of_first": one}
    return {
        "what": "Accuracy on MNIST test images that are moved, 1,000 training images a class",
        "command": "python -m benchmarks.shifts",
        "tested": TESTED,
        "per_class": PER_CLASS,
        "pixels": list(range(MOST + 1)),
        "networks": found,
        **machine(),
    }


def figure(record: dict[str, Any], image: NDArray[Any]) -> Figure:
    """One image and its labels at several places, and accuracy over the length of the move."""
    drawing = Figure(figsize=(10, 3.4), dpi=110, layout="constrained")
    places: Any = drawing.subfigures(1, 2, width_ratios=(1.25, 1))
    row = places[0].subplots(1, len(SHOWN))
    for axes, pixels in zip(row, SHOWN, strict=True):
        axes.imshow(moved(image[None], np.array([[0, pixels]]))[0], cmap="gray_r")
        axes.set_xticks([])
        axes.set_yticks([])
        axes.set_title(f"{pixels} pixels", fontsize=9)
        for line, (name, colour) in enumerate(COLOURS.items()):
            label = record["networks"][name]["labels_of_first"][pixels]
            axes.text(
                0.5,
                -0.22 - 0.2 * line,
                str(label),
                color=colour,
                fontsize=15,
                fontweight="bold",
                ha="center",
                transform=axes.transAxes,
            )
    axes = places[1].subplots()
    for name, colour in COLOURS.items():
        axes.plot(
            record["pixels"],
            record["networks"][name]["cut"],
            color=colour,
            marker="o",
            markersize=4,
            label=NAMES[name],
        )
    axes.set_xlabel("pixels that a test image is moved")
    axes.set_ylabel("accuracy")
    axes.set_ylim(0, 1)
    axes.grid(color="#e6e8eb", linewidth=0.7)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False, loc="lower left")
    return drawing


def main() -> None:
    """Measure, unless the record is there, and draw."""
    if not RECORD.exists():
        RECORD.write_text(json.dumps(measured(), indent=1) + "\n", encoding="utf-8")
    record = json.loads(RECORD.read_text(encoding="utf-8"))
    figure(record, datasets.load("mnist").x_test[0]).savefig(PICTURE)


if __name__ == "__main__":
    main()
