"""One step of gradient ascent on rate reduction, as a layer.

On class j the step is the linear map L_j = I + η E − η γ_j C_j, so it sends
Σ_j to L_j Σ_j L_jᵀ, rescaled to trace n_j. A sample whose class is unknown is
moved by every class's map at once, weighted by its estimated membership.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from redunet.linalg import add_identity, congruence
from redunet.rate import Coding, Rate, operators


@dataclass(frozen=True, eq=False)
class Layer:
    """One layer of the network.

    Parameters
    ----------
    E : Tensor of shape (d, d)
        Expansion, the same for all classes.
    C : Tensor of shape (k, d, d)
        Compression of each class.
    gamma : Tensor of shape (k,)
        γ_j, the share of each class in the samples.
    step : float
        η, the length of the step.
    rate : Rate
        The objective before the step.
    """

    E: Tensor
    C: Tensor
    gamma: Tensor
    step: float
    rate: Rate

    @classmethod
    def from_moments(cls, Sigma: Tensor, coding: Coding, step: float) -> Layer:
        """The layer that raises the rate reduction of Sigma, (k, d, d)."""
        E, C, rate = operators(Sigma, coding)
        return cls(E, C, C.new_tensor(coding.gamma), step, rate)

    def move_moments(
        self, Sigma: Tensor, counts: Sequence[int], means: Tensor | None = None
    ) -> Tensor:
        """Second moments after the layer, (k, d, d), from those before it.

        Means of the classes, (k, d), are moved by the same maps, where they stand.
        """
        moved = torch.empty_like(Sigma)
        for j, n in enumerate(counts):
            L = self.E - self.gamma[j] * self.C[j]
            T = congruence(add_identity(L.mul_(self.step)), Sigma[j])
            scale = n / T.diagonal().sum()
            moved[j] = T.mul_(scale)
            if means is not None:
                means[j] = scale.sqrt() * (L @ means[j])
        return moved

    def move_samples(self, Z: Tensor, sharpness: float) -> Tensor:
        """Features after the layer, on the unit sphere, from those before it.

        Parameters
        ----------
        Z : Tensor of shape (n, d)
        sharpness : float
            λ, the confidence of the estimated memberships.

        Returns
        -------
        Tensor of shape (n, d)
        """
        compressed = self._compress(Z)
        weights = _memberships(compressed, sharpness) * self.gamma
        pull = torch.bmm(weights[:, None, :], compressed)[:, 0, :]
        moved = Z + self.step * (Z @ self.E - pull)
        norms = torch.linalg.vector_norm(moved, dim=1, keepdim=True)
        return moved.div_(norms.where(norms > 0, 1))

    def memberships(self, Z: Tensor, sharpness: float) -> Tensor:
        """π̂_j = softmax_j(−λ k ‖C_j z‖): Tensor of shape (n, k), rows of sum 1."""
        return _memberships(self._compress(Z), sharpness)

    def _compress(self, Z: Tensor) -> Tensor:
        """C_j z for each sample and class, (n, k, d), by one product."""
        k, d, _ = self.C.shape
        # C is symmetric, so its rows are as good as its columns.
        return (Z @ self.C.reshape(k * d, d).mT).reshape(len(Z), k, d)


def _memberships(compressed: Tensor, sharpness: float) -> Tensor:
    k = compressed.shape[1]
    return torch.softmax(-sharpness * k * torch.linalg.vector_norm(compressed, dim=2), dim=1)
