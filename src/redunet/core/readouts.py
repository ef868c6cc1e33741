"""Labels from features and the last moments: by subspaces, coding lengths or linear scores."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from redunet.core.construction import AnyLayer, LayerStream, SecondMoments
from redunet.core.linalg import add_identity, cholesky, spd_inverse
from redunet.core.network import ReduNet, moments_after
from redunet.core.span import Span

GRID_NOISE = 2.0**-38
"""Share of a class's largest eigenvalue, per feature, that rounding to the grid can account for."""


@dataclass(frozen=True, eq=False)
class NearestSubspace:
    """The class whose principal subspace leaves the smallest residual.

    Parameters
    ----------
    U : Tensor of shape (k, d, r)
        Orthonormal columns, leading first; columns of zeros beyond the
        numerical rank of a class.
    noise : float
        σ², the mean residual of the training samples from their own class's
        subspace, as their moments tell it.
    """

    U: Tensor
    noise: float

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
        every = SecondMoments(tuple(range(len(Sigma))), Sigma)
        return cls._from(every, n_components, None)

    @classmethod
    def from_network(cls, network: ReduNet, n_components: int) -> NearestSubspace:
        """The same of a network's last moments, without making matrices of those in factors."""
        if isinstance(network.layers, LayerStream):
            return cls._from(network.layers.last, n_components, network.layers.span)
        return cls.from_moments(network.last_moments(), n_components)

    @classmethod
    def _from(cls, last: SecondMoments, n_components: int, span: Span | None) -> NearestSubspace:
        like = last.Sigma
        d = like.shape[-1] if span is None else span.d
        U = like.new_zeros(last.n_classes, d, n_components)
        outside = total = 0.0
        # Eigenvectors of eigenvalues this small are made of rounding, of the grid or the dtype.
        share = d * max(GRID_NOISE, torch.finfo(like.dtype).eps)
        for j, values, vectors, trace in last.principal(n_components):
            rank = int((values > share * values[0]).sum())
            U[j, :, :rank] = (
                vectors[:, :rank] if span is None else span.directions(vectors)[:, :rank]
            )
            outside += max(0.0, trace - float(values[:rank].sum()))
            total += trace
        return cls(U, max(outside / total, torch.finfo(like.dtype).eps))

    @classmethod
    def from_layer(
        cls, layer: AnyLayer, counts: Sequence[int], eps: float, n_components: int
    ) -> NearestSubspace:
        """The same from the last layer alone, as the paper has it: no moments, no data."""
        return cls.from_moments(moments_after(layer, counts, eps), n_components)

    def residuals(self, Z: Tensor) -> Tensor:
        """‖(I − U_j U_jᵀ) z‖² of each sample and class.

        Parameters
        ----------
        Z : Tensor of shape (n, d)

        Returns
        -------
        Tensor of shape (n, k), float64
        """
        inside = torch.stack([(Z @ U_j).square().sum(dim=1) for U_j in self.U], dim=1)
        energy = Z.square().sum(dim=1, keepdim=True)
        return (energy - inside).clamp_(min=0).to(torch.float64)

    def scores(self, Z: Tensor) -> Tensor:
        """Minus the residuals, (n, k), of samples, (n, d)."""
        return -self.residuals(Z)

    def probabilities(self, scores: Tensor) -> Tensor:
        """softmax(−residual / 2σ²) of scores, (n, k): rows of sum 1."""
        return torch.softmax(scores / (2 * self.noise), dim=1)


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

    def probabilities(self, scores: Tensor) -> Tensor:
        """Rows of sum 1, (n, k): softmax of scores."""
        return torch.softmax(scores, dim=1)


@dataclass(frozen=True, eq=False)
class LinearScores:
    """Scores w_jᵀ z + b_j; the highest wins.

    Parameters
    ----------
    weights : Tensor of shape (d, k), float64
    offsets : Tensor of shape (k,), float64
    """

    weights: Tensor
    offsets: Tensor

    def scores(self, Z: Tensor) -> Tensor:
        """Scores of features, (n, d): Tensor of shape (n, k)."""
        return Z.to(torch.float64) @ self.weights + self.offsets


class LinearDiscriminant(LinearScores):
    """The most likely class, if classes are normal with means of their own and one covariance."""

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
        mu = means.to(torch.float64)
        W = _covariance(Sigma, mu, counts)
        penalised = add_identity(W, ridge * _mean_eigenvalue(W, Sigma.dtype))
        return cls(*normal_scores(penalised, mu, counts, "raise ridge"))

    def probabilities(self, scores: Tensor) -> Tensor:
        """Rows of sum 1, (n, k): softmax of scores."""
        return torch.softmax(scores, dim=1)


