"""Class moments form a group under exact addition."""

from __future__ import annotations

import itertools
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from redunet.core.grid import GRID, on_grid, unit_grid, unit_rows
from redunet.core.moment import MAX_COUNT, Moment
from redunet.core.moments import ClassMoments
from redunet.errors import DataError
from tests.conftest import classes_on_subspaces

X, y = classes_on_subspaces(k=4, d=9, per_class=15, rank=2)
WHOLE = ClassMoments(9).update(X, y, lambda rows: on_grid(unit_rows(torch.from_numpy(rows))))

KINDS = (torch.uint8, torch.int8, torch.float32, torch.float64)


def of(rows: list[int]) -> ClassMoments:
    return ClassMoments(9).update(torch.from_numpy(X[rows]), y[rows])


@pytest.mark.parametrize("dtype", ["float64", "float32", "int64", "uint8"])
def test_arrays_give_the_table_that_tensors_give(dtype: str) -> None:
    values = (40 * X + 100).astype(dtype)
    table = ClassMoments(9).update(torch.from_numpy(values), y)
    assert ClassMoments(9).update(values, y) == table
    parts = [(values[::2], y[::2]), (values[1::2], y[1::2])]
    assert ClassMoments(9).update_from(parts) == table
    values.setflags(write=False)
    assert ClassMoments(9).update(np.asfortranarray(values), y.tolist()) == table


def test_sums_are_those_of_python_integers() -> None:
    grid = (unit_rows(torch.from_numpy(X)) * GRID).round().to(torch.int64).tolist()
    for label in range(4):
        mine = [row for row, its in zip(grid, y.tolist(), strict=True) if its == label]
        moment = WHOLE[label]
        assert moment.count == len(mine) == 15
        assert moment.sum.tolist() == [sum(column) for column in zip(*mine, strict=True)]
        expected = [[sum(r[a] * r[b] for r in mine) for b in range(9)] for a in range(9)]
        assert moment.second_moment.tolist() == expected


@settings(max_examples=60, deadline=None)
@given(st.permutations(range(60)), st.lists(st.integers(1, 59), max_size=6))
def test_any_order_and_any_split_give_the_same_table(order: list[int], cuts: list[int]) -> None:
    table = ClassMoments(9)
    edges = [0, *sorted(set(cuts)), 60]
    for start, stop in itertools.pairwise(edges):
        rows = order[start:stop]
        table = table.update(torch.from_numpy(X[rows]), y[rows])
    assert table == WHOLE


@settings(max_examples=40, deadline=None)
@given(st.lists(st.integers(0, 2), min_size=60, max_size=60))
def test_merging_is_commutative_and_associative_and_undone_by_withdrawing(
    parts: list[int],
) -> None:
    a, b, c = (of([i for i, part in enumerate(parts) if part == p]) for p in range(3))
    assert a + b == b + a
    assert (a + b) + c == a + (b + c) == WHOLE
    assert (a + b + c) - c == a + b
    assert WHOLE - a - b - c == ClassMoments(9)


