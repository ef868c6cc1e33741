"""Which fusions of a network are made, and which of them pay.

Blocks are cut by the length of their path. Samples drawn from the moments show which fusions
answer with fewer products than the whole network; see `redunet.core.fusion` for what they are.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import torch
from torch import Tensor

from redunet.core.fused_network import NEGLIGIBLE_IN_NETWORK, FusedNetwork, same_label
from redunet.core.fusion import Fusion
from redunet.core.layer import AbstractLayer, Layer
from redunet.core.leading import Leading
from redunet.core.low_rank import LowRankLayer
from redunet.core.memberships import Confidence
from redunet.core.network import ReduNet
from redunet.core.samples import Samples, Values

BLOCK_PATH = 0.4
"""The longest path Σ τ of a block in the coarsest fusion."""

MOST_BLOCKS = 0.6
"""How many blocks all fusions together may have, as a share of the layers: just enough for 2, 4, 8
and 16 of 50 layers. The 16 answer half of the samples of CLINC150 that went through all 50."""

WIDTHS, WIDTH_STEP = (1 / 12, 1 / 6, 1 / 3, 2 / 3), 64
"""The first fusions have these shares of the dimensions, rounded up to a multiple. Chosen by hand
on MNIST's 784 dimensions, each share twice the one before."""

MIN_WIDTH, MAX_WIDTH = 256, 1536
"""Networks of so many dimensions are tried in fewer; above, finding them takes too long."""

LEAST_BYTES = 10
"""That two fusions take for each number of a layer while they are made: one in bfloat16, one in
float32, and what both are made from, in float32."""

LEAST_BYTES_OF_ONE_LAYER = 14
"""The same where there is one layer: what its fusions are made from is in float64."""

CUT = 3 / 8
"""The share of their directions that classes of few samples have in a first fusion. Chosen by hand
on CLINC150 with the recipe vectors; where it tells too little, see `with_whole_classes`."""

SHARES = {torch.bfloat16: 2.0**-12, torch.float32: 2.0**-20, torch.float64: 2.0**-34}
"""The share in a sample up to which a class is left out of it, by the dtype of a fusion: what is
left out is then smaller than what rounding changes, in this fusion or in the one before."""

AFTER_CUT = 2.0**-12
"""The same after a fusion of cut classes, whose error is many times larger."""

LARGEST_STEP = torch.finfo(torch.bfloat16).max
"""Steps η = τ/α beyond are no numbers of the dtypes of fusions, of which there are then none."""

PROBES = 128
"""How many samples are drawn from the moments to see which fusions are worth trying."""

PAYING_SHARE = 0.7
"""Fusions are used where they take less than this share of the network's products. Chosen by hand:
products alone do not tell what the choice between fusions costs each sample."""


def fuse(
    network: ReduNet, sharpness: Confidence, scores: Values, fusions: Sequence[Fusion]
) -> FusedNetwork:
    """A network with those fusions that are worth trying before it; none, if none is.

    Parameters
    ----------
    network : ReduNet
    sharpness : Sharpness or float
    scores : Values
        Of the classes, (n, k).
    fusions : sequence of Fusion
        As `candidates` gives them.
    """
    every = FusedNetwork(network, sharpness, fusions)
    probes = network.layers.probes(PROBES)
    if probes is None or not fusions:
        return every
    chosen = worthwhile(every, probes, scores)
    if not chosen and (uncut := with_whole_classes(fusions)):
        chosen = worthwhile(FusedNetwork(network, sharpness, uncut), probes, scores)
    return FusedNetwork(network, sharpness, chosen)


