"""ReduNet: layers from moments, streamed or kept, and the paper's Algorithm 1.

The network is a pure function of the class moments and the settings. Nothing
else about the samples matters, so it does not matter either in which order,
in which batches or in how many tasks they came.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal, cast

import torch
from torch import Tensor

from redunet.errors import DataError
from redunet.grid import unit_rows
from redunet.layer import Layer
from redunet.moments import ClassMoments, Label
from redunet.rate import Coding, Rate, Sigma_of

MAX_RELATIVE_STEP = 2.0
"""Largest ηα. The paper's settings stay below it; from about 3 on the construction is unstable."""


@dataclass(frozen=True)
class Schedule:
    """How many layers, and the step of each.

    Parameters
    ----------
    n_layers : int
    step : float
        η of the first layer, or τ = ηα where kind is "relative".
    decay : float
        Each layer's step is the one before times this.
    kind : {"absolute", "relative"}
    """

    n_layers: int
    step: float
    decay: float
    kind: Literal["absolute", "relative"] = "absolute"

    def at(self, index: int, alpha: float) -> float:
        """η of one layer, at most ``MAX_RELATIVE_STEP / alpha``."""
        step = self.step * self.decay**index
        relative = step if self.kind == "relative" else step * alpha
        if relative > MAX_RELATIVE_STEP:
            return MAX_RELATIVE_STEP / alpha
        return step / alpha if self.kind == "relative" else step


class LayerStream:
    """Layers made one after another from moments, kept or made anew by each pass.

    Iterating gives the same layers, to the last bit, whether they are kept or
    not; without keeping, only one is in memory at a time.

    Parameters
    ----------
    Sigma : Tensor of shape (k, d, d)
        Second moments before the first layer.
    coding : Coding
    schedule : Schedule
    keep : bool
    means : Tensor of shape (k, d), default=None
        Means of the classes before the first layer, where they are known.
    """

    def __init__(
        self,
        Sigma: Tensor,
        coding: Coding,
        schedule: Schedule,
        keep: bool,
        means: Tensor | None = None,
    ) -> None:
        self.first_moments = Sigma
        self.first_means = means
        self._coding = coding
        self._schedule = schedule
        self._keep = keep
        self._kept: tuple[Layer, ...] | None = None
        self._last: Tensor | None = None
        self._rates: tuple[Rate, ...] = ()
        self._last_means: Tensor | None = None

    def __len__(self) -> int:
        return self._schedule.n_layers

    def __iter__(self) -> Iterator[Layer]:
        if self._kept is not None:
            yield from self._kept
            return
        Sigma = self.first_moments
        means = None if self.first_means is None else self.first_means.clone()
        layers: list[Layer] = []
        rates: list[Rate] = []
        for index in range(len(self)):
            step = self._schedule.at(index, self._coding.alpha)
            layer = Layer.from_moments(Sigma, self._coding, step)
            rates.append(layer.rate)
            if self._keep:
                layers.append(layer)
            yield layer
            Sigma = layer.move_moments(Sigma, self._coding.counts, means)
        self._last, self._last_means = Sigma, means
        self._rates = tuple(rates)
        if self._keep:
            self._kept = tuple(layers)

    @property
    def last_moments(self) -> Tensor:
        """Second moments after the last layer, (k, d, d); makes a pass if none was finished."""
        if self._last is None:
            deque(self, maxlen=0)
        return cast(Tensor, self._last)

    @property
    def rates(self) -> tuple[Rate, ...]:
        """The objective before each layer; makes a pass if none was finished."""
        if len(self._rates) < len(self):
            deque(self, maxlen=0)
        return self._rates

    @property
    def last_means(self) -> Tensor | None:
        """Means of the classes after the last layer, (k, d), where they are known."""
        if self._last is None:
            deque(self, maxlen=0)
        return self._last_means


