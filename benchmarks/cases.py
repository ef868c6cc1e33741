"""The inputs that are timed: moments, layers and samples of given sizes."""

from __future__ import annotations

import torch
from torch import Tensor

from benchmarks.measure import Work
from redunet.construction import Pass, SecondMoments
from redunet.layer import Layer
from redunet.moments import ClassMoments
from redunet.rate import Coding

EPS, STEP = 0.5, 0.5


def second_moments(k: int, d: int, m: int = 60_000) -> tuple[Tensor, Coding]:
    """Second moments of k classes of full rank with decaying spectra, float64."""
    generator = torch.Generator().manual_seed(k * d)
    scale = torch.arange(1, d + 1, dtype=torch.float64).rsqrt()
    Sigma = torch.empty(k, d, d, dtype=torch.float64)
    for Sigma_j in Sigma:
        F = torch.randn(2 * d, d, generator=generator, dtype=torch.float64) * scale
        F = F[:, torch.randperm(d, generator=generator)]
        torch.mm(F.mT, F, out=Sigma_j)
        Sigma_j *= m // k / Sigma_j.trace()
    return Sigma, Coding((m // k,) * k, d, EPS)


def one_layer(Sigma: Tensor, coding: Coding) -> Work:
    """Build a layer and move the moments by it, in the memory of the one before."""
    going = Pass(SecondMoments(tuple(range(len(Sigma))), Sigma), coding, reuse=True)
    return lambda: going.move(going.layer(STEP))


def one_transform(Sigma: Tensor, coding: Coding, n: int, rows: int = 512) -> Work:
    """Move n samples through one layer, in batches."""
    layer = Layer.from_moments(Sigma, coding, STEP)
    generator = torch.Generator().manual_seed(n)
    Z = torch.randn(n, Sigma.shape[-1], generator=generator, dtype=torch.float64).to(Sigma)
    Z /= torch.linalg.vector_norm(Z, dim=1, keepdim=True)
    space = layer.sample_space(rows)

    def work() -> None:
        for part in torch.split(Z, rows):
            layer.move_samples_(part, 1.0, space)

    return work


def pixels(m: int, d: int, k: int) -> tuple[Tensor, Tensor]:
    """Samples of whole numbers, as images have them, and their labels."""
    generator = torch.Generator().manual_seed(m)
    X = torch.randint(0, 256, (m, d), generator=generator, dtype=torch.uint8)
    return X, torch.arange(m) % k


def some_moments(k: int, d: int, per_class: int, seed: int = 0) -> ClassMoments:
    """Moments of random samples, class by class."""
    generator = torch.Generator().manual_seed(seed)
    moments = ClassMoments(d)
    for label in range(k):
        X = torch.randn(per_class, d, generator=generator, dtype=torch.float64)
        moments = moments + ClassMoments(d).update(X, [label] * per_class)
    return moments
