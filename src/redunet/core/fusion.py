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

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import torch
from torch import Tensor

from redunet.core.layer import AbstractLayer, Layer
from redunet.core.memberships import Confidence, sharpness_of
from redunet.core.network import ReduNet
from redunet.core.reduced_space import ReducedSpace

FACTOR = 4.0
"""A sample is answered by a fusion where what was asked for is more than so many times the
difference between two fusions, times the risk."""

TOLERANCE = 1e-3
"""How far scores, probabilities and features may be from those of the whole network."""

BLOCK_PATH = 0.4
"""The longest path Σ τ of a block in the coarsest fusion."""

WIDTHS, WIDTH_STEP = (12, 6, 3), 64
"""The first fusions have a 12th, a 6th and a 3rd of the dimensions, rounded up to a multiple."""

MIN_WIDTH, MAX_WIDTH = 256, 1536
"""Networks of so many dimensions are tried in fewer; above, finding them takes too long."""

NEGLIGIBLE, NEGLIGIBLE_IN_NETWORK = math.log(2.0**24), math.log(2.0**62)
"""A class so many nats behind the likeliest one has no share in a sample: in a fusion, and in
the network."""

PROBES = 128
"""How many samples are drawn from the moments to see which fusions are worth trying."""

WORTHWHILE = 0.7
"""Fusions are used where they take less than this share of the network's products."""

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


def fuse(
    network: ReduNet, sharpness: Confidence, scores_of: Values, fusions: Sequence[Fusion]
) -> FusedNetwork:
    """A network with those fusions that are worth trying before it; none, if none is.

    Parameters
    ----------
    network : ReduNet
    sharpness : Sharpness or float
    scores_of : callable
        From features after the last layer, (n, d), to scores, (n, k).
    fusions : sequence of Fusion
        As `candidates` gives them.
    """
    every = FusedNetwork(network, sharpness, fusions)
    probes = network.layers.probes(PROBES)
    if probes is None or not fusions:
        return every
    return FusedNetwork(network, sharpness, worthwhile(every, probes, scores_of))


def candidates(network: ReduNet, memory: int) -> list[Fusion]:
    """Fusions of a network, of growing accuracy; at least two, or none.

    Makes a pass through the layers if none was made yet.

    Parameters
    ----------
    network : ReduNet
    memory : int
        Bytes that the fusions may take.
    """
    layers = network.layers
    if not len(layers) or layers.probes(0) is None:
        return []
    steps = layers.steps
    plans = [blocks(steps, size) for size in depths(sum(steps), len(steps))]
    wanted = {block.middle for plan in plans for block in plan}
    E, found = torch.empty(0), {}
    for index, layer in enumerate(layers.passing()):
        if not index:
            E = layer.E.to(torch.float64, copy=True)
        if index in wanted:
            found[index] = layer.fused(layer.step, torch.float32)
    coarse, fine = reduced_dtypes(E.device.type)

    def fusion(plan: list[Block], dtype: torch.dtype, width: int = 0) -> Fusion:
        space, chosen = None, [(found[block.middle], block.path) for block in plan]
        if width:
            basis = leading_directions(E, width).float()
            space = ReducedSpace(len(E), torch.arange(len(E), device=E.device), basis)
            chosen = [(narrow(layer, basis), path) for layer, path in chosen]
        made = [layer.fused(path / layer.coding.alpha, dtype) for layer, path in chosen]
        return Fusion(tuple(made), tuple(block.reach for block in plan), space, dtype)

    if MIN_WIDTH <= len(E) <= MAX_WIDTH and all(isinstance(one, Layer) for one in found.values()):
        widths = [math.ceil(len(E) / part / WIDTH_STEP) * WIDTH_STEP for part in WIDTHS]
        out = [
            fusion(plans[0], coarse, widths[0]),
            fusion(plans[0], fine, widths[1]),
            fusion(plans[1], fine, widths[2]),
        ]
    else:
        out = [fusion(plans[0], coarse)]
    for plan in plans[1:]:
        one = fusion(plan, fine)
        if sum(made.n_bytes for made in out) + one.n_bytes > memory:
            break
        out.append(one)
    return out if len(out) > 1 else []


def depths(path: float, n_layers: int) -> list[int]:
    """The numbers of blocks of the fusions to try, each twice the one before.

    A shallow network is not cut into blocks: its fusions have all of its layers.
    """
    first = max(1, math.ceil(path / BLOCK_PATH))
    sizes = [first]
    while sum(sizes) + 2 * sizes[-1] <= n_layers / 2:
        sizes.append(2 * sizes[-1])
    return sizes if len(sizes) > 1 else [n_layers, n_layers]