def candidates(network: ReduNet, memory: int) -> list[Fusion]:
    """Fusions of a network, of growing accuracy; at least two, or none.

    Makes a pass through the layers if none was made yet.

    Parameters
    ----------
    network : ReduNet
    memory : int
        Bytes that the fusions may take; of wide layers, while they are made too.
    """
    layers = network.layers
    if not layers.width or not len(layers):
        return []
    least = LEAST_BYTES_OF_ONE_LAYER if len(layers) == 1 else LEAST_BYTES
    if layers.width > MAX_WIDTH and least * layers.numbers_each > memory:
        return []  # without a pass, which would take as much memory
    steps = layers.steps
    plans = [blocks(steps, size) for size in depths(sum(steps), len(steps))]
    shallow = not plans
    plans = plans or 2 * [[Block(index, step, 0.0) for index, step in enumerate(steps)]]
    if layers.width > MAX_WIDTH and least * len(plans[0]) * layers.numbers_each > memory:
        return []  # before they are made
    wanted = {block.middle for plan in plans for block in plan}
    E, found = torch.empty(0), {}
    for index, layer in enumerate(layers.passing()):
        if not index:
            E = layer.E.to(torch.float64, copy=True)
        if index in wanted:
            factors = len(steps) == 1 and isinstance(layer, LowRankLayer)
            found[index] = layer.fused(layer.step, torch.float64 if factors else torch.float32)
    if sum(steps) > found[plans[0][0].middle].coding.alpha * LARGEST_STEP:
        return []
    coarse, fine = reduced_dtypes(E.device.type)

    def fusion(plan: list[Block], dtype: torch.dtype, width: int = 0, share: float = 0.0) -> Fusion:
        share = share or SHARES[dtype]
        space, chosen = None, [(found[block.middle], block.path) for block in plan]
        if width:
            basis = leading_directions(E, width).float()
            space = Leading.of(basis, layers.space)
            chosen = [(narrow(layer, basis), path) for layer, path in chosen]
        made = [layer.fused(path / layer.coding.alpha, dtype, share / 4) for layer, path in chosen]
        whole = len(plan) == len(steps) and space is None and dtype.itemsize >= 4
        reach = tuple(block.reach for block in plan)
        return Fusion(tuple(made), reach, space, dtype, share, whole)

    taken = sum(layer.n_bytes for layer in found.values()) if layers.width > MAX_WIDTH else 0
    if MIN_WIDTH <= len(E) <= MAX_WIDTH and all(isinstance(one, Layer) for one in found.values()):
        widths = [math.ceil(len(E) * share / WIDTH_STEP) * WIDTH_STEP for share in WIDTHS]
        on_gpu = E.device.type != "cpu"  # on a CPU, fewer bits save nothing in so few dimensions
        out = [
            fusion(plans[0], coarse if on_gpu else fine, widths[0]),
            fusion(plans[0], fine, widths[1]),
            fusion(plans[1], fine, widths[2]),
            fusion(plans[1], fine, widths[3]),
        ]
        finer = [(plan, fine) for plan in (plans[:1] if shallow else plans[2:])]
    elif len(steps) == 1 and isinstance(found[0], LowRankLayer):
        # Which classes matter is known before the only layer, for every fusion alike.
        out = [fusion(plans[0], coarse)]
        if E.device.type == "cpu":
            taken += out[0].n_bytes  # for `with_whole_classes`
            out = [cut_classes(out[0]), fusion(plans[0], fine, share=AFTER_CUT)]
            taken -= out[0].n_bytes
        finer = [(plans[0], dtype) for dtype in (fine, torch.float64)][len(out) - 1 :]
    else:
        out, finer = [fusion(plans[0], coarse)], [(plan, fine) for plan in plans[1:]]
    for plan, dtype in finer:
        parts = [(found[block.middle].n_bytes, found[block.middle].E.itemsize) for block in plan]
        size = sum(n_bytes * dtype.itemsize // itemsize for n_bytes, itemsize in parts)
        if taken + sum(made.n_bytes for made in out) + size > memory:
            break
        out.append(fusion(plan, dtype))
    return out if len(out) > 1 else []


def cut_classes(fusion: Fusion) -> Fusion:
    """A fusion with the leading directions of each class only, to tell which classes matter."""
    made = (one.cut(CUT) if isinstance(one, LowRankLayer) else one for one in fusion.layers)
    return replace(fusion, layers=tuple(made), whole=False)


def with_whole_classes(fusions: Sequence[Fusion]) -> Sequence[Fusion]:
    """The same after a fusion of all directions of each class, where the first has but some.

    For classes whose samples vary in many directions alike, of which the leading ones tell little.
    None where the first fusion is of whole classes already, or has as many bits as the second.
    """
    first, second = fusions[:2]
    was_cut = any(
        isinstance(one, LowRankLayer) and one.left_out is not None for one in first.layers
    )
    if not was_cut or first.dtype == second.dtype:
        return []

    def uncut(dtype: torch.dtype) -> Fusion:
        share = SHARES[dtype]
        layers = tuple(one.fused(one.step, dtype, share / 4) for one in second.layers)
        return replace(second, layers=layers, dtype=dtype, share=share, whole=dtype.itemsize >= 4)

    return [uncut(first.dtype), uncut(second.dtype), *fusions[2:]]


def depths(path: float, n_layers: int) -> list[int]:
    """The numbers of blocks of the fusions to try, each twice the one before.

    None for a shallow network, which is not cut into blocks: its fusions have all of its layers.
    """
    first = max(1, math.ceil(path / BLOCK_PATH))
    sizes = [first]
    while sum(sizes) + 2 * sizes[-1] <= MOST_BLOCKS * n_layers:
        sizes.append(2 * sizes[-1])
    return sizes if len(sizes) > 1 else []


def worthwhile(every: FusedNetwork, probes: Tensor, scores: Values) -> Sequence[Fusion]:
    """The fusions, without the first ones, that label samples with the fewest products.

    None where the network alone takes hardly more.

    Parameters
    ----------
    every : FusedNetwork
        With at least two fusions.
    probes : Tensor of shape (n, d)
        Samples such as will come.
    scores : Values
        As for `fuse`.
    """
    fusions = every.fusions
    samples = Samples(probes, every.network.layers.space, scores)
    found = [every.values(fusion, samples) for fusion in fusions]
    cleared = [
        same_label(before[0], after[0], every.factors(before[1], after[1]))
        for before, after in itertools.pairwise(found)
    ]
    layers, last = len(every.network.layers), fusions[-1].layers[0]

    def share(start: int, nats: float) -> float:
        return float((found[start][1].behind < nats).double().mean())

    relevant = share(len(fusions) - 1, math.log(2.0**53))
    best, chosen = PAYING_SHARE * layers * last.products(1.0, relevant), len(fusions)
    for start in range(len(fusions) - 1):
        still_open = torch.ones_like(cleared[0])
        cost = fusions[start].cost(1.0, relevant)
        for fusion, done in zip(fusions[start + 1 :], cleared[start:], strict=True):
            considered = share(start, fusion.negligible)
            cost += float(still_open.double().mean()) * fusion.cost(considered, relevant)
            still_open = still_open & ~done
        in_network = share(start, NEGLIGIBLE_IN_NETWORK)
        after_all = layers * last.products(in_network, relevant)
        cost += float(still_open.double().mean()) * after_all
        if cost < best:
            best, chosen = cost, start
    return fusions[chosen:]


def reduced_dtypes(device: str) -> tuple[torch.dtype, torch.dtype]:
    """The dtypes of the first fusion and of the others: those whose products are fast here."""
    if device == "cpu":  # oneDNN has fast products in bfloat16 there
        fast = torch.backends.cpu.get_cpu_capability() == "AVX512"
        fast = fast and torch.backends.mkldnn.is_available()  # type: ignore[no-untyped-call]
    else:
        fast = True
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
