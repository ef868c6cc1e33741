"""Read-outs of a network whose classes are spread over processes.

Subspaces and coding lengths are one thing a class: each process scores its own classes, and the
scores of a sample are put together, n × k numbers in all. Discriminants and the regression need
sums of second moments of several processes and all means, and are then the same in every process.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from redunet.core.network import ReduNet
from redunet.core.ranks import Ranks
from redunet.core.readouts import CodingLength, NearestSubspace, Readout, read_out
from redunet.core.subspaces import principal_subspaces
from redunet.errors import SettingsError

_BY_CLASS = ("subspace", "coding")
_BY_SUMS = ("discriminant", "regression", "quadratic", "pairwise")


@dataclass(frozen=True, eq=False)
class SharedScores:
    """Scores of all classes, each by the process that has the class.

    Parameters
    ----------
    own : Readout
        Of the classes that are in this process.
    places : list of int
        Their places, in the order of all labels.
    k : int
        Classes of all processes.
    ranks : Ranks
    """

    own: Readout
    places: list[int]
    k: int
    ranks: Ranks

    def scores(self, Z: Tensor) -> Tensor:
        """Scores, (n, k), float64, of samples, (n, d), that are the same in all processes."""
        scores = Z.new_zeros(len(Z), self.k, dtype=torch.float64)
        scores[:, self.places] = self.own.scores(Z)
        return self.ranks.sum_(scores)


def shared_read_out(network: ReduNet, name: str, n_components: int, ridge: float) -> Readout:
    """`redunet.core.readouts.read_out` of a network of several processes.

    Those that are registered under names of their own are an error: they may ask the network
    for all classes, and find those of one process.
    """
    last, k = network.layers.last, len(network.labels)
    if name in _BY_SUMS:
        return read_out(network, name, n_components, ridge)
    if name not in _BY_CLASS:
        raise SettingsError(
            f"expected a read-out among {', '.join(_BY_CLASS + _BY_SUMS)} for a model whose "
            f"classes are spread over processes, got {name!r}: use one process"
        )
    places = last.places
    if name == "subspace":
        row = {j: row for row, j in enumerate(places)}
        U = last.Sigma.new_zeros(last.n_features, len(places), n_components).permute(1, 0, 2)
        for j, _, basis, _ in principal_subspaces(last, n_components):
            U[row[j], :, : basis.shape[1]] = basis
        return SharedScores(NearestSubspace(U), places, k, last.ranks)
    counts = [network.counts[j] for j in places]
    own = CodingLength.from_moments(last.full(), counts, network.eps)
    # Classes are named among all of them, not among those of this process.
    own = replace(own, growth=own.growth + math.log(sum(network.counts) / sum(counts)))
    return SharedScores(own, places, k, last.ranks)
