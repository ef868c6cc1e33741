"""Labels from the features after the last layer: by subspaces, coding lengths or linear scores.

A read-out is made from a network and scores samples. `register` adds one under a name of its own.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol, TypeAlias

import torch
from torch import Tensor

from redunet.core.covariance import covariance_of_sum, overall_mean, with_ridge
from redunet.core.discriminants import (
    LinearScores,
    normal_scores,
    positive_part,
    regression_scores,
)
from redunet.core.layer import AbstractLayer
from redunet.core.layers import moments_after
from redunet.core.linalg import add_identity, spd_inverse
from redunet.core.local_discriminant import LocalDiscriminant
from redunet.core.network import ReduNet
from redunet.core.pairwise import PairwiseDiscriminant
from redunet.core.second_moments import SecondMoments
from redunet.core.subspaces import principal_subspaces, rounding
from redunet.errors import SettingsError

BATCH_BYTES = 2**25
"""About how much memory the products of some samples with all classes may take."""


class Readout(Protocol):
    """Labels and scores from features after the last layer."""

    def scores(self, Z: Tensor) -> Tensor:
        """A score for each class, (n, k), float64, of samples, (n, d); the highest wins."""


@dataclass(frozen=True, eq=False)
class NearestSubspace:
    """The class whose principal subspace leaves the smallest residual.

    Parameters
    ----------
    U : Tensor of shape (k, d, r)
        Orthonormal columns, leading first; columns of zeros beyond the
        numerical rank of a class.

    Examples
    --------
    >>> Sigma = torch.diag_embed(torch.tensor([[7.5, 0.5], [0.5, 7.5]]))
    >>> readout = NearestSubspace.from_moments(Sigma, n_components=1)
    >>> readout.scores(torch.tensor([[0.8, 0.6]])).round(decimals=2).tolist()
    [[-0.36, -0.64]]
    """

    U: Tensor

    @classmethod
    def from_moments(cls, Sigma: Tensor, n_components: int) -> NearestSubspace:
        """Principal subspaces of second moments.

        Parameters
        ----------
        Sigma : Tensor of shape (k, d, d)
            Second moments after the last layer, of trace n_j.
        n_components : int
            Dimension of each subspace; a class of lower numerical rank uses that.
        """
        return cls._of(SecondMoments.of_matrices(Sigma), n_components)

    @classmethod
    def from_network(cls, network: ReduNet, n_components: int) -> NearestSubspace:
        """Principal subspaces of a network's last moments, in matrices or in factors."""
        return cls._of(network.layers.last, n_components)

    @classmethod
    def _of(cls, last: SecondMoments, n_components: int) -> NearestSubspace:
        # In memory class beside class, so that one product serves all: see `columns`.
        U = last.Sigma.new_zeros(last.n_features, last.n_classes, n_components).permute(1, 0, 2)
        for j, _, basis, _ in principal_subspaces(last, n_components):
            U[j, :, : basis.shape[1]] = basis
        return cls(U)

    @classmethod
    def from_layer(
        cls, layer: AbstractLayer, counts: Sequence[int], eps: float, n_components: int
    ) -> NearestSubspace:
        """Principal subspaces from the last layer alone, as the paper has it: no data."""
        return cls.from_moments(moments_after(layer, counts, eps), n_components)

    @property
    def columns(self) -> Tensor:
        """The directions of all classes, class beside class: Tensor of shape (d, k r)."""
        k, d, r = self.U.shape
        return self.U.permute(1, 0, 2).reshape(d, k * r)

    def residuals(self, Z: Tensor) -> Tensor:
        """‖(I − U_j U_jᵀ) z‖², (n, k), float64, of samples, (n, d)."""
        k, _, r = self.U.shape
        columns, rows = self.columns, max(1, BATCH_BYTES // (k * r * Z.element_size()))
        inside = torch.cat(
            [(Z_i @ columns).view(-1, k, r).square_().sum(dim=2) for Z_i in torch.split(Z, rows)]
        )
        energy = Z.square().sum(dim=1, keepdim=True)
        return (energy - inside).clamp_(min=0).to(torch.float64)

    def scores(self, Z: Tensor) -> Tensor:
        """Minus the residuals, (n, k), of samples, (n, d)."""
        return -self.residuals(Z)


@dataclass(frozen=True, eq=False)
class CodingLength:
    """The class that takes the fewest nats more to code, up to ε, with the sample in it.

    Coding n vectors of second moment Σ takes (n + d)/2 · log det(I + d/(nε²) Σ)
    nats, and naming a class −log γ_j.

    Parameters
    ----------
    C : Tensor of shape (k, d, d)
        (Σ_j + I/α)⁻¹, with α = d / ((n_j + 1) ε²).
    counts : Tensor of shape (k,), float64
    growth : Tensor of shape (k,), float64
        What a sample of length zero would add.

    References
    ----------
    J. Wright, Y. Tao, Z. Lin, Y. Ma, H.-Y. Shum: Classification via Minimum
    Incremental Coding Length. NeurIPS 2007.

    Examples
    --------
    >>> Sigma = torch.diag_embed(torch.tensor([[7.5, 0.5], [0.5, 7.5]]))
    >>> readout = CodingLength.from_moments(Sigma, counts=[8, 8], eps=0.5)
    >>> readout.scores(torch.tensor([[0.8, 0.6]])).round(decimals=2).tolist()
    [[-2.62, -3.18]]
    """

    C: Tensor
    counts: Tensor
    growth: Tensor

    @classmethod
    def from_moments(cls, Sigma: Tensor, counts: Sequence[int], eps: float) -> CodingLength:
        """Coding lengths by second moments.

        Parameters
        ----------
        Sigma : Tensor of shape (k, d, d)
            Second moments after the last layer, of trace n_j.
        counts : sequence of k int
        eps : float
            ε, the precision of the coding.
        """
        d = Sigma.shape[-1]
        n = torch.tensor(counts, dtype=torch.float64, device=Sigma.device)
        C, growth = torch.empty_like(Sigma), -(n / n.sum()).log()
        for j, n_j in enumerate(counts):
            # In float64: what is added is a small difference of long codes.
            Sigma_j = Sigma[j].to(torch.float64)
            for size, sign in ((n_j, -1), (n_j + 1, 1)):
                alpha = d / (size * eps**2)
                inverse, log_det = spd_inverse(add_identity(Sigma_j.clone(), 1 / alpha))
                growth[j] += sign * 0.5 * (size + d) * (log_det + d * math.log(alpha))
            C[j] = inverse
        return cls(C, n, growth)

    def scores(self, Z: Tensor) -> Tensor:
        """Minus the nats that samples, (n, d), add to each class: (n, k), float64."""
        inside = torch.stack([(Z @ C_j).mul_(Z).sum(dim=1) for C_j in self.C], dim=1)
        volumes = inside.to(torch.float64).log1p()
        return -(self.growth + 0.5 * (self.counts + 1 + Z.shape[1]) * volumes)


class LinearDiscriminant(LinearScores):
    """The most likely class, if classes are normal with means of their own and one covariance.

    Examples
    --------
    >>> Sigma = torch.diag_embed(torch.tensor([[7.5, 0.5], [0.5, 7.5]]))
    >>> means = torch.tensor([[0.8, 0.1], [0.1, 0.8]])
    >>> readout = LinearDiscriminant.from_moments(Sigma, means, [8, 8], ridge=0.01)
    >>> readout.scores(torch.tensor([[0.8, 0.6]])).round(decimals=2).tolist()
    [[3.52, 2.98]]
    """

    @classmethod
    def from_moments(
        cls, Sigma: Tensor, means: Tensor, counts: Sequence[int], ridge: float
    ) -> LinearDiscriminant:
        """The discriminant of second moments and means, after the last layer.

        With W the pooled within-class covariance, class j has the score
        μ_jᵀ (W + ρI)⁻¹ z − ½ μ_jᵀ (W + ρI)⁻¹ μ_j + log γ_j.

        Parameters
        ----------
        Sigma : Tensor of shape (k, d, d)
            Of trace n_j.
        means : Tensor of shape (k, d)
        counts : sequence of k int
        ridge : float
            ρ as a share of the mean eigenvalue of W, tr W / d.
        """
        return cls._of(Sigma.sum(dim=0, dtype=torch.float64), means, counts, ridge)

    @classmethod
    def from_network(cls, network: ReduNet, ridge: float) -> LinearDiscriminant:
        """The discriminant of a network's last moments, without a matrix for each class."""
        means = network.last_means()
        return cls._of(network.layers.last.sum, means, network.counts, ridge)

    @classmethod
    def _of(
        cls, total: Tensor, means: Tensor, counts: Sequence[int], ridge: float
    ) -> LinearDiscriminant:
        mu = means.to(torch.float64)
        W = with_ridge(covariance_of_sum(total, mu, counts), ridge, rounding(means.dtype))
        return cls(*normal_scores(W, mu, counts, "raise ridge"))

    def probabilities(self, scores: Tensor) -> Tensor:
        """Rows of sum 1, (n, k): softmax of scores, as the normal distributions have it."""
        return torch.softmax(scores, dim=1)


class LeastSquares(LinearScores):
    """Ridge regression to 1 for a sample's own class and 0 for others.

    Examples
    --------
    >>> Sigma = torch.diag_embed(torch.tensor([[7.5, 0.5], [0.5, 7.5]]))
    >>> means = torch.tensor([[0.8, 0.1], [0.1, 0.8]])
    >>> readout = LeastSquares.from_moments(Sigma, means, [8, 8], ridge=0.01)
    >>> readout.scores(torch.tensor([[0.8, 0.6]])).round(decimals=2).tolist()
    [[0.57, 0.43]]
    """

    @classmethod
    def from_moments(
        cls, Sigma: Tensor, means: Tensor, counts: Sequence[int], ridge: float
    ) -> LeastSquares:
        """The regression of second moments and means, after the last layer.

        Parameters
        ----------
        Sigma, means, counts
            As for `LinearDiscriminant.from_moments`.
        ridge : float
            ρ as a share of the mean eigenvalue of T, the covariance of all samples.
        """
        return cls._of(Sigma.sum(dim=0, dtype=torch.float64), means, counts, ridge)

    @classmethod
    def from_network(cls, network: ReduNet, ridge: float) -> LeastSquares:
        """The regression of a network's last moments, without a matrix for each class."""
        means = network.last_means()
        return cls._of(network.layers.last.sum, means, network.counts, ridge)

    @classmethod
    def _of(cls, total: Tensor, means: Tensor, counts: Sequence[int], ridge: float) -> LeastSquares:
        mu = means.to(torch.float64)
        centres = overall_mean(mu, counts).expand_as(mu)
        T = with_ridge(covariance_of_sum(total, centres, counts), ridge, rounding(means.dtype))
        return cls(*regression_scores(T, mu, counts, "raise ridge"))

    def probabilities(self, scores: Tensor) -> Tensor:
        """Rows of sum 1, (n, k): scores without those below 0, rescaled."""
        return positive_part(scores)


def scores_to_compare(readout: Readout) -> Callable[[Tensor], Tensor]:
    """From features, (n, d), to scores, (n, k), of the same best class and margin, in less time."""
    return readout.scores_of_likely if isinstance(readout, LocalDiscriminant) else readout.scores


Factory: TypeAlias = Callable[[ReduNet, int, float], Readout]
"""From a network, n_components and ridge to a read-out; what it does not need it ignores."""

READOUTS: dict[str, Factory] = {
    "subspace": lambda network, n_components, _: NearestSubspace.from_network(
        network, n_components
    ),
    "coding": lambda network, *_: CodingLength.from_moments(
        network.last_moments(), network.counts, network.eps
    ),
    "discriminant": lambda network, _, ridge: LinearDiscriminant.from_network(network, ridge),
    "regression": lambda network, _, ridge: LeastSquares.from_network(network, ridge),
    "quadratic": lambda network, _, ridge: LocalDiscriminant.from_network(network, ridge),
    "pairwise": lambda network, _, ridge: PairwiseDiscriminant.from_network(network, ridge),
}
"""Read-outs by the names that ``ReduNetClassifier(readout=...)`` takes."""


def register(name: str, factory: Factory) -> None:
    """Add a read-out, for ``ReduNetClassifier(readout=name)`` and ``--set readout=name``.

    A model file holds the name only, so register the read-out before loading such a model.

    Parameters
    ----------
    name : str
        Not taken by another read-out.
    factory : callable
        From a `ReduNet`, n_components (int) and ridge (float) to a `Readout`.

    Examples
    --------
    >>> def largest_feature(network, n_components, ridge):
    ...     return Largest(len(network.labels))
    >>> class Largest:
    ...     def __init__(self, k):
    ...         self.k = k
    ...     def scores(self, Z):
    ...         return Z[:, : self.k].double()
    >>> register("largest-feature", largest_feature)
    >>> del READOUTS["largest-feature"]
    """
    if READOUTS.setdefault(name, factory) is not factory:
        raise SettingsError(f"expected a new name for a read-out, but {name!r} is taken")


class ReadoutChoice(NamedTuple):
    """A read-out with its settings; what it does not need it ignores."""

    readout: str  # A key of `READOUTS`
    n_components: int  # Of subspaces
    ridge: float  # Of discriminant, regression, quadratic and pairwise


def read_out(network: ReduNet, name: str, n_components: int, ridge: float) -> Readout:
    """The read-out of a network's last moments; see `ReadoutChoice`."""
    return READOUTS[name](network, n_components, ridge)


def read_outs(network: ReduNet, choices: Sequence[ReadoutChoice]) -> list[Readout]:
    """Several read-outs of one network; subspaces share their eigenvectors."""
    dimensions = [one.n_components for one in choices if one.readout == "subspace"]
    U = NearestSubspace.from_network(network, max(dimensions)).U if dimensions else None
    return [
        read_out(network, *one)
        if U is None or one.readout != "subspace"
        else NearestSubspace(U[:, :, : one.n_components])
        for one in choices
    ]
