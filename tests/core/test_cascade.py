"""Cascades: the labels of the whole network, always, and values within a stated distance of it."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from redunet.core.cascade import (
    NUDGE,
    TOLERANCE,
    Cascade,
    close,
    same_label,
    same_label_and_close,
)
from redunet.core.coarse_low_rank import CoarseLowRankLayer
from redunet.core.coarse_network import blocks, coarse_networks, sizes
from redunet.core.construction import Schedule
from redunet.core.layer import LayerOutput, Sharpness
from redunet.core.moments import ClassMoments
from redunet.core.network import ReduNet, build_network
from redunet.core.readouts import read_out, scores_to_compare
from tests.core.cascades import (
    DIGITS,
    NETWORKS,
    Y_DIGITS,
    few_samples,
    hard_samples,
    kept,
    kept_cascade,
    made,
    with_all_stages,
)


@pytest.mark.parametrize("low_rank", [False, True], ids=["matrices", "factors"])
@pytest.mark.parametrize("name", NETWORKS)
def test_labels_are_those_of_the_whole_network(name: str, low_rank: bool) -> None:
    network, scores, sharpness = made(name, low_rank=low_rank)
    cascade = with_all_stages(network, sharpness)
    Z = hard_samples(48 if low_rank else 64, seed=0)
    whole = scores(network.transform(Z, sharpness))
    assert torch.equal(cascade.answer(Z, scores, same_label).argmax(1), whole.argmax(1))
    close_scores = cascade.answer(Z, scores, same_label_and_close)
    assert torch.equal(close_scores.argmax(1), whole.argmax(1))
    scale = whole.abs().amax(dim=1).clamp(min=1)
    assert float(((close_scores - whole).abs().amax(dim=1) / scale).max()) < TOLERANCE
    features = cascade.answer(Z, lambda F: F, close)
    assert float((features - network.transform(Z, sharpness)).abs().max()) < TOLERANCE
    assert cascade.stats.samples == 3 * len(Z)
    assert cascade.stats.samples == sum(cascade.stats.answered) + cascade.stats.fell_back


@settings(max_examples=40, deadline=None)
@given(st.sampled_from(sorted(NETWORKS)), st.booleans(), st.integers(0, 10**6))
def test_no_sample_is_found_whose_label_differs(name: str, low_rank: bool, seed: int) -> None:
    network, scores, sharpness = kept(name, low_rank)
    Z = hard_samples(48 if low_rank else 64, seed, n=100)
    whole = scores(network.transform(Z, sharpness)).argmax(1)
    answers = kept_cascade(name, low_rank).answer(Z, scores, same_label)
    assert torch.equal(answers.argmax(1), whole)


@settings(max_examples=12, deadline=None)
@given(
    st.sampled_from(["the paper's steps", "small steps", "sharp"]),
    st.booleans(),
    st.integers(0, 10**6),
)
def test_nor_on_the_border_between_two_classes(name: str, low_rank: bool, seed: int) -> None:
    """Bisection finds samples where the whole network turns from one label to another."""
    network, scores, sharpness = kept(name, low_rank)
    draw = torch.Generator().manual_seed(seed)
    base = hard_samples(48 if low_rank else 64, seed)
    a, b = base[torch.randint(len(base), (2, 40), generator=draw)]

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
    answers = kept_cascade(name, low_rank).answer(Z, scores, same_label)
    assert torch.equal(answers.argmax(1), label(Z))


@settings(max_examples=40, deadline=None)
@given(
    st.sampled_from([0.5, 2.0, 8.0]),
    st.sampled_from([1, 2, 5]),
    st.sampled_from([10.0, 60.0, 300.0]),
    st.sampled_from(["discriminant", "subspace", "quadratic", "pairwise"]),
    st.integers(0, 10**6),
)
def test_a_complete_coarse_network_is_nearer_than_its_features_are_moved(
    eps: float, n_layers: int, sharp: float, readout: str, seed: int
) -> None:
    """Of every sample, accepted or not: its error is below the one assumed, in features too."""
    network, sharpness = few_samples(eps, n_layers), Sharpness(sharp, "relative")
    asked = scores_to_compare(read_out(network, readout, 12, 0.01))
    cascade = with_all_stages(network, sharpness)
    (stage,) = cascade.stages
    assert stage.complete
    assert isinstance(stage.layers[0], CoarseLowRankLayer)
    Z = hard_samples(48, seed, n=100)
    features = network.transform(Z, sharpness)
    error = torch.linalg.vector_norm(cascade.estimate(Z, lambda F: F) - features, dim=1)
    pending = cascade._pending(Z)
    moved = stage.move(pending.inside, sharpness)
    factor = cascade._factor(moved, moved, NUDGE)
    assert bool((error <= factor / 2 * NUDGE).all())
    whole = asked(features)
    assert torch.equal(cascade.answer(Z, asked, same_label).argmax(1), whole.argmax(1))


@pytest.mark.parametrize("low_rank", [False, True], ids=["matrices", "factors"])
@pytest.mark.parametrize("threads", [2, 3])
def test_labels_are_the_same_on_several_threads(low_rank: bool, threads: int) -> None:
    network, scores, sharpness = kept("the paper's steps", low_rank)
    Z = hard_samples(48 if low_rank else 64, seed=3, n=500)
    whole = scores(network.transform(Z, sharpness)).argmax(1)
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        cascade = with_all_stages(network, sharpness)
        assert len(cascade._parts(len(Z))) == threads
        assert torch.equal(cascade.answer(Z, scores, same_label).argmax(1), whole)
        assert cascade.stats.samples == len(Z)
    finally:
        torch.set_num_threads(before)


def test_a_label_is_trusted_by_what_changes_between_classes() -> None:
    values, four = torch.tensor([[1.0, 0.5, 0.0]]).double(), torch.tensor([4.0]).double()

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


def test_doubt_is_exact_where_a_membership_rounds_to_one() -> None:
    logits = torch.tensor([[0.0, -500.0, -600.0], [0.0, 0.0, -9.0]], dtype=torch.float64)
    moved = LayerOutput(torch.softmax(logits, 1), logits, torch.zeros(2))
    assert moved.doubt[0] == pytest.approx(-500)
    assert moved.doubt[1].exp() == pytest.approx(1 - moved.memberships[1].max().item())
    alone = LayerOutput(torch.ones(1, 1), torch.zeros(1, 1), torch.zeros(1))
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


@pytest.mark.parametrize("name", ["the paper's steps", "sharp"])
def test_a_coarse_layer_of_factors_is_the_same_layer(name: str) -> None:
    network, _, sharpness = kept(name, True)
    layer = next(iter(network.layers.iter_reusing_memory()))
    coarse = CoarseLowRankLayer.of(layer, layer.step)  # type: ignore[arg-type]
    Z = hard_samples(48, 7)
    mine, theirs = Z.float(), Z.clone()
    a = coarse.move_samples_(mine, sharpness, coarse.sample_space(len(Z)))
    b = layer.move_samples_(theirs, sharpness, layer.sample_space(len(Z)))
    assert float((mine - theirs).abs().max()) < 1e-5
    assert float((a.memberships - b.memberships).abs().max()) < 2e-3


def test_small_steps_need_few_products() -> None:
    network, scores, sharpness = kept("small steps", False)
    cascade = Cascade.of(network, sharpness, coarse_networks(network, 10**9), scores)
    cascade.answer(DIGITS[900:], scores, same_label)
    assert [len(one.layers) for one in cascade.stages][:2] == [2, 4]
    assert cascade.stats.fell_back < 0.3 * cascade.stats.samples


def test_coarse_networks_that_do_not_pay_are_not_used() -> None:
    """Long steps and soft memberships: no short network is like the long one."""
    schedule = Schedule(40, 0.5, 1.0, "relative")
    moments = ClassMoments(64).update(DIGITS[:900], Y_DIGITS[:900].tolist())
    network = build_network(moments, 0.5, schedule)
    scores, soft = read_out(network, "subspace", 12, 0.01).scores, Sharpness(10.0, "relative")
    cascade = Cascade.of(network, soft, coarse_networks(network, 10**9), scores)
    assert not cascade.stages
    expected = scores(network.transform(DIGITS[900:950], soft))
    assert torch.equal(cascade.answer(DIGITS[900:950], scores, same_label), expected)


def test_an_algorithm_1_network_and_one_without_layers_have_no_coarse_networks() -> None:
    network, _, _ = kept("small steps", False)
    about = network.labels, network.counts, 0.5, network.schedule
    alone = ReduNet(*about, tuple(network.layers))  # type: ignore[arg-type]
    assert coarse_networks(alone, 10**9) == []
    moments = ClassMoments(64).update(DIGITS[:900], Y_DIGITS[:900].tolist())
    assert coarse_networks(build_network(moments, 0.5, Schedule(0, 0.5, 0.9)), 10**9) == []
    assert coarse_networks(few_samples(0.5, 0), 10**9) == []


def test_coarse_networks_stay_within_the_memory_they_are_given() -> None:
    network, _, _ = kept("small steps", False)
    two = 4 * 6 * network.layers.layer_numbers  # of two and of four blocks, in float32
    assert [len(coarse_networks(network, most)) for most in (two, two - 1, 0)] == [2, 0, 0]
    assert len(coarse_networks(few_samples(1.0, 1), 10**9)) == 1
    assert coarse_networks(few_samples(1.0, 1), 0) == []


def test_a_streamed_network_has_the_same_coarse_networks() -> None:
    streamed, _, _ = made("small steps", keep=False)
    held, _, _ = kept("small steps", False)
    pairs = zip(coarse_networks(streamed, 10**9), coarse_networks(held, 10**9), strict=True)
    for mine, theirs in pairs:
        for a, b in zip(mine.layers, theirs.layers, strict=True):
            assert torch.equal(a.E, b.E)
            assert a.step == b.step


@pytest.mark.parametrize("n_blocks", [1, 2, 5, 40])
def test_blocks_have_the_whole_path_and_a_layer_of_their_own(n_blocks: int) -> None:
    steps = [0.5 * 0.9**index for index in range(40)]
    found = blocks(steps, n_blocks)
    assert len(found) <= n_blocks
    assert sum(block.path for block in found) == pytest.approx(sum(steps))
    assert [block.middle for block in found] == sorted({block.middle for block in found})


def test_sizes_follow_the_path() -> None:
    assert sizes(0.39, 200) == [1, 2, 4, 8, 16, 32]
    assert sizes(0.74, 50) == [2, 4, 8, 16]
    assert sizes(2.0, 2) == []
    assert sizes(0.0, 1) == []
