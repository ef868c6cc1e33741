"""Labels for samples that have none: those that add the shortest code, the most certain first.

A sample z goes to the class whose code it lengthens least (`redunet.core.rejection`), and how
certain that is, is told by how much more of it the second-best class leaves outside. Labels are
given in rounds: each takes the most certain samples of every class, up to a quota, and learns
them; the next one gives all labels again, and may take back what it sees better. Quotas leave the
least certain samples without a label, and keep a class from growing at the expense of others.

The result is a function of the moments and of the set of samples, not of their order: they are
sorted first, so that sums, and where values are equal choices, are always the same.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from redunet.core.grid import unit_rows
from redunet.core.low_rank import stacked
from redunet.core.moments import ClassMoments, Label
from redunet.core.rejection import Residuals
from redunet.core.second_moments import FACTORED_UP_TO, SecondMoments

ROUNDS = 5

SHARE = 0.9
"""Of the samples, at most so many get a label; of each class, in proportion to what it has learnt.
Both were chosen on CLINC150's validation data: see docs/unlabelled.md."""


def label_in_rounds(
    moments: ClassMoments, vectors: Tensor, eps: float, memory: int
) -> list[Label | None]:
    """Labels of samples, from the moments of labelled ones.

    Shapes: vectors (n, d).
    """
    n, Z = len(vectors), unit_rows(vectors)
    shares = torch.tensor(moments.counts, dtype=torch.float64) / sum(moments.counts)
    quotas = (shares * (SHARE * n)).ceil().to(torch.int64)
    labelled = _Labelled.of(moments, str(Z.device))
    given = torch.full((n,), -1)
    for _ in range(ROUNDS):
        total, means, counts = labelled.with_samples(Z, given)
        residuals = Residuals.of(total, means, counts, eps, memory)
        given = _most_certain(*_nearest(residuals(Z).cpu()), quotas)
    return [None if j < 0 else moments.labels[j] for j in given.tolist()]


@dataclass(frozen=True, eq=False)
class _Labelled:
    """Second moments of labelled samples, to which others are added for a round."""

    counts: tuple[int, ...]
    means: Tensor
    factors: tuple[Tensor | None, ...]
    """F, (d, r), with F Fᵀ = Σ_j, of classes of a rank well below d."""
    dense: dict[int, Tensor]
    """Σ_j, (d, d), of the others."""

    @classmethod
    def of(cls, moments: ClassMoments, device: str) -> _Labelled:
        most = int(FACTORED_UP_TO * moments.n_features)
        factors = tuple(moments.factor_of(label, most) for label in moments)
        pairs = enumerate(zip(moments, factors, strict=True))
        dense = {j: moments.Sigma_of(label, device) for j, (label, F) in pairs if F is None}
        means = moments.means(device=device)
        on_device = tuple(F if F is None else F.to(device) for F in factors)
        return cls(moments.counts, means, on_device, dense)

    def with_samples(
        self, Z: Tensor, given: Tensor
    ) -> tuple[SecondMoments, Tensor, tuple[int, ...]]:
        """Second moments, means and counts with unit vectors, (n, d), added to classes, (n,)."""
        d, factors, dense = Z.shape[1], {}, {}
        most = int(FACTORED_UP_TO * d)
        counts, means = list(self.counts), self.means.clone()
        for j, F in enumerate(self.factors):
            rows = Z[(given == j).to(Z.device)]
            counts[j] += len(rows)
            means[j] += (rows.sum(dim=0) - len(rows) * means[j]) / counts[j]
            if F is not None and F.shape[1] + len(rows) <= most:
                factors[j] = torch.cat([F, rows.mT], dim=1)
            else:
                Sigma = F @ F.mT if F is not None else self.dense[j]
                dense[j] = torch.addmm(Sigma, rows.mT, rows)
        Sigma = torch.stack([*dense.values()]) if dense else Z.new_empty(0, d, d)
        return SecondMoments(tuple(dense), Sigma, stacked(factors)), means, tuple(counts)


def in_order(vectors: Tensor) -> list[int]:
    """The places of vectors, (n, d), float64, in an order that depends on nothing but them."""
    # By bits, which is any order, but always the same one: equal vectors are the same sample.
    rows = vectors.cpu().contiguous().view(torch.int64)
    order = torch.arange(len(rows))
    for column in rows.mT.flip(0):
        order = order[column[order].argsort(stable=True)]
    return order.tolist()


def _nearest(residuals: Tensor) -> tuple[Tensor, Tensor]:
    """The best class of each sample, (n,), and how far the second one is behind, (n,)."""
    if residuals.shape[1] == 1:
        return torch.zeros(len(residuals), dtype=torch.int64), 1 - residuals[:, 0]
    least = residuals.topk(2, dim=1, largest=False)
    return least.indices[:, 0], least.values[:, 1] - least.values[:, 0]


def _most_certain(best: Tensor, margins: Tensor, quotas: Tensor) -> Tensor:
    """The class of each sample, (n,), or −1 where its class has a full quota of surer ones."""
    given = torch.full_like(best, -1)
    order = margins.argsort(descending=True, stable=True)
    for j in range(len(quotas)):
        of_class = order[best[order] == j][: int(quotas[j])]
        given[of_class] = j
    return given
