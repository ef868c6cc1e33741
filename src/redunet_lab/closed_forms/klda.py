"""KLDA: linear discriminant analysis on random Fourier features."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any

from redunet.core import readouts
from redunet.core.moments import ClassMoments
from redunet.estimators.closed_form import ClosedForm
from redunet.estimators.closed_forms import linear_discriminant
from redunet.features import FeatureMap, Fourier
from redunet.validation import checked_number, whole_number


@lru_cache(maxsize=2)  # of a model, and the same of one value, by which it is asked about
def _fourier(seed: int, n_values: int, width: int, bandwidth: float) -> Fourier:
    """A map whose frequencies, which take a while to draw, are drawn once for one model.

    They take ``width * n_values`` numbers, and stay with the models that use them.
    """
    return Fourier(seed, (n_values,), width, bandwidth)


class KLDA(ClosedForm):
    """Kernel linear discriminant analysis, by random Fourier features.

    Exactly incremental: learning classes or samples one after another, in any
    order and batch size, gives the model that learnt all of them at once, and
    `forget`, `unlearn` and `merge` are exact too, to the last bit.

    A sample's vector x, of unit length, becomes z = √(2/D) cos(x Ω + b) with random Ω and
    b that are drawn once (`redunet.features.Fourier`), scaled to unit length; products of
    such vectors come close to the kernel exp(−γ ‖x − y‖²). Scores and probabilities
    are those of `LinearDiscriminant` on z.

    Parameters
    ----------
    n_projections : int, default=2000
        D, the number of features that samples get. 5,000 as published: cost and, with many
        samples, the file grow with the square of it, the solution with its cube.
    gamma : float, default=1.0
        γ, above 0: the published σ. Ω ~ N(0, 2σ) there has the *variance* 2σ, that is the
        deviation √(2σ), as the authors' program draws it.
    shrinkage : float, default=0.01
        ρ, above 0 and at most 1, as for `LinearDiscriminant`.
    seed : int, default=0
        Of Ω and b.
    normalize, input_range, features, device
        As for `ReduNetClassifier`. The Fourier features come after ``features``.

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
    As published, log n_j / m is not part of the score, and the covariance is inverted without
    shrinkage, or with very little: with classes of equal size and ``shrinkage`` near 0 this is
    the same. The published ensemble of several such models is left out.

    References
    ----------
    S. Momeni, S. Mazumder, B. Liu: Continual Learning Using a Kernel-Based Method Over
    Foundation Models. AAAI 2025.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from redunet_lab.closed_forms import KLDA
    >>> X, y = load_digits(return_X_y=True)
    >>> model = KLDA(500).fit(X[::2], y[::2])
    >>> model.score(X[1::2], y[1::2]) > 0.95
    True
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
