"""The construction from moments in its plainest form, which every faster one must equal.

Dense matrices, library calls, nothing reused, one class at a time.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from redunet.core.construction import Schedule
from redunet.core.rate import Coding


@dataclass(frozen=True)
class PlainLayer:
    E: Tensor
    C: Tensor
    gain: float
    """ΔR before the step."""
    step: float


def inverse(A: Tensor) -> Tensor:
    return torch.cholesky_inverse(torch.linalg.cholesky(A))


def layers(
    Sigma: Tensor, coding: Coding, schedule: Schedule
) -> Iterator[tuple[PlainLayer, Tensor]]:
    """Each layer, and the second moments after it."""
    eye = torch.eye(Sigma.shape[-1], dtype=Sigma.dtype)
    for index in range(schedule.n_layers):
        total = torch.zeros_like(eye)
        for Sigma_j in Sigma:
            total = total + Sigma_j
        E = coding.alpha * inverse(eye + coding.alpha * total)
        R = 0.5 * torch.logdet(eye + coding.alpha * total)
        C, moved = [], []
        R_c = torch.zeros(())
        step = schedule.at(index, coding.alpha)
        for Sigma_j, alpha, gamma, n in zip(
            Sigma, coding.alphas, coding.gamma, coding.counts, strict=True
        ):
            C.append(alpha * inverse(eye + alpha * Sigma_j))
            R_c = R_c + gamma / 2 * torch.logdet(eye + alpha * Sigma_j)
            L = eye + step * E - step * gamma * C[-1]
            T = L @ Sigma_j @ L.T
            moved.append(T * (n / T.trace()))
        Sigma = torch.stack(moved)
        yield PlainLayer(E, torch.stack(C), float(R - R_c), step), Sigma


def move_samples(
    layer: PlainLayer, gamma: tuple[float, ...], Z: Tensor, sharpness: float
) -> Tensor:
    k = len(layer.C)
    compressed = torch.stack([Z @ C_j for C_j in layer.C], dim=1)
    memberships = torch.softmax(-sharpness * k * compressed.norm(dim=2), dim=1)
    pull = (compressed * (memberships * torch.tensor(gamma, dtype=Z.dtype))[:, :, None]).sum(dim=1)
    moved = Z + layer.step * (Z @ layer.E - pull)
    norms: Tensor = moved.norm(dim=1, keepdim=True)
    return moved / norms
