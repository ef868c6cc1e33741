"""AIR: ridge regression in which every class counts the same."""

from __future__ import annotations

from typing import Any

from redunet.core.moments import ClassMoments
from redunet.core.readouts import LeastSquares
from redunet.estimators.closed_form import ClosedForm
from redunet.features import FeatureMap
from redunet.validation import checked_number
from redunet_lab.closed_forms.regression import ridge_without_intercept


class AIR(ClosedForm):
    """Analytic imbalance rectifier: ridge regression with classes of equal weight.

    Exactly incremental: learning classes or samples one after another, in any
    order and batch size, gives the model that learnt all of them at once, and
    `forget`, `unlearn` and `merge` are exact too, to the last bit.

    With S_j = Σ x xᵀ and s_j = Σ x over the n_j samples of class j, the score of class j
    for a feature vector z is w_jᵀ z, where

        [w_1, …, w_k] = (A + ρ (tr A / d) I)⁻¹ [π_1 s_1, …, π_k s_k],   A = Σ_j π_j S_j,

    and π_j is proportional to 1 / n_j, with the mean 1. There is no intercept.
    Where all classes have equally many samples this is RanPAC's regression, on the
    vectors themselves. Probabilities are the scores with those below 0 set to 0, rescaled.

    Parameters
    ----------
    ridge : float, default=0.01
        ρ, above 0. The published γ is ρ tr A / d.
    normalize, input_range, features, device
        As for `ReduNetClassifier`.

    Attributes
    ----------
    classes_ : ndarray of shape (k,)
        The classes seen, sorted.
    moments_ : ClassMoments
        All that is remembered.
    solution_ : redunet.LeastSquares
        Weights, solved from the moments when they are first needed.
    n_features_in_ : int

    See Also
    --------
    redunet.estimators.Ridge : every sample counts the same, and there is an intercept.

    References
    ----------
    D. Fang, Y. Zhu, R. Fang, C. Chen, Z. Zeng, H. Zhuang: AIR: Analytic Imbalance
    Rectifier for Continual Learning. arXiv:2408.10349, 2024.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from redunet_lab.closed_forms import AIR
    >>> X, y = load_digits(return_X_y=True)
    >>> few = AIR().fit(X[y < 5], y[y < 5]).partial_fit(X[y > 4][:90], y[y > 4][:90])
    >>> few.score(X, y) > 0.85
    True
    """

    kind = "air"

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
        mean = sum(1 / n for n in moments.counts) / len(moments)
        weights = [1 / (n * mean) for n in moments.counts]
        return ridge_without_intercept(moments, device, weights=weights, **settings)
