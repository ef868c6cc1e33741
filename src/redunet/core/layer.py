"""One step of gradient ascent on rate reduction, as a layer.

On class j the step is the linear map L_j = I + η E − η γ_j C_j, so it sends
Σ_j to L_j Σ_j L_jᵀ, rescaled to trace n_j. A sample whose class is unknown is
moved by the maps of all classes, weighted by its estimated memberships.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias

import torch
from torch import Tensor

from redunet.core.linalg import add_identity, at_once, congruence_, side_by_side, stacks
from redunet.core.rate import Coding, Rate, operators
from redunet.core.threads import on_threads


@dataclass(frozen=True)
class Sharpness:
    """λ, the confidence of the estimated memberships.

    With Q_j = I − C_j/α_j, the soft projection onto class j, a sample z belongs to class j
    with the estimated probability softmax_j(−c_j ‖(I − Q_j) z‖).

    Examples
    --------
    >>> coding = Coding(counts=(30, 10), d=64, eps=0.5)
    >>> Sharpness(30.0, "relative").of_classes(coding)
    [30.0, 30.0]
    >>> [round(c, 1) for c in Sharpness(1.0).of_classes(coding)]
    [17.1, 51.2]
    """

    value: float  # λ
    # "absolute" is the paper's: c_j = λ k α_j, that is softmax_j(−λ k ‖C_j z‖). "relative" takes
    # c_j = λ, which means the same for any number of classes and of samples
    kind: Literal["absolute", "relative"] = "absolute"

    def of_classes(self, coding: Coding) -> list[float]:
        """c_j of each class."""
        if self.kind == "relative":
            return [self.value] * len(coding.counts)
        return [self.value * len(coding.counts) * alpha for alpha in coding.alphas]


Confidence: TypeAlias = Sharpness | float
"""A sharpness; a number means an absolute one."""


def sharpness_of(confidence: Confidence) -> Sharpness:
    """The sharpness that a number stands for, or the sharpness itself."""
    return confidence if isinstance(confidence, Sharpness) else Sharpness(confidence)


class LayerOutput(NamedTuple):
    """A layer's estimates about the samples that it moved."""

    memberships: Tensor  # (n, k): π̂_j, by which they were moved
    logits: Tensor  # (n, k): −c_j ‖(I − Q_j) z‖, whose softmax these are
    # (n,): the standard deviation of Q_j z over the classes, weighted by the memberships
    spread: Tensor

    @property
    def doubt(self) -> Tensor:
        """log(1 − max_j π̂_j), exact where the largest membership rounds to 1: (n,)."""
        top = self.logits.argmax(dim=1, keepdim=True)
        others = self.logits.scatter(1, top, -torch.inf)
        return torch.logsumexp(others, dim=1) - torch.logsumexp(self.logits, dim=1)


def estimate(residuals: Tensor, coding: Coding, confidence: Confidence) -> tuple[Tensor, Tensor]:
    """Memberships π̂_j and their logits −c_j ‖(I − Q_j) z‖, (n, k), from ‖(I − Q_j) z‖, (n, k)."""
    logits = residuals * -residuals.new_tensor(sharpness_of(confidence).of_classes(coding))
    return torch.softmax(logits, dim=1), logits


