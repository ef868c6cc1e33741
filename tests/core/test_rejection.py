"""What samples leave outside of classes, against inverses, and what is expected of known ones."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from redunet.core.grid import unit_rows
from redunet.core.moments import ClassMoments
from redunet.core.rejection import Residuals, quantiles
from redunet.core.second_moments import SecondMoments
from tests.conftest import classes_on_subspaces

pytestmark = pytest.mark.usefixtures("one_thread")


def learnt(d: int, counts: list[int], rank: int = 3, seed: int = 0) -> ClassMoments:
    """Moments of classes with so many samples each, on subspaces of their own."""
    X, y = classes_on_subspaces(len(counts), d, max(counts), rank, seed=seed)
    rows = np.concatenate([np.flatnonzero(y == j)[:n] for j, n in enumerate(counts)])
    return ClassMoments(d).update(torch.from_numpy(X[rows]), y[rows])


def residuals_of(
    moments: ClassMoments,
    eps: float,
    memory: int = 2**30,
    dtype: torch.dtype = torch.float64,
) -> Residuals:
    first = SecondMoments.of(moments, dtype, "cpu")
    return Residuals.of(first, moments.means(), moments.counts, eps, memory)


def plain(moments: ClassMoments, eps: float, Z: Tensor) -> Tensor:
    """xᵀ (I + α_j Σ_j)⁻¹ x of x = (z, 1)/√2, with a matrix for each class."""
    d, out = moments.n_features + 1, []
    X = torch.cat([Z, torch.ones_like(Z[:, :1])], dim=1) / 2**0.5
    for label, n, mean in zip(moments, moments.counts, moments.means(), strict=True):
        A = torch.eye(d, dtype=torch.float64)
        alpha = d / (n * eps**2) / 2
        A[:-1, :-1] += alpha * moments.Sigma_of(label)
        A[-1, :-1] = A[:-1, -1] = alpha * n * mean
        A[-1, -1] += alpha * n
        out.append((X * torch.linalg.solve(A, X.mT).mT).sum(dim=1))
    return torch.stack(out, dim=1)


@given(
    d=st.integers(4, 24),
    counts=st.lists(st.integers(1, 40), min_size=1, max_size=4),
    eps=st.sampled_from([0.3, 1.0, 4.0]),
    seed=st.integers(0, 100),
)
def test_residuals_are_those_of_plain_inverses(
    d: int, counts: list[int], eps: float, seed: int
) -> None:
    moments = learnt(d, counts, rank=min(3, d), seed=seed)
    draw = torch.Generator().manual_seed(seed)
    Z = unit_rows(torch.randn(7, d, dtype=torch.float64, generator=draw))
    found = residuals_of(moments, eps)(Z)
    assert torch.allclose(found, plain(moments, eps, Z), atol=1e-6)
    assert torch.allclose(residuals_of(moments, eps, memory=0)(Z), found, atol=1e-12)
    narrow = residuals_of(moments, eps, dtype=torch.float32)(Z.to(torch.float32))
    assert torch.allclose(narrow, found, atol=1e-5)


def test_classes_are_factors_matrices_and_in_a_reduced_space() -> None:
    few, many = learnt(40, [3, 4, 5]), learnt(12, [30, 30])
    assert SecondMoments.of(few, torch.float64, "cpu").stacks
    assert SecondMoments.of(few, torch.float64, "cpu").space is not None
    assert SecondMoments.of(many, torch.float64, "cpu").dense == (0, 1)


def test_nothing_is_as_novel_as_a_zero_vector() -> None:
    for moments in (learnt(40, [3, 4, 5]), learnt(12, [30, 30]), learnt(30, [2, 60])):
        found = residuals_of(moments, 0.5)(torch.zeros(2, moments.n_features, dtype=torch.float64))
        assert torch.equal(found, torch.ones_like(found))


def test_a_class_is_not_nearer_because_it_has_more_samples() -> None:
    X, y = classes_on_subspaces(2, 20, 10, 3)
    once = ClassMoments(20).update(torch.from_numpy(X), y)
    again = once + once.select([1]) + once.select([1])
    Z = unit_rows(torch.from_numpy(X))
    assert torch.allclose(residuals_of(once, 1.0)(Z), residuals_of(again, 1.0)(Z), atol=1e-6)
    added = residuals_of(once, 1.0).added(torch.tensor([0.0, 0.5, 1.0]))
    assert torch.allclose(added, torch.tensor([1.0, 11.5, 22.0]).log())


def test_drawn_samples_have_the_residuals_of_new_ones() -> None:
    """Quantiles of new samples of a class with many samples are met within hundredths."""
    draw = np.random.default_rng(0)
    spread = draw.standard_normal((12, 12)) / 4
    mean = np.ones(12)

    def samples(n: int) -> Tensor:
        tails = np.sqrt(4 / draw.chisquare(6, (n, 1)))
        return torch.from_numpy(mean + tails * (draw.standard_normal((n, 12)) @ spread))

    moments = ClassMoments(12).update(samples(4000), [0] * 4000)
    found = residuals_of(moments, 0.5)
    drawn, weights = found.drawn()
    levels = torch.tensor([0.5, 0.9, 0.95], dtype=torch.float64)
    new = found(unit_rows(samples(4000)))[:, 0]
    expected = quantiles(drawn, weights, levels)
    assert torch.allclose(expected, torch.quantile(new, levels), atol=0.02)
    assert float((new > expected[2]).double().mean()) == pytest.approx(0.05, abs=0.03)


def test_one_sample_a_class_leaves_everything_possible() -> None:
    moments = learnt(30, [1, 1, 1])
    drawn, _ = residuals_of(moments, 1.0).drawn()
    assert float(drawn.min()) > 0.999


@given(st.lists(st.floats(-9, 9), min_size=2, max_size=30), st.floats(0.01, 0.99))
def test_quantiles_are_numpys_for_equal_weights(values: list[float], level: float) -> None:
    given_ = torch.tensor(values, dtype=torch.float64)
    found = quantiles(given_, torch.ones_like(given_), torch.tensor([level], dtype=torch.float64))
    assert float(found[0]) == pytest.approx(np.quantile(values, level, method="hazen"), abs=1e-9)
