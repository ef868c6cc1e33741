"""Random Fourier features: products of them come close to a Gaussian kernel."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from redunet.errors import SettingsError
from redunet.features.base import register
from redunet.features.vector_input import (
    GRID,
    check_random_features,
    directions,
    mean_direction,
    weights,
)
from redunet.validation import checked_number

_TERMS = 9
"""Of the series of the sine within a quarter turn; what is left out is below 6·10⁻¹⁴."""

_CACHED = 2**18
"""Values treated at a time, few enough to stay in the processor's cache."""


@register
@dataclass(frozen=True, eq=False)
class Fourier:
    """√(2/D) cos(x Ω + b) of unit vectors x, with random frequencies Ω and phases b.

    The product of two feature vectors comes close to the Gaussian kernel
    exp(−‖x − y‖² / 2σ²) of their samples, the closer the more features there are
    [1]_; with a linear discriminant on them it is KLDA [2]_, whose parameter is
    1 / 2σ². Nothing is learnt from data but the centre, where one is asked for.

    Frequencies are counted in turns and lie on a grid, as the vectors do, so that
    the angle of each cosine is exact; the cosine itself is computed by additions
    and multiplications of single numbers. So the bits of a feature depend on its
    own sample alone.

    Parameters
    ----------
    seed : int
        Of frequencies and phases: the same on every machine and version.
    input_shape : tuple of int
        Shape of one sample; its values are taken as one vector.
    width : int, default=2000
        D, the number of features.
    bandwidth : float, default=1.0
        σ. Two unit vectors are at most 2 apart.
    centre : Tensor of shape (d,), float64, default=None
        Subtracted from the unit vector of a sample, which is then scaled to
        length 1 once more.
    learnt_from_data : bool, default=False
        Whether the centre was computed from samples.

    References
    ----------
    .. [1] A. Rahimi and B. Recht, "Random Features for Large-Scale Kernel
       Machines", NeurIPS 2007.
    .. [2] S. Momeni et al., "Continual Learning Using a Kernel-Based Method Over
       Foundation Models", AAAI 2025.

    Examples
    --------
    >>> features = Fourier(seed=0, input_shape=(3,), width=5000, bandwidth=0.5)
    >>> one, other = features(torch.tensor([[3.0, 0.0, 4.0], [4.0, 0.0, 3.0]]))
    >>> round(float(one @ other), 1), round(math.exp(-0.08 / (2 * 0.5**2)), 1)
    (0.9, 0.9)
    """

    kind: ClassVar[str] = "fourier"
    holds: ClassVar[str] = "a mean vector"

    seed: int
    input_shape: tuple[int, ...]
    width: int = 2000
    bandwidth: float = 1.0
    centre: Tensor | None = None
    learnt_from_data: bool = False

    def __post_init__(self) -> None:
        check_random_features(
            self.seed, self.input_shape, self.width, self.centre, self.learnt_from_data
        )
        checked_number("bandwidth", self.bandwidth, above=0)
        longest = float(self.frequencies.square().sum(dim=1).max().sqrt())
        # A product with a unit vector, 2²⁰ steps long, and the phase must stay below 2⁵³.
        if not longest < 2**32:
            raise SettingsError(
                f"expected a bandwidth whose frequencies fit the grid, got {self.bandwidth!r}: "
                f"take a larger one"
            )

    @classmethod
    def learn(cls, samples: Any, seed: int, width: int = 2000, bandwidth: float = 1.0) -> Fourier:
        """Features around the mean of given samples, (n, …), on the unit sphere.

        Samples of the first task leak nothing from later ones.
        """
        centre = mean_direction(samples)
        return cls(seed, tuple(samples.shape[1:]), width, bandwidth, centre, learnt_from_data=True)

    @property
    def n_features(self) -> int:
        """The width."""
        return self.width

    @cached_property
    def frequencies(self) -> Tensor:
        """Whole numbers, (width, d): the frequencies, in turns, times 2²⁰."""
        per_turn = 1 / (2 * math.pi * self.bandwidth)
        return weights(self.seed, self.width, math.prod(self.input_shape), per_turn)

    @cached_property
    def phases(self) -> Tensor:
        """Whole numbers, (width,): the phases, in turns, times 2⁴⁰."""
        # Of another stream than the frequencies, so that neither shifts with the other's length.
        drawn = np.random.RandomState([self.seed, 1]).random_sample(self.width)
        return torch.from_numpy(np.round(drawn * GRID**2))

    def __call__(self, X: Tensor) -> Tensor:
        """Feature vectors, (n, width), of samples, (n, *input_shape)."""
        turns = directions(X, self.centre) @ self.frequencies.to(X.device).T
        turns += self.phases.to(X.device)
        rows = max(1, _CACHED // self.width) if X.device.type == "cpu" else max(1, len(X))
        for some in torch.split(turns, rows):
            _cosine_(some.div_(GRID**2))
        return turns.mul_(math.sqrt(2 / self.width))

    def to_state(self) -> tuple[dict[str, Any], dict[str, Tensor]]:
        """What makes this map again."""
        values = {
            "seed": int(self.seed),
            "input_shape": self.input_shape,
            "width": int(self.width),
            "bandwidth": float(self.bandwidth),
            "learnt_from_data": self.learnt_from_data,
        }
        return values, {} if self.centre is None else {"centre": self.centre}


def _sine_series() -> list[float]:
    """Of sin(2πw) by powers of w: the first, the third, the fifth, ..."""
    turn = 2 * math.pi
    terms = [turn]
    for order in range(1, _TERMS):
        terms.append(-terms[-1] * (turn * turn) / (2 * order * (2 * order + 1)))
    return terms


def _cosine_(turns: Tensor) -> Tensor:
    """cos(2π t) in place of t, by single additions and multiplications: alike everywhere.

    Libraries' cosines differ in last bits, even between places of one tensor.
    """
    # cos(2π t) = sin(2π w) with w = 1/4 − |t|, once t is brought to within half a turn.
    turns.sub_(turns.round())
    turns.abs_().neg_().add_(0.25)
    square = turns * turns
    first, *others = reversed(_sine_series())
    total = torch.full_like(turns, first)
    for term in others:
        total.mul_(square).add_(term)
    return turns.mul_(total)
