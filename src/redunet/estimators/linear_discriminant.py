"""Linear discriminant analysis with a covariance that all classes share."""

from __future__ import annotations

from typing import Any, ClassVar

from redunet.core import readouts
from redunet.core.covariance import class_means, covariance_of_sum, shrunk, summed
from redunet.core.discriminants import normal_scores
from redunet.core.moments import ClassMoments
from redunet.estimators.closed_form import ClosedForm
from redunet.features import FeatureMap
from redunet.validation import checked_number


def linear_discriminant(
    moments: ClassMoments,
    device: str,
    shrinkage: float,
    target: float | None = None,
    priors: bool = True,
) -> readouts.LinearDiscriminant:
    """The discriminant of classes with one covariance, (1 − ρ) W + ρ w I.

    Parameters
    ----------
    moments : ClassMoments
    device : str
    shrinkage : float
        ρ.
    target : float, default=tr W / d
        w.
    priors : bool, default=True
        Whether the logarithm of its share of the samples is added to the score of a class.
    """
    means, counts = class_means(moments, device), moments.counts
    W = shrunk(covariance_of_sum(summed(moments, device), means, counts), shrinkage, target)
    equal = [1] * len(counts)
    scores = normal_scores(W, means, counts if priors else equal, "raise shrinkage")
    return readouts.LinearDiscriminant(*scores)


class LinearDiscriminant(ClosedForm):
    """Linear discriminant analysis: normal classes with one covariance.

    Exactly incremental: learning classes or samples one after another, in any
    order and batch size, gives the model that learnt all of them at once, and
    `forget`, `unlearn` and `merge` are exact too, to the last bit.

    With W = Σ_j Σ (x − μ_j)(x − μ_j)ᵀ / m the pooled within-class covariance of m
    samples, n_j of them of class j with the mean μ_j, the score of class j for a
    feature vector z is

        μ_jᵀ P z − ½ μ_jᵀ P μ_j + log n_j / m,   P = ((1 − ρ) W + ρ (tr W / d) I)⁻¹.

    Probabilities are the softmax of the scores.

    Parameters
    ----------
    shrinkage : float, default=0.01
        ρ, above 0 and at most 1.
    normalize, input_range, features, device
        As for `ReduNetClassifier`.

    Attributes
    ----------
    classes_ : ndarray of shape (k,)
        The classes seen, sorted.
    moments_ : ClassMoments
        All that is remembered.
    solution_ : redunet.LinearDiscriminant
        Weights and offsets, solved from the moments when they are first needed.
    n_features_in_ : int

    See Also
    --------
    sklearn.discriminant_analysis.LinearDiscriminantAnalysis : with
        ``shrinkage=shrinkage``, the same scores on the same feature vectors, in one batch.

    References
    ----------
    T. Hastie, R. Tibshirani, J. Friedman: The Elements of Statistical Learning,
    section 4.3. Springer 2009.

    T. L. Hayes, C. Kanan: Lifelong Machine Learning with Deep Streaming Linear
    Discriminant Analysis. CVPR Workshops 2020.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from redunet.estimators import LinearDiscriminant
    >>> X, y = load_digits(return_X_y=True)
    >>> model = LinearDiscriminant().fit(X[y < 5], y[y < 5]).partial_fit(X[y >= 5], y[y >= 5])
    >>> model.moments_ == LinearDiscriminant().fit(X, y).moments_
    True
    >>> model.forget([7]).classes_.tolist()
    [0, 1, 2, 3, 4, 5, 6, 8, 9]
    """

    kind = "lda"
    earlier_names: ClassVar = {"regularization": "shrinkage"}

    def __init__(
        self,
        shrinkage: float = 0.01,
        normalize: str = "sample",
        input_range: tuple[float, float] | None = None,
        features: FeatureMap | None = None,
        device: str = "auto",
    ) -> None:
        super().__init__(normalize, input_range, features, device)
        self.shrinkage = shrinkage

    def own_settings(self) -> dict[str, Any]:
        """The parameters of the method itself, by name, checked."""
        return {"shrinkage": checked_number("shrinkage", self.shrinkage, above=0, most=1)}

    def _solve(
        self, moments: ClassMoments, device: str, **settings: Any
    ) -> readouts.LinearDiscriminant:
        return linear_discriminant(moments, device, **settings)
