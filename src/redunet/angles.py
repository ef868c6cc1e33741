"""How close subspaces are to one another."""

from __future__ import annotations

import torch
from torch import Tensor


def principal_angles(U: Tensor) -> tuple[Tensor, Tensor]:
    """Angles between each two subspaces, in degrees.

    Parameters
    ----------
    U : Tensor of shape (k, d, r)
        Orthonormal columns; columns of zeros are left out.

    Returns
    -------
    smallest : Tensor of shape (k, k), float64
        The first principal angle: between the two nearest directions.
    mean : Tensor of shape (k, k), float64
        The angle whose squared cosine is the mean of those of all principal
        angles: 0 where one subspace lies in the other, 90 where they are orthogonal.

    Examples
    --------
    >>> U = torch.tensor([[[1.0, 0], [0, 1], [0, 0]], [[0, 0], [1, 0], [0, 1]]])
    >>> smallest, mean = principal_angles(U)
    >>> smallest.tolist(), mean.round().tolist()
    ([[0.0, 0.0], [0.0, 0.0]], [[0.0, 45.0], [45.0, 0.0]])
    """
    bases = [U_j[:, U_j.any(dim=0)].to(torch.float64) for U_j in U]
    k = len(bases)
    smallest = torch.zeros(k, k, dtype=torch.float64)
    mean = torch.zeros(k, k, dtype=torch.float64)
    for i in range(k):
        for j in range(i):
            cosines = torch.linalg.svdvals(bases[i].mT @ bases[j]).clamp_(max=1.0)
            smallest[i, j] = smallest[j, i] = cosines[0].acos().rad2deg()
            mean[i, j] = mean[j, i] = cosines.square().mean().sqrt().acos().rad2deg()
    return smallest, mean
