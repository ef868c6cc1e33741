"""Learning moments from samples in memory, against the floor."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from benchmarks.cases import pixels
from benchmarks.measure import moments_floor, yardsticks
from redunet.grid import unit_rows
from redunet.moments import ClassMoments


@pytest.mark.parametrize(("d", "m", "rounds"), [(784, 20_000, 7), (2048, 8_000, 5)])
def test_moments(medians: Any, report: Any, d: int, m: int, rounds: int) -> None:
    X, y = pixels(m, d, 10)
    work = lambda: ClassMoments(d).update(X, y)  # noqa: E731
    took = medians(work, {"product": yardsticks(d, torch.float64)["product"]}, rounds)
    floor = moments_floor(m, d, took["product"])
    report(
        f"moments of {m:,} samples, d {d}, float64",
        floor=floor,
        measured=took["measured"],
        over_floor=took["measured"] / floor,
    )


@pytest.mark.parametrize("way", ["memory-mapped file", "iterator of batches of 1,000"])
def test_streams(medians: Any, report: Any, tmp_path: Path, way: str) -> None:
    d, m = 784, 20_000
    X, y = pixels(m, d, 10)
    np.save(tmp_path / "x.npy", X.numpy())
    mapped = np.load(tmp_path / "x.npy", mmap_mode="r")

    def batches() -> Iterator[tuple[Any, Any]]:
        for start in range(0, m, 1000):
            yield mapped[start : start + 1000], y[start : start + 1000]

    def work() -> object:
        embed = lambda rows: unit_rows(torch.from_numpy(np.array(rows)))  # noqa: E731
        if way.startswith("memory"):
            return ClassMoments(d).update(mapped, y, embed)
        return ClassMoments(d).update_from(batches(), embed)

    took = medians(work, {"product": yardsticks(d, torch.float64)["product"]}, 5)
    floor = moments_floor(m, d, took["product"])
    report(
        f"moments of {m:,} samples, d {d}, {way}",
        floor=floor,
        measured=took["measured"],
        over_floor=took["measured"] / floor,
    )
