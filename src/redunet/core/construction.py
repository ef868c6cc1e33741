"""Layers from moments: the schedule of steps, and a layer for each of them."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Literal, cast

import torch
from torch import Tensor

from redunet.core.allocation import copied, on_device
from redunet.core.cuda_graph import Replayed
from redunet.core.layer import AbstractLayer, Layer, Workspace, move_moments_
from redunet.core.layers import LayerSequence, no_means
from redunet.core.low_rank import LowRankLayer, Stack
from redunet.core.rate import Coding, Rate, operators_, volumes
from redunet.core.reduced_space import ReducedSpace
from redunet.core.second_moments import LazySecondMoments, SecondMoments, waiting_place

MAX_RELATIVE_STEP = 2.0
"""Largest ηα. The paper's settings stay below it; from about 3 on the construction is unstable."""


@dataclass(frozen=True)
class Schedule:
    """Number of layers, and the step of each.

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


REPLAYED = 2**28
"""On a GPU, the work on layers of up to so many bytes takes longer to start than to do."""


class Pass:
    """Moments on their way through the layers."""

    def __init__(
        self,
        first: SecondMoments | LazySecondMoments,
        coding: Coding,
        means: Tensor | None = None,
        *,
        reuse: bool,
        device: torch.device | None = None,
    ) -> None:
        self.means = None if means is None else means.clone()
        here = first.on(torch.device(first.device) if device is None else device)
        same = here is first
        self.now = replace(here, Sigma=copied(here.Sigma, here.allocate)) if same else here
        self._coding = coding
        # Constants are sent to a GPU once: each time it would wait.
        new, dense = here.Sigma.new_tensor, list(here.dense)
        self._gamma = new(coding.gamma)
        self._gamma_dense, self._counts_dense = self._gamma[dense], new(coding.counts)[dense]
        alphas = (coding.alpha, *(coding.alphas[j] for j in dense))
        self._alphas = torch.tensor(alphas, dtype=torch.float64)
        self._shifts = new([1 / alpha for alpha in alphas])
        self._workspace = Workspace.like(here.Sigma)
        self._operators = self._new_operators() if reuse else None
        self._replay = self._replayed() if here.Sigma.is_cuda else None
        # Two places for factors, in turns: a layer refers to those it was made of. A network of one
        # layer never needs the second.
        self._spare: list[list[Tensor]] = [[], []]
        self._reuse = reuse

    def _new_operators(self) -> Tensor:
        """Memory for E and the C_j of classes that have a matrix."""
        Sigma = self.now.Sigma
        shape = (len(Sigma) + 1, *Sigma.shape[1:])
        return on_device(self.now.allocate, shape, Sigma.dtype, Sigma.device)

    def _replayed(self) -> _Replay | None:
        """The work on the matrices, where all classes have one and starting it takes longest."""
        now = self.now
        if now.stacks or now.layer_numbers * now.dtype.itemsize > REPLAYED:
            return None
        out = self._new_operators() if self._operators is None else self._operators
        constants = self._shifts, self._gamma_dense, self._counts_dense
        return _Replay(now.Sigma, self.means, *constants, self._workspace, out)

    def layer(self, step: float) -> AbstractLayer:
        """The layer that raises the rate reduction of the moments as they are."""
        self.now = self.now.on(self._shifts.device)
        coding, now = self._coding, self.now
        if self._replay is None:
            out = self._new_operators() if self._operators is None else self._operators
            rows = [stack.rows for stack in now.stacks]
            scratch = self._workspace.first
            found = operators_(now.Sigma, rows, self._shifts, out, scratch)
        else:
            found, out = self._replay.invert(), self._replay.out
            out = copied(out, now.allocate) if self._operators is None else out
        R, *dense = volumes(found, self._alphas, now.Sigma)
        rates = dict(zip(now.dense, dense, strict=True))
        M = []
        for stack in now.stacks:
            inverse, log_dets = stack.inverse(coding)
            M.append(inverse)
            rates |= zip(stack.classes, log_dets, strict=True)
        R_c = sum(coding.gamma[j] * rates[j] for j in sorted(rates))
        rate = Rate(0.5 * R, 0.5 * R_c)
        self._made = E, C, inverses, _ = out[0], out[1:], tuple(M), step
        if not now.stacks:
            return Layer(E, C, coding, step, rate)
        return LowRankLayer(E, now.dense, C, now.stacks, inverses, coding, step, rate)

    def move(self) -> None:
        """Move the moments by the layer that was made of them last."""
        coding, now = self._coding, self.now
        E, C, inverses, step = self._made
        if self._replay is not None:
            self._replay.move(torch.full((), step, dtype=E.dtype, device=E.device))
            return
        dense = list(now.dense)
        means = None if self.means is None else self.means[dense]
        move_moments_(
            now.Sigma, E, C, step, self._gamma_dense, self._counts_dense, self._workspace, means
        )
        if self.means is not None and means is not None:
            self.means[dense] = means
        if not now.stacks:
            return
        if not self._reuse or not self._spare[0]:
            place = waiting_place(sum(stack.B.nbytes for stack in now.stacks), E.device)
            self._spare[0] = [torch.empty_like(stack.B, device=place) for stack in now.stacks]
        moved = tuple(
            stack.moved(E, M, step, coding, out, self.means)
            for stack, M, out in zip(now.stacks, inverses, self._spare[0], strict=True)
        )
        self._spare.reverse()
        self.now = replace(now, stacks=moved)


class _Replay:
    """One turn of a pass on a GPU over the matrices of all classes, recorded once and replayed."""

    def __init__(
        self,
        Sigma: Tensor,
        means: Tensor | None,
        shifts: Tensor,
        gamma: Tensor,
        counts: Tensor,
        workspace: Workspace,
        out: Tensor,
    ) -> None:
        E, C, device = out[0], out[1:], str(Sigma.device)

        def move(step: Tensor) -> Tensor:
            return move_moments_(Sigma, E, C, step, gamma, counts, workspace, means)

        self.out = out
        self.invert = Replayed(lambda: operators_(Sigma, (), shifts, out, workspace.first), device)
        self.move = Replayed(move, device)


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
        """See `LayerSequence.keeping`."""
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
        """See `LayerSequence.iter_reusing_memory`."""
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
        """See `LayerSequence.moments`."""
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
        """Moments that a finished pass left; makes a pass if there was none."""
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
