"""A layer that was built in fewer directions, as it acts in all of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from redunet.core.layer import Layer
from redunet.core.low_rank import CompactLayer
from redunet.core.rate import Rate
from redunet.core.span import Span


@dataclass(frozen=True, eq=False)
class LiftedLayer:
    """A layer that was built within a span, as it acts in all directions.

    Parameters
    ----------
    inner : Layer or CompactLayer
    span : Span
    """

    inner: Layer | CompactLayer
    span: Span

    @property
    def E(self) -> Tensor:
        """Expansion, (d, d); made when asked for."""
        return self.span.lift(self.inner.E[None])[0]

    @property
    def C(self) -> Tensor:
        """Compression of each class, (k, d, d); made when asked for."""
        return self.span.lift(self.inner.C)

    @property
    def gamma(self) -> Tensor:
        """γ_j, the share of each class: Tensor of shape (k,)."""
        return self.inner.gamma

    @property
    def step(self) -> float:
        """η, the length of the step."""
        return self.inner.step

    @property
    def rate(self) -> Rate:
        """The objective before the step."""
        return self.inner.rate

    def move_moments(self, Sigma: Tensor, counts: Sequence[int]) -> Tensor:
        """Second moments after the layer, (k, d, d), from those before it."""
        return self._plain().move_moments(Sigma, counts)

    def move_samples(self, Z: Tensor, sharpness: float) -> Tensor:
        """As `Layer.move_samples`."""
        inside, outside = self.span.rows(Z)
        return self.span.put_back(self.inner.move_samples(inside, sharpness), outside)

    def memberships(self, Z: Tensor, sharpness: float) -> Tensor:
        """As `Layer.memberships`."""
        return self.inner.memberships(self.span.rows(Z)[0], sharpness)

    def sample_space(self, n: int) -> Tensor:
        """As `Layer.sample_space`."""
        return self.inner.sample_space(n)

    def move_samples_(
        self, Z: Tensor, sharpness: float, space: Tensor, precision: torch.dtype | None = None
    ) -> Tensor:
        """As `Layer.move_samples_`."""
        inside, outside = self.span.rows(Z)
        memberships = self.inner.move_samples_(inside, sharpness, space, precision)
        Z.copy_(self.span.put_back(inside, outside))
        return memberships

    def _plain(self) -> Layer:
        return Layer(self.E, self.C, self.gamma, self.step, self.rate)
