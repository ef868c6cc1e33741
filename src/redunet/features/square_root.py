"""Square roots of features: large values count less, small ones more."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from redunet.errors import DataError
from redunet.features import exact
from redunet.features.base import TracedMap, register
from redunet.features.checks import check_shape

_GRID = 2**16


@register
@dataclass(frozen=True)
class SquareRoot(TracedMap):
    """√x of each feature x, which must not be negative, on the grid 2⁻¹⁶.

    Parameters
    ----------
    n_features : int

    Examples
    --------
    >>> SquareRoot(2)(torch.tensor([[4.0, 2.25]])).tolist()
    [[2.0, 1.5]]
    """

    kind: ClassVar[str] = "root"

    n_features: int

    def __post_init__(self) -> None:
        check_shape(self.input_shape)

    @property
    def input_shape(self) -> tuple[int, ...]:
        """Vectors."""
        return (self.n_features,)

    @property
    def learnt_from_data(self) -> bool:
        """Nothing is learnt."""
        return False

    def checked(self, X: Tensor) -> Tensor:
        """Features that have roots."""
        X = X.to(torch.float64)
        if X.numel() and not bool(X.min() >= 0):
            raise DataError(
                f"expected features of at least 0 to take roots of, got {float(X.min()):g}: "
                f"leave out sqrt, or take features that are sums or moduli"
            )
        return X

    def vectors(self, X: Tensor) -> Tensor:
        """Roots, (n, d), of vectors, (n, d)."""
        return exact.rounded_root((X * float(_GRID**2)).round()) / float(_GRID)
