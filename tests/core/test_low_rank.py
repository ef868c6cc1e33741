"""Factors and left-out directions change nothing but the cost."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from torch import Tensor

from redunet.core.construction import LayerStream, Schedule
from redunet.core.eigenvectors import (
    gram_eigenvectors,
    low_rank_factor,
    sketched_factor,
    top_eigenvectors,
)
from redunet.core.grid import unit_rows
from redunet.core.layers import StoredLayers
from redunet.core.low_rank import LowRankLayer
from redunet.core.moments import ClassMoments
from redunet.core.network import ReduNet, build_network, extend_network
from redunet.core.rate import Coding
from redunet.core.readouts import NearestSubspace
from redunet.core.reduced_space import ReducedSpace
from redunet.core.second_moments import FACTORED_UP_TO, SecondMoments
from tests import plain

STEPS = Schedule(5, 0.4, 0.9, "relative")
EPS = 0.5


def samples(d: int, counts: Sequence[int], zeros: int = 0, seed: int = 0) -> Any:
    """Random samples of unequal classes; some features are zero in all of them."""
    rng = np.random.default_rng(seed)
    y = np.repeat(np.arange(len(counts)), counts)
    X = rng.standard_normal((len(y), d)) * rng.random((len(counts), d))[y]
    X[:, rng.permutation(d)[:zeros]] = 0
    return X, y


def moments_of(X: NDArray[Any], y: NDArray[Any]) -> ClassMoments:
    return ClassMoments(X.shape[1]).update(torch.from_numpy(X), y)


def error(mine: Tensor, theirs: Tensor) -> float:
    return float((mine.double() - theirs.double()).norm() / theirs.double().norm())


def worst_against_plain(network: ReduNet, moments: ClassMoments, Z: Tensor) -> float:
    """Largest relative error of anything that can be asked of the network."""
    d = moments.n_features
    coding = Coding(moments.counts, d, EPS)
    errors, features = [], Z
    trail = list(network.moments())
    errors.append(error(trail[0], moments.Sigma()))
    oracle = plain.layers(moments.Sigma(), coding, STEPS)
    for mine, after, (theirs, Sigma) in zip(network.layers, trail[1:], oracle, strict=True):
        errors += [error(mine.E, theirs.E), error(mine.C, theirs.C), error(after, Sigma)]
        errors.append(abs(mine.rate.delta_R - theirs.gain) / max(1.0, theirs.gain))
        moved = plain.move_samples(theirs, coding.gamma, features, 0.5)
        errors.append(error(mine.move_samples(features, 0.5), moved))
        assert torch.equal(mine.C, mine.C.mT)
        features = moved
    errors.append(error(network.transform(Z, 0.5), features))
    return max(errors)


def parts(network: ReduNet) -> tuple[LayerStream, SecondMoments]:
    assert isinstance(network.layers, LayerStream)
    return network.layers, network.layers.first


CASES = {
    "all in factors": (40, [4] * 30, 0),
    "of unequal ranks": (40, [1, 2, 3, 9, 10, 4, 30, 30], 0),
    "some in matrices": (40, [3, 60, 5, 100, 2, 45], 0),
    "features of zero": (40, [50, 60, 70], 15),
    "features of zero and factors": (60, [5, 60, 4, 70, 5], 20),
    "fewer samples than features": (50, [8, 9, 10], 0),
    "fewer samples than features, many classes": (90, [3] * 20, 0),
    "fewer samples than features, some of them zero": (60, [4, 3, 5, 9], 12),
}


@pytest.mark.parametrize("keep", [True, False], ids=["kept", "streamed"])
@pytest.mark.parametrize("case", CASES)
def test_everything_is_as_in_the_plain_construction(case: str, keep: bool) -> None:
    d, counts, zeros = CASES[case]
    X, y = samples(d, counts, zeros)
    network = build_network(moments_of(X, y), EPS, STEPS, keep=keep)
    layers, first = parts(network)
    assert bool(first.stacks) == (
        "factors" in case or min(counts) <= int(FACTORED_UP_TO * first.Sigma.shape[-1])
    )
    assert (layers.space is not None) == ("zero" in case or "fewer" in case)
    # New samples have a part in every direction.
    new = np.random.default_rng(1).standard_normal((7, d))
    Z = unit_rows(torch.from_numpy(np.vstack([new, X[:5]])))
    assert worst_against_plain(network, moments_of(X, y), Z) < 1e-11


def test_large_stacks_are_treated_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("redunet.core.low_rank.PART_BYTES", 2 * 4 * 40 * 8)
    X, y = samples(40, [4] * 9)
    network = build_network(moments_of(X, y), EPS, STEPS)
    (stack,) = parts(network)[1].stacks
    assert [part.classes for part in stack.parts()] == [(0, 1), (2, 3), (4, 5), (6, 7), (8,)]
    Z = unit_rows(torch.from_numpy(X[:5]))
    assert worst_against_plain(network, moments_of(X, y), Z) < 1e-11


@settings(max_examples=25, deadline=None)
@given(
    st.integers(4, 30),
    st.lists(st.integers(1, 40), min_size=1, max_size=6),
    st.integers(0, 3),
    st.integers(0, 1000),
)
def test_any_counts_and_directions(d: int, counts: list[int], zeros: int, seed: int) -> None:
    X, y = samples(d, counts, zeros, seed)
    Z = unit_rows(torch.from_numpy(np.random.default_rng(seed).standard_normal((4, d))))
    network = build_network(moments_of(X, y), EPS, STEPS)
    assert worst_against_plain(network, moments_of(X, y), Z) < 1e-9


@pytest.mark.parametrize("case", CASES)
def test_kept_streamed_and_passing_are_equal_to_the_bit(case: str) -> None:
    d, counts, zeros = CASES[case]
    X, y = samples(d, counts, zeros)
    kept, streamed = (build_network(moments_of(X, y), EPS, STEPS, keep=k) for k in (True, False))
    held = [(a, a.E, a.C) for a in streamed.layers]
    Z = unit_rows(torch.from_numpy(X))
    for _ in range(2):
        assert torch.equal(kept.transform(Z, 1.0), streamed.transform(Z, 1.0))
        assert torch.equal(kept.last_moments(), streamed.last_moments())
        assert torch.equal(kept.memberships(Z, 1.0), streamed.memberships(Z, 1.0))
    for (layer, E, C), other in zip(held, kept.layers, strict=True):
        assert torch.equal(layer.E, E)
        assert torch.equal(layer.C, C)
        assert torch.equal(other.C, C)


@pytest.mark.parametrize("case", CASES)
def test_the_read_out_is_that_of_the_matrices(case: str) -> None:
    d, counts, zeros = CASES[case]
    X, y = samples(d, counts, zeros)
    network = build_network(moments_of(X, y), EPS, STEPS)
    Z = unit_rows(torch.from_numpy(X))
    compact = NearestSubspace.from_network(network, 3)
    dense = NearestSubspace.from_moments(network.last_moments(), 3)
    assert torch.allclose(compact.residuals(Z), dense.residuals(Z), rtol=0, atol=1e-9)


@pytest.mark.parametrize("case", CASES)
def test_algorithm_1_goes_on_from_them(case: str) -> None:
    d, counts, zeros = CASES[case]
    X, y = samples(d, counts, zeros)
    old = y < len(counts) - 1
    network = build_network(moments_of(X[old], y[old]), EPS, STEPS)
    given_layers = StoredLayers(list(network.layers), network.counts, EPS)
    alone = ReduNet(network.labels, network.counts, EPS, STEPS, given_layers)
    assert error(alone.last_moments(), network.last_moments()) < 1e-9
    Z = unit_rows(torch.from_numpy(X))
    assert error(alone.transform(Z, 1.0), network.transform(Z, 1.0)) < 1e-11
    extended = extend_network(alone, torch.from_numpy(X[~old]), y[~old])
    joint = build_network(moments_of(X, y), EPS, STEPS)
    for a, b in zip(extended.layers, joint.layers, strict=True):
        assert max(error(a.E, b.E), error(a.C, b.C)) < 1e-9


def test_a_sample_outside_of_all_others_is_not_moved() -> None:
    X, y = samples(20, [30, 30], zeros=5)
    network = build_network(moments_of(X, y), EPS, STEPS)
    empty = np.flatnonzero(~X.any(axis=0))
    Z = torch.zeros(1, 20, dtype=torch.float64)
    Z[0, empty[0]], Z[0, empty[1]] = 0.6, -0.8
    assert torch.allclose(network.transform(Z, 1.0), Z, rtol=0, atol=1e-15)
    assert torch.equal(network.transform(Z[:0], 1.0), Z[:0])


def test_layers_say_what_they_are_made_of() -> None:
    few = build_network(moments_of(*samples(40, [4] * 30)), EPS, STEPS)
    assert all(isinstance(layer, LowRankLayer) for layer in few.layers)
    zero = build_network(moments_of(*samples(40, [50, 60], 15)), EPS, STEPS)
    assert zero.layers.space is not None
    assert all(layer.E.shape == (40, 40) for layer in zero.layers)
    layers, first = parts(few)
    # E, thirty factors of four rows, and their inverses: no matrix for any class.
    assert first.layer_numbers == 40 * 40 + 30 * 4 * 40 + 30 * 4 * 4
    assert layers.n_bytes == 5 * 8 * first.layer_numbers


@pytest.mark.parametrize(("d", "rank"), [(5, 1), (30, 7), (200, 50)])
def test_the_factor_of_a_matrix_of_low_rank(d: int, rank: int) -> None:
    F = torch.randn(d, rank, dtype=torch.float64, generator=torch.Generator().manual_seed(d))
    A = F @ F.mT
    found = low_rank_factor(A, rank)
    assert found is not None
    assert found.shape == (d, rank)
    assert error(found @ found.mT, A) < 1e-14
    assert low_rank_factor(A, rank - 1) is None
    assert low_rank_factor(A + torch.eye(d, dtype=torch.float64), rank) is None
    values, vectors = gram_eigenvectors(F.mT, rank)
    expected, _ = top_eigenvectors(A, rank)
    assert torch.allclose(values, expected, rtol=1e-12)
    assert torch.allclose(A @ vectors, vectors * values, atol=1e-10 * float(values[0]))


@pytest.mark.parametrize("spread", [1.0, 1e-3, 1e-5])
@pytest.mark.parametrize(("d", "rank", "bound"), [(5, 1, 1), (30, 7, 9), (200, 50, 50)])
def test_the_factor_of_a_matrix_of_low_rank_from_random_vectors(
    d: int, rank: int, bound: int, spread: float
) -> None:
    F = torch.randn(d, rank, dtype=torch.float64, generator=torch.Generator().manual_seed(d))
    F = F * torch.logspace(0, math.log10(spread), rank, dtype=torch.float64)
    A = F @ F.mT
    found = sketched_factor(A, bound)
    assert found is not None
    assert found.shape[1] <= bound + 16
    assert error(found @ found.mT, A) < 1e-14
    again = sketched_factor(A, bound)
    assert again is not None
    assert torch.equal(again, found)
    if d > 2 * bound + 16:
        assert sketched_factor(A + torch.eye(d, dtype=torch.float64), bound) is None


@pytest.mark.parametrize("apart", [1e-3, 1e-5, 1e-6, 1e-9])
def test_nearly_equal_samples_leave_a_factor_accurate(apart: float) -> None:
    X = np.abs(samples(200, [40])[0]) + 1
    X = np.vstack([X, X[:9] * (1 + apart * np.random.default_rng(1).standard_normal((9, 200)))])
    A = moments_of(X, np.zeros(len(X), dtype=int)).Sigma_of(0)
    found = sketched_factor(A, len(X))
    assert found is not None
    assert error(found @ found.mT, A) < 1e-14


def test_a_reduced_space_is_only_taken_where_it_is_worth_it() -> None:
    assert ReducedSpace.of(moments_of(*samples(40, [50, 60], 2))) is None
    space = ReducedSpace.of(moments_of(*samples(40, [50, 60], 5)))
    assert space is not None
    assert space.basis is None
    assert space.size == 36
    few = ReducedSpace.of(moments_of(*samples(40, [5, 6])))
    assert few is not None
    assert few.size == 12
