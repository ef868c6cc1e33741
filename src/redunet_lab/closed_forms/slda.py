"""Streaming linear discriminant analysis, as in Deep SLDA."""

from __future__ import annotations

from typing import Any

from redunet.core import readouts
from redunet.core.moments import ClassMoments
from redunet.estimators.closed_form import ClosedForm
from redunet.estimators.closed_forms import linear_discriminant
from redunet.features import FeatureMap
from redunet.validation import checked_number


class SLDA(ClosedForm):
    """Streaming linear discriminant analysis: one covariance, a fixed shrinkage, no priors.

    Exactly incremental: learning classes or samples one after another, in any
    order and batch size, gives the model that learnt all of them at once, and
    `forget`, `unlearn` and `merge` are exact too, to the last bit.

    With W the pooled within-class covariance and μ_j the mean of class j, the score of
    class j for a feature vector z is

        μ_jᵀ P z − ½ μ_jᵀ P μ_j − log k,   P = ((1 − ε) W + ε I)⁻¹.

    Probabilities are the softmax of the scores. It is `LinearDiscriminant` with two other
    choices: the covariance is shrunk to I rather than to (tr W / d) I, and classes of many
    samples are not preferred.

    Parameters
    ----------
    shrinkage : float, default=1e-4
        ε, above 0 and at most 1.
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

    Notes
    -----
    The published program updates its estimate of W sample by sample, with weights that depend
    on when a sample of a class comes; the result depends on the order. Here W is the pooled
    covariance itself, which that estimate comes close to.

    References
    ----------
    T. L. Hayes, C. Kanan: Lifelong Machine Learning with Deep Streaming Linear
    Discriminant Analysis. CVPR Workshops 2020.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from redunet_lab.closed_forms import SLDA
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
