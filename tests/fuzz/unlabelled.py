"""Random sequences with samples that the model labels itself, compared with plain arithmetic.

What docs/unlabelled.md promises: labels are those that add the shortest code, given in rounds
within quotas, by all that the model has learnt; samples that people labelled have a table of their
own, which these never touch; withdrawing any of those withdraws all of these, and says so.
"""

from __future__ import annotations

import math
import random
import sys
import tempfile
import warnings
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from redunet import ReduNetClassifier
from redunet.core.grid import GRID, unit_rows
from redunet.core.moments import ClassMoments
from redunet.estimators import load
from redunet.estimators.base import SelfLabelledWarning
from tests.fuzz import operations
from tests.fuzz.operations import GRIDDED, LABELS, MOST_ROWS, NAMES, SAMPLES, D, Held, N

UNIT = unit_rows(torch.from_numpy(SAMPLES)).numpy()
EPS, ROUNDS, SHARE = 0.5, 5, 0.9
"""As the default settings and docs/unlabelled.md have them."""
MOST_OWN = 200
"""Samples that a model has labelled itself, beyond which it is not merged: each merge adds them."""

Own = Counter[tuple[int, int]]
"""How often a model has labelled each sample, and with which class."""

OPERATIONS = (*operations.OPERATIONS, *4 * ("unlabelled",), "mixed", "forget unlabelled")


@dataclass
class Case:
    """A model, and what it should have learnt."""

    model: ReduNetClassifier
    held: Held
    own: Own
    named: bool


def self_label(n: int, seed: int = 0) -> list[str]:
    """Do n operations on a few models; a description of each difference from the promises."""
    rng = random.Random(seed)
    faults: list[str] = []
    cases: list[Case] = []
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "model")
        for number in range(n):
            if len(cases) < 3 or rng.random() < 0.02:
                cases = [*cases[-3:], _new(rng)]
            case = rng.choice(cases)
            what = rng.choice(OPERATIONS)
            fault = _operate(rng, what, case, cases, path) or _difference(case)
            if fault is None and number % 10 == 0 and case.model.to_bytes() != _joint(case):
                fault = "the file has other bytes"
            if fault is not None:
                faults.append(f"operation {number} of seed {seed}: after {what}, {fault}")
                cases.remove(case)
    return faults


def _new(rng: random.Random) -> Case:
    rows, named = rng.choices(range(N), k=rng.choice((1, 4, 8))), rng.random() < 0.5
    model = ReduNetClassifier(device="cpu", memory=rng.choice(("2GB", 0)))
    model.fit(operations._samples(rows, named), LABELS[rows])
    return Case(model, Counter(rows), Counter(), named)


def _operate(
    rng: random.Random, what: str, case: Case, cases: list[Case], path: Path
) -> str | None:
    """Do one operation, and say of the case what should be so after it."""
    rows = rng.choices(range(N), k=rng.randint(1, 25))
    if what == "unlabelled":
        names = NAMES if case.named and rng.random() < 0.5 else None
        given = SAMPLES[rows] if names else operations._samples(rows, case.named)
        case.model.learn_unlabelled(given, names)
        case.own = case.own + _labelled(case, rows)
    elif what == "mixed":
        y = np.array([LABELS[row] if rng.random() < 0.3 else -1 for row in rows])
        known = [row for row, label in zip(rows, y, strict=True) if label >= 0]
        if case.held.total() + len(known) > MOST_ROWS:
            return None
        case.model.partial_fit(operations._samples(rows, case.named), y, unlabelled=-1)
        case.held = case.held + Counter(known)
        case.own = case.own + _labelled(
            case, [row for row, label in zip(rows, y, strict=True) if label < 0]
        )
    elif what == "forget unlabelled":
        case.model.forget_unlabelled()
        case.own = Counter()
    elif what == "merge":
        other = rng.choice([one for one in cases if one.named == case.named])
        few = case.held.total() + other.held.total() <= MOST_ROWS
        if few and case.own.total() + other.own.total() <= MOST_OWN:
            case.model.merge(other.model)
            case.held, case.own = case.held + other.held, case.own + other.own
    elif what == "file":
        case.model.save(path)
        memory = case.model.memory
        case.model = load(path)
        case.model.memory = memory
    else:
        before = case.held
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            case.held = operations._change(rng, what, case.model, before, case.named)
        withdrawn = what in ("unlearn", "withdraw", "forget") and case.held != before
        warned = [str(one.message) for one in said if one.category is SelfLabelledWarning]
        expected = f"{case.own.total():,} samples that the model had labelled itself"
        if withdrawn and case.own and not (len(warned) == 1 and warned[0].startswith(expected)):
            return f"it said {warned}"
        if warned and not (withdrawn and case.own):
            return f"it said {warned} of nothing"
        if withdrawn:
            case.own = Counter()
    return None


