"""Classes are compared two by two by default only where there are few of them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from redunet_lab.compare import compare
from redunet_lab.methods import PAIRS_UP_TO


@pytest.mark.usefixtures("no_pictures", "one_thread")
@pytest.mark.parametrize("k", [PAIRS_UP_TO, PAIRS_UP_TO + 1])
def test_pairs_of_many_classes_must_be_named(tmp_path: Path, k: int) -> None:
    rng = np.random.default_rng(0)
    y = np.repeat(np.arange(k), 8)
    X = rng.standard_normal((k, 12))[y] + 0.1 * rng.standard_normal((len(y), 12))
    np.savez(tmp_path / "own.npz", X=X, y=y)
    changes = {"ranpac": {"n_projections": 20}, "klda": {"n_projections": 20}}
    record = compare(str(tmp_path / "own.npz"), tmp_path / "out", changes=changes)
    methods = [one["method"] for one in record["methods"]]
    assert ("pairwise" in methods) == (k <= PAIRS_UP_TO)
