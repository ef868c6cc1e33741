"""FeCAM: Mahalanobis distances by the shrunk correlations of each class."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from redunet.core.covariance import LEAST_VARIANCE, in_float64, mean_variance, scatters
from redunet.core.discriminants import QuadraticScores
from redunet.core.linalg import add_identity, cholesky
from redunet.core.moments import ClassMoments
from redunet.estimators.closed_form import ClosedForm
from redunet.features import FeatureMap, Root
from redunet.validation import checked_number, flag


def doubly_shrunk_correlations(C: Tensor, alpha: float) -> Tensor:
    """C + α v I + α c (1 1ᵀ − I), twice, with v and c the means on and off the diagonal.

    What comes of it is scaled to a unit diagonal. The mean off the diagonal is between
    −v / (d − 1) and v, so nothing that is added has a negative eigenvalue.

    Parameters
    ----------
    C : Tensor of shape (d, d), float64
        A covariance; it is changed.
    alpha : float
    """
    d = len(C)
    for _ in range(2):
        v = mean_variance(C)
        c = (float(C.sum()) / d - v) / max(1, d - 1)
        C.add_(alpha * c)
        # Where nothing varies, v is 0: then the identity is all that is left.
        add_identity(C, max(alpha * v, LEAST_VARIANCE) - alpha * c)
    deviations = C.diagonal().sqrt()
    # Features that are multiples of each other leave no more than this.
    return add_identity(C.div_(torch.outer(deviations, deviations)), LEAST_VARIANCE)


class FeCAM(ClosedForm):
    """Feature covariance-aware metric: each class has its own correlations.

    Exactly incremental: learning classes or samples one after another, in any
    order and batch size, gives the model that learnt all of them at once, and
    `forget`, `unlearn` and `merge` are exact too, to the last bit.

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
        with λ = 0.5. It asks for features that are not negative, such as those after a
        rectifier.
    normalize, input_range, features, device
        As for `ReduNetClassifier`.

    Attributes
    ----------
    classes_ : ndarray of shape (k,)
        The classes seen, sorted.
    moments_ : ClassMoments
        All that is remembered.
    solution_ : redunet.core.discriminants.QuadraticScores
        Means and Cholesky factors, solved from the moments when they are first needed.
    n_features_in_ : int

    See Also
    --------
    redunet.estimators.QuadraticDiscriminant : with ``distance="correlation"``, covariances that
        are shrunk once, to the pooled variance of all classes.

    References
    ----------
    D. Goswami, Y. Liu, B. Twardowski, J. van de Weijer: FeCAM: Exploiting the
    Heterogeneity of Class Distributions in Exemplar-Free Continual Learning.
    NeurIPS 2023.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from redunet_lab.closed_forms import FeCAM
    >>> X, y = load_digits(return_X_y=True)
    >>> model = FeCAM(tukey=True).fit(X[y < 5], y[y < 5]).partial_fit(X[y >= 5], y[y >= 5])
    >>> model.score(X, y) > 0.95
    True
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
        return Root(n_values) if self.own_settings()["tukey"] else None

    def _solve(self, moments: ClassMoments, device: str, **settings: Any) -> QuadraticScores:
        means, S = in_float64(moments, device)
        factors = means.new_empty(*means.shape, means.shape[1])
        covariances = zip(factors, scatters(S, means, moments.counts), moments.counts, strict=True)
        for factor, scatter, n in covariances:
            R = doubly_shrunk_correlations(scatter.div_(n), settings["alpha"])
            factor.copy_(cholesky(R, "raise alpha"))
        return QuadraticScores(means, factors, torch.zeros_like(means[:, 0]))
