"""Everything made of products equals what the library computes plainly."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from redunet.core.linalg import (
    _inverse_factor,
    congruence_,
    is_surely_definite,
    lower_product_,
    mirror_,
    spd_inverse,
    spd_inverse_,
)
from redunet.errors import NumericalError

SIZES = [1, 2, 95, 97, 200, 513, 700]


def positive(n: int, d: int, dtype: torch.dtype = torch.float64, rank: int | None = None) -> Tensor:
    """Σ + I/α as a class of few samples has it, (n, d, d)."""
    generator = torch.Generator().manual_seed(d)
    F = torch.randn(n, d, rank or 2 * d, dtype=torch.float64, generator=generator)
    A = F @ F.mT
    A *= (4 * d / A.diagonal(dim1=-2, dim2=-1).sum(-1))[:, None, None]
    return (A + torch.eye(d, dtype=torch.float64)).to(dtype)


def error(mine: Tensor, exact: Tensor) -> float:
    return float((mine.double() - exact.double()).norm() / exact.double().norm())


@pytest.mark.parametrize("d", SIZES)
@pytest.mark.parametrize("rank", [3, None], ids=["few samples", "many"])
def test_the_inverse_is_the_librarys_and_symmetric(d: int, rank: int | None) -> None:
    A = positive(1, d, rank=rank)[0]
    inverse, log_det = spd_inverse(A)
    assert error(inverse, torch.cholesky_inverse(torch.linalg.cholesky(A))) < 1e-11
    assert error(inverse @ A, torch.eye(d, dtype=torch.float64)) < 1e-11
    assert torch.equal(inverse, inverse.mT)
    assert float(log_det) == pytest.approx(float(torch.logdet(A)), rel=1e-12, abs=1e-12)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("d", [1, 3, 200])
@pytest.mark.parametrize("value", [0.0, -1.0, float("nan")])
def test_matrices_without_a_factor_are_an_error_of_one_kind(
    d: int, value: float, dtype: torch.dtype
) -> None:
    A = torch.stack([torch.eye(d, dtype=dtype), torch.full((d, d), value, dtype=dtype)])
    with pytest.raises(NumericalError, match="expected a positive definite matrix"):
        spd_inverse(A)


@pytest.mark.parametrize("d", [97, 200, 288, 513])
def test_triangles_are_inverted_by_halves_on_a_gpu(d: int) -> None:
    factors = torch.linalg.cholesky(positive(3, d, rank=3))
    inverse = _inverse_factor(factors)
    assert error(inverse @ factors, torch.eye(d).expand(3, d, d)) < 1e-11
    assert torch.equal(inverse, inverse.tril())


@pytest.mark.parametrize("d", [20, 600])
def test_only_the_lower_triangle_is_read(d: int) -> None:
    A = positive(2, d)
    other = A.tril() + torch.full_like(A, 7.0).triu(1)
    assert torch.equal(spd_inverse(other)[0], spd_inverse(A)[0])


@pytest.mark.parametrize("d", [20, 600])
def test_a_stack_at_once_is_the_same_matrix_by_matrix(d: int) -> None:
    A = positive(3, d)
    together = torch.empty_like(A)
    log_dets = spd_inverse_(A.clone(), together)
    inverse, expected = spd_inverse(A)
    assert error(together, inverse) < 1e-13
    assert torch.allclose(log_dets, expected, rtol=1e-13)
    L, scratch = positive(3, d), torch.empty_like(A)
    moved = congruence_(L, A.clone(), scratch)
    assert error(moved, torch.stack([x @ a @ x.T for x, a in zip(L, A, strict=True)])) < 1e-13


@pytest.mark.parametrize("d", [20, 600])
@pytest.mark.parametrize("place", [0, -1])
def test_a_matrix_that_is_not_positive_is_an_error_wherever_it_shows(d: int, place: int) -> None:
    A = positive(2, d)
    A[1, place, place] = -1.0
    with pytest.raises(NumericalError, match=f"factorisation of a {d} x {d} matrix in float64"):
        spd_inverse(A)


@pytest.mark.parametrize("d", SIZES)
def test_the_congruence_is_the_plain_product_and_symmetric(d: int) -> None:
    S, L = positive(1, d)[0], spd_inverse(positive(1, d)[0])[0]
    expected = L @ S @ L.T
    moved = congruence_(L, S, torch.empty_like(S))
    assert moved is S
    assert error(moved, expected) < 1e-13
    assert torch.equal(moved, moved.mT)


@pytest.mark.parametrize("d", SIZES)
def test_the_lower_triangle_of_a_product(d: int) -> None:
    generator = torch.Generator().manual_seed(0)
    A, start = (torch.randn(d, n, dtype=torch.float64, generator=generator) for n in (50, d))
    got = lower_product_(start.clone(), A, A, alpha=-2.0, beta=0.5)
    assert error(got.tril(), (0.5 * start - 2 * A @ A.T).tril()) < 1e-13
    mirrored = mirror_(got.clone())
    assert torch.equal(mirrored.tril(), got.tril())
    assert torch.equal(mirrored, mirrored.mT)


@settings(max_examples=60)
@given(st.integers(1, 40), st.integers(0, 12), st.integers(0, 1000))
def test_only_positive_definite_matrices_are_surely_so(d: int, zeros: int, seed: int) -> None:
    draw = torch.Generator().manual_seed(seed)
    X = torch.randint(-9, 10, (max(1, d - zeros), d), generator=draw).double()
    A = X.mT @ X  # exact, and singular where there are fewer rows than columns
    if zeros and d > 1:
        assert not is_surely_definite(A)
    assert is_surely_definite(A + torch.eye(d) * (1 + 1e-6 * float(A.trace())))
    assert not is_surely_definite(A - torch.eye(d) * (float(A[0, 0]) + 1))
