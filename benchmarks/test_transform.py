"""Moving samples through a layer, against the floor."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from benchmarks.cases import one_transform, second_moments
from benchmarks.measure import transform_floor, yardsticks

K = 10


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=str)
@pytest.mark.parametrize(("d", "n", "rounds"), [(784, 2048, 11), (2048, 1024, 5)])
def test_samples(
    medians: Any, report: Any, d: int, n: int, rounds: int, dtype: torch.dtype
) -> None:
    Sigma, coding = second_moments(K, d)
    work = one_transform(Sigma.to(dtype), coding, n)
    took = medians(work, {"product": yardsticks(d, dtype)["product"]}, rounds)
    floor = transform_floor(K, d, n, took["product"])
    report(
        f"transform {n:,} samples, d {d}, k {K}, {str(dtype).removeprefix('torch.')}",
        floor=floor,
        measured=took["measured"],
        over_floor=took["measured"] / floor,
    )
