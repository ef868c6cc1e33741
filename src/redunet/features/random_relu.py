"""Random Gaussian projections, rectified: the paper's lifting for vectors."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

from torch import Tensor

from redunet.features.base import register
from redunet.features.vector_input import (
    GRID,
    check_random_features,
    directions,
    mean_direction,
    weights,
)


@register
@dataclass(frozen=True, eq=False)
class RandomReLU:
    """max(x W, 0) of unit vectors x, with Gaussian weights W that nothing is learnt from.

    The paper's lifting without its images, and RanPAC's projection [1]_. Vectors
    and weights lie on grids, so every product is exact and the bits of a feature
    depend on its own sample alone.

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
    holds: ClassVar[str] = "a mean vector"

    seed: int
    input_shape: tuple[int, ...]
    width: int = 2000
    centre: Tensor | None = None
    learnt_from_data: bool = False

    def __post_init__(self) -> None:
        check_random_features(
            self.seed, self.input_shape, self.width, self.centre, self.learnt_from_data
        )

    @classmethod
    def learn(cls, samples: Any, seed: int, width: int = 2000) -> RandomReLU:
        """A lift with the mean of given samples, (n, …), on the unit sphere as its centre.

        Samples of the first task leak nothing from later ones.
        """
        centre = mean_direction(samples)
        return cls(seed, tuple(samples.shape[1:]), width, centre, learnt_from_data=True)

    @property
    def n_features(self) -> int:
        """The width."""
        return self.width

    @cached_property
    def weights(self) -> Tensor:
        """Whole numbers, (width, d): the weights times 2²⁰."""
        return weights(self.seed, self.width, math.prod(self.input_shape))

    def __call__(self, X: Tensor) -> Tensor:
        """Feature vectors, (n, width), of samples, (n, *input_shape)."""
        steps = directions(X, self.centre) @ self.weights.to(X.device).T
        return steps.clamp_(min=0).div_(GRID**2)

    def to_state(self) -> tuple[dict[str, Any], dict[str, Tensor]]:
        """What makes this map again."""
        values = {
            "seed": int(self.seed),
            "input_shape": self.input_shape,
            "width": int(self.width),
            "learnt_from_data": self.learnt_from_data,
        }
        return values, {} if self.centre is None else {"centre": self.centre}