def _labelled(case: Case, rows: list[int]) -> Own:
    """The labels of a call, by the formulas of docs/unlabelled.md in plain NumPy."""
    if not rows:
        return Counter()
    every = [(row, int(LABELS[row])) for row in case.held.elements()] + [*case.own.elements()]
    classes = sorted({label for _, label in every})
    learnt = [GRIDDED[[row for row, label in every if label == one]] for one in classes]
    counts = np.array([len(X) for X in learnt])
    quotas = np.ceil(counts / counts.sum() * (SHARE * len(rows))).astype(int)
    Sigmas, sums = [], []
    for X in learnt:  # on the grid, and scaled to the trace that unit vectors have
        scale = len(X) / float((X.astype(object) ** 2).sum())
        Sigmas.append((X.T @ X).astype(float) * scale)
        sums.append(X.sum(axis=0) * math.sqrt(scale))
    Z, given = UNIT[rows], np.full(len(rows), -1)
    for _ in range(ROUNDS):
        outside = np.empty((len(rows), len(classes)))
        for j in range(len(classes)):
            more = Z[given == j]
            n, total = counts[j] + len(more), sums[j] + more.sum(axis=0)
            outside[:, j] = _outside(Z, Sigmas[j] + more.T @ more, total, n)
        given = _within_quotas(outside, quotas)
    return Counter((row, classes[j]) for row, j in zip(rows, given, strict=True) if j >= 0)


def _outside(
    Z: NDArray[np.float64], Sigma: NDArray[np.float64], total: NDArray[np.float64], n: int
) -> NDArray[np.float64]:
    """xᵀ (I + α Σ)⁻¹ x of x = (z, 1)/√2: what a class leaves uncoded of each sample, (n,)."""
    d = D + 1
    whole = np.block([[Sigma, total[:, None]], [total[None], np.array([[n]])]]) / 2
    P = np.linalg.inv(np.eye(d) + d / (n * EPS**2) * whole)
    X = np.c_[Z, np.ones(len(Z))] / math.sqrt(2)
    outside: NDArray[np.float64] = np.einsum("ni,ij,nj->n", X, P, X)
    return outside


def _within_quotas(outside: NDArray[np.float64], quotas: NDArray[Any]) -> NDArray[Any]:
    """The class of each sample, −1 for those that its class has a full quota of surer ones of."""
    best = outside.argmin(axis=1)
    if outside.shape[1] == 1:
        margins = 1 - outside[:, 0]
    else:
        least = np.sort(outside, axis=1)
        margins = least[:, 1] - least[:, 0]
    given = np.full(len(best), -1)
    for j, quota in enumerate(quotas):
        of_class = [row for row in np.argsort(-margins, kind="stable") if best[row] == j]
        given[of_class[:quota]] = j
    return given


def _difference(case: Case) -> str | None:
    """What of a model is not as it should be."""
    model = case.model
    if not operations._equals_joint(model, case.held, case.named):
        return "what people labelled differs"
    counts = Counter(label for _, label in case.own.elements())
    if model.self_labelled_counts_ != dict(counts):
        return f"it has labelled {model.self_labelled_counts_}, not {dict(counts)}"
    own = model.self_labelled_
    for label in counts:
        rows = [row for row, given in case.own.elements() if given == label]
        moment, X = None if own is None else own[label], GRIDDED[rows]
        if (
            moment is None
            or moment.sum.tolist() != X.sum(axis=0).tolist()
            or moment.second_moment.tolist() != (X.T @ X).tolist()
        ):
            return f"it has labelled other samples {label}"
    return None


def _joint(case: Case) -> bytes:
    """The file of a model that learns the same in two calls."""
    rows = sorted(case.held.elements())
    model = ReduNetClassifier(device="cpu")
    model.fit(operations._samples(rows, case.named), LABELS[rows])
    if case.own:
        own = sorted(case.own.elements())
        vectors = torch.from_numpy(UNIT[[row for row, _ in own]])
        table = ClassMoments(D).update(vectors, [label for _, label in own], lambda part: part)
        model._set_moments(model._fitted(), model.moments_, table)
    return model.to_bytes()


assert (np.round(UNIT * GRID) == GRIDDED).all()

if __name__ == "__main__":
    number, start = map(int, sys.argv[1:])
    found = self_label(number, start)
    sys.stdout.write("\n".join([*found, f"{number:,} operations, {len(found)} faults\n"]))
    sys.exit(bool(found))
