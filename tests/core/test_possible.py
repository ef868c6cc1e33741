"""Moments that no samples have are refused, and those that some have are not."""

from __future__ import annotations

import re

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from redunet import DataError
from redunet.core.grid import GRID, on_grid, range_on_grid, unit_rows
from redunet.core.moment import MAX_COUNT, Moment
from redunet.core.moments import ClassMoments
from redunet.core.possible import check, pair_above


def table(n: int, d: int, rank: int, seed: int = 0, label: str = "ant") -> ClassMoments:
    generator = torch.Generator().manual_seed(seed)
    X = torch.randn(n, rank, generator=generator) @ torch.randn(rank, d, generator=generator)
    return ClassMoments(d).update(X, [label] * n)


@settings(max_examples=60)
@given(
    n=st.integers(1, 40),
    d=st.integers(1, 24),
    rank=st.integers(1, 24),
    zeros=st.integers(0, 12),
    twice=st.booleans(),
    scale=st.integers(0, 12),
    seed=st.integers(0, 10**6),
)
def test_moments_of_samples_are_possible(
    n: int, d: int, rank: int, zeros: int, twice: bool, scale: int, seed: int
) -> None:
    generator = torch.Generator().manual_seed(seed)
    X = torch.randn(n, rank, generator=generator) @ torch.randn(rank, d, generator=generator)
    X = X * torch.logspace(0, -scale, d)
    X[: min(n, zeros)] = 0
    X[:, : min(d, zeros)] = 0
    if twice:
        X = torch.cat([X, X, -X], dim=1)
    moments = ClassMoments(X.shape[1]).update(X, ["ant"] * n)
    again = ClassMoments.from_tensors(["ant"], moments.to_tensors())
    again.check()
    again.check_values(None)
    held_whole = {
        "counts": torch.tensor([n]),
        "sums": moments["ant"].sum[None],
        "second_moments": moments["ant"].second_moment[
            tuple(torch.tril_indices(*[X.shape[1]] * 2))
        ],
    }
    held_whole["second_moments"] = held_whole["second_moments"][None]
    assert ClassMoments.from_tensors(["ant"], held_whole) == moments
    in_range = ClassMoments(d).update(X[:, :d].clamp(-1, 1), ["ant"] * n, embed=on_grid)
    in_range.check()
    in_range.check_values((-GRID, GRID))


def forged(S: Tensor, s: Tensor, n: int) -> dict[str, Tensor]:
    d = len(s)
    entries = S[tuple(torch.tril_indices(d, d))][None]
    return {"counts": torch.tensor([n]), "sums": s[None], "second_moments": entries}


def refused(S: Tensor, s: Tensor, n: int) -> str:
    with pytest.raises(DataError) as caught:
        ClassMoments.from_tensors(["ant"], forged(S, s, n))
    assert "\n" not in str(caught.value)
    assert str(caught.value).startswith("class 'ant': expected ")
    return str(caught.value)


