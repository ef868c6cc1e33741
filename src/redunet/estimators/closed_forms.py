"""Estimators in closed form on class moments: nearest mean, discriminants, ridge regression."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor

from redunet.core import pairwise, readouts
from redunet.core.covariance import (
    LEAST_VARIANCE,
    class_means,
    covariance_of_sum,
    in_float64,
    mean_variance,
    one_by_one,
    overall_mean,
    scatters,
    shares,
    shrunk,
    summed,
    with_ridge,
)
from redunet.core.discriminants import (
    LinearScores,
    QuadraticScores,
    normal_scores,
    regression_scores,
)
from redunet.core.grid import GRID
from redunet.core.linalg import cholesky
from redunet.core.moments import ClassMoments
from redunet.estimators.closed_form import ClosedForm
from redunet.features import FeatureMap
from redunet.validation import checked_number, one_of


@dataclass(frozen=True, eq=False)
class NearestMeanScores(LinearScores):
    """Scores μ_jᵀ z − ½‖μ_j‖²: minus half the squared distance, less what all classes share.

    Parameters
    ----------
    weights : Tensor of shape (d, k), float64
    offsets : Tensor of shape (k,), float64
    variance : Tensor of shape (), float64
        σ², the variance of a feature within its class, on average.
    """

    variance: Tensor

    def probabilities(self, scores: Tensor) -> Tensor:
        """softmax(score / σ²): rows of sum 1, (n, k)."""
        return torch.softmax(scores / self.variance.to(scores.device), dim=1)


class NearestMean(ClosedForm):
    """The class whose mean is nearest, exactly incremental.

    The score of class j for a feature vector z is

        μ_jᵀ z − ½ ‖μ_j‖²,

    which is minus half the squared distance to the mean μ_j up to a term that
    all classes share. Probabilities are those of normal classes of equal shares
    with the covariance σ² I, softmax_j(score_j / σ²), where σ² is the variance of
    a feature within its class, on average.

    Parameters
    ----------
    normalize, input_range, features, device
        As for `ReduNetClassifier`.

    Attributes
    ----------
    classes_ : ndarray of shape (k,)
        The classes seen, sorted.
    moments_ : ClassMoments
        All that is remembered.
    solution_ : NearestMeanScores
        Computed from the moments when it is first needed.
    n_features_in_ : int

    See Also
    --------
    sklearn.neighbors.NearestCentroid : the same labels on the same feature vectors, in one batch.

    References
    ----------
    T. Mensink, J. Verbeek, F. Perronnin, G. Csurka: Distance-Based Image
    Classification: Generalizing to New Classes at Near-Zero Cost. TPAMI 2013.

    Examples
    --------
    >>> from redunet.estimators import NearestMean
    >>> model = NearestMean().partial_fit([[3.0, 4.0]], [0])
    >>> model.partial_fit([[1.0, 0.0], [1.0, 0.1]], [1, 1]).predict([[1.0, 1.0], [2.0, 0.0]])
    array([0, 1])
    >>> model.unlearn([[1.0, 0.1]], [1]).moments_.counts
    (1, 1)
    """

    kind = "ncm"
    exported = "the mean of each class"
    revealed = "mean"

    def _solve(self, moments: ClassMoments, device: str, **settings: Any) -> NearestMeanScores:
        means = class_means(moments, device)
        squares = sum(int(moments[label].diagonal.sum()) for label in moments)
        n = means.new_tensor(moments.counts)
        within = squares / GRID**2 - float(n @ means.square().sum(dim=1))
        variance = max(within / (float(n.sum()) * means.shape[1]), LEAST_VARIANCE)
        offsets = -0.5 * means.square().sum(dim=1)
        return NearestMeanScores(means.mT, offsets, means.new_tensor(variance))


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
    """Linear discriminant analysis: normal classes with one covariance, exactly incremental.

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
    classes_, moments_, n_features_in_
        As of `NearestMean`.
    solution_ : redunet.LinearDiscriminant
        Weights and offsets, solved from the moments when they are first needed.

    See Also
    --------
    sklearn.discriminant_analysis.LinearDiscriminantAnalysis : with
        ``shrinkage=shrinkage``, the same scores on the same feature vectors, in one batch.

    References
    ----------
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


