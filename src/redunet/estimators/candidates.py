"""The settings that are tried for a model, in a fixed order: the most promising first."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from redunet.core.moments import ClassMoments
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
"""Read-outs that take more products than this for a sample, some milliseconds, are left out."""

ROUNDS = 2
"""Rounds in which neighbours of the best network so far are tried."""

_NEIGHBOURS = 8
_FINER = 3


class Candidates:
    """Settings to try for a model.

    Parameters
    ----------
    present : Settings
        The first of them.
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
        groups = self._usual() if search is None else self._searched(search)
        self._groups = [[*dict.fromkeys(group)] for group in groups]
        self._rounds = ROUNDS if search is None else 0
        self.planned = sum(map(len, self._groups)) + self._rounds * _NEIGHBOURS * _FINER

    def groups(self, best: Callable[[], Settings]) -> Iterator[list[Settings]]:
        """Candidates that differ in their read-outs alone, a group for each network.

        Parameters
        ----------
        best : callable
            The best settings so far.
        """
        yield from self._groups
        for _ in range(self._rounds):
            centre = best()
            for change in self._neighbours(centre):
                yield self._finer(centre, self._network(centre, change))

    def _usual(self) -> Iterator[list[Settings]]:
        """The present network, then the coarse list, each with all read-outs."""
        choices = [
            *((name, 1, ridge) for ridge in RIDGES for name in ("discriminant", "regression")),
            *(("quadratic", 1, ridge) for ridge in (0.03, 0.3)),
            *(("subspace", r, 0.0) for r in COMPONENTS if r < self._d),
            ("coding", 1, 0.0),
        ]
        choices = [one for one in choices if self._products(*one[:2]) <= MOST_PRODUCTS]
        yield [self._present, *(self._read_out(self._present, *one) for one in choices)]
        for change in COARSE:
            if self._dense or "whitening" not in change:
                network = self._network(self._present, {"whitening": None, **_RELATIVE, **change})
                yield [self._read_out(network, *one) for one in choices]

    def _searched(self, search: Mapping[str, Sequence[Any]]) -> Iterator[list[Settings]]:
        """The present settings, then all combinations."""
        check_searched(search)
        yield [self._present]
        of_network = {key: values for key, values in search.items() if key not in OF_READOUT}
        choices = []
        for values in itertools.product(
            *(search.get(name, [getattr(self._present, name)]) for name in OF_READOUT)
        ):
            checked = self._present.changed(dict(zip(OF_READOUT, values, strict=True)))
            choices.append((checked.readout, checked.components(self._d), checked.ridge))
        for values in itertools.product(*of_network.values()):
            network = self._present.changed(dict(zip(of_network, values, strict=True)))
            yield [self._read_out(network, *one) for one in choices]

    def _read_out(
        self, network: Settings, readout: str, n_components: int, ridge: float
    ) -> Settings:
        """A network with a read-out; settings that it does not need stay as they are."""
        changes: dict[str, Any] = {"readout": readout}
        if readout == "subspace":
            own = n_components == self._present.components(self._d)
            changes["n_components"] = self._present.n_components if own else n_components
        elif readout != "coding":
            changes["ridge"] = ridge
        return network.changed(changes)

    def _products(self, readout: str, n_components: int) -> int:
        if readout == "quadratic":
            q = min(self._k, self._d)
            return self._d * q + self._k * q**2
        width = {"subspace": n_components, "coding": self._d}.get(readout, 1)
        return self._k * self._d * width

    def _neighbours(self, centre: Settings) -> list[dict[str, Any]]:
        """Changes of the best network so far, the most telling first."""
        layers, whitening = centre.n_layers, centre.whitening
        finer = 0.1 if whitening is None else _rounded(whitening / 4)
        return [
            {"eps": _rounded(centre.eps * 2)},
            {"eps": _rounded(centre.eps / 2)},
            {"step": _rounded(centre.step * 1.6)},
            {"step": _rounded(centre.step / 1.6)},
            {"n_layers": layers + max(1, layers // 4)},
            {"n_layers": max(0, layers - max(1, layers // 4))},
            {"sharpness": _rounded(centre.sharpness * 2.5)},
            {"whitening": finer if self._dense else None},
        ]

    def _network(self, centre: Settings, change: Mapping[str, Any]) -> Settings:
        network = centre.changed(change)
        if network.n_layers:
            return network
        unused = ("step", "step_decay", "step_kind", "sharpness", "sharpness_kind", "tol")
        same = {name: getattr(self._present, name) for name in unused}
        return network.changed(same)  # so that one network has one name

    def _finer(self, centre: Settings, network: Settings) -> list[Settings]:
        """A network by the read-out of the best settings so far, and two beside that one."""
        r, ridge = centre.components(self._d), centre.ridge
        beside = ((round(r * 0.8), _rounded(ridge / 3)), (round(r * 1.25), _rounded(ridge * 3)))
        return [
            self._read_out(network, centre.readout, min(max(1, n), self._d - 1 or 1), one)
            for n, one in ((r, ridge), *beside)
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
