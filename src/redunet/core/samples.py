"""New samples on their way through fusions, and the values that are asked of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from redunet.core.layer import row_norms
from redunet.core.leading import Leading
from redunet.core.reduced_space import ReducedSpace


@dataclass(frozen=True, eq=False)
class Values:
    """What is asked of the features after the last layer.

    Parameters
    ----------
    of_features : callable
        From features, (n, d), to values, (n, m).
    columns : Tensor of shape (d, c), default=None
        Where values depend on the products of features with these columns alone, which saves
        going back to all d dimensions.
    of_products : callable, default=None
        From these products, (n, c), of features on the unit sphere to values, (n, m).
    """

    of_features: Callable[[Tensor], Tensor]
    columns: Tensor | None = None
    of_products: Callable[[Tensor], Tensor] | None = None


class Samples:
    """Samples, with what fusions need of them, computed when first asked for.

    Parameters
    ----------
    Z : Tensor of shape (n, d)
        On the unit sphere.
    space : ReducedSpace, or None
        Of the network.
    asked : Values
    """

    def __init__(self, Z: Tensor, space: ReducedSpace | None, asked: Values) -> None:
        self.Z, self.space, self.asked = Z, space, asked
        self._kept: dict[tuple[str, torch.dtype], Tensor] = {}

    def where(self, rows: Tensor) -> Samples:
        """Some of the samples: a mask, (n,)."""
        some = Samples(self.Z[rows], self.space, self.asked)
        some._kept = {key: one[rows] for key, one in self._kept.items()}
        return some

    @classmethod
    def cat(cls, parts: Sequence[Samples]) -> Samples:
        """Samples of several parts, one after another; there is at least one part."""
        all_ = cls(torch.cat([one.Z for one in parts]), parts[0].space, parts[0].asked)
        known = set.intersection(*(set(one._kept) for one in parts))
        all_._kept = {key: torch.cat([one._kept[key] for one in parts]) for key in known}
        return all_

    def start(self, space: Leading | None, dtype: torch.dtype) -> Tensor:
        """The samples in the dimensions of a fusion, (n, w)."""
        if space is None:
            return self._get("inside", dtype, lambda: self._within()[0].to(dtype))
        return space.rows(self._as(dtype), self._squared_lengths(dtype))

    def values(self, space: Leading | None, start: Tensor, end: Tensor) -> Tensor:
        """Values, (n, m), of samples that a fusion moved from ``start`` to ``end``, (n, w)."""
        asked, dtype = self.asked, start.dtype
        columns = None if asked.columns is None else asked.columns.to(dtype)
        if space is not None:
            added, scale = space.change(start, end)
            back = space.in_all.mT.to(dtype)
            if columns is None or asked.of_products is None:
                Z = (scale * self._as(dtype)).addmm_(added, back)
                return asked.of_features(Z.to(self.Z.dtype))
            products = scale * self._get("products", dtype, lambda: self._as(dtype) @ columns)
            return asked.of_products(products.addmm_(added, back @ columns))
        if self.space is not None:
            outside = self._within()[1]
            return asked.of_features(self.space.put_back(end.to(self.Z.dtype), outside))
        if columns is None or asked.of_products is None:
            return asked.of_features(end.to(self.Z.dtype))
        return asked.of_products(end @ columns)

    def _as(self, dtype: torch.dtype) -> Tensor:
        return self._get("Z", dtype, lambda: self.Z.to(dtype))

    def _squared_lengths(self, dtype: torch.dtype) -> Tensor:
        return self._get(
            "lengths", dtype, lambda: row_norms(self._as(dtype)).square_()[:, None].to(dtype)
        )

    def _within(self) -> tuple[Tensor, Tensor]:
        """Samples within the network's reduced space, and their parts outside of it."""
        if self.space is None:
            return self.Z, self.Z
        outside = self._kept.get(("outside", self.Z.dtype))
        if outside is None:
            inside, outside = self.space.rows(self.Z)
            self._kept |= {("within", self.Z.dtype): inside, ("outside", self.Z.dtype): outside}
        return self._kept["within", self.Z.dtype], outside

    def _get(self, name: str, dtype: torch.dtype, make: Callable[[], Tensor]) -> Tensor:
        if (name, dtype) not in self._kept:
            self._kept[name, dtype] = make()
        return self._kept[name, dtype]
