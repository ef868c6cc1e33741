"""Learning moments from samples in memory, against the floor."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from benchmarks.cases import pixels
from benchmarks.measure import moments_floor, yardsticks
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
