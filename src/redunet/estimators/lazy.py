"""What a model builds when it is first needed: whitening, network and read-out."""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import Any

from redunet.core.moments import ClassMoments
from redunet.core.network import ReduNet, build_network
from redunet.core.readouts import Readout, read_out
from redunet.core.whitening import Whitening
from redunet.estimators.settings import Settings


class StreamingWarning(UserWarning):
    """The layers do not fit the memory that was granted, so each use builds them anew."""


class Built:
    """What is built from fixed moments, made lazily and kept while settings stay.

    Parameters
    ----------
    moments : ClassMoments
    """

    def __init__(self, moments: ClassMoments) -> None:
        self._moments = moments
        self._whitening: tuple[Any, Whitening] | None = None
        self._network: tuple[Any, ReduNet] | None = None
        self._readout: tuple[Any, Readout] | None = None

    def whitening(self, settings: Settings, device: str) -> Whitening | None:
        """The whitening, where the settings ask for one."""
        if settings.whitening is None:
            return None
        key = (settings.whitening, device)
        if self._whitening is None or self._whitening[0] != key:
            whitening = Whitening.from_moments(self._moments, settings.whitening, device)
            self._whitening = (key, whitening)
        return self._whitening[1]

    def network(self, settings: Settings, device: str, memory: int) -> ReduNet:
        """The network; its layers are kept where they fit the memory, in bytes."""
        key = (settings.whitening, settings.eps, settings.schedule, settings.dtype, device, memory)
        if self._network is None or self._network[0] != key:
            # First let go of the old one: two may not fit, nor may its read-out outlive it.
            self._network = self._readout = None
            self._network = (key, self._build(settings, device, memory))
        return self._network[1]

    def _build(self, settings: Settings, device: str, memory: int) -> ReduNet:
        whitening = self.whitening(settings, device)
        Sigma = means = None
        if whitening is not None:
            Sigma, means = whitening.moments(self._moments, settings.torch_dtype)
        network = build_network(
            self._moments,
            settings.eps,
            settings.schedule,
            dtype=settings.torch_dtype,
            device=device,
            keep=False,
            Sigma=Sigma,
            means=means,
        )
        layers = network.layers
        if layers.n_bytes <= memory:
            return replace(network, layers=layers.keeping())
        k, d = len(self._moments), self._moments.n_features
        warnings.warn(
            f"{settings.n_layers} layers take {layers.n_bytes / 1e9:.3g} GB, more than memory="
            f"{memory / 1e9:.3g} GB allows, so each predict builds them anew, "
            f"at most {settings.n_layers * (4 * k + 1) * d**3:.0e} operations: "
            f"raise memory to keep them, or predict many samples in one call",
            StreamingWarning,
            stacklevel=3,
        )
        return network

    def readout(self, network: ReduNet, settings: Settings) -> Readout:
        """The read-out of the network's last moments."""
        n_components = settings.components(self._moments.n_features)
        key = (id(network), settings.readout, n_components, settings.ridge)
        if self._readout is None or self._readout[0] != key:
            readout = read_out(network, settings.readout, n_components, settings.ridge)
            self._readout = (key, readout)
        return self._readout[1]
