"""The bits of a row depend on that row alone."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from redunet.core.grid import GRID, _quick_steps, on_grid, unit_grid, unit_rows, within_range
from redunet.errors import DataError


def rows(n: int = 300, d: int = 57, seed: int = 0) -> torch.Tensor:
    return torch.randn(n, d, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def test_batch_size_changes_no_bit() -> None:
    X = rows()
    whole = unit_rows(X)
    for size in (1, 2, 3, 7, 64, 299):
        assert torch.equal(torch.cat([unit_rows(part) for part in torch.split(X, size)]), whole)


@pytest.mark.parametrize("d", [1, 2, 3, 8, 57, 784])
def test_memory_layout_changes_no_bit(d: int) -> None:
    X = rows(64, d)
    expected = unit_rows(X)
    fortran = torch.from_numpy(np.asfortranarray(X.numpy()))
    strided = torch.zeros(64, 2 * d, dtype=torch.float64)[:, ::2]
    strided.copy_(X)
    backwards = X.flip(0)
    assert torch.equal(unit_rows(fortran), expected)
    assert torch.equal(unit_rows(strided), expected)
    assert torch.equal(unit_rows(backwards).flip(0), expected)


def test_float32_input_has_the_bits_of_the_same_values_in_float64() -> None:
    X = rows().to(torch.float32)
    assert torch.equal(unit_rows(X), unit_rows(X.to(torch.float64)))


def test_permuting_columns_permutes_the_result_to_the_bit() -> None:
    X = rows(500, 201)
    order = torch.randperm(201, generator=torch.Generator().manual_seed(1))
    assert torch.equal(unit_rows(X[:, order]), unit_rows(X)[:, order])


@pytest.mark.parametrize("exponent", [-1000, -20, -1, 1, 20, 1000])
def test_scaling_by_a_power_of_two_changes_no_bit(exponent: int) -> None:
    X = rows()
    assert torch.equal(unit_rows(X * 2.0**exponent), unit_rows(X))


@settings(max_examples=200, deadline=None)
@given(
    hnp.arrays(
        np.float64,
        st.tuples(st.integers(1, 6), st.integers(1, 40)),
        elements=st.floats(allow_nan=False, allow_infinity=False),
    )
)
def test_any_finite_row_comes_to_unit_length_in_any_company(X: np.ndarray) -> None:
    unit = unit_rows(torch.from_numpy(X))
    assert torch.equal(unit_grid(torch.from_numpy(X)), (unit * GRID).round())
    for row, result in zip(X, unit, strict=True):
        assert torch.equal(unit_rows(torch.from_numpy(row[None].copy()))[0], result)
        largest = max(map(abs, row.tolist()))
        if largest == 0:
            assert not result.any()
            continue
        scaled = [Fraction(value) / Fraction(largest) for value in row.tolist()]
        norm = math.sqrt(sum(value * value for value in scaled))
        exact = [float(value) / norm for value in scaled]
        np.testing.assert_allclose(result.numpy(), exact, rtol=0, atol=1e-13)


def test_whole_pixels_have_exact_norms() -> None:
    pixels = torch.tensor([[3, 4, 0], [255, 0, 0], [0, 0, 0]], dtype=torch.uint8)
    assert unit_rows(pixels).tolist() == [[0.6, 0.8, 0.0], [1.0, 0.0, 0.0], [0.0, 0.0, 0.0]]


@pytest.mark.parametrize("d", [1, 2, 7, 64, 784, 3072])
def test_bytes_have_the_bits_of_the_same_values_in_float64(d: int) -> None:
    rng = np.random.default_rng(d)
    pixels = torch.from_numpy(rng.integers(0, 256, (300, d), dtype=np.uint8))
    pixels[rng.random(300) < 0.2] //= 50
    pixels[3] = 0
    assert torch.equal(unit_rows(pixels), unit_rows(pixels.double()))
    signed = torch.from_numpy(rng.integers(-128, 128, (300, d), dtype=np.int8))
    assert torch.equal(unit_rows(signed), unit_rows(signed.double()))
    for whole in (pixels, signed):
        assert torch.equal(unit_grid(whole), (unit_rows(whole) * GRID).round())


def test_no_rows_are_put_on_the_grid_as_none() -> None:
    X = torch.zeros(0, 13)
    assert unit_grid(X).shape == unit_rows(X).shape == on_grid(X).shape == (0, 13)


def row_of_length(length: int, n: int, rng: np.random.Generator) -> list[int]:
    """Whole numbers, the first n of them odd, whose squares add up to the square of a length."""
    odd = [2 * int(value) + 1 for value in rng.integers(-length // (3 * n), length // (3 * n), n)]
    rest = length**2 - sum(value**2 for value in odd)
    while rest:
        odd.append(math.isqrt(rest))
        rest -= odd[-1] ** 2
    return odd


@pytest.mark.parametrize("scale", [1.0, 2.0**-7, 2.0**-500, 2.0**500])
def test_values_in_the_middle_between_two_steps_are_rounded_exactly(scale: float) -> None:
    rng = np.random.default_rng(0)
    for n in (1, 3, 10):
        row = torch.tensor(row_of_length(2 * GRID, n, rng), dtype=torch.float64)
        X = rows(20, len(row))  # most of the others are rounded the quick way
        X[7] = row * scale
        assert torch.equal(unit_grid(X)[7], (row / 2).round())
        assert torch.equal(unit_grid(X), (unit_rows(X) * GRID).round())


@pytest.mark.parametrize("d", [2, 57, 784, 2048, 20_000])
def test_nearly_all_rows_are_rounded_the_quick_way(d: int) -> None:
    X = rows(400, d)
    assert float(_quick_steps(X)[1].double().mean()) > 0.98
    X[:5] *= torch.tensor([0.0, 1e-200, 1e200, torch.inf, torch.nan], dtype=torch.float64)[:, None]
    assert not _quick_steps(X)[1][:5].any()
    assert torch.equal(unit_grid(X[:3]), (unit_rows(X[:3]) * GRID).round())
    for part in (X[3:4], X[4:5]):
        with pytest.raises(DataError, match="expected finite values, got NaN or infinity"):
            unit_grid(part)


def test_what_exact_lengths_leave_out_is_allowed_for() -> None:
    # The squares of many fractions beside one large value: they move the second value, just
    # below the middle between two steps, to above it.
    row = torch.full((5000,), 0.49, dtype=torch.float64)
    row[:2] = torch.tensor([2.0**23, 0.0])
    share = (400_000.5 - 1e-6) / GRID
    row[1] = share / math.sqrt(1 - share**2) * float(row.norm())
    assert float(row[1] / row.norm() * GRID) < 400_000.5
    assert float(unit_grid(row[None])[0, 1]) == 400_001
    assert float((unit_rows(row[None]) * GRID).round()[0, 1]) == 400_001


def test_no_grid_value_exceeds_the_bound() -> None:
    # One large entry and many that round up together: the worst case for the norm.
    X = torch.full((50, 30000), 0.5**24, dtype=torch.float64)
    X[:, 0] = torch.linspace(0.5, 1.0, 50)
    assert int((unit_rows(X) * GRID).round().abs().max()) <= GRID
    assert int(unit_grid(X).abs().max()) <= GRID


def test_a_known_range_is_scaled_by_a_power_of_two() -> None:
    pixels = torch.arange(256, dtype=torch.uint8)[None]
    scaled = within_range(pixels, 0, 255)
    assert torch.equal(scaled, pixels.double() / 256)
    assert torch.equal((scaled * GRID).round(), scaled * GRID)


def test_a_value_outside_the_range_is_an_error() -> None:
    with pytest.raises(DataError, match=r"within input_range=\(0, 1\), got values from 0 to 255"):
        within_range(torch.tensor([[0, 255]]), 0, 1)
