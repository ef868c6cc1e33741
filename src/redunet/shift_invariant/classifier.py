"""ShiftInvariantClassifier: the network of all circular shifts of the samples."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Self, cast

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from redunet.core.calibration import DRAWN, best_temperature, probabilities
from redunet.core.layer import Sharpness
from redunet.errors import SettingsError
from redunet.estimators.closed_form import ClosedForm
from redunet.estimators.protocol import Transforms
from redunet.estimators.settings import InputSettings, Settings, resolve_device
from redunet.estimators.state import Cache, State
from redunet.features import FeatureMap
from redunet.shift_invariant.layout import Layout
from redunet.shift_invariant.moments import ShiftMoments
from redunet.shift_invariant.network import ShiftNetwork, build_shift_network
from redunet.shift_invariant.predictive import new_samples
from redunet.shift_invariant.readouts import SHIFT_READOUTS, ShiftReadout
from redunet.validation import one_of

NETWORK = (
    "n_layers",
    "eps",
    "step",
    "step_decay",
    "step_kind",
    "sharpness",
    "sharpness_kind",
    "n_components",
    "readout",
    "temperature",
    "dtype",
    "tol",
)
"""Settings that it shares with `ReduNetClassifier`."""

_ROWS = 512
"""New samples at a time."""


@dataclass(frozen=True, eq=False)
class ShiftAnswers:
    """Scores and probabilities by a network of shifts and a read-out."""

    network: ShiftNetwork
    readout: ShiftReadout
    sharpness: Sharpness
    moments: ShiftMoments
    temperature: float | None
    cache: Cache

    def scores(self, Z: Tensor) -> Tensor:
        """The score of each class, (n, k), of feature vectors, (n, d); the highest wins."""
        passes = self.network.passes(Z, self.sharpness)
        return torch.cat([self.readout.scores(U) for U, _ in passes])

    def probabilities(self, scores: Tensor) -> Tensor:
        """softmax(scores / T): rows of sum 1, (n, k), from scores, (n, k)."""
        return probabilities(scores, self.cache.get("temperature", None, self._temperature))

    def _temperature(self) -> float:
        if self.temperature is not None:
            return self.temperature
        Z, classes = new_samples(self.moments, DRAWN)
        return best_temperature(self.scores(Z.to(self.network.last.device)).cpu(), classes)


class ShiftInvariantClassifier(Transforms, ClosedForm):
    """The white-box network of all circular shifts of its samples: no shift changes a label.

    A sample is C channels over a grid of n positions. It is learnt with all of its n circular
    shifts, along each axis, as ReduNet has it for signals and images. What is remembered of a
    class are the correlations of its channels, about C² n / 2 exact integers, however many shifts
    there are; E, C_j and the layers are block-circulant, and computed by Fourier transforms, a
    C x C matrix for each frequency. So, up to rounding, this is `ReduNetClassifier` on explicitly
    shifted samples, at a fraction of its cost; and as there, learning in any order and batches,
    `forget`, `unlearn` and `merge` are exact to the last bit.

    With one channel no more than the energy at each frequency is known of a sample, so images are
    to be lifted to channels first, such as by `redunet.features.PatchPlanes`.

    Parameters
    ----------
    positions : tuple of int, default=None
        The lengths of the axes of the grid, such as (28, 28); a feature vector has all positions of
        the first channel, then those of the next. None takes the grid of the feature map, or
        without a map one channel over as many positions as there are features.
    n_layers : int, default=2
    eps : float, default=0.5
    step : float, default=0.5
    step_decay : float, default=0.933
    step_kind : {"absolute", "relative"}, default="relative"
    sharpness : float, default=30.0
    sharpness_kind : {"absolute", "relative"}, default="relative"
        As for `ReduNetClassifier`, where m and n_j count shifts as samples.
    n_components : int, default=None
        Dimension of each class's subspace in the read-out; None means an eighth of the features.
        A wave takes two dimensions, of which one alone would not be shift-invariant.
    readout : {"subspace", "coding"}, default="subspace"
        "subspace" gives the class whose principal subspace is nearest, "coding" the one whose code
        all shifts of the sample lengthen least, coded up to ``eps``.
    temperature : float, default=None
        T of the probabilities, as for `ReduNetClassifier`.
    dtype : {"float64", "float32"}, default="float64"
        Of the layers, in which samples are moved; they are made in float64.
    tol : float, default=None
        As for `ReduNetClassifier`.
    normalize, input_range, features, device
        As for `ReduNetClassifier`; samples are always put on the unit sphere each.

    Attributes
    ----------
    classes_ : ndarray of shape (k,)
        The classes seen, sorted.
    moments_ : ShiftMoments
        All that is remembered.
    network_ : ShiftNetwork
        Built from the moments when it is first needed.
    n_features_in_ : int

    References
    ----------
    K. H. R. Chan, Y. Yu, C. You, H. Qi, J. Wright, Y. Ma: ReduNet: A White-box Deep Network from
    the Principle of Maximizing Rate Reduction. JMLR 2022.

    Examples
    --------
    Two rhythms, learnt at one place each, are known at all others:

    >>> import numpy as np
    >>> from redunet import ShiftInvariantClassifier
    >>> X = np.array([[5, 4, 0, 0, 0, 0, 0, 0], [5, 0, 0, 0, 4, 0, 0, 0]])
    >>> model = ShiftInvariantClassifier(n_components=3).fit(X, ["together", "apart"])
    >>> model.predict(np.roll(X, 3, axis=1)).tolist()
    ['together', 'apart']
    """

    kind = "shift-invariant"
    exported = None
    in_partitions = False
    readouts = tuple(SHIFT_READOUTS)
    _remembers = ShiftMoments
    _of_pipeline = "features, normalize, input_range or positions"

    def __init__(
        self,
        positions: tuple[int, ...] | None = None,
        n_layers: int = 2,
        eps: float = 0.5,
        step: float = 0.5,
        step_decay: float = Settings.step_decay,
        step_kind: str = "relative",
        sharpness: float = 30.0,
        sharpness_kind: str = "relative",
        n_components: int | None = None,
        readout: str = "subspace",
        temperature: float | None = None,
        dtype: str = Settings.dtype,
        tol: float | None = None,
        normalize: str = "sample",
        input_range: tuple[float, float] | None = None,
        features: FeatureMap | None = None,
        device: str = "auto",
    ) -> None:
        super().__init__(normalize, input_range, features, device)
        self.positions = positions
        self.n_layers = n_layers
        self.eps = eps
        self.step = step
        self.step_decay = step_decay
        self.step_kind = step_kind
        self.sharpness = sharpness
        self.sharpness_kind = sharpness_kind
        self.n_components = n_components
        self.readout = readout
        self.temperature = temperature
        self.dtype = dtype
        self.tol = tol

    @classmethod
    def name(cls) -> str:
        """The name that people use."""
        return cls.kind

    @classmethod
    def of_settings(cls, settings: object, features: FeatureMap | None, device: str) -> Self:
        """An estimator with those of all settings of a model that it has."""
        names = (*NETWORK, *InputSettings.names())
        own = {name: getattr(settings, name) for name in names}
        return cls(**own, features=features, device=device)

    def transform(self, X: ArrayLike) -> Any:
        """The network's features, on the unit sphere, shifted as X is: ndarray of shape (n, d)."""
        network, sharpness, passes = self._moving(X)
        found = [network.transform(Z, sharpness).cpu() for Z in passes]
        return self._in_container(torch.cat(found).numpy(), X)

    def memberships(self, X: ArrayLike) -> NDArray[Any]:
        """Estimated membership in each class at each layer: ndarray of shape (layers, n, k)."""
        network, sharpness, passes = self._moving(X)
        found = [network.memberships(Z, sharpness).cpu() for Z in passes]
        memberships: NDArray[Any] = torch.cat(found, dim=1).numpy()
        return memberships

    @property
    def network_(self) -> ShiftNetwork:
        """The network of the moments and settings as they are now."""
        return self._network(self._fitted(), resolve_device(self.device))

    def own_settings(self) -> dict[str, Any]:
        """The parameters of the method itself, by name, checked."""
        one_of("readout", self.readout, tuple(SHIFT_READOUTS))
        positions = self.positions
        if positions is not None:
            try:
                positions = Layout(1, tuple(map(_plain, positions))).positions
            except TypeError:
                raise SettingsError(
                    f"expected positions as lengths such as (28, 28), got {positions!r}"
                ) from None
        checked = self._settings()
        return {
            "positions": None if positions is None else list(positions),
            **{name: getattr(checked, name) for name in NETWORK},
        }

    def _settings(self) -> Settings:
        return Settings(**{name: getattr(self, name) for name in NETWORK})

    def _no_moments(self, n_features: int) -> Any:
        return ShiftMoments(self._layout(n_features))

    def _layout(self, n_features: int) -> Layout:
        """The layout of features on the grid; an error where they do not fill it."""
        given, features = self.own_settings()["positions"], self.features
        if given is None and features is not None:
            shape = features.input_shape
            flat = shape if len(shape) == 2 and n_features == shape[0] * shape[1] else None
            given = getattr(features, "positions", flat)
            if given is None:
                raise SettingsError(
                    f"expected a feature map whose features lie on a grid, such as patch-planes, "
                    f"got {features.kind}: set positions to the shape of one channel, if they do"
                )
        return Layout.of(n_features, (n_features,) if given is None else tuple(given))

    def _full_pipeline(self, n_columns: int) -> Any:
        if self.normalize != "sample":
            raise SettingsError(
                f"expected normalize='sample' for a {type(self).__name__}, as correlations need "
                f"samples of one length, got {self.normalize!r}"
            )
        return super()._full_pipeline(n_columns)

    def _check_pipeline(self, state: State) -> None:
        super()._check_pipeline(state)
        given = self.own_settings()["positions"]
        moments: Any = state.moments
        if given is not None and tuple(given) != moments.layout.positions:
            raise SettingsError(
                f"{self._of_pipeline} changed since the model was fitted: "
                f"set them back, or fit again"
            )

    def _solution(self, state: State, device: str) -> ShiftAnswers:
        total: Any = state.total
        network, settings = self._network(state, device), self._settings()
        d = state.moments.n_features
        n_components, kind = components(settings, d), self.own_settings()["readout"]
        readout = state.cache.get(
            "readout",
            (network, kind, n_components),
            lambda: SHIFT_READOUTS[kind](network, n_components),
        )
        return state.cache.get(
            "solution",
            (readout, settings.confidence, settings.temperature),
            lambda: ShiftAnswers(
                network,
                readout,
                settings.confidence,
                total,
                settings.temperature,
                Cache(),
            ),
        )

    def _network(self, state: State, device: str) -> ShiftNetwork:
        settings, total = self._settings(), cast(Any, state.total)
        key = settings.eps, settings.schedule, settings.dtype, device
        return state.cache.get(
            "network",
            key,
            lambda: build_shift_network(
                total,
                settings.eps,
                settings.schedule,
                dtype=settings.torch_dtype,
                device=device,
            ),
        )

    def _moving(self, X: ArrayLike) -> tuple[ShiftNetwork, Sharpness, Iterator[Tensor]]:
        """The network, and new samples to move, some at a time."""
        state, device = self._fitted(), resolve_device(self.device)
        rows = self._rows_to_predict(state, X)
        passes = (
            state.pipeline.vectors(rows[start : start + _ROWS], device)
            for start in range(0, len(rows), _ROWS)
        )
        return self._network(state, device), self._settings().confidence, passes


def components(settings: Settings, d: int) -> int:
    """Dimension of the classes' subspaces in d dimensions: where not set, an eighth of them."""
    if settings.n_components is None:
        return max(1, d // 8)
    return settings.components(d) if d > 1 else 1


def _plain(size: Any) -> Any:
    return size.item() if isinstance(size, np.generic) else size