@pytest.mark.parametrize("d", [6, 40, 300])
def test_each_condition_says_which_class_and_entry(d: int) -> None:
    n = 3 * d
    moment = table(n, d, d)["ant"]

    def said(what: str, value: int, place: tuple[int, ...] = (), count: int = n) -> str:
        S, s = moment.second_moment.clone(), moment.sum.clone()
        if what == "S":
            i, j = place
            S[i, j] += value
            if i != j:
                S[j, i] += value
        elif what == "s":
            s[place[0]] += value
        return refused(S, s, count)

    assert "second_moment[2, 2]" in said("S", 1, (2, 2))
    assert "odd where it is even" in said("S", 1, (2, 2))
    largest = int(moment.second_moment[4, 4])
    assert re.search(
        r"second_moment\[4, 1\] = .*, whose square is above", said("S", 2 * largest, (4, 1))
    )
    assert "with a negative eigenvalue" in said("S", largest // 2, (3, 1)) or d == 6
    assert "exceed that" in said("S", 2**62, (2, 2))
    assert "exceed that" in said("s", 2**60, (2,))
    assert "exceed that" in said("S", -2 * int(moment.second_moment[2, 2]), (2, 2))
    assert "whose square is above" in said("S", -(2**63) + 2**62, (3, 1))
    for count in (0, -5, 2**23):
        assert "samples in a class" in said("n", 0, count=count)
    assert said("n", 0, count=1)


def test_what_the_conditions_are_of_sums() -> None:
    def of(*values: int) -> tuple[Tensor, Tensor]:
        x = torch.tensor(values)
        return (x * x).sum().reshape(1, 1), x.sum()[None]

    S, s = of(3, 4)
    check(2, s, S)
    with pytest.raises(DataError, match=r"second_moment\[0, 0\] = 23, which is too small for the"):
        check(2, s, S - 2)  # 3.5² + 3.5² = 24.5, but of whole numbers 25
    S, s = of(*[GRID] * 7, GRID - 1)
    check(8, s, S)
    with pytest.raises(DataError, match="too small"):
        check(8, s, S - 2)
    largest = torch.tensor([[MAX_COUNT * GRID**2]])
    for sign in (1, -1):
        check(MAX_COUNT, torch.tensor([sign * MAX_COUNT * GRID]), largest)
        with pytest.raises(DataError, match="too small"):
            check(MAX_COUNT, torch.tensor([sign * MAX_COUNT * GRID]), largest - 2)


@settings(max_examples=200)
@given(st.integers(0, 2**62), st.integers(0, 2**62), st.integers(-2, 2))
def test_products_beyond_64_bits_are_compared_exactly(a: int, b: int, off: int) -> None:
    root = int((a * b) ** 0.5)
    while root * root > a * b:
        root -= 1
    while (root + 1) ** 2 <= a * b:
        root += 1
    entry = torch.tensor([[root + off]])
    found = pair_above(entry, torch.tensor([a]), torch.tensor([b]))
    assert (found is not None) == ((root + off) ** 2 > a * b)


def test_rank_and_sums_of_few_samples_are_exact() -> None:
    for n, d in ((3, 9), (1, 5), (5, 80), (7, 300)):  # held by columns
        moment = table(n, d, d)["ant"]
        S, s = moment.second_moment, moment.sum
        tensors = ClassMoments(d, {"ant": moment}).to_tensors()
        assert "n_columns" in tensors
        ClassMoments.from_tensors(["ant"], tensors)
        for i in (0, d - 1):
            off = tensors | {"sums": s[None] + 2 * torch.eye(d).long()[i]}
            with pytest.raises(DataError, match=r"class 'ant': .*sum\[\d+\] = .* of rank"):
                ClassMoments.from_tensors(["ant"], off)
        if n > 1:
            with pytest.raises(DataError, match="above the number of samples"):
                ClassMoments.from_tensors(["ant"], tensors | {"counts": torch.tensor([n - 1])})
        more = S.clone()
        more[d - 1, d - 1] += 2  # one dimension more than there are samples
        refused(more, s, n)
    many = table(400, 300, 300)["ant"].second_moment  # held whole, of a rank far above
    assert "above the number of samples" in refused(many, many.diagonal() % 2, 40)


def test_columns_that_stand_for_no_integers_are_refused() -> None:
    # C B⁻¹ Cᵀ has whole numbers on the diagonal and halves beside it.
    d = 12
    B = 2 * torch.eye(4).long()
    C = torch.cat([B, torch.tensor([[1, 1, 0, 0], [0, 1, 1, 0]]), torch.zeros(6, 4).long()])
    whole = torch.ones(d, 4, dtype=torch.bool)
    whole[:4] = whole[:4].tril()
    tensors = {
        "counts": torch.tensor([9]),
        "sums": torch.tensor([[0, 2, 0, 0, 1, 1, 0, 0, 0, 0, 0, 0]]),
        "n_columns": torch.tensor([4]),
        "pivots": torch.arange(4),
        "second_moments": C[whole],
    }
    with pytest.raises(DataError, match=r"second_moment\[5, 4\] = .*whose square is above"):
        ClassMoments.from_tensors(["ant"], tensors)


def test_vectors_on_the_sphere_have_length_one_or_none() -> None:
    d, n = 8, 5
    moments = table(n, d, d)
    moments.check_values(None)
    for factor in (0.5, 0.999):  # of all coordinates
        short = unit_rows(torch.randn(n, d)) * factor
        shorter = ClassMoments(d).update(short, ["ant"] * n, embed=on_grid)
        shorter.check()
        with pytest.raises(DataError, match=r"class 'ant': .* of trace [\d.]+, which 5 samples"):
            shorter.check_values(None)
    with pytest.raises(DataError, match="exceed that"):
        Moment(2, torch.zeros(2).long(), torch.full((2, 2), 2**42))
    within = ClassMoments(2).update(torch.rand(9, 2), ["ant"] * 9, embed=on_grid)
    within.check_values((0, GRID))
    with pytest.raises(DataError, match=r"sum\[0\] = .*outside of the range of the values"):
        within.check_values((-GRID, 0))
    assert range_on_grid(0, 255) == (0, 255 * 2**12)
    assert range_on_grid(-2, 1) == (-(2**19), 2**18)


def test_a_block_beyond_what_is_factorised_at_once() -> None:
    moment = table(40, 20, 20)["ant"]
    S = moment.second_moment.clone()
    S[15, 14] = S[14, 15] = int((float(S[14, 14]) * float(S[15, 15])) ** 0.5)
    with pytest.raises(DataError, match="second moment of features 12 to 17 with a negative"):
        check(40, moment.sum, S, factored=6)
    with pytest.raises(DataError, match="second moment with a negative"):
        check(40, moment.sum, S)
