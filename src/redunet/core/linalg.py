"""Numerics of symmetric positive definite matrices.

Of the core, this is the only file that depends on devices, batches and BLAS.
PyTorch has no symmetric or triangular product, and its Cholesky inverse runs at
a fraction of the rate of a matrix product. So both are made of products here:
symmetric results by halves and by strips of rows that end at the diagonal, the inverse by
halving. Functions whose names end in ``_`` write into the memory they are given.

No jitter is ever added: the matrices of this package have the form Σ + I/α and
are positive definite by construction, so a failed factorisation is an error.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import torch
from torch import Tensor

from redunet.errors import NumericalError

_INVERTED_WHOLE, _FACTORED_WHOLE = (400, 400), (200, 400)
"""Matrices up to these sizes, on a CPU and on a GPU, are left to LAPACK; larger ones are halved.
On a GPU smaller blocks would save operations, but each call takes longer than its operations."""

_SOLVED_WHOLE = (400, 100)
"""Triangles up to these sizes, on a CPU and on a GPU, are solved whole; larger ones are halved."""

_CUT_INTO_STRIPS = 400
"""On a CPU, symmetric products up to this size are cut into strips; larger ones are halved first,
since products of squares are the fastest."""

_MOST_STRIPS, _THINNEST_STRIP, _STRIP_STEP = 6, (64, 192), 16
"""More or thinner strips, on a CPU and on a GPU, save operations, but a product of thin strips is
slow, and so is one of a width that does not suit the processor's registers."""

_MIRRORED = (128, 1024)
"""Rows mirrored at a time, on a CPU and on a GPU."""

_ALONE = 256
"""Threads that have matrices of their own do not pay below this size."""

_STACK_BYTES = 2**31
"""On a GPU, as many matrices are treated at once as this holds."""