class AbstractLayer(ABC):
    """Interface of every layer of a network, however it is stored.

    Attributes
    ----------
    E : Tensor of shape (d, d)
        Expansion, the same for all classes.
    C : Tensor of shape (k, d, d)
        Compression of each class.
    gamma : Tensor of shape (k,)
        γ_j, the share of each class in the samples.
    coding : Coding
        The scalars of the objective.
    step : float
        η, the length of the step.
    rate : Rate
        The objective before the step.

    See Also
    --------
    Layer : all operators as matrices.
    LowRankLayer : classes of few samples as factors.
    """

    if TYPE_CHECKING:  # a field in some layers, computed in others

        @property
        def E(self) -> Tensor: ...  # noqa: D102

        @property
        def C(self) -> Tensor: ...  # noqa: D102

        @property
        def gamma(self) -> Tensor: ...  # noqa: D102

        @property
        def coding(self) -> Coding: ...  # noqa: D102

        @property
        def step(self) -> float: ...  # noqa: D102

        @property
        def rate(self) -> Rate: ...  # noqa: D102

    @abstractmethod
    def sample_space(self, n: int) -> Tensor:
        """Memory to move n samples in; every layer of the network can use it in turn."""

    @abstractmethod
    def move_samples_(self, Z: Tensor, sharpness: Confidence, space: Tensor) -> LayerOutput:
        """Move features, (n, d), in place.

        Parameters
        ----------
        Z, sharpness
            As for `move_samples`.
        space : Tensor
            Memory to work in, as `sample_space` gives it for n samples or more.

        Returns
        -------
        LayerOutput
            With the memberships that the features were moved by.
        """

    @property
    @abstractmethod
    def n_bytes(self) -> int:
        """The memory that the layer takes."""

    def move_samples(self, Z: Tensor, sharpness: Confidence) -> Tensor:
        """Features after the layer, on the unit sphere, from those before it.

        Parameters
        ----------
        Z : Tensor of shape (n, d)
        sharpness : Sharpness or float
            λ, the confidence of the estimated memberships.

        Returns
        -------
        Tensor of shape (n, d)
        """
        moved = Z.clone()
        self.move_samples_(moved, sharpness, self.sample_space(len(Z)))
        return moved

    def memberships(self, Z: Tensor, sharpness: Confidence) -> Tensor:
        """π̂_j, such as softmax_j(−λ k ‖C_j z‖): Tensor of shape (n, k), rows of sum 1."""
        return self.move_samples_(Z.clone(), sharpness, self.sample_space(len(Z))).memberships

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
    coding : Coding
    step : float
        η, the length of the step.
    rate : Rate
        The objective before the step.

    Examples
    --------
    >>> Sigma = torch.diag_embed(torch.tensor([[7.5, 0.5], [0.5, 7.5]]).double())
    >>> layer = Layer.from_moments(Sigma, Coding((8, 8), 2, eps=0.5), step=0.2)
    >>> z = torch.tensor([[0.8, 0.6]]).double()
    >>> layer.memberships(z, sharpness=2.0).round(decimals=2).tolist()
    [[0.62, 0.38]]
    >>> layer.move_samples(z, sharpness=2.0).round(decimals=3).tolist()
    [[0.804, 0.595]]
    """

    E: Tensor
    C: Tensor
    coding: Coding
    step: float
    rate: Rate

    @classmethod
    def from_moments(cls, Sigma: Tensor, coding: Coding, step: float) -> Layer:
        """The layer that raises the rate reduction of Sigma, (k, d, d)."""
        E, C, rate = operators(Sigma, coding)
        return cls(E, C, coding, step, rate)

    @property
    def gamma(self) -> Tensor:
        """γ_j, the share of each class: Tensor of shape (k,)."""
        return self.C.new_tensor(self.coding.gamma)

    @property
    def n_bytes(self) -> int:
        """See `AbstractLayer.n_bytes`."""
        return self.E.nbytes + self.C.nbytes

    def sample_space(self, n: int) -> Tensor:
        """See `AbstractLayer.sample_space`."""
        k, d, _ = self.C.shape
        return self.C.new_empty(n * (k + 1) * d)

    def move_samples_(self, Z: Tensor, sharpness: Confidence, space: Tensor) -> LayerOutput:
        """See `AbstractLayer.move_samples_`."""
        (n, d), k = Z.shape, len(self.C)
        compressed = space[: n * k * d].view(n, k, d)
        # C_j z for each sample and class by one product: C is symmetric, so its rows will do.
        torch.mm(Z, self.C.reshape(k * d, d).mT, out=compressed.view(n, k * d))
        lengths = torch.linalg.vector_norm(compressed, dim=-1)
        residuals = lengths / lengths.new_tensor(self.coding.alphas)
        memberships, logits = estimate(residuals, self.coding, sharpness)
        moved = space[compressed.numel() :][: n * d].view(n, d)
        torch.mm(Z, self.E, out=moved)
        weights = memberships * self.gamma
        pulled = torch.bmm(weights[:, None], compressed)[:, 0]
        spread = spread_of(memberships, residuals, pulled, self.coding.alpha)
        move_by_(Z, moved.sub_(pulled), self.step)
        return LayerOutput(memberships, logits, spread)


def spread_of(memberships: Tensor, residuals: Tensor, pulled: Tensor, alpha: float) -> Tensor:
    """The standard deviation of Q_j z over the classes, weighted by the memberships: (n,).

    It is the root of a difference, so it is never told to be smaller than rounding allows.

    Shapes: memberships, residuals (n, k); pulled (n, d).
    """
    mean = torch.linalg.vector_norm(pulled, dim=1).div_(alpha)
    squares = (memberships * residuals.square()).sum(dim=1)
    variance: Tensor = squares - mean.square()
    return variance.clamp_(min=4 * torch.finfo(pulled.dtype).eps).sqrt_()


def move_by_(Z: Tensor, direction: Tensor, step: float) -> Tensor:
    """Samples, (n, d), moved by a step and put back onto the unit sphere, in place."""
    Z.add_(direction, alpha=step)
    norms = torch.linalg.vector_norm(Z, dim=1, keepdim=True)
    return Z.div_(norms.where(norms > 0, 1))


@dataclass(frozen=True, eq=False)
class Workspace:
    """Memory that every layer of a pass is made in, allocated once."""

    # (n, d, d): for the n matrices that `linalg.at_once` allows, or one for each thread
    first: Tensor
    second: Tensor  # (n, d, d)
    expand: Tensor  # (d, d)

    @classmethod
    def like(cls, Sigma: Tensor) -> Workspace:
        """A workspace for second moments of this shape, dtype and device."""
        g, d, _ = Sigma.shape
        if not g:  # for E alone
            return cls(Sigma.new_empty(1, d, d), Sigma, Sigma)
        # The operators are one more than the classes.
        n = max(at_once(Sigma) + 1, side_by_side(Sigma))
        return cls(
            Sigma.new_empty(n, d, d),
            Sigma.new_empty(n, d, d),
            Sigma.new_empty(d, d),
        )


def move_moments_(
    Sigma: Tensor,
    E: Tensor,
    C: Tensor,
    step: float | Tensor,
    gamma: Sequence[float] | Tensor,
    counts: Sequence[int] | Tensor,
    workspace: Workspace,
    means: Tensor | None = None,
) -> Tensor:
    """Move second moments of classes, (g, d, d), in place, and return them.

    Means of the classes, (g, d), are moved in place by the same maps. For a step, shares and
    counts as tensors, (), (g,) and (g,), that are where Sigma is, a GPU need not wait.
    """
    if not len(Sigma):
        return Sigma
    expand = add_identity(torch.mul(E, step, out=workspace.expand))
    pull = torch.as_tensor(gamma, dtype=C.dtype, device=C.device).mul(step)[:, None, None]
    n = torch.as_tensor(counts, dtype=C.dtype, device=C.device)
    threads = min(side_by_side(Sigma), len(workspace.first))

    def move(place: int) -> None:
        for part in list(stacks(Sigma))[place::threads]:
            size = part.stop - part.start
            L, scratch = workspace.first[place:][:size], workspace.second[place:][:size]
            torch.addcmul(expand, pull[part], C[part], value=-1, out=L)
            T = congruence_(L, Sigma[part], scratch)
            scale = n[part] / T.diagonal(dim1=-2, dim2=-1).sum(-1)
            T.mul_(scale[:, None, None])
            if means is not None:
                means[part] = scale.sqrt()[:, None] * (L @ means[part, :, None])[..., 0]

    on_threads(move, range(threads))
    return Sigma
