"""ReduNet: layers from moments, streamed or kept, and the paper's Algorithm 1.

The network is a pure function of the class moments and the settings, so the
order, the batches and the tasks in which the samples came make no difference.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from redunet.core.construction import LayerStream, Schedule
from redunet.core.grid import unit_grid
from redunet.core.layer import Confidence
from redunet.core.layers import LayerSequence, StoredLayers, moments_before, no_layers
from redunet.core.moments import ClassMoments, Label
from redunet.core.rate import Coding, Rate
from redunet.core.second_moments import LazySecondMoments, SecondMoments
from redunet.errors import DataError

BATCH_BYTES = 2**26
"""About how much memory samples may take while they pass through a layer."""


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
    layers : LayerSequence
        To be indexed, or iterated over any number of times; layers that are not
        kept are computed again by each pass. `AbstractLayer` says what a layer
        offers. A tuple of layers becomes `StoredLayers`.

    Examples
    --------
    >>> from redunet.core.grid import unit_rows
    >>> X = [[2.0, 0.1], [1.0, -0.1], [0.2, 1.0], [-0.1, 2.0]]
    >>> moments = ClassMoments(2).update(torch.tensor(X), ["a", "a", "b", "b"])
    >>> network = build_network(moments, 0.5, Schedule(5, 0.3, 0.9, "relative"))
    >>> network.labels, network.counts, len(network.layers)
    (('a', 'b'), (2, 2), 5)
    >>> Z = network.transform(unit_rows([[3.0, 0.5]]), sharpness=1.0)
    >>> Z.round(decimals=2).tolist()
    [[1.0, 0.03]]
    """

    labels: tuple[Label, ...]
    counts: tuple[int, ...]
    eps: float
    schedule: Schedule
    layers: LayerSequence

    def __post_init__(self) -> None:
        if isinstance(self.layers, tuple):
            layers = StoredLayers(self.layers, self.counts, self.eps)
            object.__setattr__(self, "layers", layers)

    def moments(self) -> Iterator[Tensor]:
        """Second moments before the first layer, then after each: Tensors of shape (k, d, d)."""
        return self.layers.moments()

    def last_moments(self) -> Tensor:
        """Second moments after the last layer: Tensor of shape (k, d, d)."""
        return self.layers.last.full()

    def rates(self) -> tuple[Rate, ...]:
        """The objective before each layer."""
        return self.layers.rates

    def last_means(self) -> Tensor:
        """Means of the classes after the last layer, in the scale of `last_moments`: (k, d)."""
        return self.layers.last_means

    def transform(self, Z: Tensor, sharpness: Confidence, batch_bytes: int = BATCH_BYTES) -> Tensor:
        """Features of new samples.

        Parameters
        ----------
        Z : Tensor of shape (n, d)
            Samples on the unit sphere.
        sharpness : Sharpness or float
            λ, the confidence of the estimated memberships.
        batch_bytes : int, default=2**26
            About how much memory one batch may take beyond Z and the result.

        Returns
        -------
        Tensor of shape (n, d)
        """
        space = self.layers.space
        inside, outside = (Z.clone(), Z) if space is None else space.rows(Z)
        for _ in self._move_(inside, sharpness, batch_bytes):
            pass
        return inside if space is None else space.put_back(inside, outside)

    def memberships(
        self, Z: Tensor, sharpness: Confidence, batch_bytes: int = BATCH_BYTES
    ) -> Tensor:
        """Estimated memberships of new samples at each layer.

        Parameters
        ----------
        Z, sharpness, batch_bytes
            As for `transform`.

        Returns
        -------
        Tensor of shape (layers, n, k)
        """
        space = self.layers.space
        inside = Z.clone() if space is None else space.rows(Z)[0]
        out = list(self._move_(inside, sharpness, batch_bytes))
        return torch.stack(out) if out else Z.new_empty(0, len(Z), len(self.labels))

    def _move_(self, Z: Tensor, sharpness: Confidence, batch_bytes: int) -> Iterator[Tensor]:
        """Move samples, (n, s), in place, layer by layer; the memberships at each."""
        memory: Tensor | None = None
        for layer in self.layers.iter_reusing_memory():
            if memory is None:
                rows = max(1, batch_bytes // max(1, layer.sample_space(1).nbytes))
                parts = torch.split(Z, rows)
                memory = layer.sample_space(min(len(Z), rows))
            yield torch.cat(
                [layer.move_samples_(part, sharpness, memory).memberships for part in parts]
            )


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
    first: SecondMoments | LazySecondMoments | None = None,
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
        Whether layers stay in memory once made, or are computed again by each pass.
    Sigma : Tensor of shape (k, d, d), default=None
    means : Tensor of shape (k, d), default=None
        Second moments, of trace n_j, and means in place of those of
        ``moments``: after a linear map such as `Whitening`.
    first : SecondMoments or LazySecondMoments, default=None
        Those of ``moments``, where they were made before in this dtype and on this device.

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
        first = first or SecondMoments.of(moments, dtype, device)
        means = moments.means(dtype, device)
    else:
        first, device = SecondMoments.of_matrices(Sigma, moments.allocate), str(Sigma.device)
    if means is not None and first.space is not None:
        means = first.space.rows(means)[0]
    coding = Coding(moments.counts, moments.n_features, eps)
    layers = LayerStream(first, coding, schedule, keep, means, device)
    return ReduNet(moments.labels, moments.counts, eps, schedule, layers)


def extend_network(
    network: ReduNet,
    X: Any,
    y: Any,
    *,
    embed: Callable[[Any], Tensor] = unit_grid,
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

    Examples
    --------
    Two classes make a network, a third one extends it, without samples of the first two:

    >>> from sklearn.datasets import load_digits
    >>> from redunet import ClassMoments, NearestSubspace, Schedule, build_network, extend_network
    >>> X, y = load_digits(n_class=3, return_X_y=True)
    >>> old = y < 2
    >>> moments = ClassMoments(64).update(X[old], y[old])
    >>> network = build_network(moments, eps=0.5, schedule=Schedule(20, 0.5, 0.933))
    >>> network = extend_network(network, X[~old], y[~old])
    >>> network.labels
    (0, 1, 2)

    Labels come from a read-out of the features after its last layer; samples are put on the
    unit sphere first, as they were when they were learnt:

    >>> from redunet.core.grid import unit_rows
    >>> readout = NearestSubspace.from_network(network, n_components=12)
    >>> scores = readout.scores(network.transform(unit_rows(X), sharpness=1.0))
    >>> [network.labels[j] for j in scores.argmax(dim=1)][:6]
    [0, 1, 2, 0, 1, 2]
    """
    old = next(iter(network.layers), None)
    if old is None:
        raise no_layers()
    Sigma = moments_before(old, network.counts, network.eps)
    d, device = Sigma.shape[-1], str(Sigma.device)
    task = ClassMoments(d).update(X, y, embed, device=device)
    known = sorted(set(task.labels) & set(network.labels), key=str)
    if known:
        raise DataError(
            f"expected new classes only, but {known[0]!r} is in the network already: "
            f"Algorithm 1 cannot add to an old class, ClassMoments can"
        )
    labels = network.labels + task.labels
    counts = network.counts + task.counts
    Sigma = torch.cat([Sigma, task.Sigma(Sigma.dtype, device)])
    order = sorted(range(len(labels)), key=labels.__getitem__)
    counts = tuple(counts[j] for j in order)
    first = SecondMoments.of_matrices(Sigma[order])
    layers = LayerStream(first, Coding(counts, d, network.eps), network.schedule, keep)
    return ReduNet(tuple(labels[j] for j in order), counts, network.eps, network.schedule, layers)
