"""The bounds on which fusions rest, layer by layer: doubt, spread, and classes left out."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from redunet.core.low_rank import LowRankLayer
from redunet.core.memberships import Moved, Sharpness
from redunet.core.samples import Samples, Values
from tests.core.fusions import few_samples, hard_samples, kept, with_all_candidates


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
