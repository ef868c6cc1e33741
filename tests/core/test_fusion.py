"""Fusions: the labels of the whole network, always, and values within a stated distance of it."""

from __future__ import annotations

import functools
import itertools
import math
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.datasets import load_digits
from torch import Tensor

from redunet.core import fusion_choice
from redunet.core.construction import Schedule
from redunet.core.fused_network import (
    FACTOR,
    ROUNDING,
    TOLERANCE,
    Factors,
    FusedNetwork,
    close,
    same_label,
    same_label_and_close,
)
from redunet.core.fusion_choice import (
    blocks,
    candidates,
    depths,
    fuse,
    leading_directions,
    reduced_dtypes,
)
from redunet.core.layer import Layer
from redunet.core.leading import Leading
from redunet.core.low_rank import LowRankLayer
from redunet.core.memberships import Moved, Sharpness
from redunet.core.moments import ClassMoments
from redunet.core.network import ReduNet, build_network
from redunet.core.readouts import read_out, scores_to_compare
from redunet.core.samples import Samples, Values

X_DIGITS, Y_DIGITS = load_digits(return_X_y=True)
DIGITS = torch.nn.functional.normalize(torch.from_numpy(X_DIGITS), dim=1)

NETWORKS = {
    "the paper's steps": (Schedule(50, 0.5, 0.933), Sharpness(1.0), "subspace"),
    "small steps": (Schedule(60, 0.02, 0.97, "relative"), Sharpness(1.0), "subspace"),
    "small steps, discriminant": (
        Schedule(40, 0.02, 0.97, "relative"),
        Sharpness(3.0, "relative"),
        "discriminant",
    ),
    "sharp": (Schedule(60, 0.05, 0.95, "relative"), Sharpness(300.0, "relative"), "subspace"),
    "coding": (Schedule(30, 0.02, 0.95, "relative"), Sharpness(10.0, "relative"), "coding"),
    "shallow": (Schedule(2, 0.5, 0.9, "relative"), Sharpness(30.0, "relative"), "regression"),
}


def few_samples_of_many_classes(d: int = 48, k: int = 30, n: int = 9) -> tuple[Tensor, list[int]]:
    """Classes of low rank that overlap."""
    rng = np.random.default_rng(3)
    centres = rng.standard_normal((k, d))
    X = np.concatenate([c + 0.9 * rng.standard_normal((n, d)) for c in centres])
    return torch.from_numpy(X), [j for j in range(k) for _ in range(n)]


def made(name: str, *, low_rank: bool = False, keep: bool = True) -> tuple[ReduNet, Any, Sharpness]:
    schedule, sharpness, readout = NETWORKS[name]
    X, y = few_samples_of_many_classes() if low_rank else (DIGITS[:900], Y_DIGITS[:900].tolist())
    moments = ClassMoments(X.shape[1]).update(X, y)
    network = build_network(moments, 0.5, schedule, keep=keep)
    return network, read_out(network, readout, 12, 0.01).scores, sharpness


def with_all_candidates(network: ReduNet, sharpness: Sharpness) -> FusedNetwork:
    """Also with fusions that do not pay."""
    return FusedNetwork(network, sharpness, candidates(network, 10**9))


def hard_samples(d: int, seed: int, n: int = 200) -> Tensor:
    """Digits, mixtures of two of them, such with noise, and noise alone."""
    draw = torch.Generator().manual_seed(seed)
    base = DIGITS if d == 64 else torch.nn.functional.normalize(few_samples_of_many_classes(d)[0])
    i, j = torch.randint(len(base), (2, n), generator=draw)
    t = torch.rand(n, 1, generator=draw, dtype=torch.float64)
    noise = torch.randn(n, d, generator=draw, dtype=torch.float64) / math.sqrt(d)
    level = torch.randint(0, 3, (n, 1), generator=draw) * 0.4
    mixed = t * base[i] + (1 - t) * base[j] + level * noise
    return torch.nn.functional.normalize(torch.cat([mixed, noise[:20]]), dim=1)


