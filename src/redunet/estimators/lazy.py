"""What a model builds when it is first needed: whitening, network and read-out."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from redunet.core.allocation import in_memory
from redunet.core.calibration import DRAWN, best_temperature
from redunet.core.construction import LayerStream
from redunet.core.fused_network import FusedNetwork
from redunet.core.fusion_choice import candidates, fuse
from redunet.core.moments import ClassMoments
from redunet.core.network import ReduNet, build_network
from redunet.core.readouts import Readout, read_out, scores_to_compare
from redunet.core.rejection import Residuals
from redunet.core.samples import Values
from redunet.core.second_moments import SecondMoments, UnreadMoments
from redunet.core.whitening import Whitening
from redunet.estimators.settings import Settings
from redunet.estimators.state import Kept, State


class StreamingWarning(UserWarning):
    """The layers do not fit the memory that was granted, so each use builds them again."""


@dataclass(frozen=True, eq=False)
class Network:
    """The network of a state under given settings, with what is computed from it.

    Parameters
    ----------
    network : ReduNet
    whitening : Whitening, or None
        Before the first layer.
    moments : ClassMoments
        That it was built from.
    kept : Kept
        The read-out, which is dropped with the network.
    """

    network: ReduNet
    whitening: Whitening | None
    moments: ClassMoments
    kept: Kept = field(default_factory=Kept)

    @classmethod
    def of(cls, state: State, settings: Settings, device: str, memory: int) -> Network:
        """The network, built when first needed; layers are kept where they fit the memory."""
        about = settings.whitening, settings.eps, settings.schedule, settings.dtype
        key = (*about, device, memory)
        return state.kept.get("network", key, lambda: cls._build(state, settings, device, memory))

    @classmethod
    def _build(cls, state: State, settings: Settings, device: str, memory: int) -> Network:
        moments = state.total
        whitening = Sigma = means = first = None
        if settings.whitening is None:
            first = cls._first(state, settings, device, memory, moments)
        else:
            whitening = Whitening.from_moments(moments, settings.whitening, device)
            Sigma, means = whitening.moments(moments, settings.torch_dtype)
        network = build_network(
            moments,
            settings.eps,
            settings.schedule,
            dtype=settings.torch_dtype,
            device=device,
            keep=False,
            Sigma=Sigma,
            means=means,
            first=first,
        )
        layers = network.layers
        if layers.n_bytes <= memory:
            return cls(replace(network, layers=layers.keeping()), whitening, moments)
        k, d = len(moments), moments.n_features
        state.warn_once(
            f"{settings.n_layers} layers take {layers.n_bytes / 1e9:.3g} GB, more than memory="
            f"{memory / 1e9:.3g} GB allows, so they are built again where a sample needs all of "
            f"them, at most {settings.n_layers * (4 * k + 1) * d**3:.0e} operations: "
            f"raise memory to keep them, or predict many samples in one call",
            StreamingWarning,
        )
        return cls(network, whitening, moments)

    @staticmethod
    def _first(
        state: State,
        settings: Settings,
        device: str,
        memory: int,
        moments: ClassMoments,
    ) -> SecondMoments:
        """Second moments before the first layer; networks of other settings begin with the same.

        Where the layers do not fit the memory, no copy of the moments is kept for them either; on
        a GPU one is, which takes less time to come there than the integers.
        """
        key, dtype = (settings.dtype, device), settings.torch_dtype
        unread = state.kept.get("unread", key, lambda: UnreadMoments.of(moments, dtype, device))
        fits = settings.n_layers * unread.layer_bytes <= memory
        if device == "cpu" and not fits:
            return unread
        return state.kept.get("first", key, lambda: unread.placed())

    def fused(self, settings: Settings, n_components: int, memory: int) -> FusedNetwork:
        """The network with the fusions that answer for it; makes a pass if none was made."""

        def made() -> FusedNetwork:
            network, most = self.network, 0 if self._too_large(settings, memory) else memory // 2
            fusions = self.kept.get(
                "fusions", None, lambda: candidates(network, most) if most else []
            )
            if not fusions:
                return FusedNetwork(network, settings.confidence)
            scores = scores_to_compare(self.readout(settings, n_components))
            return fuse(network, settings.confidence, scores, fusions)

        key = settings.confidence, settings.readout, n_components, settings.ridge
        return self.kept.get("fused", key, made)

    def _too_large(self, settings: Settings, memory: int) -> bool:
        """Whether the moments are offloaded, and not even one layer fits the memory."""
        layers = self.network.layers
        offloaded = isinstance(layers, LayerStream) and layers.allocate != in_memory
        return offloaded and layers.n_bytes > settings.n_layers * memory

    def residuals(self, settings: Settings, device: str, memory: int) -> Residuals:
        """What measures how far samples are from classes, in the features before any map."""

        def made() -> Residuals:
            moments = self.moments
            if self.whitening is None:
                first = self.network.layers.first  # the network's own, and so in memory once
            else:
                first = SecondMoments.of(moments, settings.torch_dtype, device)
            means = moments.means(device=device)
            return Residuals.of(first, means, moments.counts, settings.eps, memory // 2)

        return self.kept.get("residuals", memory, made)

    def readout(self, settings: Settings, n_components: int) -> Readout:
        """The read-out of the network's last moments."""
        return self.kept.get(
            "readout",
            (settings.readout, n_components, settings.ridge),
            lambda: read_out(self.network, settings.readout, n_components, settings.ridge),
        )

    def temperature(self, settings: Settings, n_components: int, memory: int, exact: bool) -> float:
        """T of probabilities softmax(scores / T): the one set, or one that the moments tell."""

        def found() -> float:
            Z, classes = self.network.layers.new_samples(DRAWN)
            plain = FusedNetwork(self.network, settings.confidence)  # without fusions
            by = plain if exact else self.fused(settings, n_components, memory)
            scores = by.estimate(Z, Values(self.readout(settings, n_components).scores))
            return best_temperature(scores, classes)

        if settings.temperature is not None:
            return settings.temperature
        key = settings.confidence, settings.readout, n_components, settings.ridge, exact
        return self.kept.get("temperature", key, found)
