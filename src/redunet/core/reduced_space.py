"""Fewer dimensions: the directions that some sample has, and one coordinate for all others.

Where no sample has a component, every Σ_j is zero, so there E is α and C_j is
α_j times the identity. As γ_j α_j = α, a new sample's part in these directions
is only rescaled with the whole sample to the unit sphere. So one coordinate, the
length of that part, replaces all of them, exactly: the network is built in s + 1
dimensions instead of d, and its features are mapped back into d.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from redunet.core.eigenvectors import low_rank_factor
from redunet.core.linalg import mirror_
from redunet.core.moments import ClassMoments

REDUCED_UP_TO = 0.95
"""Dimensions are reduced where at most this share of them remains: products of matrices then take
at most 0.95³ = 0.86 of the time. MNIST, of whose pixels a twelfth is always 0, gains by it."""


@dataclass(frozen=True, eq=False)
class ReducedSpace:
    """An orthonormal basis of the directions that some sample has."""

    d: int
    features: Tensor  # (f,): the features that are not zero in every sample
    basis: Tensor | None  # (f, s): orthonormal columns over those features; None means the identity

    @classmethod
    def of(cls, moments: ClassMoments, device: str = "cpu") -> ReducedSpace | None:
        """The space of the samples of all classes; None where it is hardly smaller than d."""
        d = moments.n_features
        has = torch.zeros(d, dtype=torch.bool)
        for label in moments:
            has |= moments[label].diagonal != 0
        features = has.nonzero()[:, 0].to(device)
        basis = _basis(moments, features, int(REDUCED_UP_TO * len(features)))
        size = len(features) if basis is None else basis.shape[1]
        return cls(d, features, basis) if size + 1 <= REDUCED_UP_TO * d else None

    def to(self, dtype: torch.dtype, device: str) -> ReducedSpace:
        """Convert the tensors to a dtype and move them to a device."""
        basis = None if self.basis is None else self.basis.to(device, dtype)
        return ReducedSpace(self.d, self.features.to(device), basis)

    @property
    def size(self) -> int:
        """The number of dimensions, s + 1, in which the network is built."""
        return 1 + (len(self.features) if self.basis is None else self.basis.shape[1])

    def second_moment(self, Sigma: Tensor) -> Tensor:
        """Σ_j, (d, d), within the space: Tensor of shape (s + 1, s + 1)."""
        inside = Sigma[self.features][:, self.features]
        if self.basis is not None:
            inside = self.basis.mT @ inside @ self.basis
            inside = (inside + inside.mT) / 2
        return torch.nn.functional.pad(inside, (0, 1, 0, 1))

    def factor(self, F: Tensor) -> Tensor:
        """A factor of Σ_j, (d, r), within the space: Tensor of shape (s + 1, r)."""
        inside = F[self.features]
        if self.basis is not None:
            inside = self.basis.mT @ inside
        return torch.nn.functional.pad(inside, (0, 0, 0, 1))

    def rows(self, Z: Tensor) -> tuple[Tensor, Tensor]:
        """Samples within the space, and their parts outside of it.

        Shapes: Z (n, d); returns inside (n, s + 1), outside (n, d).
        """
        if self.basis is not None and len(self.features) == self.d:  # nothing to pick out
            inside = Z @ self.basis
            outside = torch.addmm(Z, inside, self.basis.mT, alpha=-1)
        elif self.basis is not None:
            inside, outside = Z[:, self.features] @ self.basis, Z.clone()
            outside[:, self.features] -= inside @ self.basis.mT
        else:
            inside, outside = Z[:, self.features], Z.clone()
            outside[:, self.features] = 0
        lengths = torch.linalg.vector_norm(outside, dim=1, keepdim=True)
        return torch.cat([inside, lengths], dim=1), outside

    def put_back(self, inside: Tensor, outside: Tensor) -> Tensor:
        """Features, (n, d), from moved samples within the space and their parts outside of it."""
        lengths = torch.linalg.vector_norm(outside, dim=1, keepdim=True)
        Z: Tensor = outside * (inside[:, -1:] / lengths.where(lengths > 0, 1))
        within = inside[:, :-1]
        if self.basis is not None and len(self.features) == self.d:
            return Z.addmm_(within, self.basis.mT)
        Z[:, self.features] += within if self.basis is None else within @ self.basis.mT
        return Z

    def directions(self, vectors: Tensor) -> Tensor:
        """Vectors within the space, (s + 1, n) with zeros in the last row, in all d: (d, n)."""
        within = vectors[:-1]
        out = vectors.new_zeros(self.d, vectors.shape[1])
        out[self.features] = within if self.basis is None else self.basis.to(within) @ within
        return out

    def to_all(self, moment: Tensor) -> Tensor:
        """A second moment within the space, (s + 1, s + 1), in all d dimensions: (d, d)."""
        return self.directions(self.directions(moment).mT)

    def lift(self, A: Tensor) -> Tensor:
        """Operators or moments, (n, s + 1, s + 1), as they act in all d dimensions: (n, d, d)."""
        rest = A[:, -1, -1, None, None]
        within = A[:, :-1, :-1]
        if self.basis is not None:
            eye = torch.eye(len(self.features), dtype=A.dtype, device=A.device)
            outside = eye - self.basis @ self.basis.mT
            within = mirror_(self.basis @ within @ self.basis.mT + rest * outside)
        full = rest * torch.eye(self.d, dtype=A.dtype, device=A.device)
        places = self.features
        full[:, places[:, None], places] = within
        return full


def _basis(moments: ClassMoments, features: Tensor, most: int) -> Tensor | None:
    """An orthonormal basis, (f, s), of the directions that some sample has.

    None where there are more than ``most`` of them, or more samples.
    """
    device = str(features.device)
    if sum(moments.rank_at_most(label, device) for label in moments) > most:
        return None
    factors = []
    for label in moments:
        F = moments.factor_of(label, most, device)
        if F is None:
            Sigma_j = moments.Sigma_of(label, device)
            F = low_rank_factor(Sigma_j[features][:, features], most)
            if F is None:
                return None
        else:
            F = F[features]
        factors.append(F)
    together = torch.cat(factors, dim=1)
    # In as few directions as the sum of all second moments has.
    values, vectors = torch.linalg.eigh(together.mT @ together)
    needed = values > 32 * torch.finfo(values.dtype).eps * float(values[-1])
    basis: Tensor = torch.linalg.qr(together @ vectors[:, needed])[0]
    return basis
