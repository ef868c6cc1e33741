"""Which samples are of no class that was learnt, as a network tells."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import replace
from typing import Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from redunet.estimators.rejection import Calibration, checked_share
from redunet.estimators.state import Fitted
from redunet.estimators.use import Use


class RejectsUnknown(Fitted):
    """An estimator that can tell how far samples are from all of its classes."""

    def novelty(self, X: ArrayLike) -> NDArray[np.float64]:
        """How far samples are from every class: nats that they add to the code of the nearest one.

        log(1 + d/ε² · xᵀ (I + α_j Σ_j)⁻¹ x), the smallest over the classes, of the features that
        were learnt, before whitening and layers, and a constant beside them: see
        `redunet.core.rejection`. Compare it with `rejection_threshold`.

        Returns
        -------
        ndarray of shape (n,)
        """
        novelty: NDArray[np.float64] = self._use().novelty(X).numpy()
        return novelty

    def rejection_threshold(self, reject: float) -> float:
        """The novelty that a share of the samples of known classes is above.

        After `calibrate_rejection`, that share of the validation samples. Otherwise an estimate
        from the moments alone, see docs/unknown.md: within a factor of two of the share in most
        cases, and no rejection at all where classes have a handful of samples.

        Parameters
        ----------
        reject : float
            Between 0 and 1.

        Returns
        -------
        float
        """
        share = checked_share(reject)
        return self._use().rejection_threshold(share)

    def calibrate_rejection(self, X: ArrayLike) -> Self:
        """Choose thresholds for ``predict(X, reject=...)`` by validation samples.

        At most 1,000 numbers are kept of them, and saved with the model: quantiles of their
        novelty. They are about the model as it is now: whatever is learnt or withdrawn later
        drops them, and thresholds come from the moments again.

        Parameters
        ----------
        X : array-like of shape (n, d)
            Samples of known classes that were not learnt. Labels are not needed.

        Returns
        -------
        self
        """
        use = self._use()
        calibration = Calibration.of(use.settings.eps, use.novelty(X))
        self._state = replace(use.state, calibration=calibration)
        return self

    @abstractmethod
    def _use(self) -> Use:
        """What answers are made with, as the parameters are now."""
