"""Second moments held by columns: the whole matrix to the last bit, in one form only."""

from __future__ import annotations

import copy
import math
import pickle
from fractions import Fraction
from unittest.mock import patch

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from redunet.core.covariance import summed
from redunet.core.eigenvectors import columns_factor, low_rank_factor
from redunet.core.exact_columns import Columns, compress, most_columns
from redunet.core.grid import GRID, on_grid, unit_rows
from redunet.core.moment import MAX_COUNT, Moment
from redunet.core.moments import ClassMoments
from redunet.core.residues import PRIMES, fits, integers, product, residues
from redunet.errors import DataError

pytestmark = pytest.mark.usefixtures("one_thread")


def samples(d: int, rank: int, n: int, zeros: int, seed: int) -> Tensor:
    """Whole numbers, (n, d), of at most 2²⁰ in size, of about a given rank, some rows repeated."""
    rng = np.random.default_rng(seed)
    X = rng.integers(-900, 900, (n, rank)) @ rng.integers(-1, 2, (rank, d))
    X[:, rng.permutation(d)[:zeros]] = 0
    X[rng.integers(0, n, n // 3)] = X[rng.integers(0, n, n // 3)]
    return torch.from_numpy(X)


def first_independent_columns(S: Tensor) -> list[int]:
    """By elimination with fractions."""
    rows = [[Fraction(x) for x in row] for row in S.tolist()]
    pivots: list[int] = []
    for column in range(len(rows)):
        left = [i for i in range(len(pivots), len(rows)) if rows[i][column]]
        if not left:
            continue
        rank = len(pivots)
        rows[rank], rows[left[0]] = rows[left[0]], rows[rank]
        for row in rows[rank + 1 :]:
            factor = row[column] / rows[rank][column]
            row[:] = [x - factor * y for x, y in zip(row, rows[rank], strict=True)]
        pivots.append(column)
    return pivots


def in_one_form(held: Columns | None, S: Tensor) -> bool:
    """Whether a matrix is held as `compress` alone would hold it, and given back."""
    again = compress(S, S.diagonal())
    if held is None or again is None:
        return held is again
    loaded, _ = Columns.checked(held.pivots, held.columns, held.diagonal[held.pivots])
    return all(
        torch.equal(one.pivots, held.pivots)
        and torch.equal(one.columns, S[:, held.pivots])
        and torch.equal(one.diagonal, S.diagonal())
        and torch.equal(one.expansion().dense(), S)
        for one in (held, again, loaded)
    )


# Remainders


def test_the_primes_are_the_largest_below_their_bound_and_hold_64_bits() -> None:
    def is_prime(n: int) -> bool:
        return all(n % i for i in range(2, math.isqrt(n) + 1))

    assert [n for n in range(PRIMES[-1], 2**22) if is_prime(n)] == sorted(PRIMES)
    assert math.prod(PRIMES) > 7 * 2**63 > 7 * MAX_COUNT * GRID**2


@given(st.lists(st.integers(-(2**63), 2**63 - 1), min_size=1, max_size=20))
def test_remainders_give_integers_back(values: list[int]) -> None:
    whole = torch.tensor(values)
    R = residues(whole)
    assert float(R.abs().max()) <= 2**21
    assert [[x % q for x in values] for q in PRIMES] == [
        [int(x) % q for x in row] for row, q in zip(R.tolist(), PRIMES, strict=True)
    ]
    assert integers(R).tolist() == values
    assert fits(R)


@pytest.mark.parametrize("n", [1, 1023, 1024, 1025, 3000])
def test_products_of_the_largest_remainders_are_exact(n: int) -> None:
    sign = torch.randint(0, 2, (3, 2, n), generator=torch.Generator().manual_seed(n)) * 2.0 - 1
    for A in (sign.abs(), sign):
        A = A.double() * 2**21
        exact = (A.long() @ A.long().mT).tolist()
        mine = product(A, A.mT).tolist()
        for one, other, q in zip(exact, mine, PRIMES, strict=True):
            assert [[x % q for x in row] for row in one] == [[x % q for x in row] for row in other]


# One matrix


@settings(max_examples=80)
@given(st.integers(1, 24), st.integers(1, 12), st.integers(1, 30), st.integers(0, 8), st.data())
def test_a_moment_is_held_by_its_first_independent_columns(
    d: int, rank: int, n: int, zeros: int, data: st.DataObject
) -> None:
    X = samples(d, rank, n, min(zeros, d), data.draw(st.integers(0, 2**16)))
    S = X.mT @ X
    held = compress(S, S.diagonal(), data.draw(st.sampled_from([n, None])))
    pivots = first_independent_columns(S)
    assert (held is None) == (2 * len(pivots) >= d)
    if held is not None:
        assert held.pivots.tolist() == pivots
    assert in_one_form(held, S)


@pytest.mark.parametrize(("d", "n"), [(300, 149), (300, 150), (150, 70), (131, 65)])
def test_matrices_of_several_blocks(d: int, n: int) -> None:
    rows = unit_rows(torch.randn(n, d, generator=torch.Generator().manual_seed(d)))
    X = (rows * GRID).round()
    X[:, 3:100:4] = 0
    S = (X.mT @ X).long()
    held = compress(S, S.diagonal(), n)
    assert (held is None) == (n > most_columns(d))
    assert in_one_form(held, S)


@pytest.mark.parametrize("n", [1, 2**13, MAX_COUNT])
def test_entries_as_large_as_they_can_be(n: int) -> None:
    x = torch.tensor([GRID, -GRID, 3, 0, GRID - 1, 1, -7])
    S = n * x[:, None] * x
    held = compress(S, S.diagonal())
    assert held is not None
    assert held.pivots.tolist() == [0]
    assert in_one_form(held, S)


def two_squares(n: int) -> tuple[int, int]:
    return next((a, b) for a in range(1, n) if (b := math.isqrt(n - a * a)) and a * a + b * b == n)


def test_an_unlucky_prime_takes_a_later_column() -> None:
    a, b = two_squares(PRIMES[0])
    X = torch.tensor([[a, 1, 0, 5, 0, 2], [b, 0, 1, 0, 3, 2]])
    S = X.mT @ X
    assert S[0, 0] == PRIMES[0]
    assert first_independent_columns(S) == [0, 1]
    for bound in (2, None):
        held = compress(S, S.diagonal(), bound)
        assert held is not None
        assert held.pivots.tolist() == [1, 2]
        assert in_one_form(held, S)


def test_a_matrix_that_has_the_rank_modulo_the_primes_only() -> None:
    # b s − a² is the product of the primes, so one column gives all remainders; the rank is 2.
    whole = math.prod(PRIMES)
    a, b = next(
        (a, b) for b in range(10**6, 2 * 10**6) for a in range(9) if (a * a + whole) % b == 0
    )
    s = (a * a + whole) // b
    S = torch.zeros(5, 5, dtype=torch.int64)
    S[0, 0], S[0, 1], S[1, 0], S[1, 1] = b, a, a, s
    held = compress(S, S.diagonal())
    assert held is not None
    assert held.rank == 1
    assert in_one_form(held, S)
    assert columns_factor(held) is None  # the network is built of the matrix
    one, two = (Moment(MAX_COUNT // 2, S[0] * 0, form) for form in (held, S))
    assert torch.equal((one + two).second_moment, 2 * S)
    assert torch.equal((one + one).second_moment, 2 * S)


@pytest.mark.parametrize(
    "pivots", [[0], [1, 0], [0, 2], [0, 0], [0, 9], [-1, 0], [0, 1, 2], [2, 3], range(9)], ids=str
)
def test_columns_that_hold_no_matrix_or_not_in_its_form_are_refused(pivots: list[int]) -> None:
    X = torch.tensor([[3, 1, 0, 5, 0, 2, 0, 1, 1], [2, 0, 1, 0, 3, 2, 1, 4, 1]])
    S = X.mT @ X
    places = torch.tensor([*pivots])
    columns = S[:, places % 9] if len({*pivots}) > 1 else torch.eye(9).long()[:, [1]]
    with pytest.raises(DataError, match="expected"):
        Columns.checked(places, columns, columns[0])
    held, more = Columns.checked(torch.tensor([0, 1]), S[:, :2], S[3, :2])
    assert in_one_form(held, S)
    assert torch.equal(more.dense()[9], torch.cat([S[3], S[3, 3:4]]))


# Classes


def table(X: Tensor, y: list[int]) -> ClassMoments:
    grid = X.double() / GRID
    return ClassMoments(X.shape[1]).update(grid, y, on_grid)


def assert_holds(moments: ClassMoments, X: Tensor, y: list[int]) -> None:
    """That moments are the sums over samples, each in its one form, in memory and in tensors."""
    labels = torch.tensor(y)
    assert moments.labels == tuple(sorted(set(y)))
    for label in moments:
        of_class = X[labels == label]
        S = of_class.mT @ of_class
        moment = moments[label]
        assert torch.equal(moment.second_moment, S)
        assert torch.equal(moment.sum, of_class.sum(dim=0))
        assert in_one_form(moment.columns, S)
    expected = table(X, y).to_tensors()
    mine = moments.to_tensors()
    assert {name: t.tolist() for name, t in mine.items()} == {
        name: t.tolist() for name, t in expected.items()
    }
    assert ClassMoments.from_tensors(moments.labels, mine) == moments == table(X, y)


def learn(moments: ClassMoments, X: Tensor, y: list[int]) -> ClassMoments:
    return moments.update(X.double() / GRID, y, on_grid)


def learn_in_batches(moments: ClassMoments, X: Tensor, y: list[int]) -> ClassMoments:
    batches = [(X[[row]].double() / GRID, [y[row]]) for row in range(len(X))]
    return moments.update_from(batches, on_grid)


def merge(moments: ClassMoments, X: Tensor, y: list[int]) -> ClassMoments:
    return table(X, y) + moments


def save_and_merge(moments: ClassMoments, X: Tensor, y: list[int]) -> ClassMoments:
    moments = moments + table(X, y)
    return ClassMoments.from_tensors(moments.labels, moments.to_tensors())


@settings(max_examples=40)
@given(st.integers(1, 14), st.integers(1, 8), st.integers(1, 25), st.integers(0, 4), st.data())
def test_any_order_of_learning_withdrawing_merging_and_saving(
    d: int, rank: int, n: int, zeros: int, data: st.DataObject
) -> None:
    X = samples(d, rank, n, min(d, zeros), data.draw(st.integers(0, 2**16)))
    y = [row % 3 for row in range(n)]
    moments, held = ClassMoments(d), set[int]()
    for _ in range(data.draw(st.integers(1, 6))):
        rows = data.draw(st.lists(st.integers(0, n - 1), unique=True, min_size=1))
        new, old = [r for r in rows if r not in held], [r for r in rows if r in held]
        how = data.draw(st.sampled_from([learn, learn_in_batches, merge, save_and_merge]))
        with patch("redunet.core.moments._ROOM", data.draw(st.sampled_from([0, 2**29]))):
            if new:
                moments = how(moments, X[new], [y[row] for row in new])
            if old:
                moments = moments - table(X[old], [y[row] for row in old])
        held ^= set(rows)
    if held:
        assert_holds(moments, X[sorted(held)], [y[row] for row in sorted(held)])
    else:
        assert moments == ClassMoments(d)


def test_a_rank_that_grows_beyond_half_and_falls_again() -> None:
    X = samples(20, 20, 16, 0, 1)
    y = [0] * 16
    moments, forms = ClassMoments(20), []
    for row in range(16):
        moments = learn(moments, X[[row]], [0])
        forms.append(moments[0].columns is not None)
        assert_holds(moments, X[: row + 1], y[: row + 1])
    ranks = [len(first_independent_columns(X[:n].mT @ X[:n])) for n in range(1, 17)]
    assert forms == [rank < 10 for rank in ranks]
    assert not all(forms)
    for row in range(15, 0, -1):
        moments = moments - table(X[[row]], [0])
        assert (moments[0].columns is not None) == forms[row - 1]
        assert_holds(moments, X[:row], y[:row])


def test_matrices_are_held_where_there_is_room_and_columns_of_few_samples_where_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    X = samples(40, 40, 30, 0, 7)
    room = 8 * 40**2
    for n, space, whole in [(10, room, True), (10, room - 1, False), (11, room - 1, True)]:
        monkeypatch.setattr("redunet.core.moments._ROOM", space)
        parts = [table(X[rows : rows + n], [0] * n) for rows in (0, n)]
        added = parts[0] + parts[1]
        in_batches = learn_in_batches(ClassMoments(40), X[:n], [0] * n)
        assert [one[0].dense is not None for one in (*parts, in_batches)] == [whole] * 3
        assert added[0].dense is not None  # of more than few samples
        for moments, of in ((parts[0], X[:n]), (added, X[: 2 * n]), (in_batches, X[:n])):
            assert_holds(moments, of, [0] * len(of))


@pytest.mark.parametrize("n", [10, 11])
def test_only_of_few_samples_the_columns_are_all_that_is_held(n: int) -> None:
    X = samples(40, 40, 3, 0, 7).repeat(5, 1)[:n] + torch.eye(40, dtype=torch.int64)[:n]
    moments = table(X, [0] * n)
    whole, held = moments[0].second_moment.clone(), moments[0].columns
    assert held is not None
    assert held.rank == n
    assert (moments[0].dense is None) == (n == 10)
    placed = moments.to_storage(lambda shape, *, dtype: torch.empty(shape, dtype=dtype))
    for one in (moments, placed, pickle.loads(pickle.dumps(moments))):
        assert torch.equal(one[0].second_moment, whole)
        assert one[0].rank_at_most == n
        again = one[0].columns
        assert again is not None
        assert torch.equal(again.columns, held.columns)
    assert_holds(moments, X, [0] * n)


@pytest.mark.parametrize(("rank", "n"), [(40, 8), (40, 15), (4, 15), (4, 60), (40, 60)])
def test_sums_have_the_bits_of_moments_that_were_never_saved(rank: int, n: int) -> None:
    X, y = samples(40, rank, n, 0, 5), [0] * n
    never, before = table(X, y), table(X, y)
    loaded = ClassMoments.from_tensors([0], before.to_tensors())
    for moments in (before, loaded):
        assert torch.equal(summed(moments), summed(never))


def test_copies_and_pickles_are_equal() -> None:
    X = samples(20, 20, 20, 0, 6)
    moments = table(X, [0] * 4 + [1] * 16)
    assert [moments[label].columns is None for label in moments] == [False, True]
    for other in (pickle.loads(pickle.dumps(moments)), copy.deepcopy(moments)):
        assert other == moments
        assert_holds(other, X, [0] * 4 + [1] * 16)
    assert moments.select([0]) != ClassMoments(20, {0: moments[1]})


# Factors


def of_grid(X: Tensor) -> Tensor:
    X = (unit_rows(X) * GRID).round()
    return (X.mT @ X).long()


def kinds() -> dict[str, Tensor]:
    """Samples, (30, 200), whose first independent columns are good or nearly dependent."""
    draw = torch.Generator().manual_seed(0)
    X = torch.randn(30, 200, generator=draw, dtype=torch.float64)
    small = 10.0 ** (torch.arange(200) / 30 - 6)
    near = X.clone()
    near[:, 1:80] = X[:, :1] + 1e-5 * X[:, 1:80]
    places = torch.linspace(0, 1, 200, dtype=torch.float64)
    smooth = torch.exp(-9 * (places - torch.rand(30, 1, generator=draw)) ** 2)
    return {
        "random": X,
        "small at first": X * small,
        "nearly equal": near,
        "smooth": smooth,
        "on a plane, but for the grid": X[:, :2] @ X[:2],
        "rare": X * (torch.rand(30, 200, generator=draw) < 0.2),
    }


@pytest.mark.parametrize("kind", kinds())
def test_factors_of_columns_are_as_accurate_as_those_of_the_matrix(kind: str) -> None:
    S = of_grid(kinds()[kind])
    held = compress(S, S.diagonal(), 30)
    assert held is not None
    F, G = columns_factor(held), low_rank_factor(S.double(), 99)
    assert F is not None
    assert G is not None
    mine, theirs = (float((A @ A.mT - S).norm() / S.double().norm()) for A in (F, G))
    assert mine < max(10 * theirs, 3e-15)