@pytest.mark.parametrize("low_rank", [False, True], ids=["matrices", "factors"])
@pytest.mark.parametrize("name", NETWORKS)
def test_labels_are_those_of_the_whole_network(name: str, low_rank: bool) -> None:
    network, scores, sharpness = made(name, low_rank=low_rank)
    fused = with_all_candidates(network, sharpness)
    Z = hard_samples(48 if low_rank else 64, seed=0)
    whole = scores(network.transform(Z, sharpness))
    assert torch.equal(fused.answer(Z, Values(scores), same_label).argmax(1), whole.argmax(1))
    close_scores = fused.answer(Z, Values(scores), same_label_and_close)
    assert torch.equal(close_scores.argmax(1), whole.argmax(1))
    scale = whole.abs().amax(dim=1).clamp(min=1)
    assert float(((close_scores - whole).abs().amax(dim=1) / scale).max()) < TOLERANCE
    features = fused.answer(Z, Values(lambda F: F), close)
    assert float((features - network.transform(Z, sharpness)).abs().max()) < TOLERANCE
    assert fused.seen.samples == 3 * len(Z)
    assert fused.seen.samples == sum(fused.seen.answered) + fused.seen.fell_back


@functools.cache
def kept(name: str, low_rank: bool) -> tuple[ReduNet, Any, Sharpness]:
    """A network that several tests share, made when it is first asked for."""
    return made(name, low_rank=low_rank)


@functools.cache
def kept_fused(name: str, low_rank: bool) -> FusedNetwork:
    network, _, sharpness = kept(name, low_rank)
    return with_all_candidates(network, sharpness)


@settings(max_examples=40, deadline=None)
@given(st.sampled_from(sorted(NETWORKS)), st.booleans(), st.integers(0, 10**6))
def test_no_sample_is_found_whose_label_differs(name: str, low_rank: bool, seed: int) -> None:
    network, scores, sharpness = kept(name, low_rank)
    fused = kept_fused(name, low_rank)
    Z = hard_samples(48 if low_rank else 64, seed, n=100)
    whole = scores(network.transform(Z, sharpness)).argmax(1)
    assert torch.equal(fused.answer(Z, Values(scores), same_label).argmax(1), whole)


@settings(max_examples=12, deadline=None)
@given(st.sampled_from(["the paper's steps", "small steps", "sharp"]), st.integers(0, 10**6))
def test_nor_on_the_border_between_two_classes(name: str, seed: int) -> None:
    """Bisection finds samples where the whole network turns from one label to another."""
    network, scores, sharpness = kept(name, False)
    fused = kept_fused(name, False)
    draw = torch.Generator().manual_seed(seed)
    a, b = DIGITS[torch.randint(len(DIGITS), (2, 40), generator=draw)]

    def label(Z: Tensor) -> Tensor:
        found: Tensor = scores(
            network.transform(torch.nn.functional.normalize(Z, dim=1), sharpness)
        ).argmax(1)
        return found

    of_a = label(a)
    for _ in range(12):
        middle = (a + b) / 2
        same = (label(middle) == of_a)[:, None]
        a, b = torch.where(same, middle, a), torch.where(same, b, middle)
    Z = torch.nn.functional.normalize(torch.cat([a, b]), dim=1)
    assert torch.equal(fused.answer(Z, Values(scores), same_label).argmax(1), label(Z))


def test_small_steps_need_few_products() -> None:
    network, scores, sharpness = kept("small steps", False)
    fused = fuse(network, sharpness, Values(scores), candidates(network, 10**9))
    fused.answer(DIGITS[900:], Values(scores), same_label)
    assert [len(one.layers) for one in fused.fusions][:2] == [2, 4]
    assert fused.seen.fell_back < 0.3 * fused.seen.samples


def test_fusions_that_do_not_pay_are_not_used() -> None:
    """Long steps and soft memberships: no short network is like the long one."""
    schedule = Schedule(40, 0.5, 1.0, "relative")
    moments = ClassMoments(64).update(DIGITS[:900], Y_DIGITS[:900].tolist())
    network = build_network(moments, 0.5, schedule)
    scores = read_out(network, "subspace", 12, 0.01).scores
    fused = fuse(network, Sharpness(10.0, "relative"), Values(scores), candidates(network, 10**9))
    assert not fused.fusions
    expected = scores(network.transform(DIGITS[900:950], Sharpness(10.0, "relative")))
    assert torch.equal(fused.answer(DIGITS[900:950], Values(scores), same_label), expected)


def test_an_algorithm_1_network_and_one_without_layers_have_no_fusions() -> None:
    network, scores, sharpness = kept("small steps", False)
    alone = ReduNet(
        network.labels,
        network.counts,
        0.5,
        network.schedule,
        tuple(network.layers),  # type: ignore[arg-type]
    )
    assert candidates(alone, 10**9) == []
    assert not fuse(alone, sharpness, Values(scores), []).fusions
    moments = ClassMoments(64).update(DIGITS[:900], Y_DIGITS[:900].tolist())
    empty = build_network(moments, 0.5, Schedule(0, 0.5, 0.9))
    assert candidates(empty, 10**9) == []