class LeastSquares(LinearScores):
    """Ridge regression to 1 for a sample's own class and 0 for others."""

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
        mu = means.to(torch.float64)
        mean = _weighted(mu, counts)
        T = _covariance(Sigma, mean.expand_as(mu), counts)
        penalised = add_identity(T, ridge * _mean_eigenvalue(T, Sigma.dtype))
        return cls(*regression_scores(penalised, mu, counts, "raise ridge"))

    def probabilities(self, scores: Tensor) -> Tensor:
        """Rows of sum 1, (n, k): scores, which have that sum, without those below 0."""
        positive = scores.clamp(min=0)
        return positive / positive.sum(dim=1, keepdim=True)


AnyReadout = NearestSubspace | CodingLength | LinearDiscriminant | LeastSquares

LINEAR: dict[str, type[LinearDiscriminant] | type[LeastSquares]] = {
    "discriminant": LinearDiscriminant,
    "regression": LeastSquares,
}
"""Read-outs from the last means and covariance, by the name of the setting."""


def read_out(network: ReduNet, name: str, n_components: int, ridge: float) -> AnyReadout:
    """The read-out of a network's last moments.

    Parameters
    ----------
    network : ReduNet
    name : {"subspace", "coding", "discriminant", "regression"}
    n_components : int
        Of subspaces.
    ridge : float
        Of discriminant and regression.
    """
    if name == "subspace":
        return NearestSubspace.from_network(network, n_components)
    last = network.last_moments()
    if name == "coding":
        return CodingLength.from_moments(last, network.counts, network.eps)
    return LINEAR[name].from_moments(last, network.last_means(), network.counts, ridge)


def _covariance(Sigma: Tensor, centres: Tensor, counts: Sequence[int]) -> Tensor:
    """Σ_j (Σ_j − n_j c_j c_jᵀ) / m in float64, with a centre for each class: (d, d)."""
    d = Sigma.shape[-1]
    W = Sigma.new_zeros(d, d, dtype=torch.float64)
    for Sigma_j, centre, n in zip(Sigma, centres, counts, strict=True):
        W += Sigma_j.to(torch.float64).addr(centre, centre, alpha=-n)
    return W.div_(sum(counts))


def _mean_eigenvalue(W: Tensor, dtype: torch.dtype) -> float:
    """The trace of W over d, but at least what rounding in a dtype can account for."""
    # The mean eigenvalue of everything is 1/d: below this share of it, W is rounding.
    d, least = len(W), GRID_NOISE if dtype == torch.float64 else torch.finfo(dtype).eps
    return max(float(W.diagonal().sum()), d * least) / d


def _weighted(means: Tensor, counts: Sequence[float]) -> Tensor:
    """The mean of all samples, (d,), from those of classes, (k, d)."""
    return means.new_tensor([n / sum(counts) for n in counts]) @ means


def normal_scores(
    covariance: Tensor, means: Tensor, counts: Sequence[float], remedy: str
) -> tuple[Tensor, Tensor]:
    """The linear discriminant of normal classes with one covariance.

    Parameters
    ----------
    covariance : Tensor of shape (d, d), float64
        Positive definite.
    means : Tensor of shape (k, d), float64
    counts : sequence of k numbers
    remedy : str
        What to do where the covariance is not, for the error.

    Returns
    -------
    weights : Tensor of shape (d, k)
    offsets : Tensor of shape (k,)
        The score of class j is w_jᵀ z + b_j.
    """
    weights = torch.cholesky_solve(means.mT, cholesky(covariance, remedy))
    prior = means.new_tensor([n / sum(counts) for n in counts]).log()
    return weights, prior - 0.5 * (weights * means.mT).sum(dim=0)


def regression_scores(
    covariance: Tensor, means: Tensor, counts: Sequence[float], remedy: str
) -> tuple[Tensor, Tensor]:
    """Least squares to 1 for a sample's own class and 0 for others.

    Parameters
    ----------
    covariance : Tensor of shape (d, d), float64
        Of all samples, with the penalty on its diagonal: positive definite.
    means, counts, remedy
        As for `normal_scores`.

    Returns
    -------
    weights : Tensor of shape (d, k)
    offsets : Tensor of shape (k,)
        Which are not penalised, so the scores of a sample have the sum 1.
    """
    shares = means.new_tensor([n / sum(counts) for n in counts])
    mean = _weighted(means, counts)
    with_targets = (shares[:, None] * (means - mean)).mT
    weights = torch.cholesky_solve(with_targets, cholesky(covariance, remedy))
    return weights, shares - mean @ weights
