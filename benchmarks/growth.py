"""How a network grows with its classes, and how much of it they can share.

``python -m benchmarks.growth`` measures and writes ``results/growth.json``;
``python -m benchmarks.growth_page`` makes the figure and the table of ``growth.md``.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from benchmarks.measure import exponent, machine
from benchmarks.shared_filters import CLEARED, Cuts, plain, size, stored
from redunet import __version__
from redunet.core.construction import Schedule
from redunet.core.fused_network import FACTOR
from redunet.core.fusion import Fusion
from redunet.core.memberships import Sharpness
from redunet.core.moments import ClassMoments
from redunet.core.network import build_network
from redunet.core.readouts import read_out
from redunet_lab import datasets

RECORD = Path(__file__).parent / "results" / "growth.json"
SEED = 0
TESTED = 1000
"""Test samples at most: half of them to find R, the others to check it."""

N_COMPONENTS, RIDGE = 28, 0.01


@dataclass(frozen=True)
class Model:
    """Settings of a network."""

    eps: float
    schedule: Schedule
    sharpness: Sharpness
    readout: str


DEFAULT = Model(0.5, Schedule(2, 0.5, 0.933), Sharpness(1.0), "subspace")
DEEP = Model(0.5, Schedule(50, 0.5, 0.933), Sharpness(1.0), "subspace")
VECTORS = Model(
    4.0, Schedule(2, 0.8, 0.933, "relative"), Sharpness(100.0, "relative"), "discriminant"
)
SHORT, LONG = (
    Model(0.5, Schedule(2, step, 0.933, "relative"), Sharpness(100.0, "relative"), "subspace")
    for step in (0.2, 0.8)
)


@dataclass(frozen=True, eq=False)
class Samples:
    """Samples to learn and to test, as vectors, with their classes in a seeded order."""

    x_train: Tensor
    y_train: NDArray[Any]
    x_test: Tensor
    y_test: NDArray[Any]

    @property
    def classes(self) -> NDArray[Any]:
        """All classes; the first k of them make the network of k classes."""
        return np.random.default_rng(SEED).permutation(np.unique(self.y_train))

    def learnt(self, k: int) -> ClassMoments:
        """Moments of the first k classes."""
        some = np.isin(self.y_train, self.classes[:k])
        moments = ClassMoments(self.x_train.shape[1])
        return moments.update(self.x_train[torch.from_numpy(some)], self.y_train[some].tolist())

    def tested(self, k: int) -> Tensor:
        """Test samples of the first k classes on the unit sphere, (at most `TESTED`, d)."""
        (some,) = np.isin(self.y_test, self.classes[:k]).nonzero()
        some = np.random.default_rng(SEED).permutation(some)[:TESTED]
        return torch.nn.functional.normalize(self.x_test[torch.from_numpy(some)], dim=1)


@cache
def of_data_set(name: str, per_class: int | None = None) -> Samples:
    """A data set of the package, maybe with the first samples of each class only."""
    data = datasets.load(name)
    X, y = data.x_train, data.y_train
    if per_class is not None:
        chosen = np.concatenate([(y == label).nonzero()[0][:per_class] for label in np.unique(y)])
        X, y = X[chosen], y[chosen]
    rows = [torch.from_numpy(x.reshape(len(x), -1)).double() for x in (X, data.x_test)]
    return Samples(rows[0], y, rows[1], data.y_test)


COMMON, INSIDE, OWN, LITTLE = 32, 4, 2, 0.1


@cache
def generated(k: int = 1000, d: int = 128, per_class: int = 20) -> Samples:
    """Classes that overlap: subspaces of one common subspace, and a little of their own.

    A sample of class j is normal in `INSIDE` random directions of a common subspace of
    `COMMON` dimensions, plus `LITTLE` times normal in `OWN` random directions of all others.
    """
    rng = np.random.default_rng(SEED)
    rotation = np.linalg.qr(rng.standard_normal((d, d)))[0]
    parts: list[list[NDArray[Any]]] = [[], []]
    for _ in range(k):
        inside = np.linalg.qr(rng.standard_normal((COMMON, INSIDE)))[0]
        own = np.linalg.qr(rng.standard_normal((d - COMMON, OWN)))[0]
        for part, n in zip(parts, (per_class, 2 * per_class), strict=True):
            within = rng.standard_normal((n, INSIDE)) @ inside.T / np.sqrt(INSIDE)
            beside = LITTLE * rng.standard_normal((n, OWN)) @ own.T / np.sqrt(OWN)
            part.append(np.concatenate([within, beside], axis=1) @ rotation.T)
    X, T = (torch.from_numpy(np.concatenate(part)) for part in parts)
    y, y_test = (np.repeat(np.arange(k), len(rows) // k) for rows in (X, T))
    return Samples(X, y, T, y_test)


@dataclass(frozen=True, eq=False)
class Case:
    """Samples, settings and the numbers of classes to look at."""

    samples: Callable[[], Samples]
    model: Model
    sizes: tuple[int, ...]


INTENTS, FEW = (10, 25, 50, 100, 150), (2, 3, 4, 6, 8, 10)
MANY = (10, 30, 100, 300, 1000)
CASES = {
    "CLINC150, default settings": Case(lambda: of_data_set("clinc150"), DEFAULT, INTENTS),
    "CLINC150, settings for vectors": Case(lambda: of_data_set("clinc150"), VECTORS, INTENTS),
    "MNIST": Case(lambda: of_data_set("mnist", 1000), DEFAULT, FEW),
    "Fashion-MNIST": Case(lambda: of_data_set("fashion_mnist", 1000), DEFAULT, FEW),
    "digits": Case(lambda: of_data_set("digits"), DEFAULT, FEW),
    "digits, 50 layers": Case(lambda: of_data_set("digits"), DEEP, FEW),
    "generated, short steps": Case(generated, SHORT, MANY),
    "generated, long steps": Case(generated, LONG, MANY),
}
FORMS = {
    "plain": "plain network",
    "low_rank": "low rank, exact",
    "shared": "shared directions",
    "own": "each class cut",
    "both": "shared, each class cut",
}


def measure(case: Case, k: int) -> dict[str, Any]:
    """One row of the record: what k classes take in each form, and what became of the labels."""
    samples, model = case.samples(), case.model
    moments, Z = samples.learnt(k), samples.tested(k)
    network = build_network(moments, model.eps, model.schedule)
    scores = read_out(network, model.readout, N_COMPONENTS, RIDGE).scores
    cuts = Cuts(network, model.sharpness, scores)
    to_find, to_check = Z[::2], Z[1::2]
    labels = scores(network.transform(to_check, model.sharpness)).argmax(dim=1)
    d, exact = moments.n_features, stored(cuts.layers)
    row: dict[str, Any] = {
        "k": k,
        "d": d,
        "path": round(sum(network.layers.steps), 4),
        "checked": len(to_check),
        "plain": plain(k, d, len(cuts.layers))._asdict(),
        "low_rank": exact._asdict(),
    }
    # Of the samples that may stay in doubt, the cut of the classes may leave half.
    r, _ = cuts.fewest(cuts.own, cuts.most_of_class, to_find, (1 + CLEARED) / 2)
    forms: dict[str, tuple[Callable[[int], Fusion], Callable[[int], Fusion], int]] = {
        "shared": (cuts.shared, cuts.shared, cuts.most),
        "own": (cuts.own, cuts.own, cuts.most_of_class),
        "both": (
            lambda R: cuts.shared_and_own(R, r),
            lambda R: cuts.shared_and_own(R, max(1, r // 2)),
            cuts.most,
        ),
    }
    for form, (cut, coarser, most) in forms.items():
        directions, cleared = cuts.fewest(cut, most, to_find)
        pair = coarser(max(1, directions // 2)), cut(directions)
        answers, alone, done = cuts.answer(*pair, to_check)
        first, second = (size(one, d) for one in pair)
        fell_back = float((~done).double().mean())
        row[form] = {
            **second._asdict(),
            "directions": directions,
            "of": most,
            "cleared": round(cleared, 4),
            "labels_differ": int((answers != labels).sum()),
            "labels_differ_unchecked": int((alone != labels).sum()),
            "fell_back": round(fell_back, 4),
            "products_checked": round(
                first.products + second.products + fell_back * exact.products
            ),
        }
    row["both"]["directions_of_class"] = r
    return row


def exponents(rows: list[dict[str, Any]]) -> dict[str, dict[str, float]]:
    """How filters, numbers and products of each form grow with k: fitted powers of it."""
    sizes = [row["k"] for row in rows]
    return {
        form: {
            what: round(exponent(sizes, [row[form][what] for row in rows]), 3)
            for what in ("filters", "numbers", "products")
        }
        for form in FORMS
    }


def main() -> None:
    """Measure all cases and write the record."""
    torch.set_num_threads(1)
    about = {**machine(), "redunet": __version__, "numpy": np.__version__}
    cases, start = [], time.perf_counter()
    for name, case in CASES.items():
        rows = []
        for k in case.sizes:
            rows.append(measure(case, k))
            print(
                name, k, rows[-1]["shared"]["directions"], rows[-1]["own"]["directions"], flush=True
            )
        cases.append(
            {
                "case": name,
                "model": asdict(case.model),
                "exponents": exponents(rows),
                "rows": rows,
            }
        )
    record = {
        "kind": "growth",
        "version": 1,
        "command": "python -m benchmarks.growth",
        "machine": about,
        "seconds": round(time.perf_counter() - start),
        "seed": SEED,
        "share_to_clear": CLEARED,
        "factor": FACTOR,
        "bytes_per_number": 8,
        "n_components": N_COMPONENTS,
        "ridge": RIDGE,
        "cases": cases,
    }
    RECORD.write_text(json.dumps(record, indent=1, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
