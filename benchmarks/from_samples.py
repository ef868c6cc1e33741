"""Constructions of a layer from the samples themselves.

All hold all samples, on the device and in the dtype of the layers, and for
each layer (1) form every class's second moment from its samples, (2) invert,
(3) move every sample:

(a) as the paper's training step has it, each sample by E and its own class's C,
    then each class rescaled;
(b) as the published code has it: all samples by E and by every class's C at
    once, memberships estimated from the lengths of the results, the results
    weighted and summed over the classes, each sample put back on the sphere;
    every step is one operation on whole arrays;
(c) the same mathematics as (b), written for speed: a batch of samples at a time,
    one product for all classes, everything in memory taken once.
"""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from redunet.core.rate import Coding

Way = Literal["a", "b", "c"]

BATCH = 512
"""Samples that (c) moves at a time."""


class FromSamples:
    """Features of all samples, moved layer after layer.

    Parameters
    ----------
    Z : list of k Tensors of shape (n_j, d)
    eps : float
    way : {"a", "b", "c"}
    sharpness : float, default=500.0
        How sure the estimated memberships of (b) and (c) are.
    """

    def __init__(self, Z: list[Tensor], eps: float, way: Way, sharpness: float = 500.0) -> None:
        counts = [len(z) for z in Z]
        self.Z = torch.cat(Z)
        self.coding = Coding(tuple(counts), Z[0].shape[1], eps)
        self._of_class = torch.split(self.Z, counts)
        self._move = {"a": self._own_class, "b": self._whole_arrays, "c": self._in_batches}[way]
        self._sharpness = sharpness
        k, d = len(Z), Z[0].shape[1]
        if way == "a":
            self._space = Z[0].new_empty(2, max(counts), d)
        elif way == "c":
            self._space = Z[0].new_empty(BATCH * (k + 1) * d)

    def layer(self, step: float) -> tuple[Tensor, Tensor]:
        """E, (d, d), and C, (k, d, d), of the next layer; all samples are moved by it."""
        coding, d = self.coding, self.Z.shape[1]
        eye = torch.eye(d, dtype=self.Z.dtype, device=self.Z.device)
        total = torch.zeros_like(eye)
        C = self.Z.new_empty(len(coding.counts), d, d)
        for C_j, z, alpha in zip(C, self._of_class, coding.alphas, strict=True):
            Sigma = z.mT @ z
            total += Sigma
            torch.mul(_inverse(Sigma.mul_(alpha).add_(eye)), alpha, out=C_j)
        E = _inverse(total.mul_(coding.alpha).add_(eye)).mul_(coding.alpha)
        self._move(E, C, step)
        return E, C

    def _own_class(self, E: Tensor, C: Tensor, step: float) -> None:
        for z, C_j, gamma in zip(self._of_class, C, self.coding.gamma, strict=True):
            moved, compressed = self._space[:, : len(z)]
            torch.mm(z, E, out=moved)
            torch.mm(z, C_j, out=compressed)
            z.add_(moved.sub_(compressed, alpha=gamma), alpha=step)
            z.mul_((len(z) / z.square().sum()).sqrt())

    def _whole_arrays(self, E: Tensor, C: Tensor, step: float) -> None:
        expanded = self.Z @ E
        compressed = torch.stack([self.Z @ C_j for C_j in C])  # (k, m, d)
        weights = self._weights(torch.linalg.vector_norm(compressed, dim=2), dim=0)
        pulled = (weights[:, :, None] * compressed).sum(dim=0)
        moved = self.Z + step * (expanded - pulled)
        self.Z.copy_(moved / torch.linalg.vector_norm(moved, dim=1, keepdim=True))

    def _in_batches(self, E: Tensor, C: Tensor, step: float) -> None:
        k, d, _ = C.shape
        for z in torch.split(self.Z, BATCH):
            compressed = self._space[: len(z) * k * d].view(len(z), k, d)
            moved = self._space[len(z) * k * d :][: len(z) * d].view(len(z), d)
            torch.mm(z, C.view(k * d, d).mT, out=compressed.view(len(z), k * d))
            weights = self._weights(torch.linalg.vector_norm(compressed, dim=2), dim=1)
            torch.mm(z, E, out=moved).mul_(step).add_(z)
            moved[:, None].baddbmm_(weights[:, None], compressed, alpha=-step)
            torch.div(moved, torch.linalg.vector_norm(moved, dim=1, keepdim=True), out=z)

    def _weights(self, lengths: Tensor, dim: int) -> Tensor:
        """γ_j π̂_j from the lengths of C_j z, as shares of their sum over the classes."""
        shares = lengths / lengths.sum(dim=dim, keepdim=True)
        gamma = lengths.new_tensor(self.coding.gamma)
        return torch.softmax(-self._sharpness * shares, dim) * (
            gamma[:, None] if dim == 0 else gamma
        )


def _inverse(A: Tensor) -> Tensor:
    return torch.cholesky_inverse(torch.linalg.cholesky(A))
