"""One step of gradient ascent on rate reduction, as a layer.

On class j the step is the linear map L_j = I + η E − η γ_j C_j, so it sends
Σ_j to L_j Σ_j L_jᵀ, rescaled to trace n_j. A sample whose class is unknown is
moved by the maps of all classes, weighted by its estimated memberships.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from redunet.core.linalg import add_identity, at_once, congruence_, stacks
from redunet.core.rate import Coding, Rate, operators


class AbstractLayer(ABC):
    """What every layer of a network offers, however it is stored.

    Attributes
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

    See Also
    --------
    Layer : all operators as matrices.
    LowRankLayer : classes of few samples as factors.
    ReducedLayer : built within the directions that some sample has.
    """

    if TYPE_CHECKING:  # a field in some layers, computed in others

        @property
        def E(self) -> Tensor: ...  # noqa: D102

        @property
        def C(self) -> Tensor: ...  # noqa: D102

        @property
        def gamma(self) -> Tensor: ...  # noqa: D102

        @property
        def step(self) -> float: ...  # noqa: D102

        @property
        def rate(self) -> Rate: ...  # noqa: D102

    @abstractmethod
    def sample_space(self, n: int) -> Tensor:
        """Memory to move n samples in; every layer of the network can use it in turn."""

    @abstractmethod
    def move_samples_(self, Z: Tensor, sharpness: float, space: Tensor) -> Tensor:
        """Move features, (n, d), in place.

        Parameters
        ----------
        Z, sharpness
            As for `move_samples`.
        space : Tensor
            Memory to work in, as `sample_space` gives it for n samples or more.

        Returns
        -------
        Tensor of shape (n, k)
            The memberships that the features were moved by.
        """

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
        moved = Z.clone()
        self.move_samples_(moved, sharpness, self.sample_space(len(Z)))
        return moved

    def memberships(self, Z: Tensor, sharpness: float) -> Tensor:
        """π̂_j = softmax_j(−λ k ‖C_j z‖): Tensor of shape (n, k), rows of sum 1."""
        return self.move_samples_(Z.clone(), sharpness, self.sample_space(len(Z)))

    def move_moments(self, Sigma: Tensor, counts: Sequence[int]) -> Tensor:
        """Second moments after the layer, (k, d, d), from those before it."""
        gamma = [n / sum(counts) for n in counts]
        workspace = Workspace.like(Sigma)
        return move_moments_(Sigma.clone(), self.E, self.C, self.step, gamma, counts, workspace)


@dataclass(frozen=True, eq=False)
class Layer(AbstractLayer):
    """A layer with all of its operators as matrices.

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

    def sample_space(self, n: int) -> Tensor:
        """As `AbstractLayer.sample_space`."""
        k, d, _ = self.C.shape
        return self.C.new_empty(n * (k + 1) * d)

    def move_samples_(self, Z: Tensor, sharpness: float, space: Tensor) -> Tensor:
        """As `AbstractLayer.move_samples_`."""
        (n, d), k = Z.shape, len(self.C)
        compressed = space[: n * k * d].view(n, k, d)
        # C_j z for each sample and class by one product: C is symmetric, so its rows will do.
        torch.mm(Z, self.C.reshape(k * d, d).mT, out=compressed.view(n, k * d))
        lengths = torch.linalg.vector_norm(compressed, dim=2)
        memberships = torch.softmax(-sharpness * k * lengths, dim=1)
        moved = space[compressed.numel() :][: n * d].view(n, d)
        torch.mm(Z, self.E, out=moved).mul_(self.step).add_(Z)
        weights = memberships * self.gamma
        moved[:, None].baddbmm_(weights[:, None], compressed, alpha=-self.step)
        norms = torch.linalg.vector_norm(moved, dim=1, keepdim=True)
        torch.div(moved, norms.where(norms > 0, 1), out=Z)
        return memberships


@dataclass(frozen=True, eq=False)
class Workspace:
    """Memory that every layer of a pass is made in, allocated once.

    Parameters
    ----------
    first, second : Tensor of shape (n, d, d)
        For the n matrices that `linalg.at_once` allows.
    expand : Tensor of shape (d, d)
    operators : Tensor of shape (k + 1, d, d), or None
        E and C of the layer; None lets each layer own its memory.
    """

    first: Tensor
    second: Tensor
    expand: Tensor
    operators: Tensor | None

    @classmethod
    def like(cls, Sigma: Tensor, *, operators: bool = False) -> Workspace:
        """A workspace for second moments of this shape, dtype and device."""
        k, d, _ = Sigma.shape
        n = at_once(Sigma) + 1  # the operators are one more than the classes
        return cls(
            Sigma.new_empty(n, d, d),
            Sigma.new_empty(n, d, d),
            Sigma.new_empty(d, d),
            Sigma.new_empty(k + 1, d, d) if operators else None,
        )


def move_moments_(
    Sigma: Tensor,
    E: Tensor,
    C: Tensor,
    step: float,
    gamma: Sequence[float] | Tensor,
    counts: Sequence[int] | Tensor,
    workspace: Workspace,
    means: Tensor | None = None,
) -> Tensor:
    """Move second moments of classes, (g, d, d), in place, and return them.

    Means of the classes, (g, d), are moved in place by the same maps. For shares and
    counts as tensors, (g,), that are where Sigma is, a GPU need not wait.
    """
    expand = add_identity(torch.mul(E, step, out=workspace.expand))
    pull = torch.as_tensor(gamma, dtype=C.dtype, device=C.device).mul(step)[:, None, None]
    n = torch.as_tensor(counts, dtype=C.dtype, device=C.device)
    for part in stacks(Sigma):
        size = part.stop - part.start
        L, scratch = workspace.first[:size], workspace.second[:size]
        torch.addcmul(expand, pull[part], C[part], value=-1, out=L)
        T = congruence_(L, Sigma[part], scratch)
        scale = n[part] / T.diagonal(dim1=-2, dim2=-1).sum(-1)
        T.mul_(scale[:, None, None])
        if means is not None:
            means[part] = scale.sqrt()[:, None] * (L @ means[part, :, None])[..., 0]
    return Sigma
