"""What can be seen inside a model: how its classes lie, before its layers and after them."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from redunet.core.eigenvectors import top_eigenvectors
from redunet.core.readouts import GRID_NOISE
from redunet.estimators.classifier import ReduNetClassifier
from redunet.features import Flatten, Standardize

LEAST_SIDE = 5
"""Vectors of fewer values than a square of this side are not taken for pictures."""


@dataclass(frozen=True, eq=False)
class Subspaces:
    """The principal subspaces of classes at one depth of the network.

    Parameters
    ----------
    spectra : Tensor of shape (k, n)
        The leading eigenvalues of each class's second moment, descending, as
        shares of its trace.
    bases : sequence of k Tensors of shape (d, r_j)
        Orthonormal columns, leading first: as many as the read-out takes, or as
        the class has rank.
    """

    spectra: Tensor
    bases: Sequence[Tensor]

    @classmethod
    def of(cls, Sigma: Tensor, n_components: int, n_values: int) -> Subspaces:
        """Subspaces of second moments.

        Parameters
        ----------
        Sigma : Tensor of shape (k, d, d)
        n_components : int
            Dimension of each subspace; a class of lower numerical rank uses that.
        n_values : int
            How many eigenvalues to keep, at least ``n_components`` and at most d.
        """
        share = Sigma.shape[-1] * max(GRID_NOISE, torch.finfo(Sigma.dtype).eps)
        spectra, bases = [], []
        for Sigma_j in Sigma:
            values, vectors = top_eigenvectors(Sigma_j.cpu(), n_values)
            rank = int((values[:n_components] > share * values[0]).sum())
            trace = Sigma_j.diagonal().sum(dtype=torch.float64).cpu()
            spectra.append((values / trace).clamp(min=0))
            bases.append(vectors[:, :rank])
        return cls(torch.stack(spectra), bases)

    def angles(self, i: int, j: int) -> Tensor:
        """Principal angles between the subspaces of two classes, in degrees, ascending.

        Returns
        -------
        Tensor of shape (min(r_i, r_j),)
        """
        cosines = torch.linalg.svdvals(self.bases[i].mT @ self.bases[j])
        return torch.rad2deg(torch.acos(cosines.clamp(max=1)))

    def closeness(self) -> Tensor:
        """One angle a pair of classes, in degrees: that of the root mean square of all cosines.

        90 where two subspaces are orthogonal, 0 where one lies in the other.

        Returns
        -------
        Tensor of shape (k, k)
        """
        ranks = [basis.shape[1] for basis in self.bases]
        everything = torch.cat(list(self.bases), dim=1)
        rows = []
        for basis in self.bases:
            # The squares of the cosines add up to the squared entries of the product.
            energies = (basis.mT @ everything).square().sum(dim=0)
            squares = torch.stack([part.sum() for part in torch.split(energies, ranks)])
            mean = squares / torch.tensor(ranks).clamp(max=basis.shape[1])
            rows.append(torch.rad2deg(torch.acos(mean.sqrt().clamp(max=1))))
        return torch.stack(rows).fill_diagonal_(0)


def before_and_after(model: ReduNetClassifier, n_values: int) -> Iterator[Subspaces]:
    """The subspaces of a model's classes before its first layer, then after its last.

    Parameters
    ----------
    model : ReduNetClassifier
    n_values : int
        How many eigenvalues to keep of each class, where it has as many.
    """
    d = model.moments_.n_features
    n_components = model._settings().components(d)
    network = model.network_
    n_values = min(d, max(n_values, n_components))
    # A pass for the last moments first: the first ones are there already.
    last = network.last_moments()
    yield Subspaces.of(next(network.moments()), n_components, n_values)
    yield Subspaces.of(last, n_components, n_values)


def as_learnt(model: ReduNetClassifier, n_values: int) -> Subspaces:
    """The subspaces of a model's classes in the features that were learnt, before any map."""
    moments = model.moments_
    n_components = model._settings().components(moments.n_features)
    n_values = min(moments.n_features, max(n_values, n_components))
    return Subspaces.of(moments.Sigma(), n_components, n_values)


def is_whitened(model: ReduNetClassifier) -> bool:
    """Whether a map from moments stands between the features and the first layer.

    What lies behind it are no pixels any more, whatever the features are.
    """
    return getattr(model, "whitening", None) is not None


def picture_shape(model: ReduNetClassifier) -> tuple[tuple[int, ...] | None, bool]:
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
