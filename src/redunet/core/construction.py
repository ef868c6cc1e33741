"""How layers follow from moments: the schedule of steps, and a pass over the layers.

A class whose second moment has a rank well below d travels as a factor, and
directions that no sample has are left out; both are exact, and chosen here
from the moments alone.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, TypeAlias, cast

import torch
from torch import Tensor

from redunet.core.eigenvectors import top_eigenvectors
from redunet.core.factors import gram_eigenvectors, low_rank_factor
from redunet.core.layer import Layer, Workspace, move_moments_
from redunet.core.lifted import LiftedLayer
from redunet.core.low_rank import CompactLayer, Stack, stacked
from redunet.core.moments import ClassMoments
from redunet.core.rate import Coding, Rate, operators_
from redunet.core.span import Span

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


AnyLayer: TypeAlias = Layer | CompactLayer | LiftedLayer

FACTORED_UP_TO = 0.25
"""A class of a rank up to this share of d is built and applied faster as a factor."""


@dataclass(frozen=True, eq=False)
class SecondMoments:
    """Second moments of all classes, some as matrices, some as factors.

    Parameters
    ----------
    dense : tuple of g int
        The classes that have a matrix, by their places in the order of the labels.
    Sigma : Tensor of shape (g, d, d)
    stacks : tuple of Stack
        The other classes.
    """

    dense: tuple[int, ...]
    Sigma: Tensor
    stacks: tuple[Stack, ...] = ()

    @classmethod
    def of(
        cls, moments: ClassMoments, span: Span | None, dtype: torch.dtype, device: str
    ) -> SecondMoments:
        """Those of class moments, within a span where there is one."""
        size = moments.n_features if span is None else span.size
        factors, dense = {}, []
        for j, Sigma_j in enumerate(moments.each_Sigma(device)):
            inside = Sigma_j if span is None else span.second_moment(Sigma_j)
            F = low_rank_factor(inside, int(FACTORED_UP_TO * size))
            if F is None:
                dense.append(j)
            else:
                factors[j] = F.to(device, dtype)
        Sigma = torch.empty(len(dense), size, size, dtype=dtype, device=device)
        place = dict(zip(dense, Sigma, strict=True))
        for j, Sigma_j in enumerate(moments.each_Sigma(device)):
            if j in place:
                place[j].copy_(Sigma_j if span is None else span.second_moment(Sigma_j))
        return cls(tuple(dense), Sigma, stacked(factors))

    @property
    def n_classes(self) -> int:
        """k, of both kinds."""
        return len(self.dense) + sum(len(stack.classes) for stack in self.stacks)

    @property
    def layer_bytes(self) -> int:
        """The memory that a layer holds."""
        d, size = self.Sigma.shape[-1], self.Sigma.element_size()
        inner = sum(stack.B.numel() + len(stack.rows) * stack.B.shape[1] for stack in self.stacks)
        return size * ((len(self.dense) + 1) * d * d + inner)

    def full(self) -> Tensor:
        """Second moments of all classes as matrices: Tensor of shape (k, d, d), a copy."""
        d = self.Sigma.shape[-1]
        out = self.Sigma.new_empty(self.n_classes, d, d)
        out[list(self.dense)] = self.Sigma
        for stack in self.stacks:
            out[list(stack.classes)] = stack.B.mT @ stack.B
        return out

    def principal(self, n: int) -> Iterator[tuple[int, Tensor, Tensor, float]]:
        """Each class's place, at most n leading eigenvalues and -vectors, and trace."""
        for j, Sigma_j in zip(self.dense, self.Sigma, strict=True):
            yield j, *top_eigenvectors(Sigma_j, n), _sum(Sigma_j.diagonal())
        for stack in self.stacks:
            for j, B_j in zip(stack.classes, stack.B, strict=True):
                yield j, *gram_eigenvectors(B_j, n), _sum(B_j.square())


def _sum(values: Tensor) -> float:
    return float(values.sum(dtype=torch.float64))