def test_fusions_stay_within_the_memory_they_are_given() -> None:
    network, _scores, _sharpness = kept("small steps", False)
    one = candidates(network, 10**9)
    some = sum(each.n_bytes for each in one[:2])
    assert len(candidates(network, some)) == 2
    assert candidates(network, 0) == []


def test_a_streamed_network_is_passed_once_for_its_fusions(monkeypatch: pytest.MonkeyPatch) -> None:
    network, _scores, _sharpness = made("small steps", keep=False)
    held, _, _ = kept("small steps", False)
    from_stream, from_kept = candidates(network, 10**9), candidates(held, 10**9)
    for mine, theirs in zip(from_stream, from_kept, strict=True):
        for a, b in zip(mine.layers, theirs.layers, strict=True):
            assert torch.equal(a.E, b.E)
            assert torch.equal(a.C, b.C)
            assert a.step == b.step


@pytest.mark.parametrize("n_blocks", [1, 2, 5, 40])
def test_blocks_have_the_whole_path_and_a_layer_of_their_own(n_blocks: int) -> None:
    steps = [0.5 * 0.9**index for index in range(40)]
    found = blocks(steps, n_blocks)
    assert len(found) <= n_blocks
    assert sum(block.path for block in found) == pytest.approx(sum(steps))
    assert [block.middle for block in found] == sorted({block.middle for block in found})
    assert all(0 <= block.reach < 1 for block in found)


def test_a_block_of_one_layer_is_that_layer() -> None:
    found = blocks([0.3, 0.2, 0.1], 3)
    assert [len(found), found[0].path, found[0].reach] == [len(found), 0.3, 0.0]
    assert blocks([0.0, 0.0], 1)[0].path == 0


def test_depths_follow_the_path() -> None:
    assert depths(0.39, 200) == [1, 2, 4, 8, 16, 32]
    assert depths(0.74, 50) == [2, 4, 8, 16]
    assert depths(2.0, 2) == []
    assert depths(0.0, 1) == []


@pytest.mark.parametrize("n_layers", [1, 2, 5, 12])
def test_fusions_of_a_shallow_network_have_all_of_its_layers(n_layers: int) -> None:
    network = few_samples(0.5, n_layers)
    steps = network.layers.steps
    assert depths(sum(steps), n_layers) == []
    for one in candidates(network, 10**9):
        assert [layer.step * layer.coding.alpha for layer in one.layers] == pytest.approx(steps)


def test_doubt_is_exact_where_a_membership_rounds_to_one() -> None:
    logits = torch.tensor([[0.0, -500.0, -600.0], [0.0, 0.0, -9.0]], dtype=torch.float64)
    moved = Moved(torch.softmax(logits, 1), logits, torch.zeros(2))
    assert moved.doubt[0] == pytest.approx(-500)
    assert moved.doubt[1].exp() == pytest.approx(1 - moved.memberships[1].max().item())
    alone = Moved(torch.ones(1, 1), torch.zeros(1, 1), torch.zeros(1))
    assert alone.doubt[0] == -math.inf


@pytest.mark.parametrize("low_rank", [False, True], ids=["matrices", "factors"])
def test_a_layer_stretches_distances_no_more_than_the_bound_says(low_rank: bool) -> None:
    """The bound on which the risk rests, by automatic differentiation."""
    network, _, _ = kept("sharp", low_rank)
    layer = next(iter(network.layers))
    d = 48 if low_rank else 64
    coding = layer.coding
    for value in (1.0, 30.0, 300.0):
        sharpness = Sharpness(value, "relative")
        tau = layer.step * coding.alpha
        for z in hard_samples(d, 5, n=6)[:6]:
            moved = layer.move_samples_(z[None].clone(), sharpness, layer.sample_space(1))
            spread = min(float(moved.spread), 2 * math.exp(float(moved.doubt)))
            Q = torch.eye(d) - layer.C / layer.C.new_tensor(coding.alphas)[:, None, None]

            def step(z: Tensor, Q: Tensor = Q, value: float = value, tau: float = tau) -> Tensor:
                inside = Q @ z
                shares = torch.softmax(-value * (z - inside).norm(dim=1), 0)
                return z + tau * (shares @ inside - (z - layer.E @ z / coding.alpha))

            jacobian = torch.func.jacrev(step)(z)
            assert (
                float(torch.linalg.matrix_norm(jacobian, 2))
                <= 1 + tau + tau * value * spread + 1e-9
            )


