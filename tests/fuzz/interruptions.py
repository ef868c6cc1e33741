"""Interrupt the methods that change a model at any bytecode; it must be as before or as after."""

from __future__ import annotations

import copy
import random
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
import pandas as pd

import redunet
from redunet import ReduNetClassifier

PACKAGE = str(Path(redunet.__file__).parent)
RNG = np.random.default_rng(0)
X = RNG.standard_normal((24, 4))
y = np.arange(24) % 3
NAMED = pd.DataFrame(RNG.standard_normal((12, 5)), columns=list("abcde"))

Operation = Callable[[ReduNetClassifier], object]


def fresh() -> ReduNetClassifier:
    """A small model that has learnt nothing."""
    return ReduNetClassifier(n_layers=1, n_components=2, device="cpu")


OTHER = fresh().fit(X[:9] + 1, y[:9] + 2)
OPERATIONS: dict[str, Operation] = {
    "fit": lambda model: model.fit(NAMED, ["p", "q"] * 6),
    "partial_fit": lambda model: model.partial_fit(X[:6] + 3, [3] * 6),
    "partial_fit_batches": lambda model: model.partial_fit_batches(
        [(X[:6] + 3, y[:6]), (X[:6] + 1, y[:6])]
    ),
    "forget": lambda model: model.forget([1]),
    "unlearn": lambda model: model.unlearn(X[:5], y[:5]),
    "unlearn_batches": lambda model: model.unlearn_batches([(X[:2], y[:2]), (X[2:5], y[2:5])]),
    "merge": lambda model: model.merge(OTHER),
    "remember": lambda model: model.remember(OTHER.moments_),
}


def seen(model: ReduNetClassifier) -> tuple[Any, ...]:
    """All that a model shows of what it has learnt."""
    names = getattr(model, "feature_names_in_", np.array([])).tolist()
    new = np.ones((2, model.n_features_in_))
    samples = pd.DataFrame(new, columns=names) if names else new
    tables = [tensor.tolist() for tensor in model.moments_.to_tensors().values()]
    return (
        model.classes_.tolist(),
        model.n_features_in_,
        names,
        tables,
        model.network_.labels,
        model.predict_proba(samples).tolist(),
    )


@contextmanager
def interrupted_at(stop: int | None) -> Iterator[list[int]]:
    """Raise KeyboardInterrupt at the given bytecode of the package; count those before it."""
    count = [0]

    def trace(frame: FrameType, event: str, _: Any) -> Any:
        if not frame.f_code.co_filename.startswith(PACKAGE):
            return None
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        if event == "opcode":
            count[0] += 1
            if count[0] == stop:
                raise KeyboardInterrupt
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        yield count
    finally:
        sys.settrace(before)


def interrupt(n: int, seed: int = 0) -> list[str]:
    """Interrupt n times, at points spread over all operations; what was found broken."""
    rng = random.Random(seed)
    base = fresh().fit(X, y)
    faults: list[str] = []
    for name, operation in OPERATIONS.items():
        model = copy.copy(base)
        with interrupted_at(None) as count:
            operation(model)
        before, after, total = seen(base), seen(model), count[0]
        share = max(1, n // len(OPERATIONS))
        stops = rng.sample(range(1, total + 1), share) if share < total else range(1, total + 1)
        for stop in stops:
            model = copy.copy(base)
            try:
                with interrupted_at(stop):
                    operation(model)
            except KeyboardInterrupt:
                found = seen(model)
                if found not in (before, after):
                    faults.append(f"{name} torn at bytecode {stop} of {total}")
            else:
                faults.append(f"{name} went on at bytecode {stop} of {total}")
    return faults


def interrupt_loading(n: int, seed: int = 0) -> list[str]:
    """Interrupt n times while a model file is read or written; the file must stay readable."""
    rng = random.Random(seed)
    faults: list[str] = []
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "model")
        OTHER.save(path)
        expected = path.read_bytes()
        ReduNetClassifier.load(path)  # the first time does more
        with interrupted_at(None) as count:
            ReduNetClassifier.load(path)
        for stop in (rng.randint(1, count[0]) for _ in range(n)):
            try:
                with interrupted_at(stop):
                    ReduNetClassifier.load(path)
            except KeyboardInterrupt:
                if path.read_bytes() != expected:
                    faults.append(f"load changed the file at bytecode {stop}")
            else:
                faults.append(f"load went on at bytecode {stop}")
    return faults


if __name__ == "__main__":
    number, start = map(int, sys.argv[1:])
    found = interrupt(number, start)
    sys.stdout.write("\n".join([*found, f"{number:,} interruptions, {len(found)} faults\n"]))
    sys.exit(bool(found))
