"""Networks whose classes are spread over ranks: the same layers, features and scores."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from redunet import ClassMoments, ReduNet, Schedule, SettingsError, build_network
from redunet.core.readouts import READOUTS, read_out, register
from redunet.core.share import Share, cost, split
from redunet.core.shared_readouts import shared_read_out
from redunet.core.subspaces import Subspaces
from tests.threads import ThreadRanks, on_threads

D, STEPS = 20, Schedule(4, 0.3, 0.9, "relative")
SAMPLES = {"matrices": [30, 40, 50, 26], "factors": [3, 5, 2, 4, 6], "both": [40, 3, 5, 30, 2, 60]}


def made(counts: list[int], zeros: int = 0, seed: int = 0) -> ClassMoments:
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((sum(counts), D)) + np.repeat(
        rng.standard_normal((len(counts), D)), counts, axis=0
    )
    X[:, :zeros] = 0
    y = np.repeat(np.arange(len(counts)), counts)
    return ClassMoments(D).update(torch.from_numpy(X), y)


def new(n: int = 30) -> Tensor:
    rows = torch.randn(n, D, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    return torch.nn.functional.normalize(rows, dim=1)


def shared(
    moments: ClassMoments, ranks: ThreadRanks, schedule: Schedule = STEPS, **how: Any
) -> ReduNet:
    share = Share.of(moments, ranks)
    return build_network(moments.select(share.own_labels), 0.5, schedule, share=share, **how)


@given(st.lists(st.integers(0, 64), min_size=1, max_size=60), st.integers(1, 6))
def test_every_class_has_one_rank_and_all_have_about_as_much_to_do(
    ranks: list[int], size: int
) -> None:
    size = min(size, len(ranks))
    parts = split(ranks, 64, size)
    assert sorted(j for part in parts for j in part) == list(range(len(ranks)))
    assert all(list(part) == sorted(part) for part in parts)
    costs = [sum(cost(ranks[j], 64) for j in part) for part in parts]
    assert max(costs) - min(costs) <= max(cost(r, 64) for r in ranks)


def test_a_class_in_factors_costs_less_and_too_many_ranks_are_refused() -> None:
    assert cost(64, 64) == cost(26, 64) == 256 > cost(25, 64) > 8 * cost(4, 64)
    with pytest.raises(SettingsError, match="at most as many processes as classes, 2, got 3"):
        split([4, 4], 64, 3)


@pytest.mark.parametrize("keep", [True, False])
@pytest.mark.parametrize("counts", SAMPLES.values(), ids=SAMPLES)
def test_layers_and_features_are_those_of_one_process(counts: list[int], keep: bool) -> None:
    moments, Z = made(counts, zeros=3), new()
    network = build_network(moments, 0.5, STEPS)
    features, memberships = network.transform(Z, 2.0), network.memberships(Z, 2.0)
    for size in (2, 3, 4):

        def ask(ranks: ThreadRanks) -> tuple[Any, ...]:
            one = shared(moments, ranks, keep=keep)
            return (
                one.transform(Z, 2.0),
                one.memberships(Z, 2.0),
                one.last_means(),
                one.layers.last.sum,
                one.layers.probes(50),
                one.layers.new_samples(50)[0],
                [rate.delta_R for rate in one.rates()],
                [layer.E for layer in one.layers],
                one.layers.first.layer_bytes,
            )

        found = on_threads(size, ask)
        expected = (
            features,
            memberships,
            network.last_means(),
            network.layers.last.sum,
            network.layers.probes(50),
            network.layers.new_samples(50)[0],
        )
        for rank in found:
            for ours, theirs in zip(rank, expected, strict=False):
                torch.testing.assert_close(ours, theirs, rtol=1e-11, atol=1e-11)
            assert rank[6] == found[0][6] == pytest.approx([r.delta_R for r in network.rates()])
            for E, layer in zip(rank[7], network.layers, strict=True):
                torch.testing.assert_close(E, layer.E, rtol=1e-10, atol=1e-10)
        whole = network.layers.first.layer_bytes
        assert max(rank[8] for rank in found) <= whole / size + 2 * 8 * D * D  # E, and one class


@pytest.mark.parametrize(
    "name", ["subspace", "coding", "discriminant", "regression", "quadratic", "pairwise"]
)
@pytest.mark.parametrize("counts", SAMPLES.values(), ids=SAMPLES)
def test_scores_are_those_of_one_process(name: str, counts: list[int]) -> None:
    moments, Z = made(counts), new()
    network = build_network(moments, 0.5, STEPS)
    expected = read_out(network, name, 5, 0.1).scores(network.transform(Z, 2.0))

    def ask(ranks: ThreadRanks) -> Tensor:
        one = shared(moments, ranks)
        return shared_read_out(one, name, 5, 0.1).scores(one.transform(Z, 2.0))

    for size in (2, 4):
        for scores in on_threads(size, ask):
            torch.testing.assert_close(scores, expected, rtol=1e-9, atol=1e-9)


@settings(max_examples=10)
@given(st.lists(st.integers(1, 40), min_size=4, max_size=9), st.integers(2, 4), st.booleans())
def test_any_classes_in_float32(counts: list[int], size: int, keep: bool) -> None:
    moments, Z = made(counts), new().float()
    expected = build_network(moments, 0.5, STEPS, dtype=torch.float32).transform(Z, 1.0)

    def ask(ranks: ThreadRanks) -> Tensor:
        return shared(moments, ranks, dtype=torch.float32, keep=keep).transform(Z, 1.0)

    for features in on_threads(size, ask):
        torch.testing.assert_close(features, expected, rtol=0, atol=2e-5)


def test_all_ranks_stop_after_the_same_layer() -> None:
    moments = made(SAMPLES["both"])
    deep = Schedule(60, 0.3, 0.9, "relative")
    rates = [rate.delta_R for rate in build_network(moments, 0.5, deep).rates()]
    short = replace(deep, tol=(rates[21] - rates[20]) * 0.99)
    depth = len(build_network(moments, 0.5, short).layers)
    assert 10 < depth < 40
    assert on_threads(3, lambda ranks: len(shared(moments, ranks, short).layers)) == [depth] * 3


def test_subspaces_of_some_classes() -> None:
    moments = made(SAMPLES["both"])
    expected = Subspaces.of(build_network(moments, 0.5, STEPS).layers.last, 3, 5, [1, 3, 4])
    whole = Subspaces.of(build_network(moments, 0.5, STEPS).layers.last, 3, 5)
    torch.testing.assert_close(whole.spectra[[1, 3, 4]], expected.spectra)
    for found in on_threads(
        2, lambda ranks: Subspaces.of(shared(moments, ranks).layers.last, 3, 5, [1, 3, 4])
    ):
        torch.testing.assert_close(found.spectra, expected.spectra)
        torch.testing.assert_close(found.closeness(), expected.closeness())


def test_a_read_out_of_ones_own_is_refused() -> None:
    register("own", lambda *_: READOUTS["subspace"](*_))
    moments = made(SAMPLES["both"])
    try:
        with pytest.raises(SettingsError, match=r"spread over processes, got 'own': use one"):
            on_threads(2, lambda ranks: shared_read_out(shared(moments, ranks), "own", 5, 0.1))
    finally:
        del READOUTS["own"]
