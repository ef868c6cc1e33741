"""Leading eigenvectors and low-rank factors of positive semi-definite matrices."""

from __future__ import annotations

import torch
from torch import Tensor

from redunet.core.exact_columns import Columns
from redunet.core.linalg import add_identity

_LARGE, _FEW = 2048, 1 / 32
"""From this size on, up to this share of the eigenvectors is found faster by products alone."""

_SPARE, _MOST_BLOCKS, _CHECK_EVERY = 16, 40, 4
"""Vectors in a block beyond those wanted, as the last ones converge slowly; most blocks, since all
eigenvectors take no longer; blocks from check to check, as a check costs about two blocks."""

SPARE_VECTORS = 16
"""Random vectors beyond the rank, without which the smallest eigenvalues would be inaccurate."""

SHIFT = 4
"""Roundings of the norm that are added to every eigenvalue of a factor's matrix."""

ROUNDING = 32
"""The largest error of a factor, in roundings of the trace."""


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
    """The leading eigenvectors within the span of X, A X, A² X, …, for X of fixed random vectors.

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


def gram_eigenvectors(B: Tensor, n: int) -> tuple[Tensor, Tensor]:
    """The `top_eigenvectors` of Bᵀ B, at most as many as B has rows.

    Parameters
    ----------
    B : Tensor of shape (r, d)
    n : int

    Returns
    -------
    values : Tensor of shape (min(n, r),), float64
    vectors : Tensor of shape (d, min(n, r)), float64
        Where a value is zero, or negative by rounding, its vector has no meaning.
    """
    B = B.to(torch.float64)
    values, vectors = top_eigenvectors(B @ B.mT, n)
    return values, (B.mT @ vectors) / values.clamp(min=torch.finfo(B.dtype).tiny).sqrt()


def low_rank_factor(A: Tensor, most: int) -> Tensor | None:
    """F with F Fᵀ = A up to rounding, by Cholesky's method with pivots.

    Parameters
    ----------
    A : Tensor of shape (d, d), float64
        Symmetric positive semi-definite.
    most : int
        The largest rank of interest, below d.

    Returns
    -------
    Tensor of shape (d, r), or None where the rank is above ``most``
    """
    if not most:
        return None
    left = A.diagonal().clone()
    tolerance = 32 * torch.finfo(A.dtype).eps * float(left.max())
    # A regular block of A larger than ``most`` shows that the rank is higher, without pivots.
    block = left.topk(most + 1).indices
    factor, info = torch.linalg.cholesky_ex(A[block][:, block])
    if not bool(info) and float(factor.diagonal().min()) ** 2 > tolerance:
        return None
    columns = A.new_empty(most, len(A))
    for rank in range(most):
        pivot = int(left.argmax())
        if float(left[pivot]) <= tolerance:
            return columns[:rank].mT.contiguous()
        column = torch.sub(A[pivot], columns[:rank, pivot] @ columns[:rank], out=columns[rank])
        column /= left[pivot].sqrt()
        left = (left - column.square()).clamp_(min=0)
        left[pivot] = 0
    return columns.mT.contiguous() if float(left.max()) <= tolerance else None


def sketched_factor(A: Tensor, rank: int) -> Tensor | None:
    """F with F Fᵀ = A up to rounding, from the products of A with a few random vectors.

    With Q an orthonormal basis of A G, A is Q (Qᵀ A Q) Qᵀ where A has no higher rank than G has
    columns. There are no small steps in this, so a GPU takes a small part of the time of
    `low_rank_factor`.

    Parameters
    ----------
    A : Tensor of shape (d, d), float64
        Symmetric positive semi-definite.
    rank : int
        What the rank of A is at most.

    Returns
    -------
    Tensor of shape (d, r), float64, or None where rounding does not allow it
    """
    generator = torch.Generator(A.device).manual_seed(0)
    size = min(len(A), rank + SPARE_VECTORS)
    G = torch.randn(len(A), size, generator=generator, dtype=A.dtype, device=A.device)
    Q = torch.linalg.qr(A @ G)[0]
    inner, accuracy = Q.mT @ (A @ Q), torch.finfo(A.dtype).eps
    # Where the rank is lower than the columns are many, rounding alone would decide on the sign.
    add_identity(inner, SHIFT * accuracy * float(torch.linalg.matrix_norm(inner)))
    L, info = torch.linalg.cholesky_ex(inner)
    if bool(info):
        return None
    F = Q @ L
    tolerance = ROUNDING * accuracy * float(A.diagonal().sum())
    return F if _difference(F, A.diagonal()) <= tolerance else None


def columns_factor(columns: Columns, error: float = 0.0) -> Tensor | None:
    """F with F Fᵀ = S up to rounding, for an S that is stored by columns; S itself is never made.

    The columns of S can be nearly dependent, and a factor made of them inaccurate. So they
    are used only to choose others, as `low_rank_factor` would: those of rows that the other
    rows are combinations of with small factors, which partial pivoting of an orthonormal basis
    finds. These columns of S are computed exactly.

    Parameters
    ----------
    columns : Columns
        Of a positive semi-definite S.
    error : float, default=0.0
        As a share of the largest entry of S: where the columns themselves make a factor that is
        as accurate, no others are chosen, which takes a twentieth of the time.

    Returns
    -------
    Tensor of shape (d, r), float64, or None where rounding does not allow it
    """
    F = _factor(columns.columns.mT.to(torch.float64), columns.pivots)
    if F is None:
        return None
    diagonal = columns.diagonal.to(torch.float64)
    if _difference(F, diagonal) <= error * float(diagonal.max()):
        return F
    pivots = _independent_rows(torch.linalg.qr(F)[0])
    F = _factor(
        columns.expansion().rows(pivots).to(torch.float64), columns.pivots.new_tensor(pivots)
    )
    if F is None:
        return None
    tolerance = (32 + F.shape[1]) * torch.finfo(F.dtype).eps * float(diagonal.max())
    return F if _difference(F, diagonal) <= tolerance else None


def _difference(F: Tensor, diagonal: Tensor) -> float:
    """The largest difference between F Fᵀ and a matrix on the diagonal, where it is largest."""
    return float((diagonal - F.square().sum(dim=1)).abs().max())


def _factor(rows: Tensor, indices: Tensor) -> Tensor | None:
    """F, (d, r), with F Fᵀ = S, by r rows of S of given indices; None where they are dependent."""
    L, info = torch.linalg.cholesky_ex(rows[:, indices])
    if bool(info):
        return None
    F: Tensor = torch.linalg.solve_triangular(L, rows, upper=False).mT
    return F


def _independent_rows(Q: Tensor) -> list[int]:
    """The rows of Q, (d, r), that partial pivoting takes."""
    order = list(range(len(Q)))
    for i, j in enumerate(torch.linalg.lu_factor(Q)[1].tolist()):
        order[i], order[j - 1] = order[j - 1], order[i]
    return order[: Q.shape[1]]
