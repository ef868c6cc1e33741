"""Ridge regression to one-hot targets."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import torch

from redunet.core.covariance import (
    class_means,
    covariance_of_sum,
    overall_mean,
    summed,
    with_ridge,
)
from redunet.core.discriminants import regression_scores
from redunet.core.linalg import cholesky
from redunet.core.moments import ClassMoments
from redunet.core.readouts import LeastSquares
from redunet.estimators.closed_form import ClosedForm
from redunet.features import FeatureMap
from redunet.validation import checked_number


def ridge_to_one_hot(moments: ClassMoments, device: str, ridge: float) -> LeastSquares:
    """The w_j and b_j of least Σ (w_jᵀ x + b_j − y_j)² + m ρ (tr T / d) ‖w_j‖², for all classes j.

    Parameters
    ----------
    moments : ClassMoments
    device : str
    ridge : float
        ρ; T is the covariance of all samples.
    """
    means, counts = class_means(moments, device), moments.counts
    centres = overall_mean(means, counts).expand_as(means)
    T = with_ridge(covariance_of_sum(summed(moments, device), centres, counts), ridge)
    return LeastSquares(*regression_scores(T, means, counts, "raise ridge"))


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


class Ridge(ClosedForm):
    """Ridge regression to targets of 1 for a sample's own class and 0 for all others.

    Exactly incremental: learning classes or samples one after another, in any
    order and batch size, gives the model that learnt all of them at once, and
    `forget`, `unlearn` and `merge` are exact too, to the last bit. It is the
    head of analytic continual learning.

    The score of class j for a feature vector z is w_jᵀ z + b_j, with

        w_j = (T + ρ (tr T / d) I)⁻¹ (n_j / m) (μ_j − μ),   b_j = n_j / m − w_jᵀ μ,

    where m samples have the mean μ and the covariance T, and n_j of them, of
    class j, the mean μ_j: the least of Σ (w_jᵀ x + b_j − y_j)² + m ρ (tr T / d) ‖w_j‖²,
    the intercept not penalised. The scores of a sample have the sum 1;
    probabilities are the scores with those below 0 set to 0, rescaled.

    Parameters
    ----------
    ridge : float, default=0.01
        ρ, above 0.
    normalize, input_range, features, device
        As for `ReduNetClassifier`.

    Attributes
    ----------
    classes_ : ndarray of shape (k,)
        The classes seen, sorted.
    moments_ : ClassMoments
        All that is remembered.
    solution_ : redunet.LeastSquares
        Weights and offsets, solved from the moments when they are first needed.
    n_features_in_ : int

    See Also
    --------
    sklearn.linear_model.Ridge : with ``alpha`` = m ρ tr T / d and one-hot targets, the same
        scores on the same feature vectors, in one batch.

    References
    ----------
    A. E. Hoerl, R. W. Kennard: Ridge Regression: Biased Estimation for
    Nonorthogonal Problems. Technometrics 1970.

    H. Zhuang et al.: ACIL: Analytic Class-Incremental Learning with Absolute
    Memorization and Privacy Protection. NeurIPS 2022.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from redunet.estimators import Ridge
    >>> X, y = load_digits(return_X_y=True)
    >>> one, other = Ridge().fit(X[::2], y[::2]), Ridge().fit(X[1::2], y[1::2])
    >>> one.merge(other).moments_ == Ridge().fit(X, y).moments_
    True
    >>> one.unlearn(X[1::2], y[1::2]).moments_ == Ridge().fit(X[::2], y[::2]).moments_
    True
    """

    kind = "ridge"
    earlier_names: ClassVar = {"regularization": "ridge"}

    def __init__(
        self,
        ridge: float = 0.01,
        normalize: str = "sample",
        input_range: tuple[float, float] | None = None,
        features: FeatureMap | None = None,
        device: str = "auto",
    ) -> None:
        super().__init__(normalize, input_range, features, device)
        self.ridge = ridge

    def own_settings(self) -> dict[str, Any]:
        """The parameters of the method itself, by name, checked."""
        return {"ridge": checked_number("ridge", self.ridge, above=0)}

    def _solve(self, moments: ClassMoments, device: str, **settings: Any) -> LeastSquares:
        return ridge_to_one_hot(moments, device, **settings)
