"""A cascade: coarse networks of growing accuracy, and the network itself behind them.

A sample is answered by the first coarse network whose estimated error is small enough for it, and
by the network itself if none is. That the labels are those of the network is tested, not proved.

The error of a coarse network, for one sample, is estimated as ``FACTOR`` times its difference
from the one before, times the sample's *risk*: how much an error can grow on the sample's way
because memberships change. A label asks for the difference of margins: what moves the scores of
all classes alike does not matter to it. A coarse network that has all layers differs from the
network by rounding alone. In place of one before it there are its own features, moved by `NUDGE`,
which is many times what rounding moves them by.

With c the sharpness (see `Sharpness`) and τ the relative step of a block, a layer maps two
samples at a small distance δ to a distance of at most

    (1 + τ + τ c Σ_j π̂_j ‖Q_j z − Q̄ z‖) δ,   Q̄ z = Σ_j π̂_j Q_j z.

The first two terms act on every sample alike and are part of the measured difference. The last
one is not if the measured path happens to pass beside the place where memberships are in
doubt. So the risk is the product over the blocks of 1 + τ c s, where s bounds that sum
everywhere within the distance 2ρ of the path, and ρ is the distance between the two coarse
networks' features. At z the sum is at most the standard deviation of Q_j z, and at most
2(1 − max_j π̂_j); within the distance 2ρ a residual changes by at most 2ρ, so odds change
at most by the factor exp(4cρ).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeAlias

import torch
from torch import Tensor

from redunet.core.coarse_network import CoarseNetwork, Trajectory
from redunet.core.layer import Confidence, sharpness_of
from redunet.core.network import ReduNet
from redunet.core.threads import on_threads

FACTOR = 4.0
"""The factor of safety on an estimated error, chosen by hand: with it no label differs from that of
the whole network in tests/core/test_cascade.py, nor in what `benchmarks.labels` has compared."""

TOLERANCE = 1e-3
"""How far scores, probabilities and features may be from those of the whole network."""

ROUNDING = 2.0**-20
"""How far rounding alone may move values, of 1 or of the largest of a row: eight roundings of
float32. Two coarse networks may round alike, so their difference does not tell."""

NUDGE = 2.0**-16
"""How far the features of a complete coarse network are moved: 128 roundings of float32."""

BATCH_BYTES = 2**26
"""About how much memory the samples of one thread may take in a coarse network."""

ROWS_OF_THREAD = 64
"""With fewer samples a thread costs more to start than it saves."""

PROBES = 128
"""How many samples are drawn from the moments to see which coarse networks are worth trying: their
shares of answers are then known within a tenth."""

PAYING_SHARE = 0.7
"""Coarse networks are used where they take less than this share of the network's products. Products
alone do not tell what the choice between them costs each sample."""

OutputFunction: TypeAlias = Callable[[Tensor], Tensor]
"""From features after the last layer, (n, d), to what is asked of them, (n, m)."""

Acceptance: TypeAlias = Callable[[Tensor, Tensor, Tensor], Tensor]
"""From values by a coarse network and by a finer one, (n, m), and how many times their difference
the error may be, (n,), to whether the finer ones are good enough, (n,)."""


@dataclass
class CascadeStats:
    """Counts of the samples that each network answered; they grow with each answer."""

    samples: int = 0  # How many were asked for
    # How many of them each coarse network answered; the network answered the others
    answered: list[int] = field(default_factory=list)
    # Between two coarse networks, among the samples that were answered by one
    largest_difference: float = 0.0

    @property
    def fell_back(self) -> int:
        """Number of samples that were sent through the whole network."""
        return self.samples - sum(self.answered)


class Answered(NamedTuple):
    """Samples that a coarse network answered: its place among them, and the samples', (n,)."""

    by: int
    rows: Tensor
    values: Tensor
    largest_difference: float


@dataclass(frozen=True, eq=False)
class Pending:
    """Samples without an answer: their places, and where they are before the first layer."""

    rows: Tensor
    inside: Tensor
    outside: Tensor | None

    def where(self, rows: Tensor | slice) -> Pending:
        """Some of them: a mask, (n,), or a slice."""
        outside = None if self.outside is None else self.outside[rows]
        return Pending(self.rows[rows], self.inside[rows], outside)


