"""Settings of network, read-out and input, and of where a model runs."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import torch

from redunet.core.construction import Schedule
from redunet.core.layer import Sharpness
from redunet.core.readouts import READOUTS
from redunet.errors import SettingsError
from redunet.validation import Declared, choice, flag, number, one_of, setting, whole

DEFAULT_COMPONENTS = 28

MOST_LAYERS = 10_000
"""Far beyond any use: a file of a few bytes must not ask for days of work."""

MOST_COMPONENTS = 2**20

_UNITS = {"": 1, "B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12}


@dataclass(frozen=True)
class Settings(Declared):
    """The settings of the network and its read-out."""

    n_layers: int = setting(
        50,
        whole(0, MOST_LAYERS),
        """Depth. With the default decay, the steps of 50 layers add up to 97 % of those of
        infinitely many. The paper has 200 layers on MNIST and 50 on CIFAR-10.""",
        "int",
    )
    eps: float = setting(
        0.5, number(1e-100, 1e100), "ε, the precision up to which features are coded.", "float"
    )
    step: float = setting(0.5, number(0.0, 1e12), "η, the step of the first layer.", "float")
    step_decay: float = setting(
        0.933, number(0.0, 1.0), "Layer ℓ has the step ``step * step_decay**ℓ``.", "float"
    )
    step_kind: Literal["absolute", "relative"] = setting(
        "absolute",
        choice("absolute", "relative"),
        """"absolute" takes ``step`` as η, as the paper does. "relative" takes it as τ = ηα. As α
        falls as 1/m, a layer of absolute step hardly moves features once there are many samples;
        one of relative step moves the moments of a class equally far for any number m. On class j
        a layer is I + τ(E/α − P_j), where E/α and P_j = C_j/α_j have eigenvalues in (0, 1]: up to
        τ = 1 it is positive definite, so no direction is lost or reversed. Steps of either kind
        above τ = 2 are taken as 2.""",
        '{"absolute", "relative"}',
    )
    sharpness: float = setting(
        1.0,
        number(0.0, 1e12),
        """λ, the confidence of the estimated class memberships of new samples.""",
        "float",
    )
    sharpness_kind: Literal["absolute", "relative"] = setting(
        "absolute",
        choice("absolute", "relative"),
        """"absolute", the paper's, makes memberships of λk‖C_j z‖. C_j falls as 1/n_j: with ten
        times the samples, ten times the λ gives the same memberships. "relative" makes them of
        λ‖(I − Q_j) z‖, with Q_j = I − C_j/α_j the soft projection onto class j: the same λ means
        the same for any number of samples and of classes. 30 to 300 is usual.""",
        '{"absolute", "relative"}',
        always_saved=False,
    )
    n_components: int | None = setting(
        None,
        whole(1, MOST_COMPONENTS, optional=True),
        """Dimension of each class's subspace in the read-out; None means 28, or one below the
        number of features where that is less. A class of lower numerical rank uses its rank.""",
        "int or None",
    )
    whitening: float | None = setting(
        None,
        number(0.0, 1e6, optional=True),
        """ρ, relative to the mean eigenvalue of the pooled within-class covariance W: feature
        vectors become (W + ρI)^(−½) z before the first layer, so that directions in which all
        classes vary count less. W is computed from the moments. None leaves it out.""",
        "float or None",
        always_saved=False,
    )
    readout: str = setting(
        "subspace",
        lambda name, value: one_of(name, value, tuple(READOUTS)),
        """How the last layer's features become labels. "subspace", the paper's, gives the class
        whose principal subspace is nearest; "coding" the class whose code the sample lengthens
        least, coded up to ``eps``; "discriminant" is linear discriminant analysis with the last
        layer's means and covariance; "regression" is ridge regression to one-hot targets;
        "quadratic" gives each class a covariance of its own, averaged with those of similar
        classes, within the directions of the linear discriminant; "pairwise" compares classes two
        by two, each pair with the covariance of its own samples.""",
        '{"subspace", "coding", "discriminant", "regression", "quadratic", "pairwise"}',
        always_saved=False,
    )
    ridge: float = setting(
        0.01,
        number(0.0, 1e6),
        """Of discriminant, regression, quadratic and pairwise: what is added to the covariance,
        relative to its mean eigenvalue.""",
        "float",
        always_saved=False,
    )
    temperature: float | None = setting(
        None,
        number(0.0, 1e12, optional=True),
        """T of the probabilities, softmax(scores / T). No label depends on it. None finds the T of
        the least log loss on samples that are drawn as the moments predict new ones; `tune` sets
        it from validation data.""",
        "float or None",
        always_saved=False,
    )
    dtype: Literal["float64", "float32"] = setting(
        "float64",
        choice("float64", "float32"),
        "The dtype of the layers. Moments are integers whatever the dtype.",
        '{"float64", "float32"}',
    )
    tol: float | None = setting(
        None,
        number(0.0, 1e6, optional=True),
        """The network ends before ``n_layers`` with the first layer that raises ΔR by less than
        this; None keeps the depth.""",
        "float or None",
        always_saved=False,
    )

    @cached_property
    def schedule(self) -> Schedule:
        """The number of layers and their steps."""
        return Schedule(self.n_layers, self.step, self.step_decay, self.step_kind, self.tol)

    @cached_property
    def torch_dtype(self) -> torch.dtype:
        """The dtype of the layers."""
        return torch.float64 if self.dtype == "float64" else torch.float32

    @cached_property
    def confidence(self) -> Sharpness:
        """The sharpness of memberships."""
        return Sharpness(self.sharpness, self.sharpness_kind)

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


def _range(name: str, value: Any) -> tuple[float, float] | None:
    if value is None:
        return None
    try:
        low, high = (float(bound) for bound in ([] if isinstance(value, str) else value))
    except (TypeError, ValueError, OverflowError):
        low = high = math.nan
    if not (math.isfinite(low) and math.isfinite(high) and low < high):
        raise SettingsError(f"expected {name}=(low, high), two numbers, got {value!r}")
    return low, high


@dataclass(frozen=True)
class InputSettings(Declared):
    """Settings of the scale of samples before they are learnt."""

    normalize: Literal["sample", "class", "constant"] = setting(
        "sample",
        choice("sample", "class", "constant"),
        """"sample" puts each input on the unit sphere, so that its length and sign do not count;
        "constant" appends a constant to it first, four times as long as a sample of standardized
        columns, so that they do; "class" scales only each class as a whole, and needs
        ``input_range``.""",
        '{"sample", "class", "constant"}',
    )
    input_range: tuple[float, float] | None = setting(
        None,
        _range,
        'The range of the input values, with ``normalize="class"``.',
        "(float, float) or None",
    )

    def _check_together(self) -> None:
        super()._check_together()
        if (self.normalize == "class") != (self.input_range is not None):
            raise SettingsError(
                f"expected input_range=(low, high) with normalize='class' and only then, got "
                f"normalize={self.normalize!r} and input_range={self.input_range!r}"
            )


@dataclass(frozen=True)
class RunSettings(Declared):
    """Where a model runs; never saved with it, as no label depends on it."""

    device: str = setting(
        "auto",
        lambda name, value: resolve_device(value),
        '"auto" takes CUDA where it is available. Never saved with a model.',
        "str",
    )
    memory: str | int = setting(
        "2GB",
        lambda name, value: parse_memory(value),
        "Layers that fit are kept; others are built again where they are needed. Never saved.",
        "str or int",
    )
    exact: bool = setting(
        False,
        flag,
        """Whether every sample goes through every layer, also those by which a temperature is
        found. Otherwise coarse networks answer where they can: with the same label,
        and with scores, probabilities and features within 0.001 (scores: of the sample's largest),
        by an estimate of each sample's error that is tested, not proved. Never saved.""",
        "bool",
    )


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
