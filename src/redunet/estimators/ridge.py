"""Ridge regression to one-hot targets."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, ClassVar

from torch import Tensor

from redunet.core.covariance import covariance, in_float64, overall_mean, with_ridge
from redunet.core.discriminants import regression_scores
from redunet.core.moments import ClassMoments
from redunet.core.readouts import LeastSquares
from redunet.estimators.closed_form import ClosedForm
from redunet.features import FeatureMap
from redunet.validation import checked_number


def ridge_to_one_hot(
    S: Iterable[Tensor], means: Tensor, counts: Sequence[int], ridge: float
) -> LeastSquares:
    """The w_j and b_j of least Σ (w_jᵀ x + b_j − y_j)² + m ρ (tr T / d) ‖w_j‖², for all classes j.

    Parameters
    ----------
    S : iterable of k Tensors of shape (d, d), float64
        Second moments, one class at a time.
    means : Tensor of shape (k, d), float64
    counts : sequence of k int
    ridge : float
        ρ; T is the covariance of all samples.
    """
    centres = overall_mean(means, counts).expand_as(means)
    T = with_ridge(covariance(S, centres, counts), ridge)
    return LeastSquares(*regression_scores(T, means, counts, "raise ridge"))


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
        means, S = in_float64(moments, device)
        return ridge_to_one_hot(S, means, moments.counts, **settings)
