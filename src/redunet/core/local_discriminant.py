"""Normal classes whose covariances are averaged over similar classes, in few directions.

One covariance for all classes (a linear discriminant) is too few where classes differ; one
for each (a quadratic discriminant) is too many where a class has few samples. Here class j
has a weighted mean of those of all classes, the more of a class the nearer its mean:

    Q_j = ½ Σ_i w_ij C_i + ½ (W + ρI),   w_ij ∝ n_i exp(−β D_ij / D̄),

with C_i the covariance of class i, W the pooled one, D_ij the squared Mahalanobis distance of
two means by W + ρI, and D̄ its mean over all pairs. With β = 0 it would be the linear
discriminant; with a large β each class has its own covariance, half pooled.

All this happens within the at most k − 1 directions that tell the means apart by W + ρI, as in
linear discriminant analysis: there a class of a hundred samples has a covariance worth knowing.
Everything is a function of the moments of the classes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from redunet.core.covariance import covariance_of_sum, overall_mean, shares, with_ridge
from redunet.core.linalg import cholesky
from redunet.core.network import ReduNet
from redunet.core.second_moments import SecondMoments
from redunet.core.subspaces import rounding

LOCALITY = 4.5
"""β: a class at the mean distance has a weight of 1 % of that of the class itself."""

POOLED = 0.5
"""The share of W + ρI in the covariance of each class. Chosen by hand: as much of all classes as of
those nearby, with which the read-out was right on 0.958 of CLINC150, the linear one on 0.949."""

SMALLEST = 1e-9
"""Directions that tell means apart less than this share of the best one are left out."""

MOST_DIRECTIONS = 256
"""No more directions than this are kept, those that tell the means apart best."""

BATCH_BYTES = 2**25
"""About how much memory the products of some samples with all classes may take."""

WIDEST, MARGIN = 8, 24.0
"""`LocalDiscriminant.scores_of_likely` bounds the scores of classes by so many of their widest
directions, and computes those that may be less than so many nats below the best. A class at the
margin has a probability below e⁻²⁴ = 4·10⁻¹¹, which float32 rounds away beside 1. The number of
directions was chosen by hand: of the 150 classes of CLINC150, one or two are then computed."""

ROUNDING = 1e-3
"""By so much a bound in float32 is too large at most."""

MANY = 16
"""With fewer classes than this all scores are computed."""


@dataclass(frozen=True, eq=False)
class LocalDiscriminant:
    """Scores −½‖A_j (Pᵀz − c_j)‖² + b_j; the highest wins."""

    directions: Tensor  # (d, q): P, with Pᵀ (W + ρI) P = I
    whitenings: Tensor  # (k, q, q): A_j, with A_jᵀ A_j = Q_j⁻¹ within the directions
    centres: Tensor  # (k, q): c_j = Pᵀ μ_j
    offsets: Tensor  # (k,): b_j = log γ_j − ½ log det Q_j

    @classmethod
    def from_network(cls, network: ReduNet, ridge: float) -> LocalDiscriminant:
        """The discriminant of a network's last moments, without a matrix for each class."""
        return cls.from_moments(network.layers.last, network.last_means(), network.counts, ridge)

    @classmethod
    def from_moments(
        cls, moments: SecondMoments, means: Tensor, counts: Sequence[int], ridge: float
    ) -> LocalDiscriminant:
        """The discriminant of second moments, of trace n_j, and means, (k, d)."""
        mu = means.to(torch.float64)
        W = covariance_of_sum(moments.sum, mu, counts)
        P = discriminant_directions(with_ridge(W, ridge, rounding(means.dtype)), mu, counts)
        centres = mu @ P
        n = centres.new_tensor(counts)
        C = moments.within(P) / n[:, None, None] - centres[:, :, None] * centres[:, None]
        Q = similar_classes(centres, counts) @ C.flatten(1)
        Q = Q.view(C.shape).mul_(1 - POOLED)
        Q.diagonal(dim1=1, dim2=2).add_(POOLED)
        factors = torch.stack([cholesky(Q_j, "raise ridge") for Q_j in Q])
        eye = torch.eye(P.shape[1], dtype=P.dtype, device=P.device)
        A = torch.stack([torch.linalg.solve_triangular(L, eye, upper=False) for L in factors])
        half_log_det = factors.diagonal(dim1=1, dim2=2).log().sum(dim=1)
        return cls(P, A, centres, shares(centres, counts).log() - half_log_det)

    def scores(self, Z: Tensor) -> Tensor:
        """Log-likelihoods of classes, up to a constant, of samples, (n, d): (n, k), float64."""
        return self._scores_within(Z.to(torch.float64) @ self.directions)

    def _scores_within(self, inside: Tensor) -> Tensor:
        """Scores from Pᵀz, (n, q)."""
        k, q = self.centres.shape
        columns = self.whitenings.flatten(0, 1).mT
        rows = max(1, BATCH_BYTES // max(1, 8 * k * q))
        squares = [
            (part @ columns).sub_(self._at_centres).square_().view(len(part), k, q).sum(dim=2)
            for part in torch.split(inside, rows)
        ]
        return self.offsets - 0.5 * torch.cat(squares)

    @cached_property
    def _at_centres(self) -> Tensor:
        """A_j c_j of all classes, (k q,)."""
        return (self.whitenings @ self.centres[:, :, None]).flatten()

    def scores_of_likely(self, Z: Tensor) -> Tensor:
        """Scores to compare of samples, (n, d): for classes far below the best, a value between.

        With w_1 ≤ w_2 ≤ … the eigenvalues of A_jᵀ A_j, v_i its eigenvectors and y = Pᵀz − c_j,

            ‖A_j y‖² ≥ Σ_{i≤r} w_i (v_iᵀ y)² + w_{r+1} (‖y‖² − Σ_{i≤r} (v_iᵀ y)²),

        which takes few products and bounds the score. Classes whose bound is more than `MARGIN`
        below the best score are not computed, and all scores below that are raised to it.

        Shapes: returns (n, k).
        """
        inside = Z.to(torch.float64) @ self.directions
        if len(self.offsets) < MANY or inside.device.type != "cpu":
            return self._scores_within(inside)
        rows = max(1, BATCH_BYTES // (8 * len(self.offsets) * WIDEST))
        return torch.cat([self._scores_of_likely(part) for part in torch.split(inside, rows)])

    def _scores_of_likely(self, inside: Tensor) -> Tensor:
        out = self._bounds(inside)
        top = torch.nn.functional.one_hot(out.argmax(dim=1), out.shape[1]).bool()
        self._set_scores_(out, inside, top)
        best = out[top][:, None]
        self._set_scores_(out, inside, ~top & (out > best - MARGIN))
        return torch.maximum(out, out.amax(dim=1, keepdim=True) - MARGIN)

    def _set_scores_(self, out: Tensor, inside: Tensor, wanted: Tensor) -> None:
        """Set the scores in ``out``, (n, k), where ``wanted``, (n, k), says so."""
        for j, (A, centre) in enumerate(zip(self.whitenings, self.centres, strict=True)):
            rows = wanted[:, j].nonzero()[:, 0]
            if len(rows):
                squares = ((inside[rows] - centre) @ A.mT).square_().sum(dim=1)
                out[rows, j] = self.offsets[j] - 0.5 * squares

    def _bounds(self, inside: Tensor) -> Tensor:
        """Upper bounds of the scores, (n, k), from Pᵀz, (n, q)."""
        columns, at_centres, centres, rest = self._widest
        inside, (k, r) = inside.float(), (len(rest), len(at_centres) // len(rest))
        along = (inside @ columns).sub_(at_centres).square_().view(-1, r, k).sum(dim=1)
        squared = inside.square().sum(dim=1, keepdim=True) + centres.square().sum(dim=1)
        least = squared.addmm_(inside, centres.mT, alpha=-2).mul_(rest).sub_(along).clamp_(min=0)
        return (self.offsets - 0.5 * (1 - ROUNDING) * least).double()

    @cached_property
    def _widest(self) -> tuple[Tensor, ...]:
        """u, (q, r k), uᵀc, (r k,), c, (k, q), and w_{r+1}, (k,), with u_i = √(w_{r+1} − w_i) v_i.

        The bound is then w_{r+1} ‖y‖² − Σ_i (u_iᵀ y)².
        """
        values, vectors = torch.linalg.eigh(self.whitenings.mT @ self.whitenings)
        r = min(WIDEST, values.shape[1] - 1)
        rest = values[:, r]
        u = vectors[:, :, :r] * (rest[:, None] - values[:, :r]).clamp(min=0).sqrt()[:, None]
        at_centres = (u * self.centres[:, :, None]).sum(dim=1).mT.flatten()
        made = (u.permute(1, 2, 0).flatten(1), at_centres, self.centres, rest)
        return tuple(one.float() for one in made)

    def probabilities(self, scores: Tensor) -> Tensor:
        """Rows of sum 1, (n, k): softmax of scores."""
        return torch.softmax(scores, dim=1)


def discriminant_directions(W: Tensor, means: Tensor, counts: Sequence[int]) -> Tensor:
    """The directions P in which means differ, with PᵀWP = I.

    Shapes: W (d, d); means (k, d); returns (d, q).
    """
    apart = means - overall_mean(means, counts)
    weights = torch.cholesky_solve(apart.mT, cholesky(W, "raise ridge"))
    between = apart @ weights
    values, vectors = torch.linalg.eigh((between + between.mT) / 2)
    kept = values > max(SMALLEST * float(values[-1]), 0.0)
    kept[:-MOST_DIRECTIONS] = False
    if not bool(kept.any()):  # one class, or equal means: a direction in which nothing differs
        return torch.zeros_like(weights[:, :1])
    directions: Tensor = weights @ (vectors[:, kept] / values[kept].sqrt())
    return directions


def similar_classes(centres: Tensor, counts: Sequence[int]) -> Tensor:
    """w_ij, the weight of class i in the covariance of class j: row j of (k, k), of sum 1."""
    distances = torch.cdist(centres, centres, compute_mode="donot_use_mm_for_euclid_dist").square()
    k = len(counts)
    mean = float(distances.sum()) / max(1, k * (k - 1))
    scale = LOCALITY / mean if mean > 0 else 0.0
    return torch.softmax(centres.new_tensor(counts).log() - scale * distances, dim=1)
