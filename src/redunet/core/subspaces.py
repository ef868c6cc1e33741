"""Principal subspaces of classes, and how they lie to each other."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from redunet.core.second_moments import SecondMoments

GRID_NOISE = 2.0**-38
"""Share of a class's largest eigenvalue, per feature, that rounding to the grid can account for."""


def rounding(dtype: torch.dtype) -> float:
    """The variance that rounding accounts for: a share of 1/d, the mean of all directions."""
    return GRID_NOISE if dtype == torch.float64 else torch.finfo(dtype).eps


def principal_subspaces(
    moments: SecondMoments,
    n_components: int,
    n_values: int | None = None,
    classes: Collection[int] | None = None,
) -> Iterator[tuple[int, Tensor, Tensor, float]]:
    """The principal subspace of each class.

    Shapes: returns values (at most n_values,), basis (d, r).
    """
    least = moments.n_features * max(GRID_NOISE, torch.finfo(moments.dtype).eps)
    for j, values, vectors, trace in moments.eigenvectors(n_values or n_components, classes):
        rank = int((values[:n_components] > least * values[0]).sum())
        yield j, values, vectors[:, :rank], trace


@dataclass(frozen=True, eq=False)
class Subspaces:
    """Principal subspaces of classes, to look at.

    Examples
    --------
    >>> from redunet import ClassMoments
    >>> moments = ClassMoments(2).update(torch.tensor([[2.0, 0.0], [1.0, 1.0]]), ["a", "b"])
    >>> found = Subspaces.of(SecondMoments.of(moments, torch.float64, "cpu"), 1, 2)
    >>> found.closeness().round().tolist()
    [[0.0, 45.0], [45.0, 0.0]]
    """

    # (k, n): the leading eigenvalues of each class's second moment, descending, as shares of its
    # trace
    spectra: Tensor
    bases: Sequence[Tensor]  # (d, r_j): as from `principal_subspaces`

    @classmethod
    def of(
        cls,
        moments: SecondMoments,
        n_components: int,
        n_values: int,
        classes: Sequence[int] | None = None,
    ) -> Subspaces:
        """Subspaces of second moments, on the CPU."""
        chosen = range(moments.n_classes) if classes is None else classes
        row = {j: row for row, j in enumerate(chosen)}
        spectra = torch.zeros(len(row), n_values, dtype=torch.float64)
        bases = torch.zeros(len(row), n_components, moments.n_features, dtype=torch.float64)
        sizes = torch.zeros(len(row), dtype=torch.int64)
        found = principal_subspaces(moments, n_components, n_values, chosen)
        for j, values, basis, trace in found:
            spectra[row[j], : len(values)] = (values / trace).clamp(min=0)
            bases[row[j], : basis.shape[1]] = basis.mT
            sizes[row[j]] = basis.shape[1]
        return cls(spectra, [B[:size].mT for B, size in zip(bases, sizes.tolist(), strict=True)])

    def angles(self, i: int, j: int) -> Tensor:
        """Principal angles between the subspaces of two classes, in degrees, ascending.

        Shapes: returns (min(r_i, r_j),).
        """
        cosines = torch.linalg.svdvals(self.bases[i].mT @ self.bases[j])
        return torch.rad2deg(torch.acos(cosines.clamp(max=1)))

    def closeness(self) -> Tensor:
        """One angle for each pair of classes, in degrees: that of the root mean square cosine.

        90 where two subspaces are orthogonal, 0 where one lies in the other.

        Shapes: returns (k, k).
        """
        ranks = [basis.shape[1] for basis in self.bases]
        everything = torch.cat(list(self.bases), dim=1)
        rows = []
        for basis in self.bases:
            # The squares of the cosines add up to the squared entries of the product.
            energies = (basis.mT @ everything).square().sum(dim=0)
            squares = torch.stack([part.sum() for part in torch.split(energies, ranks)])
            mean = squares / torch.tensor(ranks).clamp(max=basis.shape[1])
            rows.append(torch.rad2deg(torch.acos(mean.sqrt().clamp(max=1))))
        return torch.stack(rows).fill_diagonal_(0)