def test_classes_that_are_left_out_could_not_change_a_sample() -> None:
    """Going through few classes one by one gives what the product of all gives."""
    network, _, sharpness = kept("sharp", True)
    layer = next(iter(network.layers.passing()))
    assert isinstance(layer, LowRankLayer)
    Z = hard_samples(48, 2)
    every = Z.clone()
    shares = layer.move_samples_(every, sharpness, layer.sample_space(len(Z))).memberships
    among = shares > 1e-19
    assert 0 < float(among.double().mean()) < 0.25
    some = Z.clone()
    moved = layer.move_samples_(some, sharpness, layer.sample_space(len(Z)), among)
    assert float((some - every).abs().max()) < 1e-14
    assert float((moved.memberships - shares).abs().max()) < 1e-13


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_a_layer_in_terms_of_eigenvectors_is_the_same_layer(dtype: torch.dtype) -> None:
    network, _, sharpness = kept("the paper's steps", True)
    layer = next(iter(network.layers.passing()))
    again = layer.fused(layer.step, dtype)
    assert isinstance(again, LowRankLayer)
    assert all(M.dim() == 2 for M in again.M)
    tolerance = 1e-12 if dtype == torch.float64 else 1e-5
    assert float((again.C - layer.C).abs().max() / layer.C.abs().max()) < tolerance
    Z = hard_samples(48, 7)
    mine, theirs = Z.to(dtype), Z.clone()
    among = torch.rand(len(Z), 30, generator=torch.Generator().manual_seed(0)) < 0.2
    for mask in (None, among):
        a = again.move_samples_(mine, sharpness, again.sample_space(len(Z)), mask)
        b = layer.move_samples_(theirs, sharpness, layer.sample_space(len(Z)), mask)
        assert float((mine - theirs).abs().max()) < tolerance
        assert float((a.memberships - b.memberships).abs().max()) < 100 * tolerance


@pytest.mark.parametrize("low_rank", [False, True], ids=["matrices", "factors"])
@pytest.mark.parametrize("name", ["the paper's steps", "small steps", "sharp", "coding"])
def test_no_class_is_closer_at_any_layer_than_a_fusion_says(name: str, low_rank: bool) -> None:
    network, scores, sharpness = kept(name, low_rank)
    samples = Samples(hard_samples(48 if low_rank else 64, 6), network.layers.space, Values(scores))
    Z, behind = samples.start(None, torch.float64).clone(), []
    for layer in network.layers.passing():
        behind.append(layer.move_samples_(Z, sharpness, layer.sample_space(len(Z))).behind)
    nearest = torch.stack(behind).amin(dim=0)
    fused = with_all_candidates(network, sharpness)
    for fusion in fused.fusions:
        said = fused.values(fusion, samples)[1].behind
        assert bool((said <= nearest + 0.01).all())  # but for rounding, of hundreds


def test_a_wrong_guess_of_the_possible_classes_is_noticed() -> None:
    network, _, sharpness = kept("the paper's steps", True)
    Z = hard_samples(48, 4, n=30)
    none_but_the_first = torch.zeros(len(Z), 30, dtype=torch.bool)
    none_but_the_first[:, 0] = True
    mine = network.transform(Z, sharpness, none_but_the_first)
    assert float((mine - network.transform(Z, sharpness)).abs().max()) < 1e-12


@pytest.mark.parametrize("readout", ["subspace", "discriminant", "coding"])
def test_wide_networks_are_tried_in_fewer_dimensions(
    monkeypatch: pytest.MonkeyPatch, readout: str
) -> None:
    monkeypatch.setattr(fusion_choice, "MIN_WIDTH", 32)
    monkeypatch.setattr(fusion_choice, "WIDTH_STEP", 8)
    network, _, sharpness = kept("small steps", False)
    solution = read_out(network, readout, 12, 0.01)
    found = candidates(network, 10**9)
    assert found[0].space is not None
    assert all(isinstance(layer, Layer) for layer in found[0].layers)
    fused = FusedNetwork(network, sharpness, found)
    Z = hard_samples(64, 9)
    Z[0] = 0  # has no direction
    whole = solution.scores(network.transform(Z, sharpness)).argmax(1)
    for asked in (scores_to_compare(solution), Values(solution.scores)):
        assert torch.equal(fused.answer(Z, asked, same_label).argmax(1), whole)


