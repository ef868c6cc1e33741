"""A short run of forged moments; ``python -m tests.fuzz.forged_moments N SEED`` is the long one."""

from __future__ import annotations

from collections import Counter
from fractions import Fraction

import pytest

from tests.fuzz.forged_moments import forge, impossible


@pytest.mark.usefixtures("one_thread")
def test_forged_moments_are_refused_or_possible() -> None:
    outcomes: Counter[str] = Counter()
    assert forge(300, 0, outcomes) == []
    assert outcomes["refused"] > 150
    assert outcomes["accepted"] > 5
    assert outcomes.total() == 300


def test_the_oracle_knows_what_is_impossible() -> None:
    unit = 2**20

    def judged(count: int, total: list[int], *rows: list[int]) -> str | None:
        return impossible(count, total, [[Fraction(x) for x in row] for row in rows])

    two = [[unit**2, 0], [0, unit**2]]
    assert judged(2, [unit, unit], *two) is None
    assert judged(3, [unit, 0], *two) is None  # one of them zero: nobody can tell
    assert "rank is above 2" in str(judged(2, [unit, 0], *two))
    assert "samples" in str(judged(0, [0, 0], *two))
    assert "does not go with" in str(judged(2, [unit + 1, unit], *two))
    assert "too large" in str(judged(2, [0, 0], [unit**2, unit**2 + 1], [unit**2 + 1, unit**2]))
    assert "no trace of" in str(judged(2, [0, 0], [unit**2 // 2, 0], [0, 0]))
    assert "rank is above 1" in str(judged(1, [unit, 0], [unit**2, 0], [0, 2]))
