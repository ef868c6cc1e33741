"""How layers follow from moments: the schedule of steps, and the pass from layer to layer."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Literal, cast

import torch
from torch import Tensor

from redunet.core.allocation import copied, on_device
from redunet.core.layer import AbstractLayer, Layer, Workspace, move_moments_
from redunet.core.layers import LayerSequence, no_means
from redunet.core.low_rank import LowRankLayer
from redunet.core.predictive import new_samples
from redunet.core.rate import Coding, Rate, operators_, volumes
from redunet.core.reduced_space import ReducedLayer
from redunet.core.replay import Replayed
from redunet.core.second_moments import SecondMoments, waiting_place

REPLAYED = 2**28
"""On a GPU, the work on layers of up to so many bytes takes longer to start than to do."""

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

    Parameters
    ----------
    first : SecondMoments
        Before the first layer.
    coding : Coding
    schedule : Schedule
    keep : bool
    means : Tensor of shape (k, s), default=None
        Means of the classes before the first layer, within the reduced space
        of ``first``, where they are known.
    device : str, default=None
        Where layers are computed; None where ``first`` is.
    """

    def __init__(
        self,
        first: SecondMoments,
        coding: Coding,
        schedule: Schedule,
        keep: bool,
        means: Tensor | None = None,
        device: str | None = None,
    ) -> None:
        self.space, self.ranks, self.allocate = first.space, first.ranks, first.allocate
        self._means = means
        self._first = first
        self._device = (first.Sigma if device is None else torch.empty(0, device=device)).device
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

    @property
    def width(self) -> int:
        """As `LayerSequence.width`."""
        return self._first.Sigma.shape[-1]

    @property
    def numbers_each(self) -> int:
        """As `LayerSequence.numbers_each`."""
        return self._first.layer_numbers

    @property
    def n_bytes(self) -> int:
        """The memory that all layers of the schedule take where they are kept."""
        return self._schedule.n_layers * self._first.layer_bytes

    def keeping(self) -> LayerStream:
        """The same layers, to be kept."""
        return LayerStream(
            self._first, self._coding, self._schedule, True, self._means, str(self._device)
        )

    def probes(self, n: int) -> Tensor:
        """As `LayerSequence.probes`."""
        return self.first.draw(n)

    def new_samples(self, n: int) -> tuple[Tensor, Tensor]:
        """As `LayerSequence.new_samples`."""
        if self._means is None:
            raise no_means()
        return new_samples(self.first, self._means, self._coding.counts, n)

    @property
    def steps(self) -> tuple[float, ...]:
        """τ = ηα of each layer."""
        alpha = self._coding.alpha
        return tuple(self._schedule.at(index, alpha) * alpha for index in range(len(self)))

    def __len__(self) -> int:
        return self._schedule.n_layers if self._schedule.tol is None else len(self.rates)

    def __iter__(self) -> Iterator[AbstractLayer]:
        for layer in self._layers(reuse=False):
            yield layer if self.space is None else ReducedLayer(layer, self.space)

    def passing(self) -> Iterator[AbstractLayer]:
        """As `LayerSequence.passing`."""
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
        layers = []
        going = Pass(self._first, self._coding, self._means, reuse=reuse, device=self._device)
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
        last, means = self._after_last()
        if means is None:
            raise no_means()
        means = last.gathered(means)
        return means if self.space is None else self.space.directions(means.mT).mT

    def _after_last(self) -> tuple[SecondMoments, Tensor | None]:
        """What a finished pass left; makes one if there was none."""
        last = self._last
        while last is None:  # again where another thread has begun a pass meanwhile
            self._pass()
            last = self._last
        return last

    def _pass(self) -> None:
        deque(self.passing(), maxlen=0)


class Pass:
    """Moments on their way through the layers.

    Parameters
    ----------
    first : SecondMoments
        Before the first layer; not changed.
    coding : Coding
    means : Tensor of shape (k, s), default=None
        Means of the classes before the first layer; not changed.
    reuse : bool
        Whether each layer is made in the memory of the one before.
    device : torch.device, default=None
        Where layers are computed; None where ``first`` is.
    """

    def __init__(
        self,
        first: SecondMoments,
        coding: Coding,
        means: Tensor | None = None,
        *,
        reuse: bool,
        device: torch.device | None = None,
    ) -> None:
        self.means = None if means is None else means.clone()
        here = first if device is None else first.on(device)
        same = here is first
        self.now = replace(here, Sigma=copied(first.Sigma, first.allocate)) if same else here
        self._coding = coding
        # Constants are sent to a GPU once: each time it would wait.
        new, dense = here.Sigma.new_tensor, list(first.dense)
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
        if now.stacks or now.ranks.size > 1 or now.layer_bytes > REPLAYED:
            return None
        out = self._new_operators() if self._operators is None else self._operators
        constants = self._shifts, self._gamma_dense, self._counts_dense
        return _Replay(now.Sigma, self.means, *constants, self._workspace, out)

    def layer(self, step: float) -> AbstractLayer:
        """The layer that raises the rate reduction of the moments as they are."""
        self.now = self.now.on(self._shifts.device)
        coding, now, ranks = self._coding, self.now, self.now.ranks
        if self._replay is None:
            out = self._new_operators() if self._operators is None else self._operators
            rows = [stack.rows for stack in now.stacks]
            scratch = self._workspace.first
            found = operators_(now.Sigma, rows, self._shifts, out, scratch, ranks)
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
        if ranks.size > 1:  # R by one of them: on other processors it may have other last bits
            parts = torch.tensor([R if ranks.rank == 0 else 0.0, R_c], dtype=torch.float64)
            R, R_c = ranks.sum_(parts).tolist()
        rate = Rate(0.5 * R, 0.5 * R_c)
        self._made = E, C, inverses, _ = out[0], out[1:], tuple(M), step
        if not now.stacks and ranks.size == 1:
            return Layer(E, C, coding, step, rate)
        return LowRankLayer(E, now.dense, C, now.stacks, inverses, coding, step, rate, ranks=ranks)

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
        self.now = now.moved(moved)


class _Replay:
    """What a pass on a GPU does to the matrices of all classes, recorded once and replayed.

    Parameters
    ----------
    Sigma : Tensor of shape (k, d, d)
    means : Tensor of shape (k, d), or None
        Both move in place.
    shifts, gamma, counts : Tensor of shape (1 + k,), (k,) and (k,)
        As for `operators_` and `move_moments_`.
    workspace : Workspace
    out : Tensor of shape (1 + k, d, d)
        For the operators.
    """

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