@functools.cache
def few_samples(eps: float, n_layers: int) -> ReduNet:
    X, y = few_samples_of_many_classes()
    schedule = Schedule(n_layers, 0.5, 0.9, "relative")
    return build_network(ClassMoments(X.shape[1]).update(X, y), eps, schedule)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
@pytest.mark.parametrize("eps", [0.1, 0.5, 2.0, 8.0])
def test_a_cut_layer_never_thinks_too_little_of_a_class(eps: float, dtype: torch.dtype) -> None:
    first = next(iter(few_samples(eps, 1).layers.passing()))
    layer, coarse = (first.fused(0.5, one) for one in (torch.float64, dtype))
    assert isinstance(layer, LowRankLayer)
    assert isinstance(coarse, LowRankLayer)
    cut, Z = coarse.cut(0.25), hard_samples(48, 8)
    assert sum(stack.B.shape[1] for stack in cut.stacks) < sum(
        stack.B.shape[1] for stack in layer.stacks
    )
    sharpness = Sharpness(30.0, "relative")
    whole, moved = (
        one.move_samples_(Z.to(one.E.dtype, copy=True), sharpness, one.sample_space(len(Z)))
        for one in (layer, cut)
    )
    assert moved.least_behind is not None
    assert bool((moved.behind <= whole.behind + 1e-9).all())


@settings(max_examples=30, deadline=None)
@given(st.sampled_from([0.5, 2.0, 8.0]), st.integers(0, 10**6))
def test_cut_classes_change_no_label(eps: float, seed: int) -> None:
    network = few_samples(eps, 1)
    readout = scores_to_compare(read_out(network, "discriminant", 12, 0.01))
    sharpness = Sharpness(100.0, "relative")
    fused = with_all_candidates(network, sharpness)
    assert isinstance(fused.fusions[0].layers[0], LowRankLayer)
    assert fused.fusions[0].layers[0].left_out is not None
    assert [one.dtype for one in fused.fusions] == [*reduced_dtypes("cpu"), torch.float64]
    assert [one.whole for one in fused.fusions] == [False, True, True]
    Z = hard_samples(48, seed, n=100)
    whole = readout.of_features(network.transform(Z, sharpness))
    assert torch.equal(fused.answer(Z, readout, same_label).argmax(1), whole.argmax(1))
    close_scores = fused.answer(Z, Values(readout.of_features), same_label_and_close)
    scale = whole.abs().amax(dim=1).clamp(min=1)
    assert float(((close_scores - whole).abs().amax(dim=1) / scale).max()) < TOLERANCE


@settings(max_examples=30, deadline=None)
@given(
    st.sampled_from([0.5, 2.0, 8.0]),
    st.sampled_from([1, 2, 5]),
    st.sampled_from([10.0, 60.0, 300.0]),
    st.sampled_from(["discriminant", "subspace", "quadratic"]),
    st.integers(0, 10**6),
)
def test_the_error_of_every_layer_in_float32_is_far_below_the_estimate(
    eps: float, n_layers: int, sharp: float, readout: str, seed: int
) -> None:
    """Of every sample, whether its label is accepted or not: where there is no risk in it."""
    network, sharpness = few_samples(eps, n_layers), Sharpness(sharp, "relative")
    asked = scores_to_compare(read_out(network, readout, 12, 0.01))
    fused = with_all_candidates(network, sharpness)
    samples = Samples(hard_samples(48, seed, n=100), network.layers.space, asked)
    whole = asked.of_features(network.transform(samples.Z, sharpness))
    found = [fused.values(one, samples) for one in fused.fusions]
    assert sum(one.whole for one in fused.fusions) == 1 + (n_layers == 1)
    for (before, moved), (values, moves) in itertools.pairwise(found):
        if not moves.fusion.whole:
            continue
        factors = fused.factors(moved, moves)
        assert bool((factors.change == FACTOR).all())
        near = whole > whole.amax(dim=1, keepdim=True) - 20  # lower scores may be cut off
        error = torch.where(near, values - whole, 0).abs().amax(dim=1)
        change = torch.where(near, values - before, 0).abs().amax(dim=1)
        rounding = factors.rounding * ROUNDING * values.abs().amax(dim=1).clamp(min=1)
        assert bool((error <= change / 4 + rounding).all())


