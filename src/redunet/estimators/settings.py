"""The settings of the network and its read-out, checked in one place."""

from __future__ import annotations

import math
import re
from dataclasses import asdict, dataclass
from numbers import Integral, Real
from typing import Any, Literal

import torch

from redunet.core.construction import Schedule
from redunet.core.readouts import READOUTS
from redunet.errors import SettingsError

DEFAULT_COMPONENTS = 28

MOST_LAYERS = 10_000
"""Far beyond any use: a file of a few bytes must not ask for days of work."""

MOST_COMPONENTS = 2**20

LATER = {"whitening": None, "readout": "subspace", "ridge": 0.01, "tol": None}
"""Settings that came after the first model files, with the values that need not be written."""

_UNITS = {"": 1, "B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12}


@dataclass(frozen=True)
class Settings:
    """Checked settings; the parameters are those of `ReduNetClassifier`."""

    n_layers: int
    eps: float
    step: float
    step_decay: float
    step_kind: Literal["absolute", "relative"]
    sharpness: float
    n_components: int | None
    whitening: float | None
    readout: str
    ridge: float
    dtype: Literal["float64", "float32"]
    tol: float | None

    @classmethod
    def checked(cls, **values: Any) -> Settings:
        """Settings from what a user gave; a SettingsError says what is wrong with them."""
        values = {**LATER, **values}
        if values.keys() != cls.__dataclass_fields__.keys():
            known = ", ".join(cls.__dataclass_fields__)
            raise SettingsError(f"expected the settings {known}, got {', '.join(values)}")
        n_components, whitening = values["n_components"], values["whitening"]
        return cls(
            n_layers=whole_number("n_layers", values["n_layers"], least=0, most=MOST_LAYERS),
            eps=number("eps", values["eps"], above=1e-100, most=1e100),
            step=number("step", values["step"], above=0.0, most=1e12),
            step_decay=number("step_decay", values["step_decay"], above=0.0, most=1.0),
            step_kind=one_of("step_kind", values["step_kind"], ("absolute", "relative")),
            sharpness=number("sharpness", values["sharpness"], above=0.0, most=1e12),
            n_components=None
            if n_components is None
            else whole_number("n_components", n_components, least=1, most=MOST_COMPONENTS),
            whitening=None
            if whitening is None
            else number("whitening", whitening, above=0.0, most=1e6),
            readout=one_of("readout", values["readout"], tuple(READOUTS)),
            ridge=number("ridge", values["ridge"], above=0.0, most=1e6),
            dtype=one_of("dtype", values["dtype"], ("float64", "float32")),
            tol=None
            if values["tol"] is None
            else number("tol", values["tol"], above=0.0, most=1e6),
        )

    @classmethod
    def of(cls, owner: object) -> Settings:
        """Settings from an object's attributes of the same names, checked."""
        return cls.checked(**{name: getattr(owner, name) for name in cls.__dataclass_fields__})

    def to_dict(self) -> dict[str, Any]:
        """Plain values, from which `checked` makes the same settings."""
        return asdict(self)

    def to_state(self) -> dict[str, Any]:
        """The same for a model file: of later settings only those in use, so files stay equal."""
        return {
            name: value
            for name, value in self.to_dict().items()
            if name not in LATER or value != LATER[name]
        }

    @property
    def schedule(self) -> Schedule:
        """The number of layers and their steps."""
        return Schedule(self.n_layers, self.step, self.step_decay, self.step_kind, self.tol)

    @property
    def torch_dtype(self) -> torch.dtype:
        """The dtype of the layers."""
        return torch.float64 if self.dtype == "float64" else torch.float32

    def components(self, d: int) -> int:
        """Dimension of the classes' subspaces in d dimensions.

        Too large a number is an error only where labels come from the subspaces.
        """
        if self.n_components is None or self.readout != "subspace":
            return max(1, min(self.n_components or DEFAULT_COMPONENTS, d - 1))
        if self.n_components >= d:
            raise SettingsError(
                f"expected n_components below n_features = {d}, got {self.n_components}: "
                f"a subspace must leave something out"
            )
        return self.n_components


def parse_memory(value: Any) -> int:
    """Bytes from a number or from words such as "2GB".

    Examples
    --------
    >>> parse_memory("1.5 GB"), parse_memory(4096)
    (1500000000, 4096)
    """
    match = re.fullmatch(r"\s*(\d{1,20}(?:\.\d+)?)\s*([KMGT]?B?)\s*", str(value).upper())
    if isinstance(value, bool) or not match or match[2] not in _UNITS:
        raise SettingsError(f"expected memory such as '2GB' or a number of bytes, got {value!r}")
    return int(float(match[1]) * _UNITS[match[2]])


def resolve_device(device: Any) -> str:
    """The device that "auto" means here, or the one named if PyTorch can use it."""
    if isinstance(device, str) and device == "auto":
        return "cuda" if torch.cuda.is_available() else "cpu"
    try:
        probe = torch.zeros((), device=device)
        probe.item()  # refused by "meta"
        return str(probe.device)
    except (RuntimeError, TypeError, ValueError, AssertionError, ImportError):
        raise SettingsError(
            f"expected a device that PyTorch can use here, got {device!r}: try 'auto' or 'cpu'"
        ) from None


def number(name: str, value: Any, *, above: float, most: float = math.inf) -> float:
    """The value as a float, where it is a finite number above one bound and up to another."""
    if not isinstance(value, bool) and isinstance(value, Real):
        try:
            real = float(value)
        except OverflowError:
            real = math.inf
        if math.isfinite(real) and above < real <= most:
            return real
    limit = f" and at most {most:g}" if math.isfinite(most) else ""
    raise SettingsError(f"expected {name} to be a number above {above:g}{limit}, got {value!r}")


def whole_number(name: str, value: Any, *, least: int, most: int | None = None) -> int:
    """The value as an int, where it is a whole number from ``least`` on, or up to ``most``."""
    if not isinstance(value, bool) and isinstance(value, Integral):
        whole = int(value)
        if whole >= least and (most is None or whole <= most):
            return whole
    limit = "on" if most is None else f"to {most:,}"
    raise SettingsError(f"expected {name} to be a whole number from {least} {limit}, got {value!r}")


def one_of(name: str, value: Any, allowed: tuple[str, ...]) -> Any:
    """The value, where it is one of the words allowed."""
    if isinstance(value, str) and value in allowed:
        return value
    raise SettingsError(f"expected {name} to be one of {', '.join(allowed)}, got {value!r}")