@dataclass(frozen=True, eq=False)
class ReduNet:
    """A network: what Algorithm 1 starts from and ends with.

    Parameters
    ----------
    labels : tuple of k labels, sorted
    counts : tuple of k int
        Samples of each class.
    eps : float
    schedule : Schedule
    layers : LayerStream or tuple of Layer
        Iterable any number of times.
    """

    labels: tuple[Label, ...]
    counts: tuple[int, ...]
    eps: float
    schedule: Schedule
    layers: LayerStream | tuple[Layer, ...]

    def moments(self) -> Iterator[Tensor]:
        """Second moments before the first layer, then after each: Tensors of shape (k, d, d)."""
        if isinstance(self.layers, LayerStream):
            Sigma = self.layers.first_moments
        else:
            C = first_layer(self).C
            Sigma = Sigma_of(C, Coding(self.counts, C.shape[-1], self.eps))
        yield Sigma
        for layer in self.layers:
            Sigma = layer.move_moments(Sigma, self.counts)
            yield Sigma

    def last_moments(self) -> Tensor:
        """Second moments after the last layer: Tensor of shape (k, d, d)."""
        if isinstance(self.layers, LayerStream):
            return self.layers.last_moments
        return moments_after(self.layers[-1], self.counts, self.eps)

    def rates(self) -> tuple[Rate, ...]:
        """The objective before each layer."""
        if isinstance(self.layers, LayerStream):
            return self.layers.rates
        return tuple(layer.rate for layer in self.layers)

    def last_means(self) -> Tensor:
        """Means of the classes after the last layer, in the scale of `last_moments`: (k, d)."""
        means = self.layers.last_means if isinstance(self.layers, LayerStream) else None
        if means is None:
            raise DataError(
                "expected a network that was built from class moments: layers alone, as "
                "Algorithm 1 has them, do not tell the means of the classes"
            )
        return means

    def transform(self, Z: Tensor, sharpness: float, batch_bytes: int = 2**26) -> Tensor:
        """Features of new samples.

        Parameters
        ----------
        Z : Tensor of shape (n, d)
            Samples on the unit sphere.
        sharpness : float
            λ, the confidence of the estimated memberships.
        batch_bytes : int, default=2**26
            About how much memory one batch may take beyond Z and the result.

        Returns
        -------
        Tensor of shape (n, d)
        """
        rows = self._batch_rows(Z, batch_bytes)
        Z = Z.clone()
        for layer in self.layers:
            for batch in torch.split(Z, rows):
                batch.copy_(layer.move_samples(batch, sharpness))
        return Z

    def memberships(self, Z: Tensor, sharpness: float, batch_bytes: int = 2**26) -> Tensor:
        """Estimated memberships of new samples at each layer.

        Parameters
        ----------
        Z, sharpness, batch_bytes
            As for `transform`.

        Returns
        -------
        Tensor of shape (layers, n, k)
        """
        rows = self._batch_rows(Z, batch_bytes)
        Z = Z.clone()
        out = Z.new_empty(len(self.layers), len(Z), len(self.labels))
        for layer, memberships in zip(self.layers, out, strict=True):
            for batch, row in zip(
                torch.split(Z, rows), torch.split(memberships, rows), strict=True
            ):
                row.copy_(layer.memberships(batch, sharpness))
                batch.copy_(layer.move_samples(batch, sharpness))
        return out

    def _batch_rows(self, Z: Tensor, batch_bytes: int) -> int:
        row_bytes = (len(self.labels) + 3) * Z.shape[1] * Z.element_size()
        return max(1, batch_bytes // row_bytes)


def build_network(
    moments: ClassMoments,
    eps: float,
    schedule: Schedule,
    *,
    dtype: torch.dtype = torch.float64,
    device: str = "cpu",
    keep: bool = True,
    Sigma: Tensor | None = None,
    means: Tensor | None = None,
) -> ReduNet:
    """The network of given class moments.

    Parameters
    ----------
    moments : ClassMoments
    eps : float
        ε, the precision of the coding.
    schedule : Schedule
    dtype : torch.dtype, default=torch.float64
    device : str, default="cpu"
    keep : bool, default=True
        Whether layers stay in memory once made, or each pass makes them anew.
    Sigma : Tensor of shape (k, d, d), default=None
    means : Tensor of shape (k, d), default=None
        Second moments, of trace n_j, and means in place of those of
        ``moments``: after a linear map such as `Whitening`.

    Returns
    -------
    ReduNet

    Examples
    --------
    >>> import torch
    >>> moments = ClassMoments(2).update(torch.tensor([[1.0, 2.0], [2.0, -1.0]]), ["a", "b"])
    >>> network = build_network(moments, eps=0.5, schedule=Schedule(3, 0.1, 0.9))
    >>> [round(layer.rate.delta_R, 3) for layer in network.layers]
    [0.511, 0.511, 0.511]
    """
    if not len(moments):
        raise DataError("expected at least one class, got none: learn some samples first")
    if Sigma is None:
        Sigma, means = moments.Sigma(dtype, device), moments.means(dtype, device)
    return _network(moments.labels, moments.counts, Sigma, eps, schedule, keep, means)


def extend_network(
    network: ReduNet,
    X: Any,
    y: Any,
    *,
    embed: Callable[[Any], Tensor] = unit_rows,
    keep: bool = True,
) -> ReduNet:
    """The paper's Algorithm 1: a network and a new task's data give the network of all classes.

    Nothing of the old tasks is needed but the network itself: the second
    moments of their classes are read back from the first layer's compression
    operators. The result can be extended in turn.

    Parameters
    ----------
    network : ReduNet
        Of at least one layer.
    X : array or Tensor with n rows
        Samples of the new classes only.
    y : sequence of n labels
        None of them known to the network.
    embed : callable, default=unit_rows
        As for `ClassMoments.update`.
    keep : bool, default=True

    Returns
    -------
    ReduNet
    """
    C = first_layer(network).C
    task = ClassMoments(C.shape[-1]).update(X, y, embed, device=str(C.device))
    known = sorted(set(task.labels) & set(network.labels), key=str)
    if known:
        raise DataError(
            f"expected new classes only, but {known[0]!r} is in the network already: "
            f"Algorithm 1 cannot add to an old class, ClassMoments can"
        )
    coding = Coding(network.counts, C.shape[-1], network.eps)
    labels = network.labels + task.labels
    counts = network.counts + task.counts
    Sigma = torch.cat([Sigma_of(C, coding), task.Sigma(C.dtype, str(C.device))])
    order = sorted(range(len(labels)), key=labels.__getitem__)
    return _network(
        tuple(labels[j] for j in order),
        tuple(counts[j] for j in order),
        Sigma[order],
        network.eps,
        network.schedule,
        keep,
    )


def first_layer(network: ReduNet) -> Layer:
    """The first layer; an error where there is none."""
    for layer in network.layers:
        return layer
    raise DataError("expected a network of at least one layer, got none: set n_layers above zero")


def moments_after(layer: Layer, counts: Sequence[int], eps: float) -> Tensor:
    """Second moments after a layer, from nothing but the layer: Tensor of shape (k, d, d).

    Those *before* it are read off its compression operators and moved once by
    its own maps.
    """
    coding = Coding(tuple(counts), layer.C.shape[-1], eps)
    return layer.move_moments(Sigma_of(layer.C, coding), counts)


def _network(
    labels: tuple[Label, ...],
    counts: tuple[int, ...],
    Sigma: Tensor,
    eps: float,
    schedule: Schedule,
    keep: bool,
    means: Tensor | None = None,
) -> ReduNet:
    layers = LayerStream(Sigma, Coding(counts, Sigma.shape[-1], eps), schedule, keep, means)
    return ReduNet(labels, counts, eps, schedule, layers)
