"""The network against the paper, sample by sample, and against itself."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, cast

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor

from redunet.core.construction import MAX_RELATIVE_STEP, Schedule
from redunet.core.grid import unit_rows
from redunet.core.layer import Layer
from redunet.core.layers import StoredLayers, moments_after
from redunet.core.linalg import spd_inverse
from redunet.core.moments import ClassMoments
from redunet.core.network import ReduNet, build_network, extend_network
from redunet.core.rate import Coding, rate_reduction
from redunet.errors import DataError, NumericalError
from tests import plain, reference
from tests.conftest import classes_on_subspaces

PAPER = Schedule(60, 0.5, 0.933)


def error(mine: Tensor, theirs: Any) -> float:
    """Relative Frobenius error."""
    exact = torch.as_tensor(theirs, dtype=torch.float64)
    return float((mine.double() - exact).norm() / exact.norm())


def worst(network: ReduNet, other: Any) -> float:
    """Largest relative error of any E and C of any layer."""
    return max(
        max(error(a.E, b.E), *(error(x, z) for x, z in zip(a.C, b.C, strict=True)))
        for a, b in zip(network.layers, other.layers, strict=True)
    )


def moments_of(X: NDArray[Any], y: NDArray[Any]) -> ClassMoments:
    return ClassMoments(X.shape[1]).update(torch.from_numpy(X), y)


@pytest.fixture(scope="module")
def large() -> tuple[NDArray[Any], NDArray[Any], reference.ReferenceNetwork]:
    """Six classes of unequal size in 200 dimensions, and the oracle's 60 layers."""
    X, y = classes_on_subspaces(k=6, d=200, per_class=120, rank=12, noise=0.05)
    keep = np.random.default_rng(1).random(len(y)) < 0.6 + 0.07 * y
    X, y = X[keep], y[keep]
    assert len(X) >= 2 * 200
    return X, y, reference.train(reference.gridded(X), y, 60, 0.5, 0.5, 0.933)


@pytest.fixture(scope="module")
def large_network(large: Any) -> ReduNet:
    """The network of these classes, with the paper's steps."""
    X, y, _ = large
    return build_network(moments_of(X, y), 0.5, PAPER)


@pytest.mark.parametrize(
    ("dtype", "tolerance"), [(torch.float64, 1e-11), (torch.float32, 1e-3)], ids=str
)
def test_every_operator_is_the_papers(large: Any, dtype: torch.dtype, tolerance: float) -> None:
    X, y, oracle = large
    network = build_network(moments_of(X, y), 0.5, PAPER, dtype=dtype)
    assert worst(network, oracle) < tolerance
    for mine, theirs in zip(network.layers, oracle.layers, strict=True):
        assert mine.step == theirs.step
        np.testing.assert_allclose(mine.gamma.double(), theirs.gamma, rtol=1e-6)


def test_new_samples_move_as_in_the_paper(large: Any, large_network: ReduNet) -> None:
    _, _, oracle = large
    network = large_network
    new = np.random.default_rng(2).standard_normal((5, 200))
    Z = unit_rows(torch.from_numpy(new))
    for sharpness in (1.0, 7.5):
        mine = network.transform(Z, sharpness)
        theirs = [reference.transform(oracle, x, sharpness) for x in new]
        assert error(mine, np.array(theirs)) < 1e-11
    by_layer = network.memberships(Z, 2.0)
    assert by_layer.shape == (60, 5, 6)
    first = [reference.memberships(oracle.layers[0], z.numpy(), 2.0) for z in Z]
    np.testing.assert_allclose(by_layer[0], first, rtol=1e-11)
    assert torch.allclose(by_layer.sum(dim=2), torch.ones(60, 5).double(), rtol=0, atol=1e-14)


