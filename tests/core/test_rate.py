"""The operators are the gradients of the objective."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from redunet.core.rate import Coding, Sigma_of, operators, rate_reduction


def samples(counts: list[int], d: int, seed: int = 0) -> list[Tensor]:
    generator = torch.Generator().manual_seed(seed)
    parts = [torch.randn(d, n, generator=generator, dtype=torch.float64) for n in counts]
    return [part * (part.shape[1] ** 0.5 / part.norm()) for part in parts]


def rates_by_definition(Z: list[Tensor], eps: float) -> tuple[Tensor, Tensor]:
    """R and R_c straight from the samples, for automatic differentiation."""
    d, m = Z[0].shape[0], sum(z.shape[1] for z in Z)
    eye = torch.eye(d, dtype=torch.float64)
    everything = torch.cat(Z, dim=1)
    R = 0.5 * torch.logdet(eye + d / (m * eps**2) * everything @ everything.T)
    R_c = torch.zeros((), dtype=torch.float64)
    for z in Z:
        n = z.shape[1]
        R_c = R_c + n / m / 2 * torch.logdet(eye + d / (n * eps**2) * z @ z.T)
    return R, R_c


@pytest.mark.parametrize("eps", [0.1, 0.5, 1.0])
@pytest.mark.parametrize("counts", [[9], [4, 4], [3, 50, 11], [1, 2]])
def test_the_gradient_of_the_objective_is_e_minus_gamma_c(counts: list[int], eps: float) -> None:
    d = 7
    Z = [z.requires_grad_() for z in samples(counts, d)]
    R, R_c = rates_by_definition(Z, eps)
    gradients = torch.autograd.grad(R - R_c, Z)
    coding = Coding(tuple(counts), d, eps)
    with torch.no_grad():
        E, C, rate = operators(torch.stack([z @ z.T for z in Z]), coding)
        for j, (z, gradient) in enumerate(zip(Z, gradients, strict=True)):
            mine = E @ z - coding.gamma[j] * C[j] @ z
            assert float((mine - gradient).norm()) < 1e-11 * (1 + float(gradient.norm()))
    assert pytest.approx(R.item(), rel=1e-12) == rate.R
    assert rate.R_c == pytest.approx(R_c.item(), rel=1e-12)
    assert rate.delta_R == pytest.approx((R - R_c).item(), rel=1e-9, abs=1e-12)


def test_one_class_has_no_rate_to_reduce() -> None:
    (z,) = samples([8], 5)
    assert rate_reduction((z @ z.T)[None], [8], 0.5).delta_R == pytest.approx(0, abs=1e-14)


def test_second_moments_are_read_back_from_the_compression() -> None:
    Z = samples([6, 40], 5)
    Sigma = torch.stack([z @ z.T for z in Z])
    coding = Coding((6, 40), 5, 0.5)
    _, C, _ = operators(Sigma, coding)
    assert torch.allclose(Sigma_of(C, coding), Sigma, rtol=0, atol=1e-12)
