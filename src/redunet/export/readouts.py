"""Read-outs, and what closed-form estimators solve, as modules that can be exported."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from redunet.core.discriminants import LEAST_SCORE, LinearScores, QuadraticScores
from redunet.core.local_discriminant import LocalDiscriminant
from redunet.core.pairwise import PairwiseDiscriminant
from redunet.core.readouts import CodingLength, LeastSquares, NearestSubspace
from redunet.errors import SettingsError
from redunet.estimators.closed_forms import NearestMeanScores
from redunet.export.network import columns_of


class Scores(nn.Module):
    """Scores of features, and probabilities of scores, both (n, k) in float64.

    Probabilities are the softmax of scores times ``scale``, or their positive part if it is None.
    """

    def __init__(self, scale: float | None = 1.0) -> None:
        super().__init__()
        self.scale = scale

    def probabilities(self, scores: Tensor) -> Tensor:
        """Rows of sum 1, (n, k)."""
        if self.scale is not None:
            return torch.softmax(scores * self.scale, 1)
        short = ((scores.amax(1, keepdim=True) - LEAST_SCORE) * -1.0).clamp(min=0.0)
        positive = (scores + short).clamp(min=0.0)
        return positive / positive.sum(1, keepdim=True)


class Linear(Scores):
    """Scores z W + b."""

    def __init__(self, solution: LinearScores, scale: float | None) -> None:
        super().__init__(scale)
        self.weights = nn.Buffer(solution.weights.detach().cpu().contiguous())
        self.offsets = nn.Buffer(solution.offsets.detach().cpu())

    def forward(self, Z: Tensor) -> Tensor:
        """Scores, (n, k)."""
        return torch.matmul(Z, self.weights) + self.offsets


class Pairwise(Scores):
    """Sums of log σ of the odds of pairs."""

    def __init__(self, solution: PairwiseDiscriminant, scale: float | None) -> None:
        super().__init__(scale)
        self.weights = nn.Buffer(solution.weights.detach().cpu().contiguous())
        self.offsets = nn.Buffer(solution.offsets.detach().cpu())
        first, second = solution.sides
        self.first, self.second = nn.Buffer(first.cpu()), nn.Buffer(second.cpu())

    def forward(self, Z: Tensor) -> Tensor:
        """Scores, (n, k)."""
        odds = torch.matmul(Z, self.weights) + self.offsets
        # log σ(s) = −max(−s, 0) − log(1 + e^−|s|), which never overflows.
        both = ((-odds.abs()).exp() + 1.0).log()
        lost, won = (-odds).clamp(min=0.0) + both, odds.clamp(min=0.0) + both
        return -(torch.matmul(lost, self.first) + torch.matmul(won, self.second))


class Subspaces(Scores):
    """Minus the residual from each class's subspace."""

    def __init__(self, readout: NearestSubspace, scale: float | None) -> None:
        super().__init__(scale)
        U = readout.U.detach().cpu().double()
        self.k, _, self.r = U.shape
        self.U = nn.Buffer(columns_of(U.mT))

    def forward(self, Z: Tensor) -> Tensor:
        """Scores, (n, k)."""
        inside = torch.matmul(Z, self.U).reshape(-1, self.k, self.r)
        energy = (Z * Z).sum(1, keepdim=True)
        return -(energy - (inside * inside).sum(2)).clamp(min=0.0)


class CodingLengths(Scores):
    """Minus the nats that a sample adds to each class's code."""

    def __init__(self, readout: CodingLength, scale: float | None) -> None:
        super().__init__(scale)
        C = readout.C.detach().cpu().double()
        self.k, self.d, _ = C.shape
        self.C = nn.Buffer(columns_of(C))
        self.growth = nn.Buffer(readout.growth.detach().cpu())
        self.sizes = nn.Buffer(0.5 * (readout.counts.detach().cpu() + 1 + self.d))

    def forward(self, Z: Tensor) -> Tensor:
        """Scores, (n, k)."""
        products = torch.matmul(Z, self.C).reshape(-1, self.k, self.d) * Z.unsqueeze(1)
        return -(self.growth + self.sizes * (products.sum(2) + 1.0).log())


class Quadratic(Scores):
    """Scores −½‖A_j (z − μ_j)‖² + b_j; with directions P, of Pᵀz in place of z."""

    def __init__(
        self,
        A: Tensor,
        means: Tensor,
        offsets: Tensor,
        directions: Tensor | None = None,
        scale: float | None = 1.0,
    ) -> None:
        super().__init__(scale)
        self.k, self.d = means.shape
        self.W = nn.Buffer(columns_of(A.detach().cpu()))
        self.centres = nn.Buffer((A @ means[:, :, None]).flatten().detach().cpu())
        self.offsets = nn.Buffer(offsets.detach().cpu())
        self.within = directions is not None
        if directions is not None:
            self.directions = nn.Buffer(directions.detach().cpu().contiguous())

    @classmethod
    def of_factors(cls, solution: QuadraticScores, scale: float | None = 1.0) -> Quadratic:
        """Of normal classes, each with the Cholesky factor of its covariance."""
        L = solution.factors
        eye = torch.eye(L.shape[-1], dtype=L.dtype, device=L.device)
        A = torch.stack([torch.linalg.solve_triangular(L_j, eye, upper=False) for L_j in L])
        return cls(A, solution.means, solution.offsets, scale=scale)

    def forward(self, Z: Tensor) -> Tensor:
        """Scores, (n, k)."""
        if self.within:
            Z = torch.matmul(Z, self.directions)
        apart = (torch.matmul(Z, self.W) - self.centres).reshape(-1, self.k, self.d)
        return self.offsets - (apart * apart).sum(2) * 0.5


def scale_of(solution: object) -> float | None:
    """The factor of the scores of a closed-form estimator, as for `Scores`."""
    if isinstance(solution, NearestMeanScores):
        return 1 / float(solution.variance)
    return None if isinstance(solution, LeastSquares) else 1.0


def module_of(found: object, scale: float | None, name: str) -> Scores:
    """The module of a read-out, or of what a closed-form estimator solves."""
    if isinstance(found, NearestSubspace):
        return Subspaces(found, scale)
    if isinstance(found, CodingLength):
        return CodingLengths(found, scale)
    if isinstance(found, LinearScores):
        return Linear(found, scale)
    if isinstance(found, LocalDiscriminant):
        A, P = found.whitenings, found.directions
        return Quadratic(A, found.centres, found.offsets, P, scale)
    if isinstance(found, PairwiseDiscriminant):
        return Pairwise(found, scale)
    if isinstance(found, QuadraticScores):
        return Quadratic.of_factors(found, scale)
    raise SettingsError(
        f"expected a read-out or estimator that can be exported, got {name!r}, which is not part "
        f"of redunet: choose one that is"
    )