def test_the_moments_after_each_layer_are_open_to_inspection(large: Any) -> None:
    X, y, _ = large
    network = build_network(moments_of(X, y), 0.5, PAPER, keep=False)
    trail = list(network.moments())
    assert len(trail) == 61
    assert error(trail[0], moments_of(X, y).Sigma()) < 1e-14
    assert torch.equal(trail[-1], network.last_moments())
    rates = [rate_reduction(Sigma, network.counts, 0.5) for Sigma in trail[:-1]]
    made = [layer.rate for layer in network.layers]
    assert made == list(network.rates()) == list(stripped(network).rates())
    assert [rate.delta_R for rate in made] == pytest.approx([r.delta_R for r in rates], rel=1e-12)
    for mine, theirs in zip(stripped(network).moments(), trail, strict=True):
        assert error(mine, theirs) < 1e-9
    by_samples = reference.train(reference.gridded(X), y, 7, 0.5, 0.5, 0.933)
    for mine, Z in zip(trail[7], by_samples.Z, strict=True):
        assert error(mine, Z @ Z.T) < 1e-11


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=str)
def test_streamed_and_kept_layers_are_equal_to_the_bit(small: Any, dtype: torch.dtype) -> None:
    moments = moments_of(*small)
    kept = build_network(moments, 0.5, PAPER, dtype=dtype, keep=True)
    streamed = build_network(moments, 0.5, PAPER, dtype=dtype, keep=False)
    Z = unit_rows(torch.from_numpy(small[0])).to(dtype)
    for _ in range(2):  # the second pass of the kept network uses what it kept
        for a, b in zip(kept.layers, streamed.layers, strict=True):
            assert torch.equal(a.E, b.E)
            assert torch.equal(a.C, b.C)
            assert a.rate == b.rate
        assert torch.equal(kept.transform(Z, 1.0), streamed.transform(Z, 1.0))
        assert torch.equal(kept.last_moments(), streamed.last_moments())
    assert [layer.E.data_ptr() for layer in kept.layers] == [
        layer.E.data_ptr() for layer in kept.layers
    ]


