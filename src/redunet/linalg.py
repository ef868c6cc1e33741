"""Numerics of symmetric positive definite matrices.

Of the core, this is the one file that knows about devices, batches and BLAS:
on a CPU matrices are treated one at a time, on a GPU small ones all of a stack at once.
No jitter is ever added: the matrices of this package have the form I + αΣ and
are positive definite by construction, so a failed factorisation is an error.
"""

from __future__ import annotations

import torch
from torch import Tensor

from redunet.errors import NumericalError

_LARGEST_BATCHED = 1024
"""On a GPU, matrices beyond this size are faster one at a time than as a stack."""


def spd_inverse(A: Tensor) -> tuple[Tensor, Tensor]:
    """Inverse and log-determinant by one Cholesky factorisation.

    Parameters
    ----------
    A : Tensor of shape (..., d, d)
        Symmetric positive definite; only the lower triangle is read.

    Returns
    -------
    inverse : Tensor of shape (..., d, d)
        Symmetric to the last bit.
    log_det : Tensor of shape (...)
    """
    if A.ndim > 2 and (A.device.type == "cpu" or A.shape[-1] > _LARGEST_BATCHED):
        inverse = torch.empty_like(A)
        log_det = A.new_empty(A.shape[:-2])
        for index in range(A.shape[0]):
            inverse[index], log_det[index] = spd_inverse(A[index])
        return inverse, log_det
    factor = cholesky(A, "raise eps, lower step, or use dtype='float64'")
    log_det = 2 * factor.diagonal(dim1=-2, dim2=-1).log().sum(-1)
    return torch.cholesky_inverse(factor), log_det


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
        raise NumericalError(
            f"expected a positive definite matrix, but the Cholesky factorisation of a "
            f"{A.shape[-1]} x {A.shape[-1]} matrix in {str(A.dtype).removeprefix('torch.')} "
            f"failed: {remedy}"
        )
    return factor


def congruence(L: Tensor, S: Tensor) -> Tensor:
    """L S Lᵀ for symmetric S, symmetric to the last bit.

    Parameters
    ----------
    L, S : Tensor of shape (..., d, d)

    Returns
    -------
    Tensor of shape (..., d, d)
    """
    T = L @ S @ L.mT
    return (T + T.mT).mul_(0.5)


def add_identity(A: Tensor, scale: float = 1.0) -> Tensor:
    """Add ``scale`` times the identity to A in place, and return A."""
    A.diagonal(dim1=-2, dim2=-1).add_(scale)
    return A


def is_semidefinite(A: Tensor, tolerance: float) -> bool:
    """Whether no eigenvalue of A is below ``-tolerance`` times A's Frobenius norm.

    Parameters
    ----------
    A : Tensor of shape (d, d), symmetric, float64
    tolerance : float
        Well above the rounding of a factorisation, d · 2⁻⁵³.
    """
    norm = float(torch.linalg.vector_norm(A))  # at most √rank times the largest eigenvalue
    _, info = torch.linalg.cholesky_ex(add_identity(A.clone(), tolerance * norm or 1.0))
    return not bool(info)


def top_eigenvectors(A: Tensor, n: int) -> tuple[Tensor, Tensor]:
    """The n largest eigenvalues of a symmetric matrix, descending, and their vectors.

    Always computed in float64: in float32 the solver can fail on large moments.

    Parameters
    ----------
    A : Tensor of shape (d, d)
    n : int

    Returns
    -------
    values : Tensor of shape (n,), float64
    vectors : Tensor of shape (d, n), float64
    """
    values, vectors = torch.linalg.eigh(A.to(torch.float64))
    return values.flip(0)[:n], vectors.flip(1)[:, :n]


def inverse_root(A: Tensor, remedy: str) -> Tensor:
    """A matrix R with RᵀR = A⁻¹, lower triangular: the inverse of the Cholesky factor.

    Parameters
    ----------
    A : Tensor of shape (d, d)
        Symmetric positive definite; only the lower triangle is read.
    remedy : str
        What to do where A is not, for the error.

    Returns
    -------
    Tensor of shape (d, d)
    """
    factor = cholesky(A, remedy)
    identity = torch.eye(len(A), dtype=A.dtype, device=A.device)
    root: Tensor = torch.linalg.solve_triangular(factor, identity, upper=False)
    return root
