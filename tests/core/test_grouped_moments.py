"""Moments of groups of features: those of each group alone, to the bit, whatever the way."""

from __future__ import annotations

import itertools
import pickle

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from redunet.core.grid import on_grid, unit_rows
from redunet.core.grouped_moments import GroupedMoment, GroupedMoments
from redunet.core.moments import ClassMoments
from redunet.errors import DataError
from tests.conftest import classes_on_subspaces

SIZES = (4, 1, 6)
X, y = classes_on_subspaces(k=3, d=11, per_class=14, rank=3)
WHOLE = GroupedMoments(SIZES).update(X, y)


def of(rows: list[int]) -> GroupedMoments:
    return GroupedMoments(SIZES).update(torch.from_numpy(X[rows]), y[rows])


def columns() -> list[slice]:
    ends = np.cumsum(SIZES).tolist()
    return [slice(end - size, end) for size, end in zip(SIZES, ends, strict=True)]


@pytest.mark.parametrize("dtype", ["float64", "float32", "int64", "uint8"])
def test_each_group_is_the_table_of_its_features_alone(dtype: str) -> None:
    values = (40 * X + 100).astype(dtype)
    table = GroupedMoments(SIZES).update(values, y)
    alone = [
        ClassMoments(size).update(values[:, at], y)
        for size, at in zip(SIZES, columns(), strict=True)
    ]
    assert table.groups == tuple(alone)
    assert table == GroupedMoments.of_groups(alone)
    assert (table.labels, table.counts, table.n_features) == ((0, 1, 2), (14, 14, 14), 11)


def test_what_is_remembered_across_groups_is_nothing() -> None:
    moment = WHOLE[1]
    whole = moment.second_moment
    for one in columns():
        for other in columns():
            block = whole[one, other]
            assert bool(block.any()) == (one == other)
    assert torch.equal(moment.diagonal, whole.diagonal())
    for group, at in zip(moment.groups, columns(), strict=True):
        assert torch.equal(group.second_moment, whole[at, at])
        assert torch.equal(group.sum, moment.sum[at])


@given(st.permutations(range(42)), st.lists(st.integers(1, 41), max_size=5))
def test_any_order_and_any_split_give_the_same_table(order: list[int], cuts: list[int]) -> None:
    edges = [0, *sorted(cuts), 42]
    parts = [order[start:end] for start, end in itertools.pairwise(edges)]
    table = GroupedMoments(SIZES)
    for part in parts:
        table = table.update(X[part], y[part])
    assert table == WHOLE
    batches = ((torch.from_numpy(X[part]), y[part]) for part in parts)
    assert GroupedMoments(SIZES).update_from(batches) == WHOLE


@given(st.sets(st.integers(0, 41), min_size=1, max_size=41))
def test_adding_and_withdrawing_are_exact(chosen: set[int]) -> None:
    some, rest = sorted(chosen), sorted(set(range(42)) - chosen)
    assert of(some) + of(rest) == WHOLE
    assert WHOLE - of(rest) == of(some)
    assert WHOLE.drop([1]) == of([row for row in range(42) if y[row] != 1])
    assert (WHOLE - WHOLE.select([2])) == WHOLE.select([0, 1])


def test_samples_that_cannot_have_been_learnt_are_an_error() -> None:
    with pytest.raises(DataError, match="expected samples that were learnt before"):
        WHOLE - GroupedMoments(SIZES).update(-(X[:1] ** 2), y[:1])


@pytest.mark.parametrize("block", [1, 5, 2**30])
def test_blocks_of_vectors_change_nothing(block: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("redunet.core.grouped_moments._BLOCK_BYTES", {"cpu": block * 8 * 11})
    monkeypatch.setattr("redunet.core.grouped_moments._WAITING", 8 * 11 * 20)
    assert GroupedMoments(SIZES).update(X, y) == WHOLE
    parts = [(X[i : i + 3], y[i : i + 3]) for i in range(0, 42, 3)]
    assert GroupedMoments(SIZES).update_from(parts) == WHOLE


def test_vectors_that_are_not_put_on_the_sphere_are_taken_as_they_are() -> None:
    vectors = unit_rows(torch.from_numpy(X))
    table = GroupedMoments(SIZES).update(vectors, y, lambda part: (part, on_grid))
    alone = ClassMoments(4).update(vectors[:, :4], y, on_grid)
    assert table.groups[0] == alone
    assert table.groups[0] != WHOLE.groups[0]


def test_tensors_and_pickles_lead_back_to_the_table() -> None:
    few = GroupedMoments((40, 30)).update(np.random.RandomState(0).randn(6, 70), ["a", "b"] * 3)
    for table in (WHOLE, few):
        tensors = table.to_tensors()
        assert GroupedMoments.from_tensors(table.labels, tensors) == table
        assert pickle.loads(pickle.dumps(table)) == table
    assert "groups.1.n_columns" in few.to_tensors()  # held by the columns of few samples
    with pytest.raises(DataError, match="expected labels in order"):
        GroupedMoments.from_tensors((1, 0, 2), WHOLE.to_tensors())


def test_other_groups_are_an_error() -> None:
    other = GroupedMoments((4, 7)).update(X, y)
    assert other != WHOLE
    assert WHOLE.groups[0] != WHOLE
    with pytest.raises(DataError, match=r"groups of \[4, 1, 6\] features, got \[4, 7\]"):
        WHOLE + other
    with pytest.raises(DataError, match=r"expected moments of groups of .* got none"):
        WHOLE + ClassMoments(11)
    with pytest.raises(DataError, match=r"groups of \[4, 1, 6\] features, got none"):
        GroupedMoments(SIZES, {0: ClassMoments(11).update(X, y)[0]})
    with pytest.raises(DataError, match="expected 11 features, got 10"):
        GroupedMoments(SIZES).update(X[:, :10], y)
    with pytest.raises(DataError, match="groups of features of the same samples"):
        GroupedMoment([WHOLE.groups[0][0], WHOLE.groups[1].update(X[:1, 4:5], [0])[0]])
    with pytest.raises(DataError, match="all int or all str"):
        WHOLE.update(X[:1], ["a"])
