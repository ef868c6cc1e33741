"""RanPAC: ridge regression on random projections, rectified."""

from __future__ import annotations

from typing import Any

from redunet.core.moments import ClassMoments
from redunet.core.readouts import LeastSquares
from redunet.estimators.closed_form import ClosedForm
from redunet.features import FeatureMap, RandomReLU
from redunet.validation import checked_number, whole_number
from redunet_lab.closed_forms.regression import ridge_without_intercept


class RanPAC(ClosedForm):
    """Random projections, rectified, then ridge regression to one-hot targets.

    Exactly incremental: learning classes or samples one after another, in any
    order and batch size, gives the model that learnt all of them at once, and
    `forget`, `unlearn` and `merge` are exact too, to the last bit.

    A sample's vector x, of unit length, becomes z = max(x W, 0), of unit length too,
    with Gaussian weights W that are drawn once (`redunet.features.RandomReLU`). With
    S_j = Σ z zᵀ and s_j = Σ z over the samples of class j, its score is w_jᵀ z, where

        [w_1, …, w_k] = (G + ρ (tr G / M) I)⁻¹ [s_1, …, s_k],   G = Σ_j S_j.

    There is no intercept. Probabilities are the scores with those below 0 set to 0, rescaled.

    Parameters
    ----------
    n_projections : int, default=2000
        M, the number of features that samples get. 10,000 as published: cost and, with many
        samples, the file grow with the square of it, the solution with its cube.
    ridge : float, default=0.01
        ρ, above 0. The published λ is ρ tr G / M; it is to be chosen from validation data, by
        `redunet tune --method ranpac` for example.
    seed : int, default=0
        Of the projections.
    normalize, input_range, features, device
        As for `ReduNetClassifier`. The projections come after ``features``.

    Attributes
    ----------
    classes_ : ndarray of shape (k,)
        The classes seen, sorted.
    moments_ : ClassMoments
        All that is remembered.
    solution_ : redunet.LeastSquares
        Weights, solved from the moments when they are first needed.
    n_features_in_ : int

    Notes
    -----
    The published method adds fine-tuning of the encoder in the first task; the encoder is left
    alone here. It takes vectors and projections as long as they are; both have unit length here,
    which bounds what a sample can do, and puts sums on a grid where they are exact.

    References
    ----------
    M. D. McDonnell, D. Gong, A. Parvaneh, E. Abbasnejad, A. van den Hengel: RanPAC: Random
    Projections and Pre-trained Models for Continual Learning. NeurIPS 2023.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from redunet_lab.closed_forms import RanPAC
    >>> X, y = load_digits(return_X_y=True)
    >>> model = RanPAC(500).fit(X[y < 5], y[y < 5]).partial_fit(X[y >= 5], y[y >= 5])
    >>> model.moments_ == RanPAC(500).fit(X, y).moments_
    True
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
