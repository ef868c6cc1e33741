"""Numerics of symmetric positive definite matrices.

PyTorch has no symmetric product, so lower triangles are made of products of halves. Functions
whose names end in ``_`` write into the memory they are given.

No jitter is ever added: the matrices of this package have the form Σ + I/α and
are positive definite by construction, so a failed factorisation is an error.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import torch
from torch import Tensor

from redunet.errors import NumericalError

_WHOLE = 256
"""Symmetric products up to this size are computed whole: those of halves save no time there."""

_STEP = 16
"""Halves are multiples of this, which suits the registers of processors."""

_SOLVED_WHOLE = 100
"""On a GPU, triangles up to this size are inverted row after row."""

_MIRRORED = 128
"""Rows mirrored at a time: their block stays in the processor's cache."""

_ALONE = 256
"""Threads that have matrices of their own do not pay below this size."""

_STACK_BYTES = 2**31
"""On a GPU, as many matrices are treated at once as this holds: little of its memory, and enough to
keep it busy."""


def at_once(A: Tensor) -> int:
    """The number of matrices A, (n, d, d), to treat at once.

    On a CPU one, which stays in its cache; on a GPU as many as its memory
    holds, since one small matrix cannot keep it busy.
    """
    if A.device.type == "cpu":
        return 1
    return max(1, min(len(A), _STACK_BYTES // (A.shape[-1] ** 2 * A.element_size())))


def side_by_side(A: Tensor) -> int:
    """The number of threads that share the matrices A, (n, d, d), each with products on one thread.

    One where the matrices are small, or too few to keep all threads busy; then, and on a GPU, each
    product has all threads.
    """
    threads = torch.get_num_threads()
    worthwhile = A.shape[-1] >= _ALONE and 2 * threads <= len(A)
    return threads if worthwhile and A.device.type == "cpu" else 1


def stacks(A: Tensor) -> Iterator[slice]:
    """The matrices A, (n, d, d), cut into stacks to treat at once."""
    size = at_once(A)
    return (slice(start, min(start + size, len(A))) for start in range(0, len(A), size))


def spd_inverse(A: Tensor) -> tuple[Tensor, Tensor]:
    """Inverse and log-determinant of positive definite matrices.

    Parameters
    ----------
    A : Tensor of shape (..., d, d)
        Symmetric positive definite; only the lower triangle is read.

    Returns
    -------
    inverse : Tensor of shape (..., d, d)
        Symmetric to the last bit.
    log_det : Tensor of shape (...), float64
    """
    stack = A.reshape(-1, *A.shape[-2:])
    inverse = torch.empty_like(stack)
    log_det = A.new_empty(len(stack), dtype=torch.float64)
    for part in stacks(stack):
        log_det[part] = spd_inverse_(stack[part].clone(), inverse[part])
    return inverse.reshape(A.shape), definite(log_det, A).reshape(A.shape[:-2])


def spd_inverse_(A: Tensor, out: Tensor) -> Tensor:
    """Write the inverse of positive definite matrices into ``out``; A is left as it is.

    Nothing is checked, for which a GPU would have to end its work: see `definite`.

    Parameters
    ----------
    A : Tensor of shape (n, d, d)
        Only the lower triangle is read.
    out : Tensor of shape (n, d, d)

    Returns
    -------
    Tensor of shape (n,), float64
        log det A; NaN where A is not positive definite.
    """
    factor, info = torch.linalg.cholesky_ex(A)
    if A.device.type != "cpu":  # cholesky_inverse takes one matrix after another there
        W = _inverse_factor(factor)
        torch.bmm(W.mT, W, out=out)
        mirror_(out)
    elif not bool(info.any()):  # of no factor at all it would raise an error of its own
        out.copy_(torch.cholesky_inverse(factor).mT)  # by columns, so as it lies
    log_det = 2 * _diagonal(factor).double().log().sum(-1)
    return log_det.masked_fill_(info != 0, torch.nan)


def definite(log_dets: Tensor, A: Tensor) -> Tensor:
    """The log-determinants that `spd_inverse_` gave for matrices like A; an error for a NaN."""
    if bool(log_dets.isnan().any()):
        raise _not_positive(A, "raise eps, lower step, or use dtype='float64'")
    return log_dets


def cholesky(A: Tensor, remedy: str) -> Tensor:
    """The lower triangular L with L Lᵀ = A.

    Parameters
    ----------
    A : Tensor of shape (..., d, d)
        Symmetric positive definite; only the lower triangle is read.
    remedy : str
        What to do where A is not, for the error.

    Returns
    -------
    Tensor of shape (..., d, d)
    """
    factor: Tensor
    factor, info = torch.linalg.cholesky_ex(A)
    if bool(info.any()):
        raise _not_positive(A, remedy)
    return factor


def _not_positive(A: Tensor, remedy: str) -> NumericalError:
    return NumericalError(
        f"expected a positive definite matrix, but the Cholesky factorisation of a "
        f"{A.shape[-1]} x {A.shape[-1]} matrix in {str(A.dtype).removeprefix('torch.')} "
        f"failed: {remedy}"
    )


def _inverse_factor(factor: Tensor) -> Tensor:
    """Invert lower triangular matrices, (n, d, d); zeros above the diagonal.

    Both halves of the diagonal are inverted at once, as a stack of twice as many matrices of
    half the size: a GPU solves a triangle row after row, however many there are.
    """
    d = factor.shape[-1]
    if d <= _SOLVED_WHOLE or d % 2:
        identity = torch.eye(d, dtype=factor.dtype, device=factor.device)
        solve = torch.linalg.solve_triangular
        whole: Tensor = solve(factor, identity.expand_as(factor), upper=False)
        return whole
    half = d // 2
    L11, L21, L22 = factor[:, :half, :half], factor[:, half:, :half], factor[:, half:, half:]
    W11, W22 = _inverse_factor(torch.cat([L11, L22])).chunk(2)
    inverse = torch.zeros_like(factor)
    inverse[:, :half, :half] = W11
    inverse[:, half:, half:] = W22
    inverse[:, half:, :half].baddbmm_(W22 @ L21, W11, alpha=-1.0)
    return inverse


def _diagonal(A: Tensor) -> Tensor:
    return A.diagonal(dim1=-2, dim2=-1)


def congruence_(L: Tensor, S: Tensor, scratch: Tensor) -> Tensor:
    """Turn S into L S Lᵀ, for symmetric L and S, and return it.

    Parameters
    ----------
    L, S, scratch : Tensor of shape (..., d, d)

    Returns
    -------
    Tensor of shape (..., d, d)
        S itself, symmetric to the last bit.
    """
    if S.ndim > 2 and len(S) == 1:
        return congruence_(L[0], S[0], scratch[0])[None]
    _multiply_(scratch, L, S)
    return mirror_(lower_product_(S, scratch, L))


def lower_product_(
    out: Tensor, A: Tensor, B: Tensor, alpha: float = 1.0, beta: float = 0.0
) -> Tensor:
    """Turn the lower triangle of ``out`` into that of beta · out + alpha · A Bᵀ, and return it.

    Values above the diagonal have no meaning afterwards.

    Parameters
    ----------
    out : Tensor of shape (..., d, d)
    A, B : Tensor of shape (..., d, r)
    alpha, beta : float

    Returns
    -------
    Tensor of shape (..., d, d)
    """
    d = out.shape[-1]
    if d <= _WHOLE:
        _multiply_(out, A, B.mT, alpha, beta)
        return out
    half = math.ceil(d / 2 / _STEP) * _STEP
    for part in (slice(half), slice(half, d)):
        lower_product_(out[..., part, part], A[..., part, :], B[..., part, :], alpha, beta)
    _multiply_(out[..., half:, :half], A[..., half:, :], B[..., :half, :].mT, alpha, beta)
    return out


def mirror_(A: Tensor) -> Tensor:
    """Copy the lower triangle of A, (..., d, d), onto the upper one, and return A."""
    d = A.shape[-1]
    size = _MIRRORED if A.device.type == "cpu" else d
    for start in range(0, d, size):
        strip = A[..., start : start + size, :]
        A[..., :start, start : start + size] = strip[..., :start].mT
        block = strip[..., start : start + size]
        block.copy_(block.tril() + block.tril(-1).mT)
    return A


def _multiply_(out: Tensor, A: Tensor, B: Tensor, alpha: float = 1.0, beta: float = 0.0) -> None:
    """Turn ``out`` into beta · out + alpha · A B."""
    if out.ndim == 2:
        out.addmm_(A, B, alpha=alpha, beta=beta)
    else:
        out.baddbmm_(A, B, alpha=alpha, beta=beta)


def add_identity(A: Tensor, scale: float = 1.0) -> Tensor:
    """Add ``scale`` times the identity to A in place, and return A."""
    _diagonal(A).add_(scale)
    return A


def is_semidefinite(A: Tensor) -> bool:
    """Whether A is positive semi-definite, as far as rounding lets one see: True for all that are.

    An eigenvalue that is negative by more than (d + 4) 2⁻⁵⁰ of the trace is seen.

    Parameters
    ----------
    A : Tensor of shape (d, d), symmetric, float64
    """
    _, info = torch.linalg.cholesky_ex(add_identity(A.clone(), _rounding(A) or 1.0))
    return not bool(info)


def is_surely_definite(A: Tensor) -> bool:
    """Whether A is positive definite, proven in spite of rounding; False proves nothing.

    If the factorisation of A − cI runs to its end, then A − cI + D is positive semi-definite, where
    the backward error D has a norm of at most (d + 1) 2⁻⁵³ tr A and some more; what rounding A
    itself to float64 did is at most 2⁻⁵³ of its Frobenius norm. c is well above their sum.

    Parameters
    ----------
    A : Tensor of shape (d, d), symmetric, float64
    """
    _, info = torch.linalg.cholesky_ex(add_identity(A.clone(), -_rounding(A)))
    return not bool(info)


def _rounding(A: Tensor) -> float:
    """Well above what a factorisation of A, and rounding A itself to float64, change in it."""
    size = float(A.diagonal().abs().sum()) + float(torch.linalg.vector_norm(A))
    return (len(A) + 4) * 2.0**-51 * size
