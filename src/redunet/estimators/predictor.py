"""One call's view of a model: its input, network, cascade and read-out, made when needed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from redunet.core.allocation import in_memory
from redunet.core.calibration import DRAWN, best_temperature
from redunet.core.cascade import Acceptance, Cascade, OutputFunction
from redunet.core.coarse_network import coarse_networks
from redunet.core.construction import LayerStream
from redunet.core.network import ReduNet, build_network
from redunet.core.readouts import Readout, read_out, scores_to_compare
from redunet.core.rejection import Residuals
from redunet.core.second_moments import LazySecondMoments, SecondMoments
from redunet.core.whitening import Whitening
from redunet.estimators.checks import checked_samples, column_names
from redunet.estimators.inputs import CHUNK_ROWS
from redunet.estimators.rejection import expected_threshold
from redunet.estimators.settings import Settings
from redunet.estimators.state import Cache, State

COVERED = 0.7
"""Subspaces of at least this share of all dimensions leave too little out to differ by: those of
scikit-learn's wine, iris and breast cancer do at their defaults, and labels are often wrong."""

REMEDY = "for columns of numbers take the recipe tables, for those of an encoder vectors"


class StreamingWarning(UserWarning):
    """The layers do not fit the memory that was granted, so each use builds them again."""


class CoverageWarning(UserWarning):
    """The subspaces of the read-out cover nearly all features: labels will often be wrong."""


@dataclass(frozen=True, eq=False)
class BuiltModel:
    """The network of a state under given settings, with a place for what is computed from it.

    Parameters
    ----------
    network : ReduNet
    whitening : Whitening, or None
        Before the first layer.
    cache : Cache
        Read-outs and the like, which are dropped with the network.
    """

    network: ReduNet
    whitening: Whitening | None
    cache: Cache = field(default_factory=Cache)


