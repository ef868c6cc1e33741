"""Fusions: the labels of the whole network, always, and values within a stated distance of it."""

from __future__ import annotations

import itertools

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from redunet.core import fusion_choice
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
from redunet.core.fusion_choice import candidates, leading_directions, reduced_dtypes
from redunet.core.layer import Layer
from redunet.core.leading import Leading
from redunet.core.low_rank import LowRankLayer
from redunet.core.memberships import Sharpness
from redunet.core.readouts import read_out, scores_to_compare
from redunet.core.samples import Samples, Values
from tests.core.fusions import (
    DIGITS,
    NETWORKS,
    few_samples,
    hard_samples,
    kept,
    kept_fused,
    made,
    with_all_candidates,
)


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
    st.sampled_from(["discriminant", "subspace", "quadratic", "pairwise"]),
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
