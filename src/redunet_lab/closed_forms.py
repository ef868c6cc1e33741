"""Closed-form classifiers of other papers on continual learning, on class moments.

Like every `ClosedForm` they are exactly incremental: learning in any order and batch size gives the
model that learnt everything at once, and `forget`, `unlearn` and `merge` are exact too.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor

from redunet.core import readouts
from redunet.core.covariance import (
    LEAST_VARIANCE,
    class_means,
    in_float64,
    mean_variance,
    scatters,
    summed,
    with_ridge,
)
from redunet.core.discriminants import QuadraticScores
from redunet.core.linalg import add_identity, cholesky
from redunet.core.moments import ClassMoments
from redunet.core.readouts import LeastSquares
from redunet.estimators import CLOSED_FORM
from redunet.estimators.closed_form import ClosedForm
from redunet.estimators.closed_forms import linear_discriminant
from redunet.features import FeatureMap, Fourier, RandomReLU, SquareRoot
from redunet.validation import checked_number, flag, whole_number

__all__ = ["AIR", "CLOSED_FORMS", "KLDA", "SLDA", "FeCAM", "RanPAC"]


class SLDA(ClosedForm):
    """Streaming linear discriminant analysis: one covariance, a fixed shrinkage, no priors.

    With W the pooled within-class covariance and μ_j the mean of class j, the score of
    class j for a feature vector z is

        μ_jᵀ P z − ½ μ_jᵀ P μ_j − log k,   P = ((1 − ε) W + ε I)⁻¹.

    Parameters
    ----------
    shrinkage : float, default=1e-4
        ε, above 0 and at most 1.
    normalize, input_range, features, device
        As for `ReduNetClassifier`.

    Notes
    -----
    The published program updates its estimate of W sample by sample, with weights that depend
    on the order of the samples. Here W is the pooled covariance itself, which that estimate
    comes close to.

    References
    ----------
    T. L. Hayes, C. Kanan: Lifelong Machine Learning with Deep Streaming Linear
    Discriminant Analysis. CVPR Workshops 2020.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> X, y = load_digits(return_X_y=True)
    >>> SLDA().fit(X[::2], y[::2]).score(X[1::2], y[1::2]) > 0.93
    True
    """

    kind = "slda"

    def __init__(
        self,
        shrinkage: float = 1e-4,
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
        return linear_discriminant(moments, device, target=1.0, priors=False, **settings)


class AIR(ClosedForm):
    """Analytic imbalance rectifier: ridge regression with classes of equal weight.

    With S_j = Σ x xᵀ and s_j = Σ x over the n_j samples of class j, the score of class j
    for a feature vector z is w_jᵀ z, where

        [w_1, …, w_k] = (A + ρ (tr A / d) I)⁻¹ [π_1 s_1, …, π_k s_k],   A = Σ_j π_j S_j,

    and π_j is proportional to 1 / n_j, with the mean 1. There is no intercept. Probabilities are
    the scores with those below 0 set to 0, rescaled.

    Parameters
    ----------
    ridge : float, default=0.01
        ρ, above 0. The published γ is ρ tr A / d.
    normalize, input_range, features, device
        As for `ReduNetClassifier`.

    References
    ----------
    D. Fang, Y. Zhu, R. Fang, C. Chen, Z. Zeng, H. Zhuang: AIR: Analytic Imbalance
    Rectifier for Continual Learning. arXiv:2408.10349, 2024.
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


