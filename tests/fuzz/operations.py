"""Random learning, withdrawing, forgetting, merging and saving: always equal to joint training."""

from __future__ import annotations

import random
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch

from redunet import ReduNetClassifier
from redunet.core.grid import GRID, unit_rows
from redunet.estimators import MomentEstimator, NearestMean, load

N, D, K = 40, 13, 6
SAMPLES = np.random.default_rng(0).standard_normal((N, D)) * 10.0 ** (np.arange(D) / 3 - 2)
GRIDDED = (unit_rows(torch.from_numpy(SAMPLES)) * GRID).round().to(torch.int64).numpy()
LABELS = np.arange(N) % K
NAMES = list("abcdefghijklm")
MOST_ROWS = 60

Held = Counter[int]
"""How often a model has learnt each sample."""


def operate(n: int, seed: int = 0) -> list[str]:
    """Do n operations on a few models; a description of each difference from joint training."""
    rng = random.Random(seed)
    faults: list[str] = []
    models: list[tuple[MomentEstimator, Held, bool]] = []
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "model")
        for number in range(n):
            if len(models) < 3 or rng.random() < 0.02:
                models = [*models[-3:], _new(rng)]
            place = rng.randrange(len(models))
            model, held, named = models[place]
            what = rng.choice(OPERATIONS)
            if what == "merge":
                other, theirs, kind = models[rng.randrange(len(models))]
                alike = type(other) is type(model) and kind == named
                if alike and held.total() + theirs.total() <= MOST_ROWS:
                    model.merge(other)
                    held = held + theirs
            elif what == "file":
                model.save(path)
                model = load(path)
            else:
                held = _change(rng, what, model, held, named)
            models[place] = model, held, named
            if not _equals_joint(model, held, named):
                faults.append(f"operation {number} of seed {seed}: {what} differs")
                models[place] = _new(rng)
            elif number % 20 == 0:
                rows = sorted(held.elements())
                joint = _made(type(model)).fit(_samples(rows, named), LABELS[rows])
                if _file(model, path) != _file(joint, path):
                    faults.append(f"operation {number} of seed {seed}: other bytes after {what}")
    return faults


OPERATIONS = (
    "learn",
    "learn",
    "batches",
    "unlearn",
    "unlearn",
    "withdraw",
    "forget",
    "merge",
    "file",
)


def _new(rng: random.Random) -> tuple[MomentEstimator, Held, bool]:
    kind: Any = rng.choice([ReduNetClassifier, NearestMean])
    named = rng.random() < 0.5
    rows = rng.choices(range(N), k=4)
    return _made(kind).fit(_samples(rows, named), LABELS[rows]), Counter(rows), named


def _change(rng: random.Random, what: str, model: MomentEstimator, held: Held, named: bool) -> Held:
    """Learn or withdraw some samples, and say which are held after it."""
    names = NAMES if named else None
    if what in ("learn", "batches"):
        rows = rng.choices(range(N), k=rng.randint(1, 8))
        if held.total() + len(rows) > MOST_ROWS:
            return held
        if what == "learn":
            model.partial_fit(_samples(rows, named), LABELS[rows])
        else:
            model.partial_fit_batches(((SAMPLES[[row]], LABELS[[row]]) for row in rows), names)
        return held + Counter(rows)
    if what == "forget":
        gone = rng.choice(model.classes_.tolist())
        left = Counter({row: count for row, count in held.items() if LABELS[row] != gone})
        if left:
            model.forget([gone])
        return left or held
    rows = rng.sample(sorted(held.elements()), rng.randint(1, min(6, held.total())))
    left = held - Counter(rows)
    if not left:
        return held
    if what == "unlearn":
        model.unlearn(_samples(rows, named), LABELS[rows])
    else:
        model.unlearn_batches(((SAMPLES[[row]], LABELS[[row]]) for row in rows), names)
    return left


def _samples(rows: list[int], named: bool) -> Any:
    return pd.DataFrame(SAMPLES[rows], columns=NAMES) if named else SAMPLES[rows]


def _equals_joint(model: MomentEstimator, held: Held, named: bool) -> bool:
    """Whether the model holds the sums over its samples, computed here in plain integers."""
    rows = np.array(sorted(held.elements()))
    classes = sorted(set(LABELS[rows].tolist()))
    if model.classes_.tolist() != classes or hasattr(model, "feature_names_in_") != named:
        return False
    for label in classes:
        of_class, moment = GRIDDED[rows[LABELS[rows] == label]], model.moments_[label]
        if (
            moment.count != len(of_class)
            or moment.sum.tolist() != of_class.sum(axis=0).tolist()
            or moment.second_moment.tolist() != (of_class.T @ of_class).tolist()
        ):
            return False
    return True


def _made(kind: Any) -> Any:
    return kind(device="cpu")


def _file(model: MomentEstimator, path: Path) -> bytes:
    model.save(path)
    return path.read_bytes()


if __name__ == "__main__":
    number, start = map(int, sys.argv[1:])
    found = operate(number, start)
    sys.stdout.write("\n".join([*found, f"{number:,} operations, {len(found)} faults\n"]))
    sys.exit(bool(found))
