"""Ridge regression to one-hot targets without an intercept."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from redunet.core.covariance import class_means, summed, with_ridge
from redunet.core.linalg import cholesky
from redunet.core.moments import ClassMoments
from redunet.core.readouts import LeastSquares


def ridge_without_intercept(
    moments: ClassMoments, device: str, ridge: float, weights: Sequence[float] | None = None
) -> LeastSquares:
    """W = (A + ρ (tr A / d) I)⁻¹ [w_j s_j], with A = Σ_j w_j S_j.

    S_j = Σ x xᵀ and s_j = Σ x, over the samples of class j: least squares to one-hot targets
    in which a sample of class j counts w_j times, the sum of squared weights penalised.

    Parameters
    ----------
    moments : ClassMoments
    device : str
    ridge : float
        ρ.
    weights : sequence of k float, default=1 for each class
    """
    A = with_ridge(summed(moments, device, weights), ridge)
    means = class_means(moments, device)
    w = means.new_tensor(weights or [1.0] * len(means)) * means.new_tensor(moments.counts)
    W = torch.cholesky_solve((w[:, None] * means).mT, cholesky(A, "raise ridge"))
    return LeastSquares(W, W.new_zeros(len(means)))