def at_once(A: Tensor) -> int:
    """How many of the matrices A, (n, d, d), to treat at once.

    On a CPU one, which stays in its cache; on a GPU as many as its memory
    holds, since one small matrix cannot keep it busy.
    """
    if A.device.type == "cpu":
        return 1
    return max(1, min(len(A), _STACK_BYTES // (A.shape[-1] ** 2 * A.element_size())))


def side_by_side(A: Tensor) -> int:
    """How many threads share the matrices A, (n, d, d), each with products on one thread.

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
    """Inverse of positive definite matrices into ``out``; A is overwritten.

    As accurate as LAPACK's, and nearly all of it is products. Nothing is checked, for which a GPU
    would have to end its work: see `definite`.

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
    if len(A) == 1:  # a plain product is faster than a stack of one
        A, out = A[0], out[0]
    failed = torch.stack(_invert_(A, out)).any(dim=0)
    # The diagonal now holds the reciprocals of the pivots.
    log_det = -2 * _diagonal(A).double().log().sum(-1)
    return log_det.masked_fill_(failed, torch.nan).reshape(-1)


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


def _invert_(A: Tensor, out: Tensor) -> list[Tensor]:
    """Inverse of A into ``out`` by halves; the diagonal of A becomes the pivots' reciprocals.

    With A = [[A11, ·], [A21, A22]], W = G⁻¹ of the factor G of A11, G21 = A21 Wᵀ,
    K = G21 W and P22 = (A22 − G21 G21ᵀ)⁻¹ the inverse is
    [[Wᵀ W + Kᵀ P22 K, ·], [−P22 K, P22]]. What is returned is zero where nothing
    failed, to be checked all at once: a check makes a GPU wait.
    """
    d = A.shape[-1]
    if d <= _INVERTED_WHOLE[A.device.type != "cpu"]:
        factor, info = torch.linalg.cholesky_ex(A)
        if A.device.type == "cpu":
            if not bool(info.any()):  # of no factor at all it would raise an error of its own
                out.copy_(torch.cholesky_inverse(factor).mT)  # by columns, so as it lies
        else:  # cholesky_inverse takes one matrix after another there
            W = _inverse_factor(factor)
            mirror_(out.copy_(W.mT @ W))
        torch.reciprocal(_diagonal(factor), out=_diagonal(A))
        return [info]
    (W, A21, A22), (P11, P21, P22) = _quarters(A), _quarters(out)
    half = W.shape[-1]
    failed = _invert_factor_(W, P11)
    G21, K = P21, A21
    _times_transposed_(G21, A21, W)
    lower_product_(A22, G21, G21, alpha=-1.0, beta=1.0)
    _times_(K, G21, W)
    failed += _invert_(A22, P22)
    _multiply_(P21, P22, K, alpha=-1.0)
    for start, stop in _strips(W):
        rows = W[..., start:, :]
        _multiply_(P11[..., start:stop, :stop], rows[..., start:stop].mT, rows[..., :stop])
    lower_product_(P11, K.mT, P21.mT, alpha=-1.0, beta=1.0)
    mirror_(P11)
    out[..., :half, half:] = P21.mT
    return failed


def _invert_factor_(A: Tensor, scratch: Tensor) -> list[Tensor]:
    """Turn A into W, the inverse of its lower Cholesky factor, zeros above the diagonal.

    With W11 and G21 as above, A22 − G21 G21ᵀ gives W22, and W21 = −W22 G21 W11.
    """
    d = A.shape[-1]
    if d <= _FACTORED_WHOLE[A.device.type != "cpu"]:
        factor, info = torch.linalg.cholesky_ex(A)
        A.copy_(_inverse_factor(factor))
        return [info]
    (W11, A21, A22), (scratch11, G21, scratch22) = _quarters(A), _quarters(scratch)
    half = W11.shape[-1]
    failed = _invert_factor_(W11, scratch11)
    _times_transposed_(G21, A21, W11)
    lower_product_(A22, G21, G21, alpha=-1.0, beta=1.0)
    failed += _invert_factor_(A22, scratch22)
    W22, W21 = A22, A21
    _times_(W21, G21, W11)
    G21.copy_(W21)
    for start, stop in _strips(W22):
        _multiply_(W21[..., start:stop, :], W22[..., start:stop, :stop], G21[..., :stop, :], -1.0)
    A[..., :half, half:] = 0
    return failed


def _inverse_factor(factor: Tensor) -> Tensor:
    """The inverse of lower triangular matrices, (..., d, d), zeros above the diagonal.

    Both halves of the diagonal are inverted at once, as a stack of twice as many matrices of
    half the size: a GPU solves a triangle row after row, however many there are.
    """
    d = factor.shape[-1]
    if d <= _SOLVED_WHOLE[factor.device.type != "cpu"] or d % 2:
        identity = torch.eye(d, dtype=factor.dtype, device=factor.device)
        solve = torch.linalg.solve_triangular
        inverse: Tensor = solve(factor, identity.expand_as(factor), upper=False)
        return inverse
    L11, L21, L22 = (quarter.reshape(-1, d // 2, d // 2) for quarter in _quarters(factor))
    W11, W22 = _inverse_factor(torch.cat([L11, L22])).chunk(2)
    inverse = factor.new_zeros(len(L11), d, d)
    inverse[:, : d // 2, : d // 2] = W11
    inverse[:, d // 2 :, d // 2 :] = W22
    inverse[:, d // 2 :, : d // 2].baddbmm_(W22 @ L21, W11, alpha=-1.0)
    return inverse.reshape(factor.shape)


def _quarters(A: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The three quarters of A, (..., d, d), that contain its lower triangle."""
    half = A.shape[-1] // 2
    return A[..., :half, :half], A[..., half:, :half], A[..., half:, half:]


def _times_(out: Tensor, A: Tensor, W: Tensor) -> None:
    """Turn ``out`` into A W, for W lower triangular."""
    for start, stop in _strips(W):
        _multiply_(out[..., start:stop], A[..., start:], W[..., start:, start:stop])


def _times_transposed_(out: Tensor, A: Tensor, W: Tensor) -> None:
    """Turn ``out`` into A Wᵀ, for W lower triangular."""
    for start, stop in _strips(W):
        _multiply_(out[..., start:stop], A[..., :stop], W[..., start:stop, :stop].mT)


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
    if out.device.type == "cpu" and d > _CUT_INTO_STRIPS:
        half = math.ceil(d / 2 / _STRIP_STEP) * _STRIP_STEP
        for part in (slice(half), slice(half, d)):
            lower_product_(out[..., part, part], A[..., part, :], B[..., part, :], alpha, beta)
        _multiply_(out[..., half:, :half], A[..., half:, :], B[..., :half, :].mT, alpha, beta)
        return out
    for start, stop in _strips(out):
        strip = out[..., start:stop, :stop]
        _multiply_(strip, A[..., start:stop, :], B[..., :stop, :].mT, alpha, beta)
    return out


def mirror_(A: Tensor) -> Tensor:
    """Copy the lower triangle of A, (..., d, d), onto the upper one, and return A."""
    d, size = A.shape[-1], _MIRRORED[A.device.type != "cpu"]
    lower = torch.ones(min(d, size), min(d, size), dtype=torch.bool, device=A.device).tril_()
    for start in range(0, d, size):
        strip = A[..., start : start + size, :]
        A[..., :start, start : start + size] = strip[..., :start].mT
        block = strip[..., start : start + size]
        n = block.shape[-1]
        block.copy_(torch.where(lower[:n, :n], block, block.mT))
    return A


def _multiply_(out: Tensor, A: Tensor, B: Tensor, alpha: float = 1.0, beta: float = 0.0) -> None:
    """Turn ``out`` into beta · out + alpha · A B."""
    if out.ndim == 2:
        out.addmm_(A, B, alpha=alpha, beta=beta)
    else:
        out.baddbmm_(A, B, alpha=alpha, beta=beta)


def _strips(A: Tensor) -> Iterator[tuple[int, int]]:
    """The edges of the strips that a symmetric or triangular A, (..., d, d), is cut into."""
    d = A.shape[-1]
    n = max(1, min(_MOST_STRIPS, d // _THINNEST_STRIP[A.device.type != "cpu"]))
    size = math.ceil(d / n / _STRIP_STEP) * _STRIP_STEP
    return ((start, min(start + size, d)) for start in range(0, d, size))


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
