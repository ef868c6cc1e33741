"""The settings that are tried for a model, in a fixed order: the most promising first."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from redunet.core.moments import ClassMoments
from redunet.core.readouts import ReadoutChoice
from redunet.errors import SettingsError
from redunet.estimators.settings import Settings

OF_READOUT = ("readout", "n_components", "ridge")
"""Settings that leave a network as it is."""

SEARCHED = (
    "n_layers",
    "eps",
    "step",
    "step_decay",
    "step_kind",
    "sharpness",
    "sharpness_kind",
    "whitening",
    *OF_READOUT,
)
"""Settings that can be searched."""

COMPONENTS = (1, 2, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96)
RIDGES = (0.01, 0.1, 0.001, 1.0, 0.0001)

COARSE: tuple[dict[str, Any], ...] = (
    {"n_layers": 0},
    {"n_layers": 1, "eps": 4.0, "step": 0.8, "sharpness": 100.0},
    {"n_layers": 5, "eps": 0.5, "step": 0.5, "sharpness": 200.0},
    {"n_layers": 1, "eps": 1.0, "step": 0.5, "sharpness": 100.0},
    {"n_layers": 1, "eps": 16.0, "step": 0.8, "sharpness": 100.0},
    {"n_layers": 2, "eps": 4.0, "step": 0.5, "sharpness": 100.0},
    {"n_layers": 0, "whitening": 0.1},
    {"n_layers": 1, "eps": 0.25, "step": 0.5, "sharpness": 30.0},
    {"n_layers": 3, "eps": 1.0, "step": 0.3, "sharpness": 100.0},
    {"n_layers": 1, "eps": 1.0, "step": 0.5, "sharpness": 100.0, "whitening": 0.1},
    {"n_layers": 10, "eps": 0.5, "step": 0.2, "sharpness": 300.0},
)
"""Networks of relative steps and sharpness that suit many data, beside the present one."""

MOST_PRODUCTS = 4 * 10**6
"""Read-outs that take more products than this for a sample are left out."""

ROUNDS = 2
"""How often the neighbours of the best network so far are tried."""

_NEIGHBOURS = 8
_FINER = 3


class Candidates:
    """What is tried for a model.

    Parameters
    ----------
    present : Settings
        Which come first.
    moments : ClassMoments
    memory : int
        Bytes; what needs a matrix for each class is left out where two of each do not fit.
    search : mapping from setting to values, default=None
        Instead: the present settings and all combinations of these.

    Attributes
    ----------
    planned : int
        How many candidates there are; neighbours that were tried before are counted too.
    """

    def __init__(
        self,
        present: Settings,
        moments: ClassMoments,
        memory: int,
        search: Mapping[str, Sequence[Any]] | None = None,
    ) -> None:
        self._present, self._k, self._d = present, len(moments), moments.n_features
        self._dense = 16 * len(moments) * self._d**2 <= memory
        self._own = ReadoutChoice(present.readout, present.components(self._d), present.ridge)
        self._grid = search
        every = self._searched(search) if search is not None else self._usual()
        self._networks = [(network, self._distinct(readings)) for network, readings in every]
        self.planned = sum(len(readings) for _, readings in self._networks)
        self._rounds = 0 if search is not None else ROUNDS
        self.planned += self._rounds * _NEIGHBOURS * _FINER

    def networks(
        self, best: Callable[[], Settings]
    ) -> Iterator[tuple[Settings, list[ReadoutChoice]]]:
        """Networks, and the readings to try of each.

        Parameters
        ----------
        best : callable
            The best settings so far.
        """
        yield from self._networks
        for _ in range(self._rounds):
            centre = best()
            for change in self._neighbours(centre):
                network = self._network(centre, change)
                yield network, self._finer(centre)

    def settings(self, network: Settings, reading: ReadoutChoice) -> Settings:
        """A network with a reading, as settings."""
        changes: dict[str, Any] = {"readout": reading.readout}
        if reading.readout == "subspace":
            own = reading.n_components == self._own.n_components
            changes["n_components"] = self._present.n_components if own else reading.n_components
        elif reading.readout != "coding":
            changes["ridge"] = reading.ridge
        return network.changed(changes)

    def network_of(self, settings: Settings) -> tuple[Any, ...]:
        """What distinguishes the networks of settings."""
        return tuple(value for key, value in settings.to_dict().items() if key not in OF_READOUT)

    def _usual(self) -> Iterator[tuple[Settings, list[ReadoutChoice]]]:
        """The present network, then the coarse list, each with all read-outs."""
        readings = [
            *(
                ReadoutChoice(name, 1, ridge)
                for ridge in RIDGES
                for name in ("discriminant", "regression")
            ),
            *(ReadoutChoice("quadratic", 1, ridge) for ridge in (0.03, 0.3)),
            *(ReadoutChoice("subspace", r, 0.0) for r in COMPONENTS if r < self._d),
            ReadoutChoice("coding", 1, 0.0),
        ]
        readings = [one for one in readings if self._products(one) <= MOST_PRODUCTS]
        yield self._present, [self._own, *readings]
        for change in COARSE:
            if self._dense or "whitening" not in change:
                yield (
                    self._network(self._present, {"whitening": None, **_RELATIVE, **change}),
                    readings,
                )

    def _products(self, reading: ReadoutChoice) -> int:
        if reading.readout == "quadratic":
            q = min(self._k, self._d)
            return self._d * q + self._k * q**2
        pairs = (self._k - 1) // 2
        wide = {"subspace": reading.n_components, "coding": self._d, "pairwise": pairs}
        width = wide.get(reading.readout, 1)
        return self._k * self._d * width

    def _searched(
        self, search: Mapping[str, Sequence[Any]]
    ) -> Iterator[tuple[Settings, list[ReadoutChoice]]]:
        """The present settings, then all combinations."""
        check_searched(search)
        yield self._present, [self._own]
        of_network = {key: values for key, values in search.items() if key not in OF_READOUT}
        kinds = search.get("readout", [self._own.readout])
        components = search.get("n_components", [self._own.n_components])
        ridges = search.get("ridge", [self._own.ridge])
        readings = []
        for reading in itertools.product(kinds, components, ridges):
            checked = self._present.changed(dict(zip(OF_READOUT, reading, strict=True)))
            found = checked.components(self._d)
            readings.append(ReadoutChoice(checked.readout, found, checked.ridge))
        for values in itertools.product(*of_network.values()):
            yield self._present.changed(dict(zip(of_network, values, strict=True))), readings

    def _distinct(self, readings: Sequence[ReadoutChoice]) -> list[ReadoutChoice]:
        found = {self.settings(self._present, one): one for one in reversed(readings)}
        return list(reversed(found.values()))

    def _neighbours(self, centre: Settings) -> list[dict[str, Any]]:
        """Changes of the best network so far, the most telling first."""
        layers, whitening = centre.n_layers, centre.whitening
        return [
            {"eps": _rounded(centre.eps * 2)},
            {"eps": _rounded(centre.eps / 2)},
            {"step": _rounded(centre.step * 1.6)},
            {"step": _rounded(centre.step / 1.6)},
            {"n_layers": layers + max(1, layers // 4)},
            {"n_layers": max(0, layers - max(1, layers // 4))},
            {"sharpness": _rounded(centre.sharpness * 2.5)},
            {
                "whitening": (0.1 if whitening is None else _rounded(whitening / 4))
                if self._dense
                else None
            },
        ]

    def _network(self, centre: Settings, change: Mapping[str, Any]) -> Settings:
        network = centre.changed(change)
        if network.n_layers:
            return network
        unused = ("step", "step_decay", "step_kind", "sharpness", "sharpness_kind", "tol")
        same = {name: getattr(self._present, name) for name in unused}
        return network.changed(same)  # so that one network has one name

    def _finer(self, centre: Settings) -> list[ReadoutChoice]:
        """The reading of the best settings so far, and two between those tried before."""
        r = centre.components(self._d)
        return [
            ReadoutChoice(centre.readout, min(max(1, n), self._d - 1 or 1), ridge)
            for n, ridge in (
                (r, centre.ridge),
                (round(r * 0.8), _rounded(centre.ridge / 3)),
                (round(r * 1.25), _rounded(centre.ridge * 3)),
            )
        ]


def _rounded(value: float) -> float:
    """Two significant digits: settings are read by people."""
    return float(f"{value:.2g}")


def check_searched(grid: Mapping[str, Sequence[Any]]) -> None:
    """Raise a SettingsError where settings cannot be searched."""
    for name in grid:
        if name not in SEARCHED:
            raise SettingsError(f"expected settings among {', '.join(SEARCHED)}, got {name!r}")


_RELATIVE = {
    "step_kind": "relative",
    "sharpness_kind": "relative",
    "step_decay": 0.933,
    "tol": None,
}
