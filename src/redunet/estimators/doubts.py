"""Settings that cannot work on what a model has learnt, found out from its moments alone."""

from __future__ import annotations

import torch

from redunet.core.second_moments import SecondMoments
from redunet.core.subspaces import principal_subspaces
from redunet.estimators.base import MomentEstimator
from redunet.estimators.classifier import ReduNetClassifier
from redunet.estimators.predictor import REMEDY, covering
from redunet.estimators.settings import Settings

ALIKE = 1.05
"""Samples this many times as far from another class's subspace as from their own are no nearer."""

MOST_VALUES = 2**22
"""Classes are compared where their second moments have at most so many values together."""


def doubts(model: MomentEstimator) -> list[str]:
    """A line for each reason why a model's settings cannot work; most often none.

    Two reasons are looked for where the class of the nearest subspace is the answer: subspaces
    that cover nearly all features, and two classes with samples of one as near to the subspace
    of the other as to their own.

    Parameters
    ----------
    model : fitted estimator

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> doubts(ReduNetClassifier().fit(X, y))[0]  # doctest: +ELLIPSIS
    'subspaces of 3 dimensions cover nearly all of 4 features, so that classes hardly differ: ...'
    >>> doubts(ReduNetClassifier(n_components=1).fit(X[y != 1], y[y != 1]))
    []
    """
    if not isinstance(model, ReduNetClassifier) or model.readout != "subspace":
        return []
    d, k = model.moments_.n_features, len(model.moments_)
    r = Settings.of(model).components(d)
    if k < 2:
        return []
    found = covering(r, d)
    if k * d**2 <= MOST_VALUES:
        found += _alike(model, r)
    return found


def _alike(model: ReduNetClassifier, r: int) -> list[str]:
    """A line about the two classes that can be told apart least, where they cannot at all."""
    moments = model.moments_
    second = SecondMoments.of(moments, torch.float64, "cpu")
    counts = torch.tensor(moments.counts, dtype=torch.float64)
    residuals = torch.empty(len(moments), len(moments), dtype=torch.float64)
    for j, _, basis, _ in principal_subspaces(second, r):
        inside = second.within(basis).diagonal(dim1=1, dim2=2).sum(dim=1)
        residuals[:, j] = (1 - inside / counts).clamp_(min=0)
    own = residuals.diagonal().clone()
    nearest, place = residuals.fill_diagonal_(torch.inf).min(dim=1)
    least = int((nearest - ALIKE * own).argmin())
    if float(nearest[least]) > ALIKE * float(own[least]):
        return []
    one, other = moments.labels[least], moments.labels[int(place[least])]
    return [
        f"samples of class {one!r} lie as near to the subspace of {other!r} (mean squared distance "
        f"{float(nearest[least]):.2g}) as to their own ({float(own[least]):.2g}), so that the two "
        f"cannot be told apart: change n_components or the features, or {REMEDY}"
    ]
