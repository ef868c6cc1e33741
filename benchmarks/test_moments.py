"""Learning moments, from samples in memory and as they come, against the floor."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from benchmarks.cases import pixels
from benchmarks.measure import moments_floor, yardsticks
from redunet.core.grid import unit_grid
from redunet.core.moments import ClassMoments


@pytest.mark.parametrize("dtype", [torch.uint8, torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize(("d", "rounds"), [(784, 9), (2048, 5)])
def test_moments(medians: Any, report: Any, d: int, rounds: int, dtype: torch.dtype) -> None:
    m = 60_000
    X, y = pixels(m, d, 10)
    if dtype.is_floating_point:
        X = X + torch.rand(m, d, dtype=dtype, generator=torch.Generator().manual_seed(d))
    work = lambda: ClassMoments(d).update(X, y)  # noqa: E731
    took = medians(work, {"product": yardsticks(d, torch.float64)["product"]}, rounds)
    against_floor(report, f"d {d}, samples in {str(dtype).removeprefix('torch.')}", m, d, took)


def test_few_samples_a_class(medians: Any, report: Any) -> None:
    d, m = 2048, 8_000
    X, y = pixels(m, d, 10)
    took = medians(
        lambda: ClassMoments(d).update(X, y),
        {"product": yardsticks(d, torch.float64)["product"]},
        5,
    )
    against_floor(report, f"d {d}, 800 a class", m, d, took)


@pytest.mark.parametrize("way", ["memory-mapped file", "iterator of batches of 1,000"])
def test_streams(medians: Any, report: Any, tmp_path: Path, way: str) -> None:
    d, m = 784, 60_000
    X, y = pixels(m, d, 10)
    np.save(tmp_path / "x.npy", X.numpy())
    mapped = np.load(tmp_path / "x.npy", mmap_mode="r")

    def batches() -> Iterator[tuple[Any, Any]]:
        for start in range(0, m, 1000):
            yield mapped[start : start + 1000], y[start : start + 1000]

    def work() -> object:
        embed = lambda rows: unit_grid(torch.from_numpy(np.asarray(rows)))  # noqa: E731
        if way.startswith("memory"):
            return ClassMoments(d).update(mapped, y, embed)
        return ClassMoments(d).update_from(batches(), embed)

    took = medians(work, {"product": yardsticks(d, torch.float64)["product"]}, 9)
    against_floor(report, f"d {d}, {way}", m, d, took)


def against_floor(report: Any, case: str, m: int, d: int, took: dict[str, float]) -> None:
    floor = moments_floor(m, d, took["product"])
    report(
        f"moments of {m:,} samples, {case}",
        floor=floor,
        measured=took["measured"],
        over_floor=took["measured"] / floor,
    )
