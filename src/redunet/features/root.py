"""Square roots of features: large values count less, small ones more."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor

from redunet.errors import DataError
from redunet.features.base import register
from redunet.features.checks import check_shape

_GRID = 2**16


@register
@dataclass(frozen=True)
class Root:
    """√x of each feature x, which must not be negative, on the grid 2⁻¹⁶.

    Parameters
    ----------
    n_features : int

    Examples
    --------
    >>> Root(2)(torch.tensor([[4.0, 2.25]])).tolist()
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
        """Nothing is."""
        return False

    def __call__(self, X: Tensor) -> Tensor:
        """Roots, (n, d), of vectors, (n, d)."""
        X = X.to(torch.float64)
        if X.numel() and not bool(X.min() >= 0):
            raise DataError(
                f"expected features of at least 0 to take roots of, got {float(X.min()):g}: "
                f"leave out root, or take features that are sums or moduli"
            )
        return rounded_root((X * _GRID**2).round_()).div_(_GRID)

    def to_state(self) -> tuple[dict[str, Any], dict[str, Tensor]]:
        """What makes this map again."""
        return {"n_features": self.n_features}, {}


def rounded_root(squares: Tensor) -> Tensor:
    """√x of whole numbers x from 0 on, rounded to whole numbers, the same on every device."""
    # Roots may be an ulp off, and not alike on all devices, but no half-integer has a whole square:
    # with r = ⌊√x⌋, x lies beyond r + ½ if and only if it is greater than r (r + 1), and that holds
    # as well of an r that is one off because √x is close to a whole number. The product is exact
    # for x < 2⁵³, that is for features below 2²¹. Beyond it the root might be rounded to the other
    # side of a half, but alike everywhere.
    root = squares.sqrt().floor_()
    root += root * (root + 1) < squares
    return root
