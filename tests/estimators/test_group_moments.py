"""Moments of groups of features: those that each group has alone, and exact as they are."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from redunet import ClassMoments, DataError
from redunet.estimators.group_moments import GroupMoments

pytestmark = pytest.mark.usefixtures("one_thread")

X = torch.from_numpy(np.random.RandomState(0).randn(40, 12))
Y = [int(label) for label in np.arange(40) % 3]
SIZES = (5, 7)


def of(rows: list[int], size: int = 40) -> GroupMoments:
    batches = [rows[start : start + size] for start in range(0, len(rows), size)]
    pairs = [(X[some], [Y[row] for row in some]) for some in batches]
    return GroupMoments.empty(SIZES).update_from(pairs, lambda part: part)


WHOLE = of([*range(40)])


@settings(max_examples=10, deadline=None)
@given(st.permutations(range(40)), st.integers(1, 40), st.integers(1, 39))
def test_any_order_and_batches_merged_and_withdrawn(order: list[int], size: int, cut: int) -> None:
    first, second = of(order[:cut], size), of(order[cut:], size)
    if first.labels == second.labels == WHOLE.labels:
        assert WHOLE - second == first
    assert first + second == WHOLE
    assert WHOLE.drop([1]) == WHOLE.select([0, 2])


def test_each_group_has_the_moments_that_it_has_alone() -> None:
    assert WHOLE.groups[0] == ClassMoments(5).update(X[:, :5], Y)
    assert WHOLE.groups[1] == ClassMoments(7).update(X[:, 5:], Y)
    assert (WHOLE.labels, WHOLE.counts, WHOLE.n_features) == ((0, 1, 2), (14, 13, 13), 12)


def test_tensors_return_and_others_are_refused() -> None:
    tensors = WHOLE.to_tensors()
    assert GroupMoments.from_tensors(WHOLE.labels, tensors) == WHOLE
    tensors |= {
        f"groups.1.{k}": v for k, v in ClassMoments(7).update(X[1:, 5:], Y[1:]).to_tensors().items()
    }
    with pytest.raises(DataError, match="same samples of each class"):
        GroupMoments.from_tensors(WHOLE.labels, tensors)
    with pytest.raises(DataError, match=r"groups of \[5, 7\] features, got \[4, 8\]"):
        WHOLE + GroupMoments.empty((4, 8))
    with pytest.raises(DataError, match="vectors of 12 features, got 10"):
        GroupMoments.empty(SIZES).update_from([(X[:, :10], Y)], lambda part: part)
