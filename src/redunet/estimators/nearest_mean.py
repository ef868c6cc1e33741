"""Nearest class mean."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from redunet.core.covariance import LEAST_VARIANCE, class_means
from redunet.core.discriminants import LinearScores
from redunet.core.grid import GRID
from redunet.core.moments import ClassMoments
from redunet.estimators.closed_form import ClosedForm


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


def nearest_mean(moments: ClassMoments, device: str = "cpu") -> NearestMeanScores:
    """Scores by the distance to class means; uses the diagonals of second moments alone."""
    means = class_means(moments, device)
    squares = sum(int(moments[label].diagonal.sum()) for label in moments)
    n = means.new_tensor(moments.counts)
    within = squares / GRID**2 - float(n @ means.square().sum(dim=1))
    variance = max(within / (float(n.sum()) * means.shape[1]), LEAST_VARIANCE)
    return NearestMeanScores(means.mT, -0.5 * means.square().sum(dim=1), means.new_tensor(variance))


class NearestMean(ClosedForm):
    """The class whose mean is nearest.

    Exactly incremental: learning classes or samples one after another, in any
    order and batch size, gives the model that learnt all of them at once, and
    `forget`, `unlearn` and `merge` are exact too, to the last bit.

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
        return nearest_mean(moments, device)