@dataclass(frozen=True, eq=False)
class Predictor:
    """One call's view of a model: what was learnt, the settings and where to compute."""

    owner: str
    state: State
    settings: Settings
    device: str
    memory: int
    exact: bool

    def answer(
        self, X: ArrayLike, asked_of: Callable[[Readout], OutputFunction], accept: Acceptance
    ) -> Tensor:
        """Values of samples, (n, m), from the read-out and the features after the last layer."""
        passes = self.passes(X)
        return torch.cat([self._answer(self.vectors(rows), asked_of, accept) for rows in passes])

    def answer_and_novelty(
        self, X: ArrayLike, asked_of: Callable[[Readout], OutputFunction], accept: Acceptance
    ) -> tuple[Tensor, Tensor]:
        """Values of samples, and the novelty of each, (n,), from the same feature vectors."""
        answers, novelty = [], []
        for rows in self.passes(X):
            Z = self.vectors(rows)
            answers.append(self._answer(Z, asked_of, accept))
            novelty.append(self._novelty(Z))
        return torch.cat(answers), torch.cat(novelty)

    def novelty(self, X: ArrayLike) -> Tensor:
        """Distances of samples from every class, in nats: (n,)."""
        return torch.cat([self._novelty(self.vectors(rows)) for rows in self.passes(X)])

    def memberships(self, X: ArrayLike) -> Tensor:
        """Estimated membership in each class at each layer: (layers, n, k)."""
        network, confidence = self.built().network, self.settings.confidence
        parts = [network.memberships(self.new(rows), confidence).cpu() for rows in self.passes(X)]
        return torch.cat(parts, dim=1)

    def rejection_threshold(self, share: float) -> float:
        """The novelty that a share of the samples of known classes is above."""
        if self.state.calibration is not None:
            return self.state.calibration.threshold(share, self.settings.eps)
        residuals = self.residuals()
        drawn = self.built().cache.get("drawn", None, residuals.drawn)
        return expected_threshold(residuals, *drawn, share)

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

    def built(self) -> BuiltModel:
        """The network, built when first needed; layers are kept where they fit the memory."""
        about = self.settings
        key = (about.whitening, about.eps, about.schedule, about.dtype, self.device, self.memory)
        return self.state.cache.get("network", key, self._build)

    def cascade(self) -> Cascade:
        """The network with the coarse ones that answer for it; makes a pass if none was made."""
        built, confidence = self.built(), self.settings.confidence

        def made() -> Cascade:
            network, most = built.network, 0 if self._too_large() else self.memory // 2
            stages = built.cache.get("stages", None, lambda: coarse_networks(network, most))
            if not stages:
                return Cascade(network, confidence)
            return Cascade.of(network, confidence, stages, scores_to_compare(self.readout()))

        return built.cache.get("cascade", (confidence, *self._about_readout), made)

    def readout(self) -> Readout:
        """The read-out of the network's last moments, made if it is not there yet."""
        built = self.built()
        kind, n_components, ridge = about = self._about_readout

        def made() -> Readout:
            if kind == "subspace" and len(self.state.moments) > 1:
                for reason in covering(n_components, self.state.moments.n_features):
                    self.state.warn_once(reason, CoverageWarning)
            return read_out(built.network, kind, n_components, ridge)

        return built.cache.get("readout", about, made)

    def residuals(self) -> Residuals:
        """Distances of samples from classes, in the features before whitening and layers."""
        built, settings = self.built(), self.settings

        def made() -> Residuals:
            moments = self.state.total
            if built.whitening is None:
                first = built.network.layers.first  # the network's own, and so in memory once
            else:
                first = SecondMoments.of(moments, settings.torch_dtype, self.device)
            means = moments.means(device=self.device)
            return Residuals.of(first, means, moments.counts, settings.eps, self.memory // 2)

        return built.cache.get("residuals", self.memory, made)

    def temperature(self) -> float:
        """T of probabilities softmax(scores / T): the one set, or one that the moments tell."""
        built, confidence = self.built(), self.settings.confidence

        def found() -> float:
            Z, classes = built.network.layers.class_samples(DRAWN)
            by = Cascade(built.network, confidence) if self.exact else self.cascade()
            scores = by.estimate(Z, self.readout().scores)
            return best_temperature(scores, classes)

        if self.settings.temperature is not None:
            return self.settings.temperature
        key = (confidence, *self._about_readout, self.exact)
        return built.cache.get("temperature", key, found)

    def _answer(
        self, Z: Tensor, asked_of: Callable[[Readout], OutputFunction], accept: Acceptance
    ) -> Tensor:
        """Values of feature vectors, (n, d)."""
        Z = self.whitened(Z)
        if self.exact:
            features = self.built().network.transform(Z, self.settings.confidence)
        else:
            cascade = self.cascade()
            if cascade.stages:
                return cascade.answer(Z, asked_of(self.readout()), accept).cpu()
            features = cascade.answer(Z, lambda features: features, accept)
        # After the pass for the samples, which leaves the moments that the read-out is made of.
        return asked_of(self.readout())(features).cpu()

    def _novelty(self, Z: Tensor) -> Tensor:
        """Novelty from feature vectors, (n, d)."""
        residuals = self.residuals()
        return residuals.added(residuals.nearest(Z)).cpu()

    def _build(self) -> BuiltModel:
        state, settings, moments = self.state, self.settings, self.state.total
        whitening = Sigma = means = first = None
        if settings.whitening is None:
            first = self._first()
        else:
            whitening = Whitening.from_moments(moments, settings.whitening, self.device)
            Sigma, means = whitening.moments(moments, settings.torch_dtype)
        network = build_network(
            moments,
            settings.eps,
            settings.schedule,
            dtype=settings.torch_dtype,
            device=self.device,
            keep=False,
            Sigma=Sigma,
            means=means,
            first=first,
        )
        layers = network.layers
        if layers.n_bytes <= self.memory:
            return BuiltModel(replace(network, layers=layers.keeping()), whitening)
        k, d = len(moments), moments.n_features
        state.warn_once(
            f"{settings.n_layers} layers take {layers.n_bytes / 1e9:.3g} GB, more than memory="
            f"{self.memory / 1e9:.3g} GB allows, so they are built again where a sample needs all "
            f"of them, at most {settings.n_layers * (4 * k + 1) * d**3:.0e} operations: "
            f"raise memory to keep them, or predict many samples in one call",
            StreamingWarning,
        )
        return BuiltModel(network, whitening)

    def _first(self) -> SecondMoments | LazySecondMoments:
        """Second moments before the first layer; networks of other settings begin with the same.

        Where the layers do not fit the memory, no copy of the moments is kept for them either; on
        a GPU one is, which takes less time to come there than the integers.
        """
        cache, dtype, device = self.state.cache, self.settings.torch_dtype, self.device
        lazy = cache.get(
            "lazy", (dtype, device), lambda: LazySecondMoments.of(self.state.total, dtype, device)
        )
        n_bytes = self.settings.n_layers * lazy.layer_numbers * dtype.itemsize
        if device == "cpu" and n_bytes > self.memory:
            return lazy
        return cache.get("first", (dtype, device), lazy.kept)

    def _too_large(self) -> bool:
        """Whether the moments are offloaded, and not even one layer fits the memory."""
        layers = self.built().network.layers
        offloaded = isinstance(layers, LayerStream) and layers.allocate != in_memory
        return offloaded and layers.n_bytes > self.settings.n_layers * self.memory

    @property
    def _about_readout(self) -> tuple[str, int, float]:
        settings, d = self.settings, self.state.moments.n_features
        about = settings.readout, settings.n_components
        n_components = self.state.cache.get("components", about, lambda: settings.components(d))
        return settings.readout, n_components, settings.ridge


def covering(r: int, d: int) -> list[str]:
    """A line about subspaces of r dimensions that leave out too little of d features.

    Examples
    --------
    >>> covering(28, 64)
    []
    >>> covering(12, 13)  # doctest: +ELLIPSIS
    ['subspaces of 12 dimensions cover nearly all of 13 features, so that classes hardly differ...
    """
    if r < COVERED * d:
        return []
    return [
        f"subspaces of {r} dimensions cover nearly all of {d} features, so that classes hardly "
        f"differ: lower n_components, or {REMEDY}"
    ]
