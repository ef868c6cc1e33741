"""A network with the fusions that answer for it, and how far these can be trusted.

Fusions of growing accuracy are tried in turn. A
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
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

import torch
from torch import Tensor

from redunet.core.fusion import BATCH_BYTES, Fusion, Moves
from redunet.core.memberships import Confidence, sharpness_of
from redunet.core.network import ReduNet
from redunet.core.samples import Samples, Values

FACTOR = 4.0
"""A sample is answered by a fusion where what was asked for is more than so many times the
difference between two fusions, times the risk."""

TOLERANCE = 1e-3
"""How far scores, probabilities and features may be from those of the whole network."""

FEW_MOVES = 4
"""So few samples in so few layers are faster through the network than through fusions."""

ROWS = 2048
"""How many samples the first two fusions take at a time, where these are in few dimensions."""

ROUNDING = 2.0**-20
"""How far rounding alone may move values, of 1 or of the largest of a row: both fusions may round
alike, so their difference does not tell."""

NEGLIGIBLE_IN_NETWORK = math.log(2.0**62)
"""A class so many nats behind the likeliest one has no share in a sample."""


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


Answer: TypeAlias = tuple[Tensor, Moves]
"""Values, (n, m), by a fusion, and how the samples moved through it."""

Enough: TypeAlias = Callable[[Tensor, Tensor], Tensor]
"""From values, (n, m), and the error of each row, (n,), to whether that is good enough, (n,)."""


@dataclass(frozen=True, eq=False)
class _Open:
    """Samples that are not answered yet: their places, and what the fusion before said."""

    rows: Tensor
    samples: Samples
    answer: Answer | None = None
    behind: Tensor | None = None

    def where(self, rows: Tensor) -> _Open:
        """Some of them: a mask."""
        if self.answer is None or self.behind is None:
            return _Open(self.rows[rows], self.samples.where(rows))
        answer = self.answer[0][rows], self.answer[1].where(rows)
        return _Open(self.rows[rows], self.samples.where(rows), answer, self.behind[rows])

    @classmethod
    def cat(cls, parts: Sequence[_Open]) -> _Open:
        """Those of several parts."""
        if len(parts) == 1:
            return parts[0]
        out = cls(
            torch.cat([one.rows for one in parts]), Samples.cat([one.samples for one in parts])
        )
        answers = [one.answer for one in parts if one.answer is not None]
        behind = [one.behind for one in parts if one.behind is not None]
        if len(answers) < len(parts):
            return out
        values = torch.cat([values for values, _ in answers])
        moves = Moves.cat([moves for _, moves in answers])
        return replace(out, answer=(values, moves), behind=torch.cat(behind))


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

    def answer(self, parts: Iterable[Tensor], asked: Values, enough: Enough) -> Tensor:
        """Values of samples, from their features after the last layer.

        Parameters
        ----------
        parts : iterable of Tensors of shape (rows, d)
            Samples on the unit sphere, at best some ``rows_at_once``, n in all.
        asked : Values
        enough : callable
            From values, (n, m), and their estimated errors, (n,), to a mask, (n,):
            which rows need not be computed by the whole network.

        Returns
        -------
        Tensor of shape (n, m)
        """
        answered: list[tuple[Tensor, Tensor]] = []
        still_open, n = [], 0
        for Z in parts:
            rows = torch.arange(n, n + len(Z), device=Z.device)
            n += len(Z)
            part = _Open(rows, Samples(Z, self.network.layers.space, asked))
            if self.pays(len(Z)):
                part = self._first(part)
            for place in range(1, min(2, len(self.fusions))):
                part = self._next(place, part, enough, answered)
            still_open.append(part)
        self.seen.samples += n
        rest = _Open.cat(still_open)
        for place in range(2, len(self.fusions)):
            rest = self._next(place, rest, enough, answered)
        if len(rest.rows):
            answered.append((rest.rows, self._by_network(rest)))
        out = torch.cat([values for _, values in answered])
        return out[torch.cat([rows for rows, _ in answered]).argsort()]

    def _first(self, samples: _Open) -> _Open:
        """Samples after the first fusion."""
        self.seen.answered = self.seen.answered or [0] * len(self.fusions)
        values, moves = self.values(self.fusions[0], samples.samples)
        return replace(samples, answer=(values, moves), behind=moves.behind)

    def _next(
        self, place: int, some: _Open, enough: Enough, answered: list[tuple[Tensor, Tensor]]
    ) -> _Open:
        """Try a fusion: add what it answers to ``answered``, and return the other samples."""
        if some.answer is None or some.behind is None or not len(some.rows):
            return some
        values, moves = self.values(
            self.fusions[place], some.samples, some.behind < self.fusions[place].negligible
        )
        done = enough(values, self.error(some.answer, (values, moves)))
        if bool(done.any()):
            largest = float((values - some.answer[0])[done].abs().amax())
            self.seen.answered[place] += int(done.sum())
            self.seen.largest_difference = max(self.seen.largest_difference, largest)
            answered.append((some.rows[done], values[done]))
        behind = torch.maximum(some.behind, moves.behind)
        return replace(some, answer=(values, moves), behind=behind).where(~done)

    def _by_network(self, some: _Open) -> Tensor:
        """Values by the network itself."""
        possible = None if some.behind is None else some.behind < NEGLIGIBLE_IN_NETWORK
        Z = some.samples.Z
        features = self.network.transform(Z, self.sharpness, possible, BATCH_BYTES)
        return some.samples.asked.of_features(features)

    def estimate(self, Z: Tensor, asked: Values) -> Tensor:
        """Values of samples by the most accurate fusion, however close; never slow.

        Parameters
        ----------
        Z : Tensor of shape (n, d)
            On the unit sphere.
        asked : Values

        Returns
        -------
        Tensor of shape (n, m)
        """
        if not self.fusions:
            return asked.of_features(self.network.transform(Z, self.sharpness))
        samples = Samples(Z, self.network.layers.space, asked)
        return self.values(self.fusions[-1], samples)[0]

    def pays(self, n: int) -> bool:
        """Whether n samples are answered faster with fusions: these save products, not calls."""
        return bool(self.fusions) and n * len(self.network.layers) > FEW_MOVES

    @property
    def rows_at_once(self) -> int | None:
        """How many samples the first fusions take at a time to be fast; None means all."""
        if self.fusions and self.fusions[0].space is not None:
            return ROWS if self.fusions[0].layers[0].E.device.type == "cpu" else None
        return None

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

    def values(self, fusion: Fusion, samples: Samples, among: Tensor | None = None) -> Answer:
        """Values, (n, m), by one fusion, and how the samples moved through it.

        Parameters
        ----------
        fusion : Fusion
        samples : Samples
        among : Tensor of shape (n, k), bool, default=None
            As for `Fusion.move`.
        """
        start = samples.start(fusion.space, fusion.wide)
        moves = fusion.move(start, self.sharpness, among)
        return samples.values(fusion.space, start, moves.end), moves

    def error(self, before: Answer, after: Answer) -> Tensor:
        """The estimated error of values, (n,), from those of a fusion and of a finer one."""
        (values_before, moves_before), (values, moves) = before, after
        difference = (values - values_before).abs().amax(dim=1).double()
        rounding = ROUNDING * values.abs().amax(dim=1).double().clamp(min=1)
        coding = self.fusions[0].layers[0].coding
        c = max(sharpness_of(self.sharpness).of_classes(coding))
        change = 4 * c * moves_before.distance(moves)[:, None]
        risks = [
            (one.gains * (one.doubts + change).clamp_(max=0).exp_()).log1p_().sum(dim=1)
            for one in (moves_before, moves)
        ]
        return FACTOR * (difference + rounding) * torch.maximum(*risks).exp_()


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