class QuadraticDiscriminant(ClosedForm):
    """Quadratic discriminant analysis: normal classes, each with its own shrunk covariance.

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
    classes_, moments_, n_features_in_
        As of `NearestMean`.
    solution_ : redunet.core.discriminants.QuadraticScores
        Means, Cholesky factors and offsets, solved from the moments when they
        are first needed.

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
        counts, shrinkage = moments.counts, settings["shrinkage"]
        factors = means.new_empty(*means.shape, means.shape[1])
        for C_j, n, scatter in zip(factors, counts, scatters(S, means, counts), strict=True):
            torch.div(scatter, n, out=C_j)
        # tr W is the mean of tr C_j over all samples.
        within = sum(n * mean_variance(C_j) for n, C_j in zip(counts, factors, strict=True))
        for C_j in factors:
            matrix = shrunk(C_j, shrinkage, within / sum(counts))
            if settings["distance"] == "correlation":
                deviations = matrix.diagonal().sqrt()
                matrix = matrix / torch.outer(deviations, deviations)
            C_j.copy_(cholesky(matrix, "raise shrinkage"))
        if settings["distance"] == "correlation":
            return QuadraticScores(means, factors, torch.zeros_like(means[:, 0]))
        half_log_det = factors.diagonal(dim1=-2, dim2=-1).log().sum(dim=1)
        return QuadraticScores(means, factors, shares(means, counts).log() - half_log_det)


class Ridge(ClosedForm):
    """Ridge regression to 1 for a sample's own class and 0 for others, exactly incremental.

    The score of class j for a feature vector z is w_jᵀ z + b_j, with

        w_j = (T + ρ (tr T / d) I)⁻¹ (n_j / m) (μ_j − μ),   b_j = n_j / m − w_jᵀ μ,

    where m samples have the mean μ and the covariance T, and n_j of them, of
    class j, the mean μ_j: the least of Σ (w_jᵀ x + b_j − y_j)² + m ρ (tr T / d) ‖w_j‖²,
    the intercept not penalised. The scores of a sample have the sum 1;
    probabilities are the scores with those below 0 set to 0, rescaled.
    It is the head of analytic continual learning.

    Parameters
    ----------
    ridge : float, default=0.01
        ρ, above 0.
    normalize, input_range, features, device
        As for `ReduNetClassifier`.

    Attributes
    ----------
    classes_, moments_, n_features_in_
        As of `NearestMean`.
    solution_ : redunet.LeastSquares
        Weights and offsets, solved from the moments when they are first needed.

    See Also
    --------
    sklearn.linear_model.Ridge : with ``alpha`` = m ρ tr T / d and one-hot targets, the same
        scores on the same feature vectors, in one batch.

    References
    ----------
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

    def _solve(self, moments: ClassMoments, device: str, **settings: Any) -> readouts.LeastSquares:
        means, counts = class_means(moments, device), moments.counts
        centres = overall_mean(means, counts).expand_as(means)
        T = covariance_of_sum(summed(moments, device), centres, counts)
        scores = regression_scores(with_ridge(T, **settings), means, counts, "raise ridge")
        return readouts.LeastSquares(*scores)


class PairwiseDiscriminant(ClosedForm):
    """Linear discriminants of pairs of classes, each with the covariance of its own samples.

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
    classes_, moments_, n_features_in_
        As of `NearestMean`.
    solution_ : redunet.core.pairwise.PairwiseDiscriminant
        Weights and offsets, solved from the moments when they are first needed.

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
    exported = "weights and an offset for each pair of classes"

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
        S = one_by_one(moments, device)
        return pairwise.PairwiseDiscriminant.solve(S, means, moments.counts, **settings)
