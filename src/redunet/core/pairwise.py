"""Classes compared two by two, each pair by the covariance of its own samples.

A linear discriminant has one covariance for all classes, so what tells two similar classes apart is
weighed by how all the others vary. Here each pair has a discriminant of its own. With W_ij the
covariance of the samples of classes i and j, each around the mean of its class,

    s_ij(z) = (μ_i − μ_j)ᵀ (W_ij + ρI)⁻¹ (z − (μ_i + μ_j) / 2) + log n_i / n_j

is the logarithm of the odds of i against j, and the score of a class is the logarithm of the
probability that it wins every comparison, were these independent:

    score_i(z) = Σ_{j≠i} log σ(s_ij(z)),   σ(s) = 1 / (1 + e^−s).

Everything is a function of the moments of the classes. k (k − 1) / 2 pairs take as many systems of
d equations to solve, and as many products of d numbers for a sample.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import logsigmoid

from redunet.core.covariance import with_ridge
from redunet.core.linalg import cholesky
from redunet.core.network import ReduNet
from redunet.core.subspaces import rounding
from redunet.errors import SettingsError

MOST_CLASSES = 256
"""With more classes than this, which make 32,640 pairs, there are too many to solve."""

BATCH_BYTES = 2**25
"""About how much memory the odds of some samples in all pairs may take."""


@dataclass(frozen=True, eq=False)
class PairwiseDiscriminant:
    """Scores Σ_{j≠i} log σ(s_ij) from the log odds s of each pair; the highest wins.

    Examples
    --------
    >>> S = torch.diag_embed(torch.tensor([[7.5, 0.5], [0.5, 7.5]]).double())
    >>> means = torch.tensor([[0.8, 0.1], [0.1, 0.8]]).double()
    >>> readout = PairwiseDiscriminant.solve(S.__getitem__, means, [8, 8], ridge=0.01)
    >>> readout.scores(torch.tensor([[0.8, 0.6]])).round(decimals=2).tolist()
    [[-0.46, -1.0]]
    """

    # (d, p): of pairs of classes i < j, p = k (k − 1) / 2 of them: (0, 1), (0, 2), …, (1, 2), …
    weights: Tensor
    offsets: Tensor  # (p,)

    @classmethod
    def from_network(cls, network: ReduNet, ridge: float) -> PairwiseDiscriminant:
        """The discriminants of a network's last moments."""
        last = network.layers.last
        means, least = network.last_means().to(torch.float64), rounding(last.Sigma.dtype)

        def second_moment(j: int) -> Tensor:
            return last.matrix(j).to(means, copy=True)  # which may wait on the CPU for a GPU

        return cls.solve(second_moment, means, network.counts, ridge, least)

    @classmethod
    def solve(
        cls,
        second_moment: Callable[[int], Tensor],
        means: Tensor,
        counts: Sequence[int],
        ridge: float,
        least: float = 0.0,
    ) -> PairwiseDiscriminant:
        """The discriminants of classes.

        Shapes: means (k, d).
        """
        k, d = means.shape
        if k > MOST_CLASSES:
            raise SettingsError(
                f"expected at most {MOST_CLASSES} classes to be compared two by two, got {k}: "
                f"choose another read-out, such as regression"
            )
        n = means.new_tensor(counts)
        weights, offsets = means.new_empty(k * (k - 1) // 2, d), means.new_empty(k * (k - 1) // 2)
        for pair, (i, j) in enumerate(torch.combinations(torch.arange(k)).tolist()):
            if j == i + 1:  # a new i
                first = second_moment(i).addr_(means[i], means[i], alpha=-counts[i])
            W = second_moment(j).addr_(means[j], means[j], alpha=-counts[j])
            W = with_ridge(W.add_(first).div_(counts[i] + counts[j]), ridge, least)
            apart = (means[i] - means[j])[:, None]
            weights[pair] = torch.cholesky_solve(apart, cholesky(W, "raise ridge"))[:, 0]
            offsets[pair] = (n[i] / n[j]).log() - weights[pair] @ (means[i] + means[j]) / 2
        return cls(weights.mT, offsets)

    def scores(self, Z: Tensor) -> Tensor:
        """Scores of features, (n, d): Tensor of shape (n, k), float64."""
        rows = max(1, BATCH_BYTES // (8 * max(1, len(self.offsets))))
        return torch.cat(
            [
                self.scores_of_products(part.to(torch.float64) @ self.weights)
                for part in torch.split(Z, rows)
            ]
        )

    def scores_of_products(self, products: Tensor) -> Tensor:
        """Scores from the products of features with the weights, (n, p)."""
        odds = products.to(torch.float64) + self.offsets
        first, second = self.sides
        return logsigmoid(odds) @ first + logsigmoid(-odds) @ second

    @property
    def sides(self) -> tuple[Tensor, Tensor]:
        """Which class is the first of each pair, and which the second: (p, k) of ones and zeros."""
        k = (1 + math.isqrt(1 + 8 * len(self.offsets))) // 2
        pairs = torch.combinations(torch.arange(k, device=self.offsets.device))
        first, second = torch.nn.functional.one_hot(pairs, k).unbind(dim=1)
        return first.to(torch.float64), second.to(torch.float64)

    def probabilities(self, scores: Tensor) -> Tensor:
        """Rows of sum 1, (n, k): softmax of scores."""
        return torch.softmax(scores, dim=1)
