"""Quadratic discriminant analysis with shrunk covariances."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, ClassVar

import torch
from torch import Tensor

from redunet.core.covariance import in_float64, mean_variance, scatters, shares, shrunk
from redunet.core.discriminants import QuadraticScores
from redunet.core.linalg import cholesky
from redunet.core.moments import ClassMoments
from redunet.estimators.closed_form import ClosedForm
from redunet.features import FeatureMap
from redunet.validation import checked_number, one_of


def quadratic_discriminant(
    S: Iterable[Tensor],
    means: Tensor,
    counts: Sequence[int],
    shrinkage: float,
    distance: str,
) -> QuadraticScores:
    """Mahalanobis distances by (1 − ρ) C_j + ρ (tr W / d) I, or by its correlations.

    Parameters
    ----------
    S : iterable of k Tensors of shape (d, d), float64
        Second moments, one class at a time.
    means : Tensor of shape (k, d), float64
    counts : sequence of k int
    shrinkage : float
        ρ; C_j is the covariance of class j, W the pooled within-class covariance.
    distance : {"gaussian", "correlation"}
    """
    factors = means.new_empty(*means.shape, means.shape[1])
    for C_j, n, scatter in zip(factors, counts, scatters(S, means, counts), strict=True):
        torch.div(scatter, n, out=C_j)
    # tr W is the mean of tr C_j over all samples.
    within = sum(n * mean_variance(C_j) for n, C_j in zip(counts, factors, strict=True))
    for C_j in factors:
        matrix = shrunk(C_j, shrinkage, within / sum(counts))
        if distance == "correlation":
            deviations = matrix.diagonal().sqrt()
            matrix = matrix / torch.outer(deviations, deviations)
        C_j.copy_(cholesky(matrix, "raise shrinkage"))
    if distance == "correlation":
        return QuadraticScores(means, factors, torch.zeros_like(means[:, 0]))
    half_log_det = factors.diagonal(dim1=-2, dim2=-1).log().sum(dim=1)
    return QuadraticScores(means, factors, shares(means, counts).log() - half_log_det)


class QuadraticDiscriminant(ClosedForm):
    """Quadratic discriminant analysis: normal classes, each with its own covariance.

    Exactly incremental: learning classes or samples one after another, in any
    order and batch size, gives the model that learnt all of them at once, and
    `forget`, `unlearn` and `merge` are exact too, to the last bit.

    With μ_j and C_j the mean and the covariance of class j, and W the pooled
    within-class covariance of m samples, n_j of them of class j, the score of
    class j for a feature vector z is

        −½ (z − μ_j)ᵀ Q_j⁻¹ (z − μ_j) − ½ log det Q_j + log n_j / m,
        Q_j = (1 − ρ) C_j + ρ (tr W / d) I.

    Probabilities are the softmax of the scores.

    Parameters
    ----------
    shrinkage : float, default=0.5
        ρ, above 0 and at most 1.
    distance : {"gaussian", "correlation"}, default="gaussian"
        "gaussian" is the score above. "correlation" is its first term alone,
        with each Q_j scaled to a unit diagonal, as in FeCAM.
    normalize, input_range, features, device
        As for `ReduNetClassifier`.

    Attributes
    ----------
    classes_ : ndarray of shape (k,)
        The classes seen, sorted.
    moments_ : ClassMoments
        All that is remembered.
    solution_ : redunet.core.discriminants.QuadraticScores
        Means, Cholesky factors and offsets, solved from the moments when they
        are first needed.
    n_features_in_ : int

    See Also
    --------
    sklearn.discriminant_analysis.QuadraticDiscriminantAnalysis : with
        ``reg_param=shrinkage``, the same scores on feature vectors of
        tr W / d = 1, in one batch.

    Notes
    -----
    All covariances are shrunk to the same target, where scikit-learn's
    ``shrinkage`` has tr C_j / d for each class: a class of few samples, whose C_j
    is uncertain, then has the scale of the others instead of a smaller one that
    no other class can match.

    References
    ----------
    J. H. Friedman: Regularized Discriminant Analysis. JASA 1989.

    D. Goswami, Y. Liu, B. Twardowski, J. van de Weijer: FeCAM: Exploiting the
    Heterogeneity of Class Distributions in Exemplar-Free Continual Learning.
    NeurIPS 2023.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from redunet.estimators import QuadraticDiscriminant
    >>> X, y = load_digits(return_X_y=True)
    >>> model = QuadraticDiscriminant().fit(X[y < 5], y[y < 5])
    >>> model.partial_fit(X[y >= 5], y[y >= 5]).score(X, y) > 0.95
    True
    >>> model.forget([7]).moments_ == QuadraticDiscriminant().fit(X[y != 7], y[y != 7]).moments_
    True
    """

    kind = "qda"
    exported = "the mean and the shrunk covariance of each class"
    revealed = "mean and covariance"
    earlier_names: ClassVar = {"regularization": "shrinkage"}

    def __init__(
        self,
        shrinkage: float = 0.5,
        distance: str = "gaussian",
        normalize: str = "sample",
        input_range: tuple[float, float] | None = None,
        features: FeatureMap | None = None,
        device: str = "auto",
    ) -> None:
        super().__init__(normalize, input_range, features, device)
        self.shrinkage = shrinkage
        self.distance = distance

    def own_settings(self) -> dict[str, Any]:
        """The parameters of the method itself, by name, checked."""
        return {
            "shrinkage": checked_number("shrinkage", self.shrinkage, above=0, most=1),
            "distance": one_of("distance", self.distance, ("gaussian", "correlation")),
        }

    def _solve(self, moments: ClassMoments, device: str, **settings: Any) -> QuadraticScores:
        means, S = in_float64(moments, device)
        return quadratic_discriminant(S, means, moments.counts, **settings)
