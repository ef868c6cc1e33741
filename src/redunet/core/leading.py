"""The directions in which all samples together vary most, and one dimension for all others.

Networks within such directions are smaller. Along all others, where samples hardly vary, E is
nearly α and C_j nearly α_j, so a sample's part there is nearly only rescaled.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from redunet.core.reduced_space import ReducedSpace


@dataclass(frozen=True, eq=False)
class Leading:
    """Some directions of a network's space; the length of the rest is one more coordinate.

    Parameters
    ----------
    basis : Tensor of shape (s, w)
        Orthonormal columns within the network's own (reduced) space.
    in_all : Tensor of shape (d, w)
        The same in all d dimensions.
    """

    basis: Tensor
    in_all: Tensor

    @classmethod
    def of(cls, basis: Tensor, space: ReducedSpace | None) -> Leading:
        """Directions, (s, w), of a network whose layers are within ``space``."""
        return cls(basis, basis if space is None else space.directions(basis))

    def rows(self, Z: Tensor, squared_lengths: Tensor) -> Tensor:
        """Samples, (n, d), within the directions: Tensor of shape (n, w + 1)."""
        inside = Z @ self.in_all.to(Z.dtype)
        rest = squared_lengths - inside.square().sum(dim=1, keepdim=True)
        return torch.cat([inside, rest.clamp_(min=0).sqrt_()], dim=1)

    def change(self, start: Tensor, end: Tensor) -> tuple[Tensor, Tensor]:
        """What becomes of samples that move from ``start`` to ``end``, both (n, w + 1).

        In all dimensions a sample z becomes ``scale`` z plus ``added`` times the directions.

        Returns
        -------
        added : Tensor of shape (n, w)
        scale : Tensor of shape (n, 1)
        """
        rest = start[:, -1:]
        scale = torch.where(rest > 0, end[:, -1:] / rest, 0)
        return torch.addcmul(end[:, :-1], scale, start[:, :-1], value=-1), scale

    def widened(
        self, start: Tensor, end: Tensor, wider_start: Tensor, wider: Leading | None
    ) -> Tensor:
        """The end of samples in more dimensions.

        Parameters
        ----------
        start, end : Tensor of shape (n, w + 1)
        wider_start : Tensor of shape (n, v)
            The same samples before they moved.
        wider : Leading, or None
            More directions of the same network; None means all of its space.

        Returns
        -------
        Tensor of shape (n, v)
        """
        added, scale = self.change(start, end)
        moved = scale * wider_start
        if wider is None:
            return moved.addmm_(added, self.basis.mT.to(added))
        moved[:, :-1].addmm_(added, (self.basis.mT @ wider.basis).to(added))
        return moved
