"""A network with the fusions that answer for it, and how far these can be trusted.

Fusions of growing accuracy are tried in turn. A sample is answered by the first one whose
estimated error is small enough for it, and by the network itself if none is.

The error of a fusion, for one sample, is estimated as ``FACTOR`` times its difference from
the fusion before, times the sample's *risk*: how much an error can grow on the sample's way
because memberships change. A label asks for the difference of margins: what moves the scores of
all classes alike does not matter to it.

A fusion that has all of the network's layers, in float32 or more, differs from the network by
rounding alone, and by classes of a negligible share. Its difference from the fusion before is that
one's error, many times its own. So the risk does not multiply the difference then, but only what
rounding can do, of which two fusions need not tell.

With c the sharpness (see `Sharpness`) and τ the relative step of a block, a layer maps two
samples at a small distance δ to a distance of at most

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
from typing import Any, NamedTuple, TypeAlias

import torch
from torch import Tensor

from redunet.core.fusion import BATCH_BYTES, Fusion, Moves
from redunet.core.memberships import Confidence, sharpness_of
from redunet.core.network import ReduNet
from redunet.core.parallel import on_threads
from redunet.core.samples import Samples, Values

FACTOR = 4.0
"""A sample is answered by a fusion where what was asked for is more than so many times the
difference between two fusions, times the risk. Chosen by hand, as a factor of safety: with it no
label of the 130,396 in benchmarks/results/labels-*.json differs from that of the whole network."""

TOLERANCE = 1e-3
"""How far scores, probabilities and features may be from those of the whole network."""

FEW_MOVES = 4
"""So few samples in so few layers are faster through the network than through fusions."""

ROWS = 2048
"""How many samples the first two fusions take at a time at most, where these are in few
dimensions: what they compute then stays in the processor's cache."""

ROWS_OF_THREAD = 64
"""With fewer samples a thread is not worth starting."""

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


Rows: TypeAlias = Any
"""Samples in whatever form they come, of which a slice can be taken."""

Answer: TypeAlias = tuple[Tensor, Moves]
"""Values, (n, m), by a fusion, and how the samples moved through it."""


class Factors(NamedTuple):
    """What the error of each row of values is estimated by.

    Attributes
    ----------
    change, rounding : Tensor of shape (n,)
        How many times the difference to the fusion before, and how many times what rounding
        alone may do, is in the error.
    """

    change: Tensor
    rounding: Tensor


Enough: TypeAlias = Callable[[Tensor, Tensor, Factors], Tensor]
"""From values by a fusion and by a finer one, (n, m), and what the error of a row is estimated by,
to whether the finer ones are good enough, (n,)."""


class _Answered(NamedTuple):
    """Some samples that a fusion answered: its place, and theirs, (n,)."""

    place: int
    rows: Tensor
    values: Tensor
    largest_difference: float


