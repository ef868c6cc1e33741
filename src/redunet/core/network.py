"""ReduNet: layers from moments, streamed or kept, and the paper's Algorithm 1.

The network is a pure function of the class moments and the settings. Nothing
else about the samples matters, so it does not matter either in which order,
in which batches or in how many tasks they came.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from redunet.core.construction import AnyLayer, LayerStream, Schedule, SecondMoments
from redunet.core.grid import OnGrid, unit_grid
from redunet.core.moments import ClassMoments, Label
from redunet.core.rate import Coding, Rate, Sigma_of
from redunet.core.span import Span
from redunet.errors import DataError, SettingsError


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
    layers: LayerStream | tuple[AnyLayer, ...]

    def moments(self) -> Iterator[Tensor]:
        """Second moments before the first layer, then after each: Tensors of shape (k, d, d)."""
        if isinstance(self.layers, LayerStream):
            yield from self.layers.moments()
            return
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

    def transform(
        self,
        Z: Tensor,
        sharpness: float,
        batch_bytes: int = 2**25,
        precision: torch.dtype | None = None,
    ) -> Tensor:
        """Features of new samples.

        Parameters
        ----------
        Z : Tensor of shape (n, d)
            Samples on the unit sphere.
        sharpness : float
            λ, the confidence of the estimated memberships.
        batch_bytes : int, default=2**25
            About how much memory one batch may take beyond Z and the result.
        precision : torch.dtype, default=None
            What products are computed in, such as torch.float16 on a GPU; labels
            near a border may change. None means the dtype of the layers.

        Returns
        -------
        Tensor of shape (n, d)
        """
        if precision is not None and precision.itemsize < 4 and Z.device.type == "cpu":
            raise SettingsError(
                f"expected a GPU for products in {str(precision).removeprefix('torch.')}, got the "
                f"CPU: leave precision out, or use torch.float32"
            )
        span = self._span()
        if span is None:
            inside, outside = Z.clone(), Z
        else:
            inside, outside = span.rows(Z)
        for _ in self._move(inside, sharpness, batch_bytes, precision):
            pass
        return inside if span is None else span.put_back(inside, outside)

    def memberships(self, Z: Tensor, sharpness: float, batch_bytes: int = 2**25) -> Tensor:
        """Estimated memberships of new samples at each layer.

        Parameters
        ----------
        Z, sharpness, batch_bytes
            As for `transform`.

        Returns
        -------
        Tensor of shape (layers, n, k)
        """
        span = self._span()
        inside = Z.clone() if span is None else span.rows(Z)[0]
        out = list(self._move(inside, sharpness, batch_bytes))
        return torch.stack(out) if out else Z.new_empty(0, len(Z), len(self.labels))

    def _move(
        self,
        Z: Tensor,
        sharpness: float,
        batch_bytes: int,
        precision: torch.dtype | None = None,
    ) -> Iterator[Tensor]:
        """Move samples, (n, d), where they stand, layer by layer; the memberships at each."""
        space: Tensor | None = None
        for layer in self._passing():
            if space is None:
                row_bytes = layer.sample_space(1).nbytes
                rows = max(1, min(len(Z), batch_bytes // row_bytes))
                space = layer.sample_space(rows)
            yield torch.cat(
                [
                    layer.move_samples_(part, sharpness, space, precision)
                    for part in torch.split(Z, rows)
                ]
            )

    def _passing(self) -> Iterable[AnyLayer]:
        """The layers, each to be used before the next is asked for."""
        return self.layers.passing() if isinstance(self.layers, LayerStream) else self.layers

    def _span(self) -> Span | None:
        return self.layers.span if isinstance(self.layers, LayerStream) else None


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
    span = None
    if Sigma is None:
        span = Span.of(moments, device)
        first = SecondMoments.of(moments, span, dtype, device)
        means = moments.means(dtype, device)
    else:
        first = SecondMoments(tuple(range(len(Sigma))), Sigma)
    if span is not None:
        span = span.to(dtype, device)
        means = None if means is None else span.rows(means)[0]
    coding = Coding(moments.counts, moments.n_features, eps)
    layers = LayerStream(first, coding, schedule, keep, span, means)
    return ReduNet(moments.labels, moments.counts, eps, schedule, layers)


def extend_network(
    network: ReduNet,
    X: Any,
    y: Any,
    *,
    embed: Callable[[Any], Tensor | OnGrid] = unit_grid,
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
    embed : callable, default=unit_grid
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
    counts = tuple(counts[j] for j in order)
    first = SecondMoments(tuple(range(len(order))), Sigma[order])
    coding = Coding(counts, C.shape[-1], network.eps)
    layers = LayerStream(first, coding, network.schedule, keep)
    return ReduNet(tuple(labels[j] for j in order), counts, network.eps, network.schedule, layers)


def first_layer(network: ReduNet) -> AnyLayer:
    """The first layer; an error where there is none."""
    for layer in network.layers:
        return layer
    raise DataError("expected a network of at least one layer, got none: set n_layers above zero")


def moments_after(layer: AnyLayer, counts: Sequence[int], eps: float) -> Tensor:
    """Second moments after a layer, from nothing but the layer: Tensor of shape (k, d, d).

    Those *before* it are read off its compression operators and moved once by
    its own maps.
    """
    coding = Coding(tuple(counts), layer.C.shape[-1], eps)
    return layer.move_moments(Sigma_of(layer.C, coding), counts)
