"""Two constructions of a layer from the samples themselves, as one would write them with care.

Both hold all samples, on the device and in the dtype of the layers, and for
each layer (1) form every class's second moment from its samples, (2) invert,
(3) move every sample:

(a) as the paper's training step has it, each sample by E and its own class's C;
(b) as the published code has it, each sample by E and every class's C.

Outputs are written into memory taken once, products are as large as they can
be, and nothing is computed that the next layer does not need.
"""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from redunet.rate import Coding


class FromSamples:
    """Features of all samples, moved layer after layer.

    Parameters
    ----------
    Z : list of k Tensors of shape (n_j, d)
    eps : float
    way : {"a", "b"}
    """

    def __init__(self, Z: list[Tensor], eps: float, way: Literal["a", "b"]) -> None:
        self.Z = [z.clone() for z in Z]
        self.coding = Coding(tuple(map(len, Z)), Z[0].shape[1], eps)
        self.way = way
        d, largest = Z[0].shape[1], max(map(len, Z))
        self._expanded, self._compressed = (Z[0].new_empty(largest, d) for _ in range(2))

    def layer(self, step: float) -> tuple[Tensor, list[Tensor]]:
        """E and C of the next layer; all samples are moved by it."""
        coding, d = self.coding, self.Z[0].shape[1]
        eye = torch.eye(d, dtype=self.Z[0].dtype, device=self.Z[0].device)
        total = torch.zeros_like(eye)
        C = []
        for z, alpha in zip(self.Z, coding.alphas, strict=True):
            Sigma = z.mT @ z
            total += Sigma
            C.append(_inverse(Sigma.mul_(alpha).add_(eye)).mul_(alpha))
        E = _inverse(total.mul_(coding.alpha).add_(eye)).mul_(coding.alpha)
        for j, z in enumerate(self.Z):
            moved, compressed = self._expanded[: len(z)], self._compressed[: len(z)]
            torch.mm(z, E, out=moved)
            # Of a training sample the class is known: the others' C is applied and not used.
            for i in range(len(C)) if self.way == "b" else [j]:
                torch.mm(z, C[i], out=compressed)
                if i == j:
                    moved.sub_(compressed, alpha=coding.gamma[j])
            z.add_(moved, alpha=step)
            z.mul_((len(z) / z.square().sum()).sqrt())
        return E, C


def _inverse(A: Tensor) -> Tensor:
    return torch.cholesky_inverse(torch.linalg.cholesky(A))
