"""Moments on their way through the layers, each of which is made of them where they are."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from redunet.core.allocation import copied, on_device
from redunet.core.cuda_graph import Replayed
from redunet.core.layer import AbstractLayer, Layer, Workspace, move_moments_
from redunet.core.low_rank import LowRankLayer
from redunet.core.rate import Coding, Rate, operators_, volumes
from redunet.core.second_moments import LazySecondMoments, SecondMoments, waiting_place

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
    """What a pass on a GPU does to the matrices of all classes, recorded once and replayed."""

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