@dataclass(frozen=True, eq=False)
class Cascade:
    """A network and the coarse networks that answer for it."""

    network: ReduNet
    sharpness: Confidence
    stages: Sequence[CoarseNetwork] = ()  # Of growing accuracy, as `coarse_networks` gives them
    stats: CascadeStats = field(default_factory=CascadeStats)

    @classmethod
    def of(
        cls,
        network: ReduNet,
        sharpness: Confidence,
        stages: Sequence[CoarseNetwork],
        scores: OutputFunction,
    ) -> Cascade:
        """A network with those coarse networks that are worth trying before it.

        Samples are drawn from the moments, and networks are left out from the first one on as
        long as that saves products; all of them where the network alone takes hardly more.
        """
        layers, n_layers = network.layers, len(network.layers)
        if not stages or layers.first_means is None:
            return cls(network, sharpness)
        probes, _ = layers.class_samples(PROBES)
        best, chosen = PAYING_SHARE * n_layers, len(stages)
        for start in range(len(stages)):
            trial = cls(network, sharpness, stages[start:])
            answered, rest = trial._through_stages(trial._pending(probes), scores, same_label)
            cost = (
                trial._layers_a_sample(answered, len(probes)) + n_layers * len(rest.rows) / PROBES
            )
            if cost < best:
                best, chosen = cost, start
        return cls(network, sharpness, stages[chosen:])

    def answer(self, Z: Tensor, asked: OutputFunction, accept: Acceptance) -> Tensor:
        """Values of samples, from their features after the last layer.

        Shapes: Z (n, d); returns (n, m).
        """
        if not self.stages:
            self._count(len(Z), [])
            return asked(self.network.transform(Z, self.sharpness))
        pending = self._pending(Z)
        parts = [pending.where(part) for part in self._parts(len(Z))]
        found = on_threads(lambda part: self._through_stages(part, asked, accept), parts)
        answered = [one for some, _ in found for one in some]
        self._count(len(Z), answered)
        rest = torch.cat([part.rows for _, part in found])
        pairs = [(one.rows, one.values) for one in answered]
        if len(rest) or not pairs:
            pairs.append((rest, asked(self.network.transform(Z[rest], self.sharpness))))
        out = torch.cat([values for _, values in pairs])
        return out[torch.cat([rows for rows, _ in pairs]).argsort()]

    def estimate(self, Z: Tensor, asked: OutputFunction) -> Tensor:
        """Values of samples, (n, d), by the most accurate coarse network, however close."""
        if not self.stages:
            return asked(self.network.transform(Z, self.sharpness))
        pending = self._pending(Z)
        return asked(self._features(pending, self.stages[-1].move(pending.inside, self.sharpness)))

    def summary(self) -> dict[str, Any]:
        """Numbers of layers and blocks, and what became of the samples, to be shown."""
        return {
            "layers": len(self.network.layers),
            "blocks": [len(stage.layers) for stage in self.stages],
            "samples": self.stats.samples,
            "answered": list(self.stats.answered),
            "fell_back": self.stats.fell_back,
            "largest_difference": self.stats.largest_difference,
        }

    def _pending(self, Z: Tensor) -> Pending:
        space, rows = self.network.layers.space, torch.arange(len(Z), device=Z.device)
        return Pending(rows, Z, None) if space is None else Pending(rows, *space.rows(Z))

    def _features(self, pending: Pending, moved: Trajectory) -> Tensor:
        end, space = moved.end.to(pending.inside.dtype), self.network.layers.space
        if space is None or pending.outside is None:
            return end
        return space.put_back(end, pending.outside)

    def _parts(self, n: int) -> list[slice]:
        """Consecutive samples: as many parts on each thread, all of one size."""
        if not n:
            return [slice(0)]
        layer = self.stages[0].layers[0]
        threads = 1
        if layer.E.device.type == "cpu":
            threads = max(1, min(torch.get_num_threads(), n // ROWS_OF_THREAD))
        most = max(1, BATCH_BYTES // layer.sample_space(1).nbytes)
        size = math.ceil(n / (threads * math.ceil(n / (threads * most))))
        return [slice(start, start + size) for start in range(0, n, size)]

    def _through_stages(
        self, pending: Pending, asked: OutputFunction, accept: Acceptance
    ) -> tuple[list[Answered], Pending]:
        """Answers of the coarse networks, one after another, and the samples that none answered."""
        answered: list[Answered] = []
        before: tuple[Tensor, Trajectory] | None = None
        for place, stage in enumerate(self.stages):
            if not len(pending.rows):
                break
            moved = stage.move(pending.inside, self.sharpness)
            features = self._features(pending, moved)
            values = asked(features)
            if stage.complete:
                other, factor = asked(_nudged(features)), self._factor(moved, moved, NUDGE)
            elif before is not None:
                other, factor = before[0], self._factor(before[1], moved)
            else:
                before = values, moved
                continue
            done = accept(other, values, factor)
            if bool(done.any()):
                largest = float((values - other)[done].abs().amax())
                answered.append(Answered(place, pending.rows[done], values[done], largest))
            pending, before = pending.where(~done), (values[~done], moved.where(~done))
        return answered, pending

    def _factor(self, before: Trajectory, after: Trajectory, least: float = 0.0) -> Tensor:
        """Error that the finer values may have, as a multiple of the difference: (n,)."""
        coding = after.network.layers[0].coding
        c = max(sharpness_of(self.sharpness).of_classes(coding))
        moved = torch.linalg.vector_norm(after.end - before.end, dim=1)
        distance = moved.double().clamp(min=least)
        risks = []
        for one in (before, after):
            gains = c * one.doubts.new_tensor(one.network.path)
            grown = gains * (one.doubts + 4 * c * distance[:, None]).clamp_(max=0).exp_()
            risks.append(grown.log1p_().sum(dim=1))
        return FACTOR * torch.maximum(*risks).exp_()

    def _layers_a_sample(self, answered: list[Answered], n: int) -> float:
        """Layers of the network that take as long as a sample takes in the coarse networks."""
        cost, left = 0.0, n
        by = {one.by: len(one.rows) for one in answered}
        for place, stage in enumerate(self.stages):
            # Products of float32 take half of the time of float64 on a CPU, and as long on a GPU.
            of_float32 = 0.5 if stage.layers[0].E.device.type == "cpu" else 1.0
            cost += of_float32 * len(stage.layers) * left / n
            left -= by.get(place, 0)
        return cost

    def _count(self, n: int, answered: list[Answered]) -> None:
        stats = self.stats
        stats.samples += n
        stats.answered = stats.answered or [0] * len(self.stages)
        for one in answered:
            stats.answered[one.by] += len(one.rows)
            stats.largest_difference = max(stats.largest_difference, one.largest_difference)


def same_label(before: Tensor, values: Tensor, factor: Tensor) -> Tensor:
    """Whether scores, (n, k), are estimated to have the label of the whole network: (n,).

    Where the margin between the best class and the next one is more than the error by the
    largest change of a margin, and the scores of the row differ by more than the same of the
    scores themselves. Few margins could happen to stay as they are; so where low scores are cut
    off, which leaves the lowest one to many classes, the margin has to be more than both.
    """
    if values.shape[1] < 2:
        return torch.ones(len(values), dtype=torch.bool, device=values.device)
    (best, second), places = (one.unbind(dim=1) for one in values.topk(2, dim=1))
    change = values - before
    error = _error(change, values, factor)
    of_margins = change.gather(1, places[0][:, None]) - change
    lowest = values.amin(dim=1, keepdim=True)
    cut_off = (values == lowest).sum(dim=1) > 1
    apart = torch.where(cut_off, best - second, best - lowest[:, 0]).double()
    clear = (best - second).double() > _error(of_margins, values, factor)
    return clear & (apart > error)


def close(before: Tensor, values: Tensor, factor: Tensor) -> Tensor:
    """Whether values are estimated within `TOLERANCE`, of 1 or of a row's largest: (n,)."""
    scale = values.abs().amax(dim=1).double().clamp(min=1)
    return _error(values - before, values, factor) <= TOLERANCE * scale


def same_label_and_close(before: Tensor, values: Tensor, factor: Tensor) -> Tensor:
    """Both of `same_label` and `close`."""
    return same_label(before, values, factor) & close(before, values, factor)


def _error(change: Tensor, values: Tensor, factor: Tensor) -> Tensor:
    """The estimated error of values, (n, m), each row's: (n,)."""
    rounding = ROUNDING * values.abs().amax(dim=1).double().clamp(min=1)
    error: Tensor = factor * (change.abs().amax(dim=1).double() + rounding)
    return error


def _nudged(features: Tensor) -> Tensor:
    """Features, (n, d), moved by `NUDGE` in a direction that is always the same."""
    generator = torch.Generator().manual_seed(0)
    direction = torch.randn(features.shape[1], generator=generator, dtype=torch.float64)
    length = float(torch.linalg.vector_norm(direction))
    return features + direction.mul_(NUDGE / length).to(features)
