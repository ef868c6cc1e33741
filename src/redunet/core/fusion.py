"""Fusions: short networks that answer for a long one, and how far they can be trusted.

Layers of small steps are a flow, so a block of them is nearly one layer: the one in its
middle, with the step of the whole block. A fusion has a few such layers, maybe in fewer
dimensions and in a dtype of fewer bits. Fusions of growing accuracy are tried in turn. A
sample is answered by the first one whose estimated error is small enough for it, and by the
network itself if none is.

The error of a fusion, for one sample, is estimated as ``FACTOR`` times its difference from
the fusion before, times the sample's *risk*: how much an error can grow on the sample's way
because memberships change. With c the sharpness (see `Sharpness`) and τ the relative step of
a block, a layer maps two samples at a small distance δ to a distance of at most

    (1 + τ + τ c Σ_j π̂_j ‖Q_j z − Q̄ z‖) δ,   Q̄ z = Σ_j π̂_j Q_j z.

The first two terms act on every sample alike and are part of the measured difference. The last
one is not if the measured path happens to pass beside the place where memberships are in
doubt. So the risk is the product over the blocks of 1 + τ c s, where s bounds that sum
everywhere within the distance 2ρ of the path, and ρ is the distance between the two fusions'
features. At z the sum is at most the standard deviation of Q_j z, and at most
2(1 − max_j π̂_j); within the distance 2ρ a residual changes by at most 2ρ, so odds change
at most by the factor exp(4cρ).

In the same way most classes cannot have a share in a sample: those that are too far behind at
the begin of each block to catch up while the sample moves through it. The first fusion tells
them, and the others look at no class but the rest.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import torch
from torch import Tensor

from redunet.core.layer import AbstractLayer
from redunet.core.memberships import Confidence, sharpness_of
from redunet.core.network import ReduNet
from redunet.core.reduced_space import ReducedSpace

FACTOR = 4.0
"""A sample is answered by a fusion where what was asked for is more than so many times the
difference between two fusions, times the risk."""

TOLERANCE = 1e-3
"""How far scores, probabilities and features may be from those of the whole network."""

NEGLIGIBLE, NEGLIGIBLE_IN_NETWORK = math.log(2.0**24), math.log(2.0**62)
"""A class so many nats behind the likeliest one has no share in a sample: in a fusion, and in
the network."""

BATCH_BYTES = 2**28


@dataclass(frozen=True, eq=False)
class Fusion:
    """A few layers that stand for all of a network's.

    Parameters
    ----------
    layers : tuple of layers
        One for each block.
    reach : tuple of float
        Of each block, how much of the distance from its begin to its end lies within it:
        0 if it is one layer, nearly 1 if it is many.
    space : ReducedSpace, or None
        The directions that the layers keep of the network's own (reduced) space.
    dtype : torch.dtype
    """

    layers: tuple[AbstractLayer, ...]
    reach: tuple[float, ...]
    space: ReducedSpace | None
    dtype: torch.dtype

    def cost(self, considered: float, relevant: float) -> float:
        """Products in float64 that take as long as those of one sample.

        The parameters are those of `AbstractLayer.products`.
        """
        device = self.layers[0].E.device.type
        width = 0 if self.space is None else 2 * self.space.d * self.space.size
        products = sum(layer.products(considered, relevant) for layer in self.layers)
        return (products + width) * rate(self.dtype, device)

    @property
    def n_bytes(self) -> int:
        """Memory."""
        return sum(layer.n_bytes for layer in self.layers)

    def move(self, Z: Tensor, sharpness: Confidence, among: Tensor | None = None) -> Passed:
        """Samples after the layers.

        Parameters
        ----------
        Z : Tensor of shape (n, s)
            In the network's reduced space.
        sharpness : Sharpness or float
        among : Tensor of shape (n, k), bool, default=None
            The classes to consider; None means all.

        Returns
        -------
        Passed
        """
        rows = max(1, BATCH_BYTES // self.layers[0].sample_space(1).nbytes)
        parts = torch.split(Z, rows)
        masks = [None] * len(parts) if among is None else torch.split(among, rows)
        passed = [
            self._move(part, sharpness, mask) for part, mask in zip(parts, masks, strict=True)
        ]
        return Passed(*(torch.cat(one) for one in zip(*passed, strict=True)))

    def _move(self, Z: Tensor, sharpness: Confidence, among: Tensor | None) -> Passed:
        wide = torch.promote_types(self.dtype, torch.float32)
        Z = Z.to(wide)
        inside, outside = (Z, Z) if self.space is None else self.space.rows(Z)
        moving = inside.to(self.dtype, copy=True)
        memory = self.layers[0].sample_space(len(Z))
        coding = self.layers[0].coding
        c = max(sharpness_of(sharpness).of_classes(coding))
        doubts = []
        behind = torch.full((len(Z), len(coding.counts)), torch.inf, device=Z.device)
        for layer, reach in zip(self.layers, self.reach, strict=True):
            before = moving.to(wide, copy=True)
            moved = layer.move_samples_(moving, sharpness, memory, among)
            doubt = torch.minimum(moved.spread.log(), moved.doubt + math.log(2)).double()
            doubts.append(doubt)
            distance = torch.linalg.vector_norm(moving - before, dim=1)
            # Operators move within a block as samples do, hence twice what samples alone ask for.
            slack = c * (4 * reach * distance + torch.finfo(self.dtype).eps)
            best = moved.logits.amax(dim=1) - slack
            behind = torch.minimum(behind, best[:, None].to(behind) - moved.logits.to(behind))
        moving = moving.to(wide)
        features = moving if self.space is None else self.space.put_back(moving, outside)
        gains = [layer.step * coding.alpha * c for layer in self.layers]
        doubt = torch.stack(doubts, dim=1)
        return Passed(features, doubt, doubt.new_tensor(gains).expand_as(doubt), behind)


class Passed(NamedTuple):
    """Samples after a fusion.

    Attributes
    ----------
    features : Tensor of shape (n, s)
        In the network's reduced space, in at least float32.
    doubts : Tensor of shape (n, blocks), float64
        log(s) at the begin of each block.
    gains : Tensor of shape (n, blocks), float64
        τ c of each block.
    behind : Tensor of shape (n, k), float32
        By how many nats a class stays behind the likeliest one, everywhere on the way.
    """

    features: Tensor
    doubts: Tensor
    gains: Tensor
    behind: Tensor

    def without(self, done: Tensor) -> Passed:
        """The other samples."""
        return Passed(*(one[~done] for one in self))


@dataclass
class Seen:
    """What fusions were asked and what became of it; it grows with each answer.

    Parameters
    ----------
    samples : int
        How many were asked for.
    answered : list of int
        How many of them each fusion answered; the network answered the others.
    largest_difference : float
        Between two fusions, among the samples that were answered by one.
    """

    samples: int = 0
    answered: list[int] = field(default_factory=list)
    largest_difference: float = 0.0

    @property
    def fell_back(self) -> int:
        """How many samples were sent through the whole network."""
        return self.samples - sum(self.answered)


Values = Callable[[Tensor], Tensor]
"""From features after the last layer, (n, d), to values, (n, m)."""

Enough = Callable[[Tensor, Tensor], Tensor]
"""From values, (n, m), and the error of each row, (n,), to whether that is good enough, (n,)."""


@dataclass(frozen=True, eq=False)
class FusedNetwork:
    """A network and the fusions that answer for it.

    Parameters
    ----------
    network : ReduNet
    sharpness : Sharpness or float
    fusions : sequence of Fusion
        Of growing accuracy, at least two or none.
    seen : Seen
    """

    network: ReduNet
    sharpness: Confidence
    fusions: Sequence[Fusion] = ()
    seen: Seen = field(default_factory=Seen)

    def answer(self, Z: Tensor, values_of: Values, enough: Enough) -> Tensor:
        """Values of samples, from their features after the last layer.

        Parameters
        ----------
        Z : Tensor of shape (n, d)
            Samples on the unit sphere.
        values_of : callable
            From features, (n, d), to values, (n, m).
        enough : callable
            From values, (n, m), and their estimated errors, (n,), to a mask, (n,):
            which rows need not be computed by the whole network.

        Returns
        -------
        Tensor of shape (n, m)
        """
        self.seen.samples += len(Z)
        self.seen.answered = self.seen.answered or [0] * len(self.fusions)
        if not self.fusions:
            return values_of(self.network.transform(Z, self.sharpness))
        sample = self.sample(Z)
        values, passed = self.values(self.fusions[0], sample, values_of)
        behind = passed.behind
        out, rows = torch.empty_like(values), torch.arange(len(Z), device=values.device)
        for place, fusion in enumerate(self.fusions[1:], 1):
            before, passed_before = values, passed
            values, passed = self.values(fusion, sample, values_of, behind < NEGLIGIBLE)
            difference = (values - before).abs().amax(dim=1).double()
            done = enough(values, self.error(difference, passed_before, passed))
            out[rows[done]] = values[done]
            self.seen.answered[place] += int(done.sum())
            self.seen.largest_difference = max(
                self.seen.largest_difference, float(difference[done].amax()) if done.any() else 0.0
            )
            values, rows, passed = values[~done], rows[~done], passed.without(done)
            behind = torch.maximum(behind[~done], passed.behind)
            sample = sample[0][~done], sample[1][~done]
            if not len(rows):
                return out
        possible = behind < NEGLIGIBLE_IN_NETWORK
        features = self.network.transform(Z[rows], self.sharpness, possible, BATCH_BYTES)
        out[rows] = values_of(features)
        return out

    def summary(self) -> dict[str, Any]:
        """How many layers and blocks there are, and what became of the samples, to be shown."""
        return {
            "layers": len(self.network.layers),
            "blocks": [len(one.layers) for one in self.fusions],
            "dimensions": [len(one.layers[0].E) for one in self.fusions],
            "dtypes": [str(one.dtype).removeprefix("torch.") for one in self.fusions],
            "samples": self.seen.samples,
            "answered": list(self.seen.answered),
            "fell_back": self.seen.fell_back,
            "largest_difference": self.seen.largest_difference,
        }

    def sample(self, Z: Tensor) -> tuple[Tensor, Tensor]:
        """Samples, (n, d), within the network's reduced space, and their parts outside of it."""
        space = self.network.layers.space
        return (Z, Z) if space is None else space.rows(Z)

    def values(
        self,
        fusion: Fusion,
        sample: tuple[Tensor, Tensor],
        values_of: Values,
        among: Tensor | None = None,
    ) -> tuple[Tensor, Passed]:
        """Values, (n, m), by one fusion.

        Parameters
        ----------
        fusion : Fusion
        sample : pair of Tensors of shape (n, s) and (n, d)
            As from `sample`.
        values_of : callable
        among : Tensor of shape (n, k), bool, default=None
            As for `Fusion.move`.
        """
        space, (inside, outside) = self.network.layers.space, sample
        passed = fusion.move(inside, self.sharpness, among)
        features = passed.features.to(inside.dtype)
        return values_of(features if space is None else space.put_back(features, outside)), passed

    def error(self, difference: Tensor, before: Passed, after: Passed) -> Tensor:
        """The estimated error of values, (n,), from their difference between two fusions."""
        coding = self.fusions[0].layers[0].coding
        c = max(sharpness_of(self.sharpness).of_classes(coding))
        apart = torch.linalg.vector_norm(after.features - before.features, dim=1).double()
        change = 4 * c * apart[:, None]
        risks = [
            (one.gains * (one.doubts + change).clamp_(max=0).exp_()).log1p_().sum(dim=1)
            for one in (before, after)
        ]
        return FACTOR * difference * torch.maximum(*risks).exp_()


def same_label(values: Tensor, error: Tensor) -> Tensor:
    """Whether scores, (n, k), of so large an error, (n,), cannot have another label: (n,)."""
    if values.shape[1] < 2:
        return torch.ones_like(error, dtype=torch.bool)
    top = values.topk(2, dim=1).values
    return (top[:, 0] - top[:, 1]).double() > error


def close(values: Tensor, error: Tensor) -> Tensor:
    """Whether values, (n, m), are within `TOLERANCE`, of 1 or of the largest of a row: (n,)."""
    scale = values.abs().amax(dim=1).double().clamp(min=1)
    return error <= TOLERANCE * scale


def same_label_and_close(values: Tensor, error: Tensor) -> Tensor:
    """Both of `same_label` and `close`."""
    return same_label(values, error) & close(values, error)


def rate(dtype: torch.dtype, device: str) -> float:
    """How long a product of two numbers takes, with one in float64 as the unit."""
    if device == "cpu":
        return {torch.float64: 1.0, torch.float32: 0.5}.get(dtype, 0.25)
    return 1.0 if dtype in (torch.float64, torch.float32) else 0.1
