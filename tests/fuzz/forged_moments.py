"""Moments forged with a valid checksum: refused in one line, or such that samples may have them."""

from __future__ import annotations

import copy
import math
import random
import sys
import tempfile
import warnings
from collections import Counter
from fractions import Fraction
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from redunet import ReduNetClassifier, ReduNetError
from redunet.core.grid import GRID
from redunet.estimators import LinearDiscriminant, load, storage

Matrix = list[list[Fraction]]
State = tuple[dict[str, Tensor], Any]
Class = tuple[int, list[int], Matrix]

FEATURES = (1, 2, 3, 4, 6, 9, 14, 30)
MOST_JUDGED = 14
"""Features of tables that the slow oracle judges: in fractions it takes their cube."""

HUGE = (2**20, 2**40, 2**53 + 1, 2**62, 2**63 - 1, -(2**63))


def forge(n: int, seed: int = 0, outcomes: Counter[str] | None = None) -> list[str]:
    """Make n files, read each and build what can be read; a description of each fault."""
    rng, faults = random.Random(seed), list[str]()
    outcomes = Counter() if outcomes is None else outcomes
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "model")
        for number in range(n):
            tensors, content = copy.deepcopy(_original(rng.randrange(64)))
            before = {name: tensor.clone() for name, tensor in tensors.items()}
            for _ in range(rng.choice((1, 1, 1, 2))):
                _mutate(rng, tensors)
            same = all(torch.equal(tensor, before[name]) for name, tensor in tensors.items())
            path.write_bytes(storage.encode(tensors, content))
            outcome = _attempt(path, tensors)
            outcomes["unchanged" if same and outcome == "accepted" else outcome] += 1
            if outcome.startswith("fault") or (same and outcome == "refused"):
                faults.append(f"file {number} of seed {seed}: {outcome}")
    return faults