class RanPAC(ClosedForm):
    """Random projections, rectified, then ridge regression to one-hot targets.

    A sample's vector x, of unit length, becomes z = max(x W, 0), of unit length too,
    with Gaussian weights W that are drawn once (`redunet.features.RandomReLU`). With
    S_j = Σ z zᵀ and s_j = Σ z over the samples of class j, its score is w_jᵀ z, where

        [w_1, …, w_k] = (G + ρ (tr G / M) I)⁻¹ [s_1, …, s_k],   G = Σ_j S_j.

    There is no intercept. Probabilities are the scores with those below 0 set to 0, rescaled.

    Parameters
    ----------
    n_projections : int, default=2000
        M, the number of features that samples get; 10,000 as published.
    ridge : float, default=0.01
        ρ, above 0. The published λ is ρ tr G / M, to be chosen from validation data.
    seed : int, default=0
        Of the projections.
    normalize, input_range, features, device
        As for `ReduNetClassifier`. The projections come after ``features``.

    Notes
    -----
    The published method also fine-tunes the encoder in the first task; the encoder is left alone
    here. Vectors and projections have unit length here, so that sums lie on a grid.

    References
    ----------
    M. D. McDonnell, D. Gong, A. Parvaneh, E. Abbasnejad, A. van den Hengel: RanPAC: Random
    Projections and Pre-trained Models for Continual Learning. NeurIPS 2023.
    """

    kind = "ranpac"
    _of_pipeline = "n_projections, seed, features, normalize or input_range"

    def __init__(
        self,
        n_projections: int = 2000,
        ridge: float = 0.01,
        seed: int = 0,
        normalize: str = "sample",
        input_range: tuple[float, float] | None = None,
        features: FeatureMap | None = None,
        device: str = "auto",
    ) -> None:
        super().__init__(normalize, input_range, features, device)
        self.n_projections = n_projections
        self.ridge = ridge
        self.seed = seed

    def own_settings(self) -> dict[str, Any]:
        """The parameters of the method itself, by name, checked."""
        return {
            "n_projections": whole_number("n_projections", self.n_projections, least=1),
            "ridge": checked_number("ridge", self.ridge, above=0),
            "seed": whole_number("seed", self.seed, least=0, most=2**32 - 1),
        }

    def own_map(self, n_values: int) -> RandomReLU:
        """The projections of vectors of so many values."""
        settings = self.own_settings()
        return RandomReLU(settings["seed"], (n_values,), settings["n_projections"])

    def _solve(self, moments: ClassMoments, device: str, **settings: Any) -> LeastSquares:
        return ridge_without_intercept(moments, device, settings["ridge"])


class KLDA(ClosedForm):
    """Kernel linear discriminant analysis, by random Fourier features.

    A sample's vector x, of unit length, becomes z = √(2/D) cos(x Ω + b) with random Ω and
    b that are drawn once (`redunet.features.Fourier`), scaled to unit length; products of
    such vectors come close to the kernel exp(−γ ‖x − y‖²). Scores and probabilities
    are those of `LinearDiscriminant` on z.

    Parameters
    ----------
    n_projections : int, default=2000
        D, the number of features that samples get; 5,000 as published.
    gamma : float, default=1.0
        γ, above 0: the published σ. Ω ~ N(0, 2σ) there has the *variance* 2σ, that is the
        deviation √(2σ), as the authors' program draws it.
    shrinkage : float, default=0.01
        ρ, above 0 and at most 1, as for `LinearDiscriminant`.
    seed : int, default=0
        Of Ω and b.
    normalize, input_range, features, device
        As for `ReduNetClassifier`. The Fourier features come after ``features``.

    Notes
    -----
    As published, log n_j / m is not part of the score, and the covariance is inverted with little
    or no shrinkage: the same for classes of equal size and ``shrinkage`` near 0. The published
    ensemble of several such models is left out.

    References
    ----------
    S. Momeni, S. Mazumder, B. Liu: Continual Learning Using a Kernel-Based Method Over
    Foundation Models. AAAI 2025.
    """

    kind = "klda"
    _of_pipeline = "n_projections, gamma, seed, features, normalize or input_range"

    def __init__(
        self,
        n_projections: int = 2000,
        gamma: float = 1.0,
        shrinkage: float = 0.01,
        seed: int = 0,
        normalize: str = "sample",
        input_range: tuple[float, float] | None = None,
        features: FeatureMap | None = None,
        device: str = "auto",
    ) -> None:
        super().__init__(normalize, input_range, features, device)
        self.n_projections = n_projections
        self.gamma = gamma
        self.shrinkage = shrinkage
        self.seed = seed

    def own_settings(self) -> dict[str, Any]:
        """The parameters of the method itself, by name, checked."""
        return {
            "n_projections": whole_number("n_projections", self.n_projections, least=1),
            "gamma": checked_number("gamma", self.gamma, above=0),
            "shrinkage": checked_number("shrinkage", self.shrinkage, above=0, most=1),
            "seed": whole_number("seed", self.seed, least=0, most=2**32 - 1),
        }

    def own_map(self, n_values: int) -> Fourier:
        """The Fourier features of vectors of so many values."""
        settings = self.own_settings()
        bandwidth = 1 / math.sqrt(2 * settings["gamma"])
        return _fourier(settings["seed"], n_values, settings["n_projections"], bandwidth)

    def _solve(
        self, moments: ClassMoments, device: str, **settings: Any
    ) -> readouts.LinearDiscriminant:
        return linear_discriminant(moments, device, settings["shrinkage"])


