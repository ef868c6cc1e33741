"""Which fusions of a network are made, of which of its layers, and which of them are used."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import numpy as np
import pytest
import torch

from redunet.core.construction import Schedule
from redunet.core.fused_network import FusedNetwork, same_label
from redunet.core.fusion import Fusion
from redunet.core.fusion_choice import blocks, candidates, depths, fuse, with_whole_classes
from redunet.core.low_rank import LowRankLayer
from redunet.core.memberships import Sharpness
from redunet.core.moments import ClassMoments
from redunet.core.network import ReduNet, build_network
from redunet.core.readouts import read_out, scores_to_compare
from redunet.core.samples import Values
from tests.core.fusions import (
    DIGITS,
    Y_DIGITS,
    few_samples,
    hard_samples,
    kept,
    made,
    with_all_candidates,
)


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


def test_fusions_of_one_wide_layer_count_what_they_are_made_from(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    network = few_samples(1.0, 1)
    monkeypatch.setattr("redunet.core.fusion_choice.MAX_WIDTH", 8)
    numbers = network.layers.numbers_each
    found = [candidates(network, n_bytes * numbers) for n_bytes in (13, 16, 30)]
    assert [len(fusions) for fusions in found] == [0, 2, 3]


def test_classes_that_vary_in_many_directions_alike_stay_whole_in_the_first_fusion(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(
        "redunet.core.fusion_choice.reduced_dtypes", lambda device: (torch.bfloat16, torch.float32)
    )
    rng = np.random.default_rng(0)
    k, d, n, sharpness = 60, 384, 50, Sharpness(60.0, "relative")
    centres = rng.standard_normal((k, 1, d))
    X, new = (
        torch.from_numpy((centres + 1.5 * rng.standard_normal((k, m, d))).reshape(-1, d))
        for m in (n, 5)
    )
    moments = ClassMoments(d).update(
        torch.nn.functional.normalize(X), np.repeat(np.arange(k), n).tolist()
    )
    network = build_network(moments, 4.0, Schedule(1, 0.3, 1.0, "relative"))
    scores = scores_to_compare(read_out(network, "discriminant", 12, 0.03))
    found = candidates(network, 10**9)
    uncut = with_whole_classes(found)

    def ranks_of(fusions: Sequence[Fusion]) -> list[int]:
        layers = [cast(LowRankLayer, one.layers[0]) for one in fusions]
        return [layer.stacks[0].B.shape[1] for layer in layers]

    ranks = ranks_of([found[0], *uncut])
    assert ranks[0] < ranks[1] == ranks[2] == ranks[3]
    assert [one.dtype for one in uncut] == [torch.bfloat16, torch.float32, torch.float64]
    assert with_whole_classes(uncut) == []
    new = torch.nn.functional.normalize(new)
    fused = fuse(network, sharpness, scores, found)
    assert ranks_of(fused.fusions) == ranks[1:]
    answers = fused.answer(new, scores, same_label)
    exact = FusedNetwork(network, sharpness).answer(new, scores, same_label)
    assert torch.equal(answers.argmax(dim=1), exact.argmax(dim=1))
    assert fused.seen.fell_back < len(new)


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