@lru_cache(maxsize=64)
def _original(number: int) -> State:
    """A model of two or three classes, with few samples or many, of full rank or not."""
    rng = np.random.default_rng(number)
    d, k = FEATURES[number % len(FEATURES)], 2 + number % 2
    X, y = [], list[int]()
    for label in range(k):
        count = int(rng.choice([1, 2, 3, d, 2 * d + 1, 50]))
        rank = int(rng.choice([1, max(1, d // 3), d]))
        X.append(rng.standard_normal((count, rank)) @ rng.standard_normal((rank, d)))
        y += [label] * count
    rows = np.concatenate(X)
    if number % 5 == 0:
        rows[:, 0] = 0
    model: Any = LinearDiscriminant() if number % 7 == 0 else ReduNetClassifier(n_layers=1)
    with tempfile.TemporaryDirectory() as folder:
        model.fit(rows, y).save(Path(folder, "model"))
        return storage.load(Path(folder, "model"))


def _attempt(path: Path, tensors: dict[str, Tensor]) -> str:
    try:
        model = load(path)
    except ReduNetError as error:
        several = len(str(error).splitlines()) > 1
        return f"fault: an error of several lines: {error}" if several else "refused"
    except Exception as error:  # noqa: BLE001 - any other is what this looks for
        return f"fault while loading: {type(error).__name__}: {error}"
    if tensors["sums"].shape[1] <= MOST_JUDGED:
        for label, found in enumerate(_classes(tensors)):
            why = impossible(*found)
            if why:
                return f"fault: accepted, though {why} in class {label}"
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            scores = model.decision_function(np.ones((1, model.n_features_in_)))
    except ReduNetError as error:
        several = len(str(error).splitlines()) > 1
        return f"fault: an error of several lines: {error}" if several else "not built"
    except Exception as error:  # noqa: BLE001
        return f"fault while building: {type(error).__name__}: {error}"
    return "accepted" if np.isfinite(scores).all() else "fault: scores that are not finite"


def _classes(tensors: dict[str, Tensor]) -> list[Class]:
    """Count, sum and second moment of each class, read by other code than the package's."""
    k, d = tensors["sums"].shape
    ranks = tensors["n_columns"].tolist() if "n_columns" in tensors else [d] * k
    pivots = iter(tensors["pivots"].tolist() if "pivots" in tensors else [])
    entries = iter(tensors["second_moments"].flatten().tolist())
    found = []
    for count, total, r in zip(
        tensors["counts"].tolist(), tensors["sums"].tolist(), ranks, strict=True
    ):
        places = [next(pivots) for _ in range(r)] if r < d else [*range(d)]
        C = [[Fraction(0)] * r for _ in range(d)]
        for i in range(d):
            for column, place in enumerate(places):
                if i not in places or places.index(i) >= column:
                    C[i][column] = Fraction(next(entries))
                    if i in places:
                        C[place][places.index(i)] = C[i][column]
        # S = C B⁻¹ Cᵀ: of all columns, B is S itself, which may have no inverse.
        S = C
        if r < d:
            Z = _solved([C[place] for place in places], [list(row) for row in zip(*C, strict=True)])
            S = [
                [sum((C[i][c] * Z[c][j] for c in range(r)), Fraction(0)) for j in range(d)]
                for i in range(d)
            ]
        found.append((count, total, S))
    return found


def _solved(B: Matrix, right: Matrix) -> Matrix:
    """B⁻¹ times a matrix."""
    rows = [[*row, *other] for row, other in zip(B, right, strict=True)]
    for j in range(len(rows)):
        pivot = next(i for i in range(j, len(rows)) if rows[i][j])
        rows[j], rows[pivot] = rows[pivot], rows[j]
        rows[j] = [value / rows[j][j] for value in rows[j]]
        for i in range(len(rows)):
            if i != j and rows[i][j]:
                factor = rows[i][j]
                rows[i] = [x - factor * y for x, y in zip(rows[i], rows[j], strict=True)]
    return [row[len(B) :] for row in rows]


def impossible(count: int, total: list[int], S: Matrix) -> str | None:
    """Why no samples on the unit sphere can have these moments; None where nothing is found.

    In fractions, but for the eigenvalues: these may be negative by twice what a factorisation in
    float64 cannot tell from 0.
    """
    d = len(total)
    if not 1 <= count < 2**23:
        return f"there are {count} samples"
    for i in range(d):
        s, square = total[i], S[i][i]
        if square.denominator != 1 or (square - s) % 2 or not -count * GRID <= s <= count * GRID:
            return f"the sum {s} does not go with {square}"
        q, r = divmod(s, count)
        if not count * q * q + r * (2 * q + 1) <= square <= count * GRID**2:
            return f"the values of feature {i} have the sum {s} and the squares {square}"
        for j in range(i):
            if S[i][j].denominator != 1 or S[i][j] != S[j][i]:
                return f"entry {i}, {j} is {S[i][j]}"
            if S[i][j] ** 2 > square * S[j][j]:
                return f"entry {i}, {j} is too large"
    slack, trace = math.isqrt(d) // 2 + 3, sum(S[i][i] for i in range(d))
    if not any(
        m * (GRID - slack) ** 2 <= trace <= m * (GRID + slack) ** 2
        for m in range(min(count, int(trace) // (GRID - slack) ** 2 + 1) + 1)
    ):
        return f"vectors of length 1 have no trace of {float(trace):g}"
    border = [Fraction(count), *map(Fraction, total)]
    whole = [border, *([Fraction(s), *row] for s, row in zip(total, S, strict=True))]
    if count <= d and _pivots(whole, Fraction(0)) > count:
        return f"the rank is above {count}"
    scaled = [[x * (GRID if i == 0 else 1) * (GRID if j == 0 else 1) for j, x in enumerate(row)]
              for i, row in enumerate(whole)]  # fmt: skip
    size = count * GRID**2 + trace
    if _pivots(scaled, size * (d + 5) / Fraction(2**49)) < 0:
        return "there is a negative eigenvalue"
    return None


def _pivots(A: Matrix, shift: Fraction) -> int:
    """How many pivots of A plus a multiple of the identity are positive; -1 if one is negative.

    Without a shift it is the rank, of a matrix without negative eigenvalues.
    """
    rows = [[x + shift * (i == j) for j, x in enumerate(row)] for i, row in enumerate(A)]
    found = 0
    for j in range(len(rows)):
        pivot = rows[j][j]
        if pivot < 0 and shift:
            return -1
        if pivot == 0:
            continue
        found += 1
        for i in range(j + 1, len(rows)):
            factor = rows[i][j] / pivot
            rows[i] = [x - factor * y for x, y in zip(rows[i], rows[j], strict=True)]
    return found


def _mutate(rng: random.Random, tensors: dict[str, Tensor]) -> None:
    """Change one thing that a class's moments are made of."""
    names = [
        name
        for name in ("counts", "sums", "second_moments", "n_columns", "pivots")
        if name in tensors
    ]
    name = rng.choice([*names, "sums", "second_moments", "second_moments"])
    flat, how = tensors[name].view(-1), rng.random()
    if not len(flat):
        return
    place = rng.randrange(len(flat))
    value = int(flat[place])
    if how < 0.4:
        more = rng.choice((1, -1, 2, -2, 4, 1000, -1000, 2**21, -(2**30), 2**39))
        flat[place] = max(-(2**63), min(value + more, 2**63 - 1))
    elif how < 0.5:
        flat[place] = rng.choice((-value, 0, value // 2, min(2 * value, 2**62), *HUGE))
    elif how < 0.6:
        k = len(tensors["counts"])
        one, other = rng.sample(range(k), 2)
        tensor = tensors[rng.choice(("sums", "counts"))]
        tensor[[one, other]] = tensor[[other, one]].clone()
    elif how < 0.7:  # of a whole class, or of all
        factor = rng.choice((-1, 2, 3, 0))
        for of in rng.choice((["sums"], ["second_moments"], ["counts", "sums", "second_moments"])):
            tensors[of] *= factor
    elif how < 0.8:
        at = rng.sample(range(len(flat)), min(len(flat), rng.choice((2, 3))))
        flat[at] = flat[[*at[1:], at[0]]].clone()
    elif how < 0.9:
        off = rng.choice((1, 2, 100))
        noise = [rng.randint(-off, off) * 2 for _ in range(len(flat))]
        flat += torch.tensor(noise)
    else:  # a stranger's sample in the sums, or in the squares, or in both of them
        generator = torch.Generator().manual_seed(rng.randrange(2**31))
        x = torch.randn(tensors["sums"].shape[1], generator=generator)
        x = (x / x.norm() * GRID).round().long()
        own = rng.randrange(len(tensors["counts"]))
        sign = rng.choice((1, -1))
        if rng.random() < 0.6:
            tensors["sums"][own] += sign * x
        if rng.random() < 0.6 and tensors["second_moments"].ndim == 2:
            tensors["second_moments"][own] += (
                sign * torch.outer(x, x)[tuple(torch.tril_indices(len(x), len(x)))]
            )
        if rng.random() < 0.6:
            tensors["counts"][own] += sign


if __name__ == "__main__":
    number, start = map(int, sys.argv[1:])
    counts: Counter[str] = Counter()
    found = forge(number, start, counts)
    sys.stdout.write(
        "\n".join([*found, f"{number:,} tables: {dict(counts)}, {len(found)} faults\n"])
    )
    sys.exit(bool(found))