def test_samples_in_fewer_dimensions_go_back_to_where_they_came_from() -> None:
    network, _, _ = kept("small steps", False)
    layers, Z = network.layers, hard_samples(64, 3)
    E = next(iter(layers.passing())).E
    narrow_space, wide_space = (
        Leading.of(leading_directions(E, width), layers.space) for width in (10, 30)
    )
    asked = Values(lambda F: F)
    samples = Samples(Z, layers.space, asked)
    narrow_start, wide_start, all_start = (
        samples.start(space, torch.float64) for space in (narrow_space, wide_space, None)
    )
    assert torch.allclose(narrow_start.norm(dim=1), torch.ones(len(Z)).double())
    assert torch.allclose(samples.values(narrow_space, narrow_start, narrow_start), Z)
    end = torch.nn.functional.normalize(narrow_start * torch.linspace(0.5, 1.5, 11), dim=1)
    features = samples.values(narrow_space, narrow_start, end)
    wide_end = narrow_space.widened(narrow_start, end, wide_start, wide_space)
    assert torch.allclose(samples.values(wide_space, wide_start, wide_end), features)
    all_end = narrow_space.widened(narrow_start, end, all_start, None)
    assert torch.allclose(samples.values(None, all_start, all_end), features)
    assert float((features - Z).norm(dim=1).min()) > 0.01


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32, torch.float64])
def test_a_spread_that_rounds_to_nothing_is_not_trusted(dtype: torch.dtype) -> None:
    """One class with all of the membership, so that the spread is a difference of equals."""
    network, _, _ = kept("sharp", True)
    layer = next(iter(network.layers.passing())).fused(0.1, dtype)
    Z = hard_samples(48, 1, n=20).to(dtype)
    moved = layer.move_samples_(Z, Sharpness(1e6, "relative"), layer.sample_space(len(Z)))
    least = 2 * math.sqrt(torch.finfo(dtype).eps)
    assert float(moved.spread.min()) == pytest.approx(least, rel=1e-3)
    assert bool(moved.spread.log().isfinite().all())


def test_a_few_samples_of_a_shallow_network_need_no_fusions() -> None:
    network = few_samples(2.0, 1)
    readout = scores_to_compare(read_out(network, "discriminant", 12, 0.01))
    fused = with_all_candidates(network, Sharpness(100.0, "relative"))
    Z = hard_samples(48, 3, n=20)
    alone = torch.cat([fused.answer(z[None], readout, same_label) for z in Z])
    assert fused.seen.fell_back == fused.seen.samples == len(Z)
    together = fused.answer(Z, readout, same_label)
    assert torch.equal(alone.argmax(1), together.argmax(1))
    assert fused.seen.fell_back < 2 * len(Z)


@pytest.mark.parametrize("low_rank", [False, True], ids=["matrices", "factors"])
@pytest.mark.parametrize("threads", [2, 3])
def test_labels_are_the_same_on_several_threads(low_rank: bool, threads: int) -> None:
    network, scores, sharpness = kept("the paper's steps", low_rank)
    Z = hard_samples(48 if low_rank else 64, seed=3, n=500)
    whole = scores(network.transform(Z, sharpness)).argmax(1)
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        fused = with_all_candidates(network, sharpness)
        calls: list[int] = []

        def vectors(part: Tensor) -> Tensor:
            calls.append(len(part))
            return part

        found = fused.answer(Z, Values(scores), same_label, vectors)
        assert torch.equal(found.argmax(1), whole)
        assert len(calls) == threads
        assert sum(calls) == len(Z) == fused.seen.samples
    finally:
        torch.set_num_threads(before)


def test_a_label_is_trusted_by_what_changes_between_classes() -> None:
    values = torch.tensor([[1.0, 0.5, 0.0]]).double()
    four = Factors(torch.tensor([4.0]).double(), torch.tensor([4.0]).double())

    def trusted(*change: float) -> bool:
        return bool(same_label(values - torch.tensor([change]).double(), values, four))

    assert trusted(0.2, 0.2, 0.2)  # all classes alike
    assert not trusted(0.3, 0.3, 0.3)  # but not by more than the scores differ
    assert trusted(0.0, 0.1, 0.0)
    assert not trusted(0.0, 0.15, 0.0)  # 4 × 0.15 is more than the margin
    assert not trusted(0.0, 0.0, 0.15)  # whatever the class
    assert not trusted(0.08, -0.08, 0.0)
    values = torch.tensor([[1.0, 0.5, 0.0, 0.0]]).double()  # low scores are cut off
    assert trusted(0.1, 0.1, 0.1, 0.1)
    assert not trusted(0.2, 0.2, 0.2, 0.2)