@dataclass(frozen=True, eq=False)
class _Open:
    """Samples that are not answered yet: their places, and what the fusion before said."""

    rows: Tensor
    samples: Samples
    answer: Answer | None = None
    behind: Tensor | None = None

    def where(self, rows: Tensor) -> _Open:
        """Some of them: a mask or indices."""
        if self.answer is None or self.behind is None:
            return _Open(self.rows[rows], self.samples.where(rows))
        answer = self.answer[0][rows], self.answer[1].where(rows)
        return _Open(self.rows[rows], self.samples.where(rows), answer, self.behind[rows])

    def split(self, n: int) -> list[_Open]:
        """The same in n parts, of about one size."""
        if n == 1:
            return [self]
        places = torch.arange(len(self.rows), device=self.rows.device)
        return [self.where(part) for part in places.tensor_split(n)]

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

    def answer(
        self,
        rows: Rows,
        asked: Values,
        enough: Enough,
        vectors: Callable[[Rows], Tensor] = lambda Z: Z,
    ) -> Tensor:
        """Values of samples, from their features after the last layer.

        Parameters
        ----------
        rows : Tensor of shape (n, d), or n samples in another form
            Such that ``rows[start:stop]`` are some of them.
        asked : Values
        enough : callable
            Which values need not be computed by the whole network.
        vectors : callable, default=as they are
            From some rows to samples on the unit sphere, (n, d); it is called from threads.

        Returns
        -------
        Tensor of shape (n, m)
        """
        self.seen.samples += len(rows)
        self.seen.answered = self.seen.answered or [0] * len(self.fusions)

        def first_two(part: slice) -> tuple[list[_Answered], _Open]:
            Z = vectors(rows[part])
            places = torch.arange(part.start, part.stop, device=Z.device)
            some = _Open(places, Samples(Z, self.network.layers.space, asked))
            if not self.pays(len(Z)):
                return [], some
            values, moves = self.values(self.fusions[0], some.samples)
            some = replace(some, answer=(values, moves), behind=moves.behind)
            return self._pass([1], some, enough)

        def the_others(some: _Open) -> tuple[list[_Answered], _Open]:
            return self._pass(range(2, len(self.fusions)), some, enough)

        found = on_threads(first_two, self._parts(len(rows)))
        rest = _Open.cat([some for _, some in found])
        later = on_threads(the_others, rest.split(self._threads(len(rest.rows))))
        answered = [one for parts, _ in found + later for one in parts]
        for one in answered:
            self.seen.answered[one.place] += len(one.rows)
            largest = max(self.seen.largest_difference, one.largest_difference)
            self.seen.largest_difference = largest
        pairs = [(one.rows, one.values) for one in answered]
        rest = _Open.cat([some for _, some in later])
        if len(rest.rows):
            pairs.append((rest.rows, self._by_network(rest)))
        out = torch.cat([values for _, values in pairs])
        return out[torch.cat([places for places, _ in pairs]).argsort()]

    @property
    def _on_cpu(self) -> bool:
        return self.fusions[0].layers[0].E.device.type == "cpu"

    def _threads(self, n: int) -> int:
        """How many threads n samples are worth."""
        if not self.fusions or not self._on_cpu:
            return 1
        return max(1, min(torch.get_num_threads(), n // ROWS_OF_THREAD))

    def _parts(self, n: int) -> list[slice]:
        """Consecutive rows to begin with: as many parts on each thread, all of one size."""
        threads = self._threads(n)
        each = 1
        if self.fusions and self.fusions[0].space is not None and self._on_cpu:
            each = math.ceil(n / threads / ROWS)
        size = math.ceil(n / (threads * each))
        return [slice(start, min(n, start + size)) for start in range(0, n, size)]

    def _pass(
        self, places: Iterable[int], some: _Open, enough: Enough
    ) -> tuple[list[_Answered], _Open]:
        """What some fusions answer, one after another, and the samples that none did."""
        answered: list[_Answered] = []
        for place in places:
            if some.answer is None or some.behind is None or not len(some.rows):
                break
            fusion, (before, moved) = self.fusions[place], some.answer
            values, moves = self.values(fusion, some.samples, some.behind < fusion.negligible)
            done = enough(before, values, self.factors(moved, moves))
            if bool(done.any()):
                largest = float((values - before)[done].abs().amax())
                answered.append(_Answered(place, some.rows[done], values[done], largest))
            behind = torch.maximum(some.behind, moves.behind)
            some = replace(some, answer=(values, moves), behind=behind).where(~done)
        return answered, some

    def _by_network(self, some: _Open) -> Tensor:
        """Values by the network itself."""
        possible = None if some.behind is None else some.behind < NEGLIGIBLE_IN_NETWORK
        Z = some.samples.Z
        features = self.network.transform(Z, self.sharpness, possible, BATCH_BYTES)
        return some.samples.asked.of_features(features)

    def features(self, Z: Tensor) -> Tensor:
        """Features of samples, (n, d), on the unit sphere, by the network itself.

        Where there are no fusions, the pass for the samples also gives what the read-out is made
        of: `answer`, which is given the read-out, would need two.
        """
        self.seen.samples += len(Z)
        return self.network.transform(Z, self.sharpness, None, BATCH_BYTES)

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

    def factors(self, before: Moves, after: Moves) -> Factors:
        """What the error of the finer of two fusions is estimated by."""
        coding = self.fusions[0].layers[0].coding
        c = max(sharpness_of(self.sharpness).of_classes(coding))
        change = 4 * c * before.distance(after)[:, None]
        risks = []
        for one in (before, after):
            gains = c * one.doubts.new_tensor(one.fusion.path)
            grown = gains * (one.doubts + change).clamp_(max=0).exp_()
            risks.append(grown.log1p_().sum(dim=1))
        risk = torch.maximum(*risks).exp_()
        plain = torch.ones_like(risk)
        return Factors(FACTOR * (plain if after.fusion.whole else risk), FACTOR * risk)


def same_label(before: Tensor, values: Tensor, factors: Factors) -> Tensor:
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
    error = _error(change, values, factors)
    of_margins = change.gather(1, places[0][:, None]) - change
    lowest = values.amin(dim=1, keepdim=True)
    cut_off = (values == lowest).sum(dim=1) > 1
    apart = torch.where(cut_off, best - second, best - lowest[:, 0]).double()
    clear = (best - second).double() > _error(of_margins, values, factors)
    return clear & (apart > error)


def close(before: Tensor, values: Tensor, factors: Factors) -> Tensor:
    """Whether values are estimated within `TOLERANCE`, of 1 or of a row's largest: (n,)."""
    scale = values.abs().amax(dim=1).double().clamp(min=1)
    return _error(values - before, values, factors) <= TOLERANCE * scale


def same_label_and_close(before: Tensor, values: Tensor, factors: Factors) -> Tensor:
    """Both of `same_label` and `close`."""
    return same_label(before, values, factors) & close(before, values, factors)


def _error(change: Tensor, values: Tensor, factors: Factors) -> Tensor:
    """The estimated error of values, (n, m), each row's: (n,)."""
    rounding = ROUNDING * values.abs().amax(dim=1).double().clamp(min=1)
    return factors.change * change.abs().amax(dim=1).double() + factors.rounding * rounding
