"""Networks with hard samples, whose cascades several files test."""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np
import torch
from sklearn.datasets import load_digits
from torch import Tensor

from redunet.core.cascade import Cascade
from redunet.core.coarse_network import coarse_networks
from redunet.core.construction import Schedule
from redunet.core.layer import Sharpness
from redunet.core.moments import ClassMoments
from redunet.core.network import ReduNet, build_network
from redunet.core.readouts import read_out

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


def with_all_stages(network: ReduNet, sharpness: Sharpness) -> Cascade:
    """Also with coarse networks that do not pay."""
    return Cascade(network, sharpness, coarse_networks(network, 10**9))


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


@functools.cache
def kept(name: str, low_rank: bool) -> tuple[ReduNet, Any, Sharpness]:
    """A network that several tests share, made when it is first asked for."""
    return made(name, low_rank=low_rank)


@functools.cache
def kept_cascade(name: str, low_rank: bool) -> Cascade:
    network, _, sharpness = kept(name, low_rank)
    return with_all_stages(network, sharpness)


@functools.cache
def few_samples(eps: float, n_layers: int) -> ReduNet:
    X, y = few_samples_of_many_classes()
    schedule = Schedule(n_layers, 0.5, 0.9, "relative")
    return build_network(ClassMoments(X.shape[1]).update(X, y), eps, schedule)