@pytest.mark.parametrize(("k", "d", "per_class"), [(5, 12, 24), (3, 130, 150), (2, 600, 700)])
def test_layers_and_features_are_those_of_the_plain_construction(
    k: int, d: int, per_class: int
) -> None:
    X, y = classes_on_subspaces(k, d, per_class, rank=d // 2)
    moments, schedule = moments_of(X, y), Schedule(4, 0.5, 0.933, "relative")
    network = build_network(moments, 0.5, schedule)
    coding = Coding(moments.counts, d, 0.5)
    Z = unit_rows(torch.from_numpy(X[:50]))
    expected = Z
    oracle, trail = zip(*plain.layers(moments.Sigma(), coding, schedule), strict=True)
    for mine, theirs in zip(network.layers, oracle, strict=True):
        assert error(mine.E, theirs.E) < 1e-11
        assert error(mine.C, theirs.C) < 1e-11
        assert mine.rate.delta_R == pytest.approx(theirs.gain, rel=1e-11)
        expected = plain.move_samples(theirs, coding.gamma, expected, 2.0)
    assert error(network.last_moments(), trail[-1]) < 1e-11
    assert error(network.transform(Z, 2.0), expected) < 1e-11


@pytest.mark.parametrize("keep", [True, False])
def test_a_layer_held_on_to_stays_what_it_was(small: Any, keep: bool) -> None:
    network = build_network(moments_of(*small), 0.5, PAPER, keep=keep)
    held = [(layer, layer.E.clone(), layer.C.clone()) for layer in network.layers]
    network.transform(unit_rows(torch.from_numpy(small[0])), 1.0)
    network.last_moments()
    for layer, E, C in held:
        assert torch.equal(layer.E, E)
        assert torch.equal(layer.C, C)


def test_a_pass_begun_and_left_disturbs_no_other(small: Any) -> None:
    network = build_network(moments_of(*small), 0.5, PAPER, keep=False)
    expected = [layer.E.clone() for layer in network.layers]
    one, other = network.layers.iter_reusing_memory(), network.layers.iter_reusing_memory()
    for index, E in enumerate(expected):
        assert torch.equal(next(one).E, E), index
        assert torch.equal(next(other).E, E), index


@pytest.mark.parametrize("form", ["kept", "streamed", "given", "a tuple"])
def test_layers_are_a_sequence_however_they_are_held(small: Any, form: str) -> None:
    moments = moments_of(*small)
    every = list(build_network(moments, 0.5, PAPER).layers)
    network = build_network(moments, 0.5, PAPER, keep=form != "streamed")
    if form == "given":
        network = stripped(network)
    if form == "a tuple":
        network = replace(network, layers=cast(Any, tuple(network.layers)))
    layers = network.layers
    assert len(layers) == 60
    for index in (0, 7, 59, -1, -60):
        assert torch.equal(layers[index].C, every[index].C)
    assert [layer.step for layer in layers[50:2:-20]] == [every[i].step for i in (50, 30, 10)]
    with pytest.raises(IndexError, match="expected a layer below 60, got 60"):
        layers[60]
    assert network.rates()[3] == every[3].rate
    assert (layers[0] is layers[0]) == (form != "streamed")
    kept = layers.keeping()
    assert kept[0] is kept[0]
    assert (layers.n_bytes == 0) == (form in ("given", "a tuple"))


def stripped(network: ReduNet) -> ReduNet:
    """The network as Algorithm 1 may know it: layers and scalars, no moments."""
    matrices = [Layer(a.E, a.C, a.coding, a.step, a.rate) for a in network.layers]
    layers = StoredLayers(matrices, network.counts, network.eps)
    return ReduNet(network.labels, network.counts, network.eps, network.schedule, layers)


@pytest.mark.parametrize("tasks", [[[3], [0, 5], [1], [4, 2]], [[5, 4], [3, 2], [1, 0]]])
def test_algorithm_1_gives_the_joint_network_task_after_task(
    large: Any, large_network: ReduNet, tasks: list[list[int]]
) -> None:
    X, y, oracle = large
    first = np.isin(y, tasks[0])
    network = stripped(build_network(moments_of(X[first], y[first]), 0.5, PAPER))
    for task in tasks[1:]:
        rows = np.isin(y, task)
        network = stripped(extend_network(network, torch.from_numpy(X[rows]), y[rows]))
    assert network.labels == (0, 1, 2, 3, 4, 5)
    joint = large_network
    assert network.counts == joint.counts
    assert worst(network, joint) < 1e-9
    assert worst(network, oracle) < 1e-9
    assert error(network.last_moments(), joint.last_moments()) < 1e-9


def test_algorithm_1_refuses_an_old_class(small: Any) -> None:
    X, y = small
    network = build_network(moments_of(X, y), 0.5, PAPER)
    with pytest.raises(DataError, match="expected new classes only, but 2 is in the network"):
        extend_network(network, torch.from_numpy(X), y + 2)
    with pytest.raises(DataError, match="at least one layer"):
        extend_network(
            build_network(moments_of(X, y), 0.5, Schedule(0, 0.5, 0.9)), torch.from_numpy(X), y + 9
        )


def test_the_last_layer_alone_needs_its_own_move(large: Any, large_network: ReduNet) -> None:
    X, y, _ = large
    network = large_network
    exact = network.last_moments()
    *_, last = network.layers
    assert error(moments_after(last, network.counts, 0.5), exact) < 1e-9
    # With a step of its own the move matters; leaving it out would be noticed.
    bold = build_network(moments_of(X, y), 0.5, Schedule(3, 0.5, 1.0, "relative"))
    *_, before, last = bold.layers
    assert error(moments_after(before, bold.counts, 0.5), bold.last_moments()) > 0.01


@pytest.mark.parametrize("eps", [0.3, 0.5, 1.0])
def test_rate_reduction_never_falls_for_small_steps(large: Any, eps: float) -> None:
    X, y, _ = large
    network = build_network(moments_of(X, y), eps, Schedule(40, 0.2, 0.95))
    rates = [layer.rate.delta_R for layer in network.layers]
    rates.append(rate_reduction(network.last_moments(), network.counts, eps).delta_R)
    assert np.diff(rates).min() > -1e-12 * rates[-1]
    assert rates[-1] > rates[0]


def test_rotating_the_input_rotates_the_network(large: Any, large_network: ReduNet) -> None:
    X, y, _ = large
    Q = np.linalg.qr(np.random.default_rng(4).standard_normal((200, 200)))[0]
    rotated = build_network(moments_of(X @ Q.T, y), 0.5, PAPER)
    turn = torch.from_numpy(Q)
    for one, other in zip(large_network.layers, rotated.layers, strict=True):
        assert error(turn @ one.E @ turn.T, other.E) < 4 * 200**0.5 * 2.0**-20
        assert error(turn @ one.C @ turn.T, other.C) < 4 * 200**0.5 * 2.0**-20


def test_batches_of_bounded_memory_move_samples_alike(small: Any) -> None:
    X, y = small
    network = build_network(moments_of(X, y), 0.5, PAPER)
    Z = unit_rows(torch.from_numpy(X))
    whole, shares = network.transform(Z, 1.0), network.memberships(Z, 1.0)
    for batch_bytes in (1, 5000, 20000):
        assert error(network.transform(Z, 1.0, batch_bytes=batch_bytes), whole) < 1e-12
        found = network.memberships(Z, 1.0, batch_bytes)
        assert torch.allclose(found, shares, rtol=0, atol=1e-12)


def test_steps_follow_the_schedule_up_to_the_cap() -> None:
    assert [PAPER.at(index, 0.05) for index in (0, 1, 59)] == [0.5, 0.4665, 0.5 * 0.933**59]
    relative = Schedule(5, 0.5, 0.9, "relative")
    assert relative.at(0, 0.05) == 10.0
    assert relative.at(2, 0.05) == pytest.approx(0.5 * 0.81 / 0.05, rel=1e-15)
    assert PAPER.at(0, 100.0) * 100.0 == MAX_RELATIVE_STEP
    assert Schedule(5, 3.0, 1.0, "relative").at(0, 0.05) * 0.05 == MAX_RELATIVE_STEP


@pytest.mark.parametrize("keep", [True, False])
def test_depth_ends_where_the_objective_gains_too_little(small: Any, keep: bool) -> None:
    moments = moments_of(*small)
    deep = Schedule(60, 0.5, 0.8, "relative")
    whole = build_network(moments, 0.5, deep)
    gains = np.diff([layer.rate.delta_R for layer in whole.layers])
    tol = 1e-3
    depth = int(np.flatnonzero(gains < tol)[0]) + 1
    assert 2 < depth < 30
    short = build_network(moments, 0.5, replace(deep, tol=tol), keep=keep)
    Z = unit_rows(torch.from_numpy(small[0]))
    cut = build_network(moments, 0.5, replace(deep, n_layers=depth))
    assert len(short.layers) == depth
    assert torch.equal(short.transform(Z, 1.0), cut.transform(Z, 1.0))
    assert torch.equal(short.last_moments(), cut.last_moments())
    assert short.memberships(Z, 1.0).shape == (depth, len(Z), 5)
    assert len(list(short.moments())) == depth + 1
    for a, b in zip(short.layers, cut.layers, strict=True):
        assert torch.equal(a.C, b.C)
        assert a.rate == b.rate
    assert len(build_network(moments, 0.5, replace(deep, tol=1e-300)).layers) == 60
    assert len(build_network(moments, 0.5, replace(deep, tol=1e300)).layers) == 1


def test_what_cannot_be_built_is_said() -> None:
    with pytest.raises(DataError, match="expected at least one class, got none"):
        build_network(ClassMoments(3), 0.5, PAPER)
    zeros = ClassMoments(3).update(torch.zeros(2, 3), ["empty", "empty"])
    with pytest.raises(DataError, match=r"class 'empty': .*zero vectors only"):
        build_network(zeros, 0.5, PAPER)
    with pytest.raises(NumericalError, match="expected a positive definite matrix"):
        spd_inverse(-torch.eye(3))
