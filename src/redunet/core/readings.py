"""The labels of one network by several read-outs: the features are computed once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from redunet.core.network import ReduNet
from redunet.core.readouts import NearestSubspace, read_out

_ROWS = 4096
_NUMBERS = 2**25
"""About how many products of samples and directions are held at once."""


class Reading(NamedTuple):
    """A read-out with its settings; what it does not need it ignores.

    Parameters
    ----------
    readout : str
        A key of `redunet.core.readouts.READOUTS`.
    n_components : int
    ridge : float
    """

    readout: str
    n_components: int
    ridge: float


class Readings:
    """Several read-outs of one network.

    Parameters
    ----------
    network : ReduNet
    readings : sequence of Reading
        Subspaces of different dimensions share their eigenvectors and products.
    """

    def __init__(self, network: ReduNet, readings: Sequence[Reading]) -> None:
        nested = [one for one in readings if one.readout == "subspace"]
        self._readings = tuple(readings)
        self._dimensions = sorted({one.n_components for one in nested})
        self._subspaces = None
        if nested:
            self._subspaces = NearestSubspace.from_network(network, self._dimensions[-1])
        self._others = {
            one: read_out(network, *one) for one in dict.fromkeys(readings) if one not in nested
        }

    def labels(self, Z: Tensor) -> list[Tensor]:
        """The class, as an index, of each sample by each reading.

        Parameters
        ----------
        Z : Tensor of shape (n, d)
            After the last layer.

        Returns
        -------
        list of Tensor of shape (n,), int64
            In the order of the readings.
        """
        parts = [self._labels(part) for part in self._parts(Z)]
        return [torch.cat([part[one] for part in parts]) for one in self._readings]

    def _parts(self, Z: Tensor) -> Iterator[Tensor]:
        rows = _ROWS
        if self._subspaces is not None:
            k, _, r = self._subspaces.U.shape
            rows = max(1, min(rows, _NUMBERS // (k * r)))
        return iter(torch.split(Z, rows))

    def _labels(self, Z: Tensor) -> dict[Reading, Tensor]:
        found = {one: readout.scores(Z).argmax(dim=1) for one, readout in self._others.items()}
        if self._subspaces is not None:
            inside = self._subspaces.inside(Z)
            nearest = {r: inside[:, :, r - 1].argmax(dim=1) for r in self._dimensions}
            for one in self._readings:
                if one.readout == "subspace":
                    found[one] = nearest[one.n_components]
        return found
