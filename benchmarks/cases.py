"""The inputs that are timed: moments, layers and samples of given sizes."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from benchmarks.measure import Work
from redunet.core.construction import Pass
from redunet.core.layer import Layer
from redunet.core.low_rank import stacked
from redunet.core.moments import ClassMoments
from redunet.core.rate import Coding
from redunet.core.second_moments import SecondMoments

EPS, STEP = 0.5, 0.5


def second_moments(k: int, d: int, m: int = 60_000, device: str = "cpu") -> tuple[Tensor, Coding]:
    """Second moments of k classes of full rank with decaying spectra, float64."""
    generator = torch.Generator(device).manual_seed(k * d)
    scale = torch.arange(1, d + 1, dtype=torch.float64, device=device).rsqrt()
    Sigma = torch.empty(k, d, d, dtype=torch.float64, device=device)
    for Sigma_j in Sigma:
        F = torch.randn(2 * d, d, generator=generator, dtype=torch.float64, device=device) * scale
        F = F[:, torch.randperm(d, generator=generator, device=device)]
        torch.mm(F.mT, F, out=Sigma_j)
        Sigma_j *= m // k / Sigma_j.trace()
    return Sigma, Coding((m // k,) * k, d, EPS)


def one_layer(Sigma: Tensor, coding: Coding) -> Work:
    """Build a layer and move the moments by it, in the memory of the one before."""
    going = Pass(SecondMoments.of_matrices(Sigma), coding, reuse=True)

    def work() -> None:
        going.layer(STEP)
        going.move()

    return work


def one_transform(
    Sigma: Tensor,
    coding: Coding,
    n: int,
    rows: int = 512,
) -> Work:
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


def few_samples(
    k: int, d: int, per_class: int, form: Literal["factors", "matrices"], device: str = "cpu"
) -> tuple[SecondMoments, Coding]:
    """Classes of few samples, in factors or in matrices."""
    generator = torch.Generator().manual_seed(k)
    B = torch.randn(k, per_class, d, generator=generator, dtype=torch.float64).to(device)
    B *= (per_class / B.square().sum(dim=(1, 2), keepdim=True)).sqrt()
    coding = Coding((per_class,) * k, d, EPS)
    if form == "matrices":
        return SecondMoments.of_matrices(B.mT @ B), coding
    none = torch.empty(0, d, d, dtype=torch.float64, device=device)
    return SecondMoments((), none, stacked({j: B_j.mT for j, B_j in enumerate(B)})), coding


class Travel:
    """Layer after layer, each built in the memory of the one before, and samples to move.

    Parameters
    ----------
    first : SecondMoments
        Not held on to: of many classes in matrices, one copy is enough.
    coding : Coding
    n : int
        Samples.
    rows : int, default=64
        How many of them are moved at a time.
    """

    def __init__(self, first: SecondMoments, coding: Coding, n: int, rows: int = 64) -> None:
        self._going = Pass(first, coding, reuse=True)
        self._rows = rows
        generator = torch.Generator().manual_seed(n)
        Z = torch.randn(n, coding.d, generator=generator, dtype=torch.float64)
        self.Z = Z.div_(torch.linalg.vector_norm(Z, dim=1, keepdim=True)).to(first.Sigma.device)

    def build(self) -> None:
        """Build a layer and move the moments by it."""
        self._going.layer(STEP)
        self._going.move()

    def rest(self) -> None:
        """Build the layer that `transform` moves samples by; nothing is built after it."""
        self._layer = self._going.layer(STEP)
        self._space = self._layer.sample_space(self._rows)

    def transform(self) -> None:
        """Move the samples through the layer where the moments came to rest."""
        for part in torch.split(self.Z, self._rows):
            self._layer.move_samples_(part, 1e-3, self._space)


def some_moments(k: int, d: int, per_class: int, seed: int = 0) -> ClassMoments:
    """Moments of random samples, class by class."""
    generator = torch.Generator().manual_seed(seed)
    moments = ClassMoments(d)
    for label in range(k):
        X = torch.randn(per_class, d, generator=generator, dtype=torch.float64)
        moments = moments + ClassMoments(d).update(X, [label] * per_class)
    return moments