@pytest.mark.parametrize("n", [513, 4096, 4097, 8193, 20000])
def test_more_rows_than_a_chunk_or_an_exact_product_holds(n: int) -> None:
    data = torch.randn(n, 5, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    data[:, 0] = 100.0  # products near their largest: exactness would break first here
    table = ClassMoments(5).update(data, [7] * n)
    grid = (unit_rows(data) * GRID).round().to(torch.int64)
    assert torch.equal(table[7].second_moment, grid.mT @ grid)
    assert torch.equal(table[7].sum, grid.sum(dim=0))
    halves = table.update_from(
        [(data[: n // 3], [7] * (n // 3)), (data[n // 3 :], [7] * (n - n // 3))]
    )
    assert halves - table == table


def test_drop_and_select_take_classes() -> None:
    assert WHOLE.drop([1, 3]) == WHOLE.select([2, 0])
    assert WHOLE.select([2, 0]).labels == (0, 2)
    assert WHOLE.drop([]) == WHOLE
    with pytest.raises(DataError, match=r"class that was learnt \(0, 1, 2, 3\), got 9"):
        WHOLE.drop([9])


def test_tables_differ_where_one_integer_does() -> None:
    table = {label: WHOLE[label] for label in WHOLE}
    moved = table[2].second_moment.clone()
    moved[3, 3] += 1
    table[2] = Moment(15, table[2].sum, moved)
    assert ClassMoments(9, table) != WHOLE
    assert WHOLE != "something else"


def test_the_number_of_samples_is_checked_in_every_addition() -> None:
    d = 2
    nearly = Moment(MAX_COUNT, torch.zeros(d).long(), torch.zeros(d, d).long())
    full = ClassMoments(d, {0: nearly})
    one = ClassMoments(d).update(torch.ones(1, d), [0])
    with pytest.raises(DataError, match="expected 1 to 8,388,607 samples in a class"):
        full + one
    with pytest.raises(DataError, match="expected 1 to 8,388,607 samples in a class"):
        full.update(torch.ones(1, d), [0])


def test_values_beyond_the_grid_are_refused() -> None:
    with pytest.raises(DataError, match=r"within \[-1, 1\], got larger ones or NaN"):
        ClassMoments(2).update(torch.tensor([[1.5, 0.0]]), [0], embed=on_grid)
    with pytest.raises(DataError, match=r"within \[-1, 1\], got larger ones or NaN"):
        ClassMoments(2).update(torch.tensor([[float("nan"), 0.0]]), [0], embed=on_grid)


def test_vectors_that_are_not_on_the_grid_are_refused() -> None:
    with pytest.raises(DataError, match=r"whole steps of the grid, got fractions or NaN: put"):
        ClassMoments(2).update(torch.tensor([[0.6, 0.8]]), [0], embed=lambda rows: rows)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
def test_values_that_are_not_finite_are_refused(value: float) -> None:
    data = torch.ones(3, 2)
    data[1, 1] = value
    with pytest.raises(DataError, match="expected finite values, got NaN or infinity"):
        ClassMoments(2).update(data, [0, 0, 0])


@pytest.mark.parametrize("dtype", [torch.uint8, torch.float32, torch.float64])
def test_vectors_and_vectors_on_the_grid_give_the_same_table(dtype: torch.dtype) -> None:
    data = (torch.rand(700, 40, generator=torch.Generator().manual_seed(3)) * 255).to(dtype)
    labels = [row % 3 for row in range(700)]
    table = ClassMoments(40).update(data, labels, lambda x: on_grid(unit_rows(x)))
    assert table == ClassMoments(40).update(data, labels)
    assert table == ClassMoments(40).update(
        data.numpy(), labels, lambda x: unit_grid(torch.tensor(x))
    )
    halves = [(data[:350], labels[:350]), (data[350:], labels[350:])]
    assert table == ClassMoments(40).update_from(halves, unit_grid)
    with pytest.raises(DataError, match="expected 41 features, got 40"):
        ClassMoments(41).update(data, labels)


@pytest.mark.parametrize(
    "labels", [[0, "a"], [True, False], [1.5, 2.0], [None, None], [b"a", b"b"]]
)
def test_labels_of_other_types_are_refused(labels: list[Any]) -> None:
    with pytest.raises(DataError, match="all int or all str"):
        ClassMoments(2).update(torch.ones(2, 2), labels)


def test_labels_of_two_types_are_refused_in_any_batch() -> None:
    with pytest.raises(DataError, match="got int and str"):
        WHOLE.update(torch.ones(1, 9), ["a"])
    with pytest.raises(DataError, match="got int and str"):
        ClassMoments(9).update_from([(torch.ones(1, 9), [0]), (torch.ones(1, 9), ["a"])])
    with pytest.raises(DataError, match="got bool and int"):
        WHOLE.update(torch.ones(1, 9), [True])


def test_what_cannot_have_been_learnt_cannot_be_withdrawn() -> None:
    few = of(np.flatnonzero(y == 0)[:5].tolist())
    own = of(np.flatnonzero(y == 0)[:2].tolist())
    stranger = ClassMoments(9).update(torch.eye(9)[:1], [0])
    assert (few - own)[0].count == 3
    with pytest.raises(DataError, match="leaves moments that no samples have"):
        few - stranger
    with pytest.raises(DataError, match="leaves moments that no samples have"):
        own - few  # more than there is
    with pytest.raises(DataError, match="leaves moments that no samples have"):
        few - ClassMoments(9).update(torch.eye(9)[:5], [0] * 5)  # as many, but others


@pytest.mark.parametrize("n", range(1, 16))
def test_every_legitimate_withdrawal_passes(n: int) -> None:
    mine = np.flatnonzero(y == 1).tolist()
    left = of(mine) - of(mine[:n])
    assert left == of(mine[n:])
    assert len(left) == (n < 15)


def test_sigma_has_trace_n_and_matches_the_samples() -> None:
    Sigma = WHOLE.Sigma()
    for j in range(4):
        rows = unit_rows(torch.from_numpy(X[y == j]))
        assert float(Sigma[j].trace()) == pytest.approx(15, rel=1e-14)
        assert torch.allclose(Sigma[j], rows.mT @ rows, atol=1e-4)


def test_a_memory_mapped_file_is_read_in_place(tmp_path: Path) -> None:
    path = tmp_path / "x.npy"
    np.save(path, X)
    mapped = np.load(path, mmap_mode="r")
    table = ClassMoments(9).update(mapped, y, lambda rows: unit_grid(torch.tensor(rows)))
    assert table == WHOLE


@pytest.mark.parametrize("size", [1, 7, 60])
def test_batches_as_they_come_give_the_same_table(size: int) -> None:
    order = np.random.default_rng(size).permutation(len(y))
    cut = [order[start : start + size] for start in range(0, len(y), size)]
    batches = ((torch.from_numpy(X[rows]), y[rows]) for rows in cut)
    assert ClassMoments(9).update_from(batches) == WHOLE
    half = [(torch.from_numpy(X[30:]), y[30:])]
    assert of(list(range(30))).update_from(half) == WHOLE
    assert WHOLE.update_from([]) == WHOLE


@pytest.mark.parametrize("d", [97, 300, 700])
def test_one_triangle_is_enough(d: int) -> None:
    data = torch.from_numpy(np.random.default_rng(d).standard_normal((9000, d)))
    grid = (unit_rows(data) * GRID).round().to(torch.int64)
    exact = ClassMoments(d).update_from((part, [0] * len(part)) for part in torch.split(data, 1000))
    # A float64 product of few rows is exact; integers add the rest.
    expected = sum(
        ((part.double().mT @ part.double()).to(torch.int64) for part in torch.split(grid, 3000)),
        torch.zeros(d, d, dtype=torch.int64),
    )
    assert torch.equal(exact[0].second_moment, expected)
    assert torch.equal(exact[0].sum, grid.sum(dim=0))
    assert exact == ClassMoments(d).update(data, [0] * 9000)


MEASURE = """
import resource, sys
import numpy as np, torch
from redunet.core.grid import unit_grid
from redunet.core.moments import ClassMoments
X = np.random.default_rng(0).integers(0, 256, (int(sys.argv[1]), 784), dtype=np.uint8)
y = np.arange(len(X)) % 10
embed = lambda rows: unit_grid(torch.from_numpy(rows))
ClassMoments(784).update(X[:600], y[:600], embed)
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
table = ClassMoments(784).update(X, y, embed)
print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024)
"""


@pytest.mark.slow
def test_memory_stays_small_however_many_samples_come() -> None:
    extra = []
    for n in (5000, 60000):
        command = [sys.executable, "-c", MEASURE, str(n)]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        extra.append(int(done.stdout))
    assert max(extra) < 200e6
    assert extra[1] < extra[0] + 60e6


BATCHES = st.lists(st.tuples(st.integers(0, 2), st.integers(1, 600)), max_size=12)


@settings(max_examples=30, deadline=None)
@given(BATCHES, st.sampled_from(KINDS), st.sampled_from([0, 5000, 2**28]))
def test_batches_of_any_size_are_learnt_once_and_few_samples_wait(
    batches: list[tuple[int, int]], kind: torch.dtype, most: int
) -> None:
    d, n = 9, sum(size for _, size in batches)
    draw = torch.Generator().manual_seed(n)
    data = torch.randint(0, 128, (n, d), generator=draw).to(kind)
    if kind.is_floating_point:  # lengths of fractions are found in another way
        data += torch.rand(n, d, generator=draw).to(kind)
    learnt, given_, y = 0, 0, list[int]()

    def embed(samples: torch.Tensor) -> torch.Tensor:
        nonlocal learnt
        learnt += len(samples)
        return unit_grid(samples)

    def in_turn() -> Iterator[tuple[torch.Tensor, list[int]]]:
        nonlocal given_
        for label, size in batches:
            yield data[given_ : given_ + size], [label] * size
            given_ += size
            y.extend([label] * size)
            wait = given_ - learnt
            assert wait < 3 * 256  # 256 rows of a class are enough of so few features
            assert wait * d * data.element_size() <= most

    with patch("redunet.core.accumulate._WAITING", most):
        table = ClassMoments(d).update_from(in_turn(), embed)
    grid, labels = (unit_rows(data) * GRID).round().long(), torch.tensor(y)
    assert learnt == n
    for label in table:
        mine = grid[labels == label]
        assert table[label].count == len(mine)
        assert torch.equal(table[label].sum, mine.sum(dim=0))
        assert torch.equal(table[label].second_moment, mine.mT @ mine)
    assert table == ClassMoments(d).update(data, y)


def test_features_added_are_as_if_they_had_been_0_all_along() -> None:
    saved = ClassMoments.from_tensors(WHOLE.labels, WHOLE.to_tensors())
    few = of(np.flatnonzero(y == 0)[:3].tolist())  # saved by columns
    assert few[0].columns is not None
    for table, rows in ((WHOLE, X), (saved, X), (few, X[np.flatnonzero(y == 0)[:3]])):
        wide = table.widened(3)
        labels = y if len(rows) == 60 else [0] * 3
        expected = ClassMoments(12).update(np.pad(rows, ((0, 0), (0, 3))), labels)
        assert wide == expected
        mine, theirs = wide.to_tensors(), expected.to_tensors()
        assert mine.keys() == theirs.keys()
        assert all(torch.equal(mine[name], theirs[name]) for name in mine)


@pytest.mark.parametrize("at", [3, 699])
def test_a_bad_sample_among_small_pieces_is_refused(at: int) -> None:
    data = torch.ones(700, 9)
    data[at, 4] = float("nan")
    batches = [(data[i : i + 7], [0] * 7) for i in range(0, 700, 7)]
    with pytest.raises(DataError, match="expected finite values, got NaN or infinity"):
        ClassMoments(9).update_from(batches)