def worthwhile(every: FusedNetwork, probes: Tensor, scores_of: Values) -> Sequence[Fusion]:
    """The fusions, without the first ones, that label samples with the fewest products.

    None where the network alone takes hardly more.

    Parameters
    ----------
    every : FusedNetwork
        With at least two fusions.
    probes : Tensor of shape (n, d)
        Samples such as will come.
    scores_of : callable
        As for `fuse`.
    """
    fusions = every.fusions
    sample = every.sample(probes)
    found = [every.values(fusion, sample, scores_of) for fusion in fusions]
    cleared = []
    for (before, passed_before), (after, passed) in itertools.pairwise(found):
        difference = (after - before).abs().amax(dim=1).double()
        cleared.append(same_label(after, every.error(difference, passed_before, passed)))
    behind = found[0][1].behind
    considered, in_network, relevant = (
        float((behind < nats).double().mean())
        for nats in (NEGLIGIBLE, NEGLIGIBLE_IN_NETWORK, math.log(2.0**53))
    )
    layers = len(every.network.layers)
    alone = layers * fusions[-1].layers[0].products(1.0, relevant)
    after_all = layers * fusions[-1].layers[0].products(in_network, relevant)
    best, chosen = WORTHWHILE * alone, len(fusions)
    for start in range(len(fusions) - 1):
        still_open = torch.ones_like(cleared[0])
        cost = fusions[start].cost(1.0, relevant)
        for fusion, done in zip(fusions[start + 1 :], cleared[start:], strict=True):
            cost += float(still_open.double().mean()) * fusion.cost(considered, relevant)
            still_open = still_open & ~done
        cost += float(still_open.double().mean()) * after_all
        if cost < best:
            best, chosen = cost, start
    return fusions[chosen:]


def rate(dtype: torch.dtype, device: str) -> float:
    """How long a product of two numbers takes, with one in float64 as the unit."""
    if device == "cpu":
        return {torch.float64: 1.0, torch.float32: 0.5}.get(dtype, 0.25)
    return 1.0 if dtype in (torch.float64, torch.float32) else 0.1


def reduced_dtypes(device: str) -> tuple[torch.dtype, torch.dtype]:
    """The dtypes of the first fusion and of the others: those whose products are fast here."""
    fast = device != "cpu" or torch.ops.mkldnn._is_mkldnn_bf16_supported()
    return (torch.bfloat16 if fast else torch.float32), torch.float32


def leading_directions(E: Tensor, n: int) -> Tensor:
    """The n directions in which all samples together vary most: where E, (d, d), is smallest.

    Returns
    -------
    Tensor of shape (d, n)
        Orthonormal columns.
    """
    vectors: Tensor = torch.linalg.eigh(E)[1]  # eigenvalues ascend
    return vectors[:, :n].contiguous()


class Block(NamedTuple):
    """Consecutive layers that become one.

    Attributes
    ----------
    middle : int
        The index of the layer in the middle of their path.
    path : float
        Σ τ of the layers.
    reach : float
        1 − Σ τ² / (Σ τ)².
    """

    middle: int
    path: float
    reach: float


def blocks(steps: Sequence[float], n_blocks: int) -> list[Block]:
    """Layers cut into at most so many blocks of about equal path; ``steps`` has τ of each."""
    total, done = sum(steps) or 1.0, 0.0
    of_block: dict[int, list[tuple[int, float]]] = {}
    for index, step in enumerate(steps):
        at = (done + step / 2) / total * n_blocks  # where the layer lies on the way
        of_block.setdefault(min(int(at), n_blocks - 1), []).append((index, at))
        done += step
    out = []
    for block, inside in of_block.items():
        middle = min(inside, key=lambda one: abs(one[1] - block - 0.5))[0]
        path = [steps[index] for index, _ in inside]
        squares = sum(step**2 for step in path) / (sum(path) ** 2 or 1.0)
        out.append(Block(middle, sum(path), max(0.0, 1 - squares)))
    return out


def narrow(layer: AbstractLayer, basis: Tensor) -> Layer:
    """A layer of matrices within some directions, the columns of ``basis``, (d, r).

    Along all others, which become one dimension, E is α and C_j is α_j.
    """
    coding = layer.coding

    def within(A: Tensor, rest: Sequence[float]) -> Tensor:
        out = torch.nn.functional.pad(basis.mT @ A @ basis, (0, 1, 0, 1))
        out[:, -1, -1] = out.new_tensor(rest)
        return out

    E = within(layer.E[None], [coding.alpha])[0]
    return Layer(E, within(layer.C, coding.alphas), coding, layer.step, layer.rate)
