"""One call's view of a model: its input, network, fusions and read-out, made when needed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from redunet.core.fused_network import Enough, FusedNetwork
from redunet.core.readouts import Readout
from redunet.core.rejection import Residuals
from redunet.core.samples import Values
from redunet.estimators.checks import checked_samples, column_names
from redunet.estimators.coverage import CoverageWarning, covering
from redunet.estimators.inputs import CHUNK_ROWS
from redunet.estimators.lazy import Network
from redunet.estimators.rejection import expected_threshold
from redunet.estimators.settings import Settings
from redunet.estimators.state import State


@dataclass(frozen=True, eq=False)
class Use:
    """One call's view of a model: what was learnt, the settings and where to compute."""

    owner: str
    state: State
    settings: Settings
    device: str
    memory: int
    exact: bool

    def answer(self, X: ArrayLike, asked_of: Callable[[Readout], Values], enough: Enough) -> Tensor:
        """Values of samples, (n, m), from the read-out and the features after the last layer."""
        return torch.cat(
            [self._answer(rows, self.new, asked_of, enough) for rows in self.passes(X)]
        )

    def answer_and_novelty(
        self, X: ArrayLike, asked_of: Callable[[Readout], Values], enough: Enough
    ) -> tuple[Tensor, Tensor]:
        """As `answer`, and the novelty of each sample, (n,), from the same feature vectors."""
        answers, novelty = [], []
        for rows in self.passes(X):
            Z = self.vectors(rows)
            answers.append(self._answer(Z, self.whitened, asked_of, enough))
            novelty.append(self._novelty(Z))
        return torch.cat(answers), torch.cat(novelty)

    def novelty(self, X: ArrayLike) -> Tensor:
        """How far samples are from every class, in nats: (n,)."""
        return torch.cat([self._novelty(self.vectors(rows)) for rows in self.passes(X)])

    def rejection_threshold(self, share: float) -> float:
        """The novelty that a share of the samples of known classes is above."""
        calibration = self.state.calibration
        if calibration is not None:
            return calibration.threshold(share, self.settings.eps)
        drawn = self.built().kept.get("drawn", None, lambda: self.residuals().drawn())
        return expected_threshold(self.residuals(), *drawn, share)

    def _answer(
        self,
        rows: Any,
        new: Callable[[Any], Tensor],
        asked_of: Callable[[Readout], Values],
        enough: Enough,
    ) -> Tensor:
        """Values of one pass of samples, which ``new`` makes what the first layer takes."""
        if not self.exact and (fused := self.fused()).fusions:
            return fused.answer(rows, asked_of(self.readout()), enough, new).cpu()
        Z = new(rows)
        if self.exact:
            Z = self.built().network.transform(Z, self.settings.confidence)
        else:
            Z = fused.features(Z)
        # After the pass for the samples, which leaves what the read-out is made of.
        return asked_of(self.readout()).of_features(Z).cpu()

    def _novelty(self, Z: Tensor) -> Tensor:
        """Novelty from feature vectors, (n, d)."""
        residuals = self.residuals()
        return residuals.added(residuals.nearest(Z)).cpu()

    def passes(self, X: ArrayLike) -> Iterator[NDArray[Any]]:
        """New samples, checked, as many rows at a time as memory allows."""
        rows = checked_samples(X, self.state.pipeline.features, self.owner)
        self.state.check_new(self.owner, rows.shape[1], column_names(X))
        d, bytes_each = self.state.moments.n_features, self.settings.torch_dtype.itemsize
        size = max(CHUNK_ROWS, self.memory // (4 * d * bytes_each))
        return (rows[start : start + size] for start in range(0, len(rows), size))

    def vectors(self, rows: NDArray[Any]) -> Tensor:
        """Feature vectors of new samples on the unit sphere, (n, d)."""
        return self.state.pipeline.new(rows, self.settings.torch_dtype, self.device)

    def new(self, rows: NDArray[Any]) -> Tensor:
        """New samples as the first layer takes them, (n, d)."""
        return self.whitened(self.vectors(rows))

    def whitened(self, Z: Tensor) -> Tensor:
        """Feature vectors, (n, d), as the first layer takes them."""
        whitening = self.built().whitening
        return Z if whitening is None else whitening.samples(Z)

    def residuals(self) -> Residuals:
        """What measures how far samples are from classes, made if it is not there yet."""
        return self.built().residuals(self.settings, self.device, self.memory)

    def built(self) -> Network:
        """The network, built if it is not there yet."""
        return Network.of(self.state, self.settings, self.device, self.memory)

    def fused(self) -> FusedNetwork:
        """The network with its fusions, made if they are not there yet."""
        return self.built().fused(self.settings, self._components, self.memory)

    def readout(self) -> Readout:
        """The read-out, made if it is not there yet."""
        if self.settings.readout == "subspace" and len(self.state.moments) > 1:
            for doubt in covering(self._components, self.state.moments.n_features):
                self.state.warn_once(doubt, CoverageWarning)
        return self.built().readout(self.settings, self._components)

    def temperature(self) -> float:
        """T of the probabilities, found if it is neither set nor there yet."""
        return self.built().temperature(self.settings, self._components, self.memory, self.exact)

    @property
    def _components(self) -> int:
        return self.settings.components(self.state.moments.n_features)
