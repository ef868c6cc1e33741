"""Layers in a row, and those that are given without the moments they were made of."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import overload

from torch import Tensor

from redunet.core.class_samples import class_samples
from redunet.core.layer import AbstractLayer
from redunet.core.rate import Coding, Rate, Sigma_of
from redunet.core.reduced_space import ReducedSpace
from redunet.core.second_moments import SecondMoments
from redunet.errors import DataError


class LayerSequence(Sequence[AbstractLayer]):
    """The layers of a network, in order, and what follows from all of them."""

    space: ReducedSpace | None = None
    """What the layers of `iter_reusing_memory` are built within."""

    @abstractmethod
    def iter_reusing_memory(self) -> Iterator[AbstractLayer]:
        """The layers within the reduced space, each valid only until the next is asked for.

        Layers that are not kept are all made in the same memory, which is faster;
        iterate over the sequence itself to hold on to a layer.
        """

    @abstractmethod
    def moments(self) -> Iterator[Tensor]:
        """Second moments before the first layer, then after each: Tensors of shape (k, d, d)."""

    @property
    @abstractmethod
    def first(self) -> SecondMoments:
        """Second moments before the first layer."""

    @property
    @abstractmethod
    def last(self) -> SecondMoments:
        """Second moments after the last layer."""

    @property
    @abstractmethod
    def last_means(self) -> Tensor:
        """Means of the classes after the last layer: Tensor of shape (k, d)."""

    @property
    @abstractmethod
    def rates(self) -> tuple[Rate, ...]:
        """The objective before each layer."""

    counts: tuple[int, ...]
    """Samples of each class."""

    first_means: Tensor | None = None
    """Means of the classes before the first layer, (k, s), within the reduced space."""

    low_rank: bool = False
    """Whether layers have classes in factors, and samples pass in float64."""

    layer_numbers: int = 0
    """The numbers that one layer is made of; 0 where this is not known."""

    n_bytes: int = 0
    """The memory that keeping all layers would take beyond what is kept already."""

    def class_samples(self, n: int) -> tuple[Tensor, Tensor]:
        """About n samples as the moments predict them; see `redunet.core.class_samples`."""
        if self.first_means is None:
            raise no_means()
        return class_samples(self.first, self.first_means, self.counts, n)

    def keeping(self) -> LayerSequence:
        """These layers, to be kept."""
        return self

    @property
    @abstractmethod
    def steps(self) -> tuple[float, ...]:
        """τ = ηα of each layer."""

    @overload
    def __getitem__(self, index: int) -> AbstractLayer: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[AbstractLayer, ...]: ...
    def __getitem__(self, index: int | slice) -> AbstractLayer | tuple[AbstractLayer, ...]:
        if isinstance(index, slice):
            wanted = range(*index.indices(len(self)))
            found = {place: layer for place, layer in enumerate(self) if place in wanted}
            return tuple(found[place] for place in wanted)
        place = index + len(self) if index < 0 else index
        if not 0 <= place < len(self):
            raise IndexError(f"expected a layer below {len(self)}, got {index}")
        return self._layer(place)

    def _layer(self, index: int) -> AbstractLayer:
        return next(islice(self, index, None))


class StoredLayers(LayerSequence):
    """Layers without the moments they were made of, as the paper's Algorithm 1 has them."""

    def __init__(
        self, layers: Sequence[AbstractLayer], counts: tuple[int, ...], eps: float
    ) -> None:
        self._layers, self.counts, self._eps = tuple(layers), counts, eps

    def __len__(self) -> int:
        return len(self._layers)

    def __iter__(self) -> Iterator[AbstractLayer]:
        return iter(self._layers)

    def iter_reusing_memory(self) -> Iterator[AbstractLayer]:
        """The layers."""
        return iter(self._layers)

    def moments(self) -> Iterator[Tensor]:
        """Second moments before the first layer, read off its compression, then after each."""
        Sigma = self.first.Sigma
        yield Sigma
        for layer in self._layers:
            Sigma = layer.move_moments(Sigma, self.counts)
            yield Sigma

    @property
    def first(self) -> SecondMoments:
        """Second moments before the first layer, read off its compression."""
        Sigma = moments_before(self._first(), self.counts, self._eps)
        return SecondMoments.of_matrices(Sigma)

    @property
    def last(self) -> SecondMoments:
        """Second moments after the last layer, from that layer alone."""
        self._first()
        return SecondMoments.of_matrices(moments_after(self._layers[-1], self.counts, self._eps))

    @property
    def last_means(self) -> Tensor:
        """An error: compression operators do not hold the means."""
        raise no_means()

    @property
    def rates(self) -> tuple[Rate, ...]:
        """The objective before each layer."""
        return tuple(layer.rate for layer in self._layers)

    @property
    def steps(self) -> tuple[float, ...]:
        """τ = ηα of each layer."""
        return tuple(layer.step * layer.coding.alpha for layer in self._layers)

    def _first(self) -> AbstractLayer:
        if not self._layers:
            raise no_layers()
        return self._layers[0]


def moments_before(layer: AbstractLayer, counts: Sequence[int], eps: float) -> Tensor:
    """Second moments before a layer, read off its compression: Tensor of shape (k, d, d)."""
    C = layer.C
    return Sigma_of(C, Coding(tuple(counts), C.shape[-1], eps))


def moments_after(layer: AbstractLayer, counts: Sequence[int], eps: float) -> Tensor:
    """Second moments after a layer, from the layer alone: Tensor of shape (k, d, d).

    Those *before* it are read off its compression and moved by the layer itself.
    """
    return layer.move_moments(moments_before(layer, counts, eps), counts)


def no_layers() -> DataError:
    """The error of a network without layers where one is needed."""
    return DataError("expected a network of at least one layer, got none: set n_layers above zero")


def no_means() -> DataError:
    """The error of a network that does not know the means of its classes."""
    return DataError(
        "expected a network that was built from class moments: layers alone, as "
        "Algorithm 1 has them, do not tell the means of the classes"
    )
