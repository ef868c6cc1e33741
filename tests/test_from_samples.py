"""The constructions that speed is compared with do what they say."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from benchmarks.from_samples import BATCH, FromSamples, Way
from redunet.core.layer import Layer
from redunet.core.rate import Coding

EPS, STEP, D = 0.5, 0.4, 12


def samples(counts: tuple[int, ...] = (40, 25, 60)) -> list[Tensor]:
    generator = torch.Generator().manual_seed(0)
    Z = [torch.randn(n, D, generator=generator, dtype=torch.float64) for n in counts]
    return [z / z.norm(dim=1, keepdim=True) for z in Z]


def test_the_paper_s_step_gives_the_layers_of_the_moments() -> None:
    Z = samples()
    by_samples = FromSamples(Z, EPS, "a")
    Sigma = torch.stack([z.T @ z for z in Z])
    coding = Coding(tuple(map(len, Z)), D, EPS)
    for _ in range(4):
        E, C = by_samples.layer(STEP)
        layer = Layer.from_moments(Sigma, coding, STEP)
        assert torch.allclose(E, layer.E, atol=1e-12)
        assert torch.allclose(C, layer.C, atol=1e-12)
        Sigma = layer.move_moments(Sigma, coding.counts)


@pytest.mark.parametrize("way", ["b", "c"])
def test_the_published_way_moves_each_sample_by_all_classes(way: Way) -> None:
    Z = samples((BATCH, 30, 41))
    both = FromSamples(Z, EPS, way, sharpness=7.0)
    before = torch.cat(Z)
    E, C = both.layer(STEP)
    for row in (0, BATCH - 1, BATCH + 5, len(before) - 1):
        z = before[row]
        pulls = [C_j @ z for C_j in C]
        lengths = torch.stack([pull.norm() for pull in pulls])
        memberships = torch.softmax(-7.0 * lengths / lengths.sum(), 0)
        moved = z + STEP * E @ z
        for gamma, membership, pull in zip(both.coding.gamma, memberships, pulls, strict=True):
            moved = moved - STEP * gamma * membership * pull
        assert torch.allclose(both.Z[row], moved / moved.norm(), atol=1e-13)
    assert torch.equal(before, torch.cat(Z))
