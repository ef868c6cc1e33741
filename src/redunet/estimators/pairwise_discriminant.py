"""Linear discriminants of pairs of classes."""

from __future__ import annotations

from typing import Any

from redunet.core import pairwise
from redunet.core.covariance import class_means, one_by_one
from redunet.core.moments import ClassMoments
from redunet.estimators.closed_form import ClosedForm
from redunet.features import FeatureMap
from redunet.validation import checked_number


class PairwiseDiscriminant(ClosedForm):
    """Linear discriminants of pairs of classes, each with the covariance of its own samples.

    Exactly incremental: learning classes or samples one after another, in any
    order and batch size, gives the model that learnt all of them at once, and
    `forget`, `unlearn` and `merge` are exact too, to the last bit.

    With W_ij the covariance of the samples of classes i and j around the means
    μ_i and μ_j of their classes, n_i and n_j samples,

        s_ij = (μ_i − μ_j)ᵀ (W_ij + ρ (tr W_ij / d) I)⁻¹ (z − (μ_i + μ_j) / 2) + log n_i / n_j

    are the log odds of class i against class j for a feature vector z. The score
    of class i is Σ_{j≠i} log σ(s_ij), the log-probability that it wins every
    comparison, were these independent. Probabilities are the softmax of the
    scores.

    `LinearDiscriminant` has one covariance for all classes. Where similar classes
    are told apart by what other classes vary in too, as with images, pairs do
    better. They take k (k − 1) / 2 systems of d equations, so k is at most 256.

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
    solution_ : redunet.core.pairwise.PairwiseDiscriminant
        Weights and offsets, solved from the moments when they are first needed.
    n_features_in_ : int

    References
    ----------
    T. Hastie, R. Tibshirani: Classification by Pairwise Coupling. Annals of
    Statistics 1998.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from redunet.estimators import LinearDiscriminant, PairwiseDiscriminant
    >>> X, y = load_digits(return_X_y=True)
    >>> one, other = X[:1200], X[1200:]
    >>> model = PairwiseDiscriminant().fit(one[:600], y[:600]).partial_fit(one[600:], y[600:1200])
    >>> pooled = LinearDiscriminant().fit(one, y[:1200])
    >>> round(model.score(other, y[1200:]), 3), round(pooled.score(other, y[1200:]), 3)
    (0.946, 0.908)
    """

    kind = "pairwise"

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

    def _solve(
        self, moments: ClassMoments, device: str, **settings: Any
    ) -> pairwise.PairwiseDiscriminant:
        means = class_means(moments, device)
        return pairwise.PairwiseDiscriminant.solve(
            one_by_one(moments, device), means, moments.counts, **settings
        )
