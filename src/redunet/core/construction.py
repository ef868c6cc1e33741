"""How layers follow from moments: the schedule of steps, and the layers of all of them."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Literal, cast

import torch
from torch import Tensor

from redunet.core.layer import AbstractLayer, Layer
from redunet.core.layers import LayerSequence, no_means
from redunet.core.low_rank import LowRankLayer, Stack
from redunet.core.passes import Pass
from redunet.core.rate import Coding, Rate
from redunet.core.reduced_space import ReducedSpace
from redunet.core.second_moments import LazySecondMoments, SecondMoments

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
    tol : float, default=None
        The construction ends early with the layer that raises ΔR by less than
        this; None never does.

    Examples
    --------
    The paper's steps η, and steps relative to α:

    >>> paper = Schedule(n_layers=200, step=0.5, decay=0.933)
    >>> [round(paper.at(index, alpha=0.05), 3) for index in range(3)]
    [0.5, 0.467, 0.435]
    >>> relative = Schedule(30, step=0.3, decay=0.9, kind="relative")
    >>> [round(relative.at(index, alpha=0.05), 2) for index in range(3)]
    [6.0, 5.4, 4.86]
    """

    n_layers: int
    step: float
    decay: float
    kind: Literal["absolute", "relative"] = "absolute"
    tol: float | None = None

    def at(self, index: int, alpha: float) -> float:
        """η of one layer, at most ``MAX_RELATIVE_STEP / alpha``."""
        step = self.step * self.decay**index
        relative = step if self.kind == "relative" else step * alpha
        if relative > MAX_RELATIVE_STEP:
            return MAX_RELATIVE_STEP / alpha
        return step / alpha if self.kind == "relative" else step


class LayerStream(LayerSequence):
    """Layers computed one after another from moments, kept or computed again by each pass.

    Iterating gives the same layers, to the last bit, whether they are kept or
    not; without keeping, only one is in memory at a time.
    """

    def __init__(
        self,
        first: SecondMoments | LazySecondMoments,
        coding: Coding,
        schedule: Schedule,
        keep: bool,
        means: Tensor | None = None,
        device: str | None = None,
    ) -> None:
        self.space, self.allocate = first.space, first.allocate
        self.counts, self.first_means = coding.counts, means
        self.low_rank = bool(first.stacks) and first.dtype == torch.float64
        self.layer_numbers = first.layer_numbers
        self.n_bytes = schedule.n_layers * first.layer_numbers * first.dtype.itemsize
        self._first = first
        self._device = torch.device(first.device if device is None else device)
        self._coding = coding
        self._schedule = schedule
        self._keep = keep
        self._kept: tuple[AbstractLayer, ...] | None = None
        self._last: tuple[SecondMoments, Tensor | None] | None = None
        self._rates: tuple[Rate, ...] | None = None

    @property
    def first(self) -> SecondMoments:
        """Second moments before the first layer."""
        return self._first.on(self._device)

    def keeping(self) -> LayerStream:
        """As `LayerSequence.keeping`."""
        about = self._first, self._coding, self._schedule, True
        return LayerStream(*about, self.first_means, str(self._device))

    @property
    def steps(self) -> tuple[float, ...]:
        """τ = ηα of each layer."""
        alpha = self._coding.alpha
        return tuple(self._schedule.at(index, alpha) * alpha for index in range(len(self)))

    def __len__(self) -> int:
        return self._schedule.n_layers if self._schedule.tol is None else len(self.rates)

    def __iter__(self) -> Iterator[AbstractLayer]:
        for layer in self._layers(reuse=False):
            yield layer if self.space is None else in_all_dimensions(layer, self.space)

    def iter_reusing_memory(self) -> Iterator[AbstractLayer]:
        """As `LayerSequence.iter_reusing_memory`."""
        if self._kept is None:
            self._last = None  # the pass leaves it again
        return self._layers(reuse=not self._keep)

    def _layer(self, index: int) -> AbstractLayer:
        if self._keep and self._kept is None:
            self._pass()  # so that the next layer asked for is there already
        return super()._layer(index)

    def _layers(self, reuse: bool) -> Iterator[AbstractLayer]:
        if self._kept is not None:
            yield from self._kept
            return
        if not self._schedule.n_layers:  # nothing moves, and a pass would take memory for layers
            self._last, self._rates = (self.first, self.first_means), ()
            return
        layers = []
        going = Pass(self._first, self._coding, self.first_means, reuse=reuse, device=self._device)
        for layer in self._steps(going):
            if self._keep:
                layers.append(layer)
            yield layer
        self._last = going.now, going.means
        if self._keep:
            self._kept = tuple(layers)

    def _steps(self, going: Pass) -> Iterator[AbstractLayer]:
        """Each layer in turn; the moments move when the next is asked for."""
        tol = self._schedule.tol
        rates: list[Rate] = []
        for index in range(self._schedule.n_layers):
            layer = going.layer(self._schedule.at(index, self._coding.alpha))
            if tol is not None and rates and layer.rate.delta_R - rates[-1].delta_R < tol:
                break
            rates.append(layer.rate)
            yield layer
            going.move()
        self._rates = tuple(rates)

    @property
    def rates(self) -> tuple[Rate, ...]:
        """The objective before each layer; makes a pass if none was finished."""
        if self._rates is None:
            self._pass()
        return cast(tuple[Rate, ...], self._rates)

    def moments(self) -> Iterator[Tensor]:
        """As `LayerSequence.moments`."""
        going = Pass(self._first, self._coding, reuse=True, device=self._device)
        for _ in self._steps(going):
            yield going.now.full()
        yield going.now.full()

    @property
    def last(self) -> SecondMoments:
        """Second moments after the last layer; makes a pass if none was finished."""
        return self._after_last()[0]

    @property
    def last_means(self) -> Tensor:
        """Means of the classes after the last layer, (k, d), where they were known before it."""
        _, means = self._after_last()
        if means is None:
            raise no_means()
        return means if self.space is None else self.space.directions(means.mT).mT

    def _after_last(self) -> tuple[SecondMoments, Tensor | None]:
        """What a finished pass left; makes one if there was none."""
        last = self._last
        while last is None:  # again where another thread has begun a pass meanwhile
            self._pass()
            last = self._last
        return last

    def _pass(self) -> None:
        deque(self.iter_reusing_memory(), maxlen=0)


def in_all_dimensions(layer: AbstractLayer, space: ReducedSpace) -> AbstractLayer:
    """A layer that was built within a reduced space, as it acts in all d dimensions."""
    E = space.lift(layer.E[None])[0]
    if not isinstance(layer, LowRankLayer):
        return Layer(E, space.lift(layer.C), layer.coding, layer.step, layer.rate)
    stacks = tuple(
        Stack(stack.classes, space.directions(stack.rows.mT).mT.view(*stack.B.shape[:2], -1))
        for stack in layer.stacks
    )
    return replace(layer, E=E, compression=space.lift(layer.compression), stacks=stacks)