class Pass:
    """Moments on their way through the layers.

    Parameters
    ----------
    first : SecondMoments
        Before the first layer; not changed.
    coding : Coding
    means : Tensor of shape (k, d), default=None
        Means of the classes before the first layer; not changed.
    reuse : bool
        Whether each layer is made in the memory of the one before.
    """

    def __init__(
        self, first: SecondMoments, coding: Coding, means: Tensor | None = None, *, reuse: bool
    ) -> None:
        # Those of classes in factors need not travel: see `LayerStream.last_means`.
        self.means = None if means is None else means[list(first.dense)]
        self.now = SecondMoments(first.dense, first.Sigma.clone(), first.stacks)
        self._coding = coding
        self._workspace = Workspace.like(first.Sigma, operators=reuse)
        # Two places for factors, in turns: a layer refers to those it was made of.
        self._spare = [[torch.empty_like(stack.B) for stack in first.stacks] for _ in range(2)]
        self._reuse = reuse

    def layer(self, step: float) -> Layer | CompactLayer:
        """The layer that raises the rate reduction of the moments as they are."""
        coding, now = self._coding, self.now
        g, d, _ = now.Sigma.shape
        out = self._workspace.operators
        out = now.Sigma.new_empty(g + 1, d, d) if out is None else out
        alphas = (coding.alpha, *(coding.alphas[j] for j in now.dense))
        rows = [stack.rows for stack in now.stacks]
        R, *dense = operators_(now.Sigma, rows, alphas, out, self._workspace.first)
        rates = dict(zip(now.dense, dense, strict=True))
        M = []
        for stack in now.stacks:
            inverse, log_dets = stack.inverse(coding)
            M.append(inverse)
            rates |= zip(stack.classes, log_dets, strict=True)
        R_c = sum(gamma * rates[j] for j, gamma in enumerate(coding.gamma))
        rate = Rate(0.5 * R, 0.5 * R_c)
        if not now.stacks:
            return Layer(out[0], out[1:], out.new_tensor(coding.gamma), step, rate)
        return CompactLayer(out[0], now.dense, out[1:], now.stacks, tuple(M), coding, step, rate)

    def move(self, layer: Layer | CompactLayer) -> None:
        """Move the moments by the layer that was made of them."""
        coding, now = self._coding, self.now
        C = layer.C if isinstance(layer, Layer) else layer.compression
        move_moments_(
            now.Sigma,
            layer.E,
            C,
            layer.step,
            [coding.gamma[j] for j in now.dense],
            [coding.counts[j] for j in now.dense],
            self._workspace,
            self.means,
        )
        if isinstance(layer, CompactLayer):
            if not self._reuse:
                self._spare[0] = [torch.empty_like(stack.B) for stack in now.stacks]
            moved = tuple(
                stack.moved(layer.E, M, layer.step, coding, out)
                for stack, M, out in zip(now.stacks, layer.M, self._spare[0], strict=True)
            )
            self._spare.reverse()
            self.now = SecondMoments(now.dense, now.Sigma, moved)


