"""Samples that wait to be learnt."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import torch
from hypothesis import given
from hypothesis import strategies as st

from redunet.core.labels import Label
from redunet.core.waiting import Waiting

BATCHES = st.lists(st.tuples(st.integers(0, 3), st.integers(1, 6)), max_size=30)


@given(BATCHES, st.integers(1, 8), st.integers(0, 100))
def test_every_sample_is_learnt_once_and_few_wait(
    batches: list[tuple[int, int]], enough: int, most_bytes: int
) -> None:
    learnt: dict[Label, list[int]] = defaultdict(list)

    def learn(label: Label, samples: list[Any]) -> None:
        learnt[label] += torch.cat(samples).tolist()

    added: dict[Label, list[int]] = defaultdict(list)
    waiting, number = Waiting(learn, most_bytes), 0
    for label, count in batches:
        samples = torch.arange(number, number + count, dtype=torch.int64)
        number += count
        waiting.add(label, samples, enough)
        added[label] += samples.tolist()
        left = {label: len(rows) - len(learnt[label]) for label, rows in added.items()}
        assert {label for label, rows in left.items() if rows} == set(waiting)
        assert all(rows < enough for rows in left.values())
        assert 8 * sum(left.values()) <= most_bytes
    waiting.learn_all()
    assert {label: rows for label, rows in learnt.items() if rows} == added
    assert not [*waiting]


def test_of_too_many_bytes_the_class_with_most_samples_is_learnt_first() -> None:
    order = []
    waiting = Waiting(lambda label, samples: order.append((label, len(samples))), 8 * 9)
    for label, count in (("a", 2), ("b", 3), ("b", 2), ("c", 2), ("a", 1)):
        waiting.add(label, torch.zeros(count, dtype=torch.float64), enough=100)
    assert order == [("b", 2)]
    waiting.learn("b")  # nothing waits any more
    waiting.learn_all()
    assert order == [("b", 2), ("a", 2), ("c", 1)]