@lru_cache(maxsize=2)  # of a model, and the same of one value, by which it is asked about
def _fourier(seed: int, n_values: int, width: int, bandwidth: float) -> Fourier:
    """A map whose frequencies, which take a while to draw, are drawn once for one model."""
    return Fourier(seed, (n_values,), width, bandwidth=bandwidth)


class FeCAM(ClosedForm):
    """Feature covariance-aware metric: each class has its own correlations.

    Of each class the covariance C_j is shrunk, C + α v I + α c (1 1ᵀ − I), where v is
    the mean of its diagonal and c that of all else, then shrunk so once more, and scaled to a
    unit diagonal, which gives R_j. The score of class j for a feature vector z is

        −½ (z − μ_j)ᵀ R_j⁻¹ (z − μ_j),

    without the logarithm of a determinant. Probabilities are the softmax of the scores.

    Parameters
    ----------
    alpha : float, default=1.0
        α, above 0. The published method has α₁ on the diagonal and α₂ off it, and takes (1, 1)
        or (10, 10).
    tukey : bool, default=False
        Whether the square root of each feature is taken first, Tukey's power transformation
        with λ = 0.5. It asks for features that are not negative.
    normalize, input_range, features, device
        As for `ReduNetClassifier`.

    References
    ----------
    D. Goswami, Y. Liu, B. Twardowski, J. van de Weijer: FeCAM: Exploiting the
    Heterogeneity of Class Distributions in Exemplar-Free Continual Learning.
    NeurIPS 2023.
    """

    kind = "fecam"
    exported = "the mean and the shrunk correlations of each class"
    revealed = "mean and correlations"
    _of_pipeline = "tukey, features, normalize or input_range"

    def __init__(
        self,
        alpha: float = 1.0,
        tukey: bool = False,
        normalize: str = "sample",
        input_range: tuple[float, float] | None = None,
        features: FeatureMap | None = None,
        device: str = "auto",
    ) -> None:
        super().__init__(normalize, input_range, features, device)
        self.alpha = alpha
        self.tukey = tukey

    def own_settings(self) -> dict[str, Any]:
        """The parameters of the method itself, by name, checked."""
        return {
            "alpha": checked_number("alpha", self.alpha, above=0),
            "tukey": flag("tukey", self.tukey),
        }

    def own_map(self, n_values: int) -> FeatureMap | None:
        """Square roots, where they are asked for."""
        return SquareRoot(n_values) if self.own_settings()["tukey"] else None

    def _solve(self, moments: ClassMoments, device: str, **settings: Any) -> QuadraticScores:
        means, S = in_float64(moments, device)
        factors = means.new_empty(*means.shape, means.shape[1])
        covariances = zip(factors, scatters(S, means, moments.counts), moments.counts, strict=True)
        for factor, scatter, n in covariances:
            R = doubly_shrunk_correlations(scatter.div_(n), settings["alpha"])
            factor.copy_(cholesky(R, "raise alpha"))
        return QuadraticScores(means, factors, torch.zeros_like(means[:, 0]))


def doubly_shrunk_correlations(C: Tensor, alpha: float) -> Tensor:
    """FeCAM's R_j of a covariance of shape (d, d), in float64, which is changed."""
    d = len(C)
    for _ in range(2):
        v = mean_variance(C)
        # Between −v / (d − 1) and v, so nothing that is added has a negative eigenvalue.
        c = (float(C.sum()) / d - v) / max(1, d - 1)
        C.add_(alpha * c)
        # Where nothing varies, v is 0: then the identity is all that is left.
        add_identity(C, max(alpha * v, LEAST_VARIANCE) - alpha * c)
    deviations = C.diagonal().sqrt()
    # Features that are multiples of each other leave no more than this.
    return add_identity(C.div_(torch.outer(deviations, deviations)), LEAST_VARIANCE)


def ridge_without_intercept(
    moments: ClassMoments, device: str, ridge: float, weights: Sequence[float] | None = None
) -> LeastSquares:
    """W = (A + ρ (tr A / d) I)⁻¹ [w_j s_j] with A = Σ_j w_j S_j: a sample of class j counts w_j."""
    A = with_ridge(summed(moments, device, weights), ridge)
    means = class_means(moments, device)
    w = means.new_tensor(weights or [1.0] * len(means)) * means.new_tensor(moments.counts)
    W = torch.cholesky_solve((w[:, None] * means).mT, cholesky(A, "raise ridge"))
    return LeastSquares(W, W.new_zeros(len(means)))


CLOSED_FORMS = CLOSED_FORM | {one.kind: one for one in (SLDA, AIR, FeCAM, RanPAC, KLDA)}
"""All closed-form methods by the name that records have for them, in the order of tables."""
