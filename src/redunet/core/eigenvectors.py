"""Leading eigenvectors of symmetric matrices; for large ones, without computing the others."""

from __future__ import annotations

import torch
from torch import Tensor

_LARGE, _FEW = 2048, 1 / 32
"""From this size on, up to this share of the eigenvectors is found faster by products alone."""

_SPARE, _MOST_BLOCKS, _CHECK_EVERY = 16, 40, 4
"""Vectors in a block beyond those wanted; most blocks; blocks from check to check."""


def top_eigenvectors(A: Tensor, n: int) -> tuple[Tensor, Tensor]:
    """The n largest eigenvalues of a symmetric matrix, descending, and their vectors.

    Always computed in float64: in float32 the solver can fail on large moments.

    Parameters
    ----------
    A : Tensor of shape (d, d)
        Positive semi-definite up to rounding.
    n : int

    Returns
    -------
    values : Tensor of shape (n,), float64
    vectors : Tensor of shape (d, n), float64
    """
    A = A.to(torch.float64)
    found = _by_products(A, n) if len(A) >= _LARGE and n <= _FEW * len(A) else None
    if found is not None:
        return found
    values, vectors = torch.linalg.eigh(A)
    return values.flip(0)[:n], vectors.flip(1)[:, :n]


def _by_products(A: Tensor, n: int) -> tuple[Tensor, Tensor] | None:
    """The same within the span of X, A X, A² X, …, for a block X of fixed random vectors.

    It ends when ‖A u − λ u‖ is at most d · 2⁻⁵² times the largest eigenvalue,
    which is rounding, for all n; None where that takes too many blocks.
    """
    d, width = len(A), n + _SPARE
    draw = torch.randn(d, width, dtype=A.dtype, generator=torch.Generator().manual_seed(0))
    block = torch.linalg.qr(draw.to(A.device))[0]
    most = min(_MOST_BLOCKS, d // width)
    V, AV = (A.new_empty(d, most * width) for _ in range(2))
    for index in range(most):
        done = (index + 1) * width
        V[:, done - width : done] = block
        block = A @ block
        AV[:, done - width : done] = block
        if index < _CHECK_EVERY or index % _CHECK_EVERY == 0 or index + 1 == most:
            T = V[:, :done].mT @ AV[:, :done]
            values, mixed = torch.linalg.eigh((T + T.mT) / 2)
            values, mixed = values.flip(0)[:n], mixed.flip(1)[:, :n]
            vectors = V[:, :done] @ mixed
            left = torch.linalg.vector_norm(AV[:, :done] @ mixed - vectors * values, dim=0)
            if float(left.max()) <= d * torch.finfo(A.dtype).eps * float(values[0]):
                return values, vectors
        for _ in range(3):  # twice is enough, except where only rounding is left
            block = block - V[:, :done] @ (V[:, :done].mT @ block)
            block = torch.linalg.qr(block)[0]
    return None
