"""Filters that all classes share, or fewer of each class: how few will do, and what they take.

The directions in which all samples together vary most, which the pooled moment alone
determines, are one basis for all classes and layers. A network *shared* to R of them multiplies
a sample by R filters of d numbers; all that a class still has of its own lies within these R
dimensions. The alternative shares nothing but cuts each class to r directions of its own. A
*filter* is a row that a layer multiplies a sample by.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import pad

from redunet.core.eigenvectors import top_eigenvectors
from redunet.core.factors import gram_eigenvectors
from redunet.core.fused_network import FusedNetwork, same_label
from redunet.core.fusion import Fusion
from redunet.core.fusion_choice import leading_directions, narrow
from redunet.core.layer import AbstractLayer, Layer
from redunet.core.leading import Leading
from redunet.core.linalg import add_identity, spd_inverse
from redunet.core.low_rank import LowRankLayer, Stack, stacked
from redunet.core.memberships import Confidence
from redunet.core.network import ReduNet
from redunet.core.samples import Samples, Values
from redunet.core.second_moments import FACTORED_UP_TO

CLEARED = 0.95
"""The share of the samples whose label a cut must leave beyond doubt."""


class Size(NamedTuple):
    """What a network takes; its read-out, the same for every form of it, is left out.

    Attributes
    ----------
    filters : int
        Rows of d numbers that a sample is multiplied by, in all layers together.
    numbers : int
        All that is stored for the layers.
    of_classes : int
        Those of them that belong to single classes.
    products : int
        Of two numbers, for one sample.
    """

    filters: int
    numbers: int
    of_classes: int
    products: int


def plain(k: int, d: int, n_layers: int) -> Size:
    """The network as the paper has it: a d × d matrix for each class and one for all."""
    rows, classes = n_layers * (k + 1) * d, n_layers * k * d**2
    return Size(rows, rows * d, classes, rows * d)


def stored(layers: Sequence[AbstractLayer]) -> Size:
    """Layers as they are held: matrices, or factors of classes of low rank."""
    numbers = sum(layer.n_bytes // layer.E.element_size() for layer in layers)
    of_all = sum(layer.E.numel() for layer in layers)
    products = sum(layer.products() for layer in layers)
    return Size(sum(map(rows_of, layers)), numbers, numbers - of_all, round(products))


def size(cut: Fusion, d: int) -> Size:
    """A cut network, with the basis of its directions in d dimensions where it has one."""
    inner = stored(cut.layers)
    if cut.space is None:
        return inner
    R = cut.space.basis.shape[1]
    return Size(R, R * d + inner.numbers, inner.of_classes, 2 * R * d + inner.products)


def rows_of(layer: AbstractLayer) -> int:
    """The rows that a layer multiplies a sample by."""
    if isinstance(layer, LowRankLayer):
        factors = sum(len(stack.rows) for stack in layer.stacks)
        return len(layer.E) * (1 + len(layer.dense)) + factors
    return len(layer.E) * (1 + len(layer.coding.counts))


def within(layer: AbstractLayer, basis: Tensor) -> AbstractLayer:
    """A layer within the columns of ``basis``, (d, R), and one dimension for all others.

    The same as `narrow`, but classes of low rank stay factors where these are smaller.
    """
    if not isinstance(layer, LowRankLayer):
        return narrow(layer, basis)
    R, coding = basis.shape[1], layer.coding
    E = pad(basis.mT @ layer.E @ basis, (0, 1, 0, 1))
    E[-1, -1] = coding.alpha
    C = pad(basis.mT @ layer.compression @ basis, (0, 1, 0, 1))
    C[:, -1, -1] = C.new_tensor([coding.alphas[j] for j in layer.dense])
    matrices = dict(zip(layer.dense, C, strict=True))
    stacks, inverses = [], []
    for stack, M in zip(layer.stacks, layer.M, strict=True):
        B = pad(stack.B @ basis, (0, 1))
        if B.shape[1] <= FACTORED_UP_TO * R:
            stacks.append(Stack(stack.classes, B))
            inverses.append(M)
            continue
        for j, B_j, M_j in zip(stack.classes, B, M, strict=True):
            matrices[j] = add_identity(-(B_j.mT @ M_j @ B_j)) * coding.alphas[j]
    dense = tuple(sorted(matrices))
    C = torch.stack([matrices[j] for j in dense]) if dense else E.new_empty(0, R + 1, R + 1)
    step, rate = layer.step, layer.rate
    if not stacks:
        return Layer(E, C, coding, step, rate)
    return LowRankLayer(E, dense, C, tuple(stacks), tuple(inverses), coding, step, rate)


def factors_of(layer: AbstractLayer) -> dict[int, Tensor]:
    """Of each class F, (d, r), with Σ_j = F Fᵀ and orthogonal columns, the longest first."""
    stacks: tuple[Stack, ...] = ()
    classes, C = tuple(range(len(layer.coding.counts))), None
    if isinstance(layer, LowRankLayer):
        stacks, classes, C = layer.stacks, layer.dense, layer.compression
    found = {}
    for j, C_j in zip(classes, layer.C if C is None else C, strict=True):
        Sigma_j = add_identity(spd_inverse(C_j)[0], -1 / layer.coding.alphas[j])
        found[j] = top_eigenvectors(Sigma_j, len(Sigma_j))
    for stack in stacks:
        for j, B_j in zip(stack.classes, stack.B, strict=True):
            found[j] = gram_eigenvectors(B_j, len(B_j))
    return {
        j: vectors * values.clamp(min=0).sqrt() * (values > 0)
        for j, (values, vectors) in sorted(found.items())
    }


def of_factors(layer: AbstractLayer, factors: dict[int, Tensor]) -> LowRankLayer:
    """The same layer with other second moments of the classes, F Fᵀ each; E stays as it is."""
    coding = layer.coding
    stacks = stacked(factors)
    inverses = tuple(stack.inverse(coding)[0] for stack in stacks)
    none = layer.E.new_empty(0, *layer.E.shape)
    return LowRankLayer(layer.E, (), none, stacks, inverses, coding, layer.step, layer.rate)


@dataclass(frozen=True, eq=False)
class Cuts:
    """A network, and what it can be cut to.

    Parameters
    ----------
    network : ReduNet
        With layers that are kept.
    sharpness : Sharpness or float
    scores_of : callable
        From features after the last layer, (n, d), to scores, (n, k).
    """

    network: ReduNet
    sharpness: Confidence
    scores_of: Callable[[Tensor], Tensor]

    @cached_property
    def layers(self) -> tuple[AbstractLayer, ...]:
        """All layers, within the network's reduced space."""
        return tuple(self.network.layers.passing())

    @cached_property
    def _directions(self) -> Tensor:
        return leading_directions(self.layers[0].E, self.most)

    @cached_property
    def _factors(self) -> list[dict[int, Tensor]]:
        return [factors_of(layer) for layer in self.layers]

    @property
    def most(self) -> int:
        """s, the number of directions of the reduced space."""
        return len(self.layers[0].E)

    @property
    def most_of_class(self) -> int:
        """The largest number of directions that a class has."""
        return max(F.shape[1] for F in self._factors[0].values())

    def shared(self, R: int) -> Fusion:
        """The network within the R leading directions of all samples together."""
        return self._within(self.layers, R)

    def shared_and_own(self, R: int, r: int) -> Fusion:
        """What `own` gives for r, within the R leading directions of all samples together."""
        return self._within(self.own(r).layers, R)

    def _within(self, layers: Sequence[AbstractLayer], R: int) -> Fusion:
        basis = self._directions[:, :R].contiguous()
        space = Leading.of(basis, self.network.layers.space)
        return self._fusion([within(layer, basis) for layer in layers], space)

    def own(self, r: int) -> Fusion:
        """The network with each class cut to its own r leading directions."""
        made = [
            of_factors(layer, {j: F[:, :r] for j, F in factors.items()})
            for layer, factors in zip(self.layers, self._factors, strict=True)
        ]
        return self._fusion(made, None)

    def _fusion(self, layers: Sequence[AbstractLayer], space: Leading | None) -> Fusion:
        return Fusion(tuple(layers), (0.0,) * len(layers), space, layers[0].E.dtype)

    def fused(self, *fusions: Fusion) -> FusedNetwork:
        """The network with cuts that answer for it where they can be trusted."""
        return FusedNetwork(self.network, self.sharpness, fusions)

    def _samples(self, Z: Tensor) -> Samples:
        return Samples(Z, self.network.layers.space, Values(self.scores_of))

    def answer(self, first: Fusion, second: Fusion, Z: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Labels by the margin rule: those of a cut network where it can be trusted.

        As `FusedNetwork.answer`, but both cuts look at all classes: which ones are out of the
        question is not for a network to say whose classes are cut.

        Parameters
        ----------
        first, second : Fusion
            The second one answers where the difference between the two is small enough.
        Z : Tensor of shape (n, d)

        Returns
        -------
        labels : Tensor of shape (n,)
        unchecked : Tensor of shape (n,)
            Labels of the second cut, whatever the difference.
        done : Tensor of shape (n,), bool
            Which samples did not need the whole network.
        """
        both = self.fused(first, second)
        before, after = (both.values(one, self._samples(Z)) for one in (first, second))
        values = after[0]
        done = same_label(before[0], values, both.factors(before[1], after[1]))
        unchecked = values.argmax(dim=1)
        labels = unchecked.clone()
        rest = self.network.transform(Z[~done], self.sharpness)
        labels[~done] = self.scores_of(rest).argmax(dim=1)
        return labels, unchecked, done

    def fewest(
        self, cut: Callable[[int], Fusion], most: int, Z: Tensor, share: float = CLEARED
    ) -> tuple[int, float]:
        """The fewest directions that leave the labels of samples, (n, d), beyond doubt.

        A label is beyond doubt where `same_label` says so of the difference to the network
        itself. Found by
        bisection, as if the share of such samples never fell with more directions.

        Parameters
        ----------
        cut : callable
            `shared` or `own`.
        most : int
            A number of directions that surely will do.
        Z : Tensor of shape (n, d)
        share : float, default=CLEARED

        Returns
        -------
        directions : int
        cleared : float
            The share of the samples whose label is beyond doubt; at least ``share``.
        """
        whole = self._fusion(self.layers, None)
        alone = self.fused(whole)
        of_whole = alone.values(whole, self._samples(Z))

        def cleared(n: int) -> float:
            one = cut(n)
            both = self.fused(one, whole)
            of_cut = both.values(one, self._samples(Z))
            done = same_label(of_whole[0], of_cut[0], both.factors(of_cut[1], of_whole[1]))
            return float(done.double().mean())

        low, high, reached = 0, most, 1.0
        while high - low > 1:
            middle = (low + high) // 2
            at = cleared(middle)
            if at >= share:
                high, reached = middle, at
            else:
                low = middle
        return high, reached
