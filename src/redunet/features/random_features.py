"""Random features of vectors: Gaussian projections, rectified or as phases of cosines.

Directions and weights are whole numbers. A product of whole numbers, and a sum of such
products below 2⁵³, is exact in float64 in any order: on any device, in any batch.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np
import torch
from torch import Tensor

from redunet.errors import DataError, SettingsError
from redunet.features import exact
from redunet.features.base import TracedMap, register
from redunet.features.checks import MOST_VALUES, check_shape, check_tensor
from redunet.validation import checked_number, flag, whole_number

GRID = 2**20
"""Steps in one unit, of directions and of weights."""


@dataclass(frozen=True, eq=False)
class RandomFeatures(TracedMap):
    """Functions of products of unit vectors with random weights.

    Parameters
    ----------
    seed : int
        Of the weights: the same on every machine and version.
    input_shape : tuple of int
        Shape of one sample; its values are taken as one vector.
    width : int, default=2000
        The number of features.
    centre : Tensor of shape (d,), float64, default=None
        Subtracted from the unit vector of a sample, which is then scaled to
        length 1 once more.
    learnt_from_data : bool, default=False
        Whether the centre was computed from samples.
    """

    holds: ClassVar[str] = "a mean vector"

    seed: int
    input_shape: tuple[int, ...]
    width: int = 2000
    centre: Tensor | None = None
    learnt_from_data: bool = False

    def __post_init__(self) -> None:
        check_shape(self.input_shape)
        whole_number("seed", self.seed, least=0, most=2**32 - 1)
        whole_number("width", self.width, least=1, most=MOST_VALUES)
        n_values = math.prod(self.input_shape)
        if self.width * n_values > MOST_VALUES:
            raise SettingsError(
                f"expected at most {MOST_VALUES:,} weights, got width={self.width} for samples of "
                f"{n_values:,} values: ask for fewer features"
            )
        if self.centre is not None:
            check_tensor("centre", self.centre, (n_values,))
        flag("learnt_from_data", self.learnt_from_data)

    @classmethod
    def learn(cls, samples: Any, seed: int, width: int = 2000, **own: Any) -> Self:
        """Features around the mean of given samples, (n, …), on the unit sphere.

        Samples of the first task leak nothing from later ones.
        """
        X = torch.as_tensor(samples)
        if len(X) == 0:
            raise DataError("expected samples to learn a centre from, got none")
        steps = cls(seed, tuple(X.shape[1:]), width, **own)._directions(X)
        centre = (steps.sum(dim=0) / len(X)).round_().div_(GRID)
        shape = tuple(X.shape[1:])
        return cls(seed, shape, width, centre=centre, learnt_from_data=True, **own)

    @property
    def n_features(self) -> int:
        """The width."""
        return self.width

    @cached_property
    def weights(self) -> Tensor:
        """Whole numbers, (width, d): Gaussian weights, in steps of the grid.

        The first rows of a larger width are those of a smaller one.
        """
        # The legacy generator is the one whose stream is promised never to change.
        normal = np.random.RandomState(self.seed).standard_normal
        drawn = normal((self.width, math.prod(self.input_shape)))
        return torch.from_numpy(np.round(drawn * (self._deviation * GRID)))

    @property
    def _deviation(self) -> float:
        """Of a weight."""
        return 1.0

    def checked(self, X: Tensor) -> Tensor:
        """Samples of any dtype."""
        return X

    def _directions(self, X: Tensor) -> Tensor:
        """Unit vectors, (n, d), in whole steps of the grid; with a centre, seen from there."""
        unit = exact.unit_rows(X.reshape(-1, math.prod(self.input_shape)))
        if self.centre is not None:
            unit = exact.unit_rows(unit - exact.beside(self.centre, unit))
        return unit.mul_(float(GRID)).round_()

    def _products(self, X: Tensor) -> Tensor:
        """Products with the weights, (n, width), in whole numbers."""
        return torch.matmul(self._directions(X), exact.beside(self.weights.T, X))


@register
@dataclass(frozen=True, eq=False)
class RandomReLU(RandomFeatures):
    """max(x W, 0) of unit vectors x, with Gaussian weights W that nothing is learnt from.

    The paper's lifting without its images, and RanPAC's projection [1]_. Vectors
    and weights lie on grids, so every product is exact and the bits of a feature
    depend on its own sample alone.

    Parameters
    ----------
    seed, input_shape, width, centre, learnt_from_data
        As for `RandomFeatures`: the seed of the weights, the shape of a sample, the number of
        features, and the mean of samples on the unit sphere that is subtracted, if any.

    References
    ----------
    .. [1] M. D. McDonnell et al., "RanPAC: Random Projections and Pre-trained
       Models for Continual Learning", NeurIPS 2023.

    Examples
    --------
    >>> import torch
    >>> lift = RandomReLU(seed=0, input_shape=(3,), width=4)
    >>> lift(torch.tensor([[3.0, 0.0, 4.0]])).round(decimals=3).tolist()
    [[1.841, 0.563, 0.487, 1.41]]
    """

    kind: ClassVar[str] = "random-relu"

    def vectors(self, X: Tensor) -> Tensor:
        """Feature vectors, (n, width)."""
        return self._products(X).clamp_(min=0.0).div_(float(GRID**2))


@register
@dataclass(frozen=True, eq=False)
class Fourier(RandomFeatures):
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
    seed, input_shape, width, centre, learnt_from_data
        As for `RandomReLU`; the seed is that of frequencies and phases.
    bandwidth : float, default=1.0
        σ. Two unit vectors are at most 2 apart.

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

    bandwidth: float = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        checked = checked_number("bandwidth", self.bandwidth, above=0)
        object.__setattr__(self, "bandwidth", checked)
        longest = float(self.weights.square().sum(dim=1).max().sqrt())
        # A product with a unit vector, 2²⁰ steps long, and the phase must stay below 2⁵³.
        if not longest < 2**32:
            raise SettingsError(
                f"expected a bandwidth whose frequencies fit the grid, got {self.bandwidth!r}: "
                f"take a larger one"
            )

    @property
    def _deviation(self) -> float:
        """Of a frequency, in turns."""
        return 1 / (2 * math.pi * self.bandwidth)

    @cached_property
    def phases(self) -> Tensor:
        """Whole numbers, (width,): the phases, in turns, times 2⁴⁰."""
        # Of another stream than the frequencies, so that neither shifts with the other's length.
        drawn = np.random.RandomState([self.seed, 1]).random_sample(self.width)
        return torch.from_numpy(np.round(drawn * GRID**2))

    def vectors(self, X: Tensor) -> Tensor:
        """Feature vectors, (n, width)."""
        turns = self._products(X).add_(exact.beside(self.phases, X)).div_(float(GRID**2))
        return exact.cosine(turns).mul_(math.sqrt(2 / self.width))
