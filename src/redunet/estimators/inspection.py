"""A look into a model: settings that cannot work, and how its classes lie in its features."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence

import torch
from torch import Tensor

from redunet.core.second_moments import SecondMoments
from redunet.core.subspaces import Subspaces, principal_subspaces
from redunet.estimators.base import MomentEstimator
from redunet.estimators.classifier import ReduNetClassifier
from redunet.estimators.predictor import REMEDY, StreamingWarning, covering
from redunet.estimators.settings import Settings, parse_memory
from redunet.features import Flatten, Standardize

N_VECTORS = 16
"""Random vectors that classes are compared with."""

LEAST_SIDE = 5
"""Vectors of fewer values than a square of this side are not taken for pictures."""

ALIKE = 1.05
"""Samples this many times as far from another class's subspace as from their own are no nearer."""

MOST_VALUES = 2**22
"""Classes are compared where their second moments have at most so many values together."""


def diagnostics(model: MomentEstimator) -> list[str]:
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
    >>> diagnostics(ReduNetClassifier().fit(X, y))[0]  # doctest: +ELLIPSIS
    'subspaces of 3 dimensions cover nearly all of 4 features, so that classes hardly differ: ...'
    >>> diagnostics(ReduNetClassifier(n_components=1).fit(X[y != 1], y[y != 1]))
    []
    """
    if (
        getattr(model, "readout", None) != "subspace"
        or not hasattr(type(model), "network_")
        or not model.learns_vectors
    ):
        return []
    d, k = model.moments_.n_features, len(model.moments_)
    r = Settings.of(model).components(d)
    if k < 2:
        return []
    found = covering(r, d)
    if k * d**2 <= MOST_VALUES:
        found += _alike(model, r)
    return found


def _alike(model: MomentEstimator, r: int) -> list[str]:
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


def similarity(model: ReduNetClassifier) -> Tensor:
    """Cosines between the second moments of a model's classes, as matrices: shape (k, k).

    Estimated from their products with a few fixed random vectors, so that no two
    matrices are in memory at once: the error is some hundredths.
    """
    moments = model.moments_
    draw = torch.Generator().manual_seed(0)
    few = torch.randn(moments.n_features, N_VECTORS, dtype=torch.float64, generator=draw)
    each = [(Sigma_j.to("cpu", torch.float64) @ few).ravel() for Sigma_j in moments.each_Sigma()]
    sketches = torch.nn.functional.normalize(torch.stack(each))
    return sketches @ sketches.mT


def most_similar(model: ReduNetClassifier, n: int) -> list[int]:
    """The places of n classes, those of the most similar pairs first; all where there are as few.

    Parameters
    ----------
    model : ReduNetClassifier
    n : int
    """
    count = len(model.moments_)
    if count <= n:
        return list(range(count))
    nearest = similarity(model).fill_diagonal_(-1).amax(dim=1)
    return nearest.argsort(descending=True, stable=True)[:n].tolist()


def before_layers(model: ReduNetClassifier, n_values: int, chosen: Sequence[int]) -> Subspaces:
    """The subspaces of some of a model's classes before its first layer.

    Parameters
    ----------
    model : ReduNetClassifier
    n_values : int
        How many eigenvalues to keep of each class, where it has as many.
    chosen : sequence of int
        The places of the classes.
    """
    if not is_whitened(model):
        return as_learnt(model, n_values, chosen)
    return _subspaces(model, next(model.network_.moments())[list(chosen)], n_values)


def after_layers(model: ReduNetClassifier, n_values: int, chosen: Sequence[int]) -> Subspaces:
    """Subspaces of classes after the last layer; makes a pass over all layers if none was made."""
    return _subspaces(model, model.network_.last_moments()[list(chosen)], n_values)


def as_learnt(model: ReduNetClassifier, n_values: int, chosen: Sequence[int]) -> Subspaces:
    """Subspaces of classes in the features that were learnt, before whitening and layers."""
    moments = model.moments_
    labels = [moments.labels[j] for j in chosen]
    return _subspaces(model, moments.select(labels).Sigma(), n_values)


def _subspaces(model: ReduNetClassifier, Sigma: Tensor, n_values: int) -> Subspaces:
    d = model.moments_.n_features
    n_components = model._settings().components(d)
    n_values = min(d, max(n_values, n_components))
    return Subspaces.of(SecondMoments.of_matrices(Sigma), n_components, n_values)


def at_depth(model: ReduNetClassifier, n_layers: int) -> ReduNetClassifier:
    """A model of the same moments and settings with fewer layers: the first ones of the model.

    Parameters
    ----------
    model : ReduNetClassifier
    n_layers : int
        0 leaves the read-out alone.
    """
    params = {**model.get_params(deep=False), "n_layers": n_layers}
    return ReduNetClassifier(**params).remember(model._fitted().total)


def layers_fit(model: ReduNetClassifier) -> bool:
    """Whether all layers fit into the model's ``memory``: if not, each pass makes them again."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", StreamingWarning)
        return model.network_.layers.n_bytes <= parse_memory(model.memory)


def is_whitened(model: ReduNetClassifier) -> bool:
    """Whether a map from moments stands between the features and the first layer.

    What lies behind it are no pixels any more, whatever the features are.
    """
    return getattr(model, "whitening", None) is not None


def picture_shape(model: MomentEstimator) -> tuple[tuple[int, ...] | None, bool]:
    """The shape of a picture whose pixels are a model's features, and whether it is a guess.

    Features are pixels where a feature map says so: `Flatten` or `Standardize` of
    images, (h, w), (h, w, 1) or (h, w, 3). Without a feature map it is a guess: as
    many values as a square of at least 5 × 5 pixels has, no names of columns, and
    no second moment below zero in any class, as values below zero would leave.

    Returns
    -------
    shape : (h, w) or (h, w, 3), or None
    guessed : bool
    """
    features = model.features
    if isinstance(features, Flatten | Standardize):
        shape = tuple(features.input_shape)
        if len(shape) == 3 and shape[2] == 1:
            shape = shape[:2]
        drawable = len(shape) == 2 or (len(shape) == 3 and shape[2] == 3)
        return (shape if drawable else None), False
    d = model.moments_.n_features
    side = math.isqrt(d)
    if features is not None or side < LEAST_SIDE or side * side != d:
        return None, False
    if hasattr(model, "feature_names_in_"):
        return None, False
    moments = model.moments_
    if any(bool((moments[label].second_moment < 0).any()) for label in moments.labels):
        return None, False
    return (side, side), True


def rates_by_layer(model: ReduNetClassifier) -> dict[str, list[float]]:
    """The objective and its two terms before each layer of a model's network."""
    rates = model.network_.rates()
    return {
        "R": [rate.R for rate in rates],
        "R_c": [rate.R_c for rate in rates],
        "delta_R": [rate.delta_R for rate in rates],
    }