class LayerStream:
    """Layers made one after another from moments, kept or made anew by each pass.

    Iterating gives the same layers, to the last bit, whether they are kept or
    not; without keeping, only one is in memory at a time.

    Parameters
    ----------
    first : SecondMoments
        Before the first layer, within the span.
    coding : Coding
    schedule : Schedule
    keep : bool
    span : Span, default=None
        What the layers are built within.
    means : Tensor of shape (k, d), default=None
        Means of the classes before the first layer, within the span, where they are known.
    """

    def __init__(
        self,
        first: SecondMoments,
        coding: Coding,
        schedule: Schedule,
        keep: bool,
        span: Span | None = None,
        means: Tensor | None = None,
    ) -> None:
        self.span = span
        self._means = means
        self._first = first
        self._coding = coding
        self._schedule = schedule
        self._keep = keep
        self._kept: tuple[Layer | CompactLayer, ...] | None = None
        self._last: tuple[SecondMoments, Tensor | None] | None = None
        self._rates: tuple[Rate, ...] | None = None

    @property
    def n_bytes(self) -> int:
        """The memory that all layers of the schedule would take."""
        return self._schedule.n_layers * self._first.layer_bytes

    def keeping(self) -> LayerStream:
        """The same layers, to be kept."""
        return LayerStream(self._first, self._coding, self._schedule, True, self.span, self._means)

    def __len__(self) -> int:
        return self._schedule.n_layers if self._schedule.tol is None else len(self.rates)

    def __iter__(self) -> Iterator[AnyLayer]:
        for layer in self._layers(reuse=False):
            yield layer if self.span is None else LiftedLayer(layer, self.span)

    def passing(self) -> Iterator[Layer | CompactLayer]:
        """The same layers within the span, each only until the next is asked for.

        Layers that are not kept are then all made in the same memory, which is
        faster; whoever holds on to a layer should iterate over the stream.
        """
        return self._layers(reuse=not self._keep)

    def _layers(self, reuse: bool) -> Iterator[Layer | CompactLayer]:
        if self._kept is not None:
            yield from self._kept
            return
        layers = []
        going = Pass(self._first, self._coding, self._means, reuse=reuse)
        for layer in self._steps(going):
            if self._keep:
                layers.append(layer)
            yield layer
        self._last = going.now, going.means
        if self._keep:
            self._kept = tuple(layers)

    def _steps(self, going: Pass) -> Iterator[Layer | CompactLayer]:
        """Each layer in turn; the moments move when the next is asked for."""
        tol = self._schedule.tol
        rates: list[Rate] = []
        for index in range(self._schedule.n_layers):
            layer = going.layer(self._schedule.at(index, self._coding.alpha))
            if tol is not None and rates and layer.rate.delta_R - rates[-1].delta_R < tol:
                break
            rates.append(layer.rate)
            yield layer
            going.move(layer)
        self._rates = tuple(rates)

    @property
    def rates(self) -> tuple[Rate, ...]:
        """The objective before each layer; makes a pass if none was finished."""
        if self._rates is None:
            deque(self.passing(), maxlen=0)
        return cast(tuple[Rate, ...], self._rates)

    def moments(self) -> Iterator[Tensor]:
        """Second moments before the first layer, then after each: Tensors of shape (k, d, d)."""
        going = Pass(self._first, self._coding, reuse=True)
        for _ in self._steps(going):
            yield self._lifted(going.now)
        yield self._lifted(going.now)

    @property
    def last(self) -> SecondMoments:
        """Moments after the last layer, within the span; makes a pass if none was finished."""
        return self._after_last()[0]

    @property
    def last_moments(self) -> Tensor:
        """Second moments after the last layer: Tensor of shape (k, d, d)."""
        return self._lifted(self.last)

    @property
    def last_means(self) -> Tensor | None:
        """Means of the classes after the last layer, (k, d), where they were known before it.

        A class's mean is a mixture of its samples, so where B has the rows that
        it was Bᵀ w of before the first layer it is Bᵀ w after the last one too.
        """
        last, dense = self._after_last()
        if self._means is None or dense is None:
            return None
        means = torch.empty_like(self._means)
        means[list(last.dense)] = dense
        for before, after in zip(self._first.stacks, last.stacks, strict=True):
            first = self._means[list(before.classes)][:, None].to(torch.float64)
            w = first @ torch.linalg.pinv(before.B.to(torch.float64))
            means[list(after.classes)] = (w.to(after.B) @ after.B)[:, 0]
        return means if self.span is None else self.span.directions(means.mT).mT

    def _after_last(self) -> tuple[SecondMoments, Tensor | None]:
        """What a finished pass left; makes one if there was none."""
        if self._last is None:
            deque(self.passing(), maxlen=0)
        return cast("tuple[SecondMoments, Tensor | None]", self._last)

    def _lifted(self, moments: SecondMoments) -> Tensor:
        full = moments.full()
        return full if self.span is None else self.span.lift(full)
