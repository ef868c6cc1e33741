"""Scattering: equal to direct convolution in whole numbers, nearly invariant, contracting."""

from __future__ import annotations

import itertools
import math
import pickle
import weakref
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from redunet import DataError, SettingsError
from redunet.features import Scattering

NOISE = np.random.default_rng(0).integers(0, 256, (6, 32, 32), dtype=np.uint8)


def wavelet(j: int, angle: float, L: int, radius: int, stride: int) -> dict[tuple[int, int], Any]:
    """A Morlet wavelet in whole steps of 2⁻²⁰: from place to value, one number at a time."""
    sigma, xi = 0.8 * 2**j, 3 * math.pi / 4 / 2**j
    gauss, wave = {}, {}
    for y, x in itertools.product(range(-radius, radius + 1), repeat=2):
        u = stride * (x * math.cos(angle) + y * math.sin(angle))
        v = stride * (y * math.cos(angle) - x * math.sin(angle))
        gauss[y, x] = math.exp(-(u * u + v * v * (4 / L) ** 2) / (2 * sigma * sigma))
        wave[y, x] = gauss[y, x] * complex(math.cos(xi * u), math.sin(xi * u))
    constant = sum(wave.values()).real / sum(gauss.values())
    scale = 2**20 * stride**2 * (4 / L) / (2 * math.pi * sigma * sigma)
    values = {at: (wave[at] - constant * gauss[at]) * scale for at in wave}
    return {at: (round(value.real), round(value.imag)) for at, value in values.items()}


def modulus(U: NDArray[Any], j: int, angle: float, L: int, stride: int) -> NDArray[Any]:
    """|U ⋆ ψ| at every 2^j-th place, by adding up shifted copies, in integers."""
    re, im = np.zeros_like(U), np.zeros_like(U)
    for at, (a, b) in wavelet(j, angle, L, len(U) // 2 - 1, stride).items():
        shifted = np.roll(U, at, axis=(0, 1))
        re += a * shifted
        im += b * shifted
    keep = slice(None, None, 2**j // stride)
    out = np.empty_like(U[keep, keep])
    for index in np.ndindex(out.shape):
        parts = (re[keep, keep][index], im[keep, keep][index])
        squares = sum(round(int(part) / 2**20) ** 2 for part in parts)
        root = math.isqrt(squares)
        out[index] = root + (squares > root * (root + 1))
    return out


def average(U: NDArray[Any], side: int, J: int, pool: int) -> NDArray[np.float64]:
    """Means under Gaussian windows, pooled."""
    stride = 2**J * (math.ceil(side / 2**J) + 2) // len(U)
    n, before = math.ceil(side / 2**J), (len(U) * stride - side) // 2
    places = np.arange(len(U)) * stride - before
    rows = []
    for cell in range(n):
        centre = (cell + 0.5) * side / n - 0.5
        weights = np.exp(-((places - centre) ** 2) / (2 * (0.8 * 2 ** (J - 1)) ** 2))
        rows.append(weights / weights.sum())
    weights = np.array(rows).reshape(n // pool, pool, -1).mean(axis=1)
    weights = np.round(weights * 2**16)
    return np.asarray(weights @ U @ weights.T) / 2**42


def by_hand(image: NDArray[np.uint8], J: int, L: int, pool: int) -> NDArray[np.float64]:
    """The scattering coefficients of one square image."""
    side = len(image)
    missing = 2**J * (math.ceil(side / 2**J) + 2) - side
    x = np.pad(image.astype(np.int64), (missing // 2, (missing + 1) // 2), mode="reflect") * 2**10
    angles = [math.pi * index / L for index in range(L)]
    first = [[modulus(x, j, angle, L, 1) for angle in angles] for j in range(J)]
    maps = [x, *itertools.chain(*first)]
    for i, j in itertools.combinations(range(J), 2):
        maps += [modulus(U, j, angle, L, 2**i) for U in first[i] for angle in angles]
    return np.concatenate([average(U, side, J, pool).ravel() for U in maps])


@pytest.mark.parametrize(("side", "J", "L", "pool"), [(16, 2, 4, 2), (10, 2, 3, 1), (16, 3, 2, 1)])
def test_the_features_are_direct_convolutions_to_the_last_bit(
    side: int, J: int, L: int, pool: int
) -> None:
    noise = NOISE[0, :side, :side].copy()
    for image in (noise, np.full_like(noise, 255)):
        mine = Scattering((side, side), J=J, L=L, pool=pool)(torch.from_numpy(image)[None])[0]
        assert np.array_equal(mine.numpy(), by_hand(image, J, L, pool))


def test_known_shapes() -> None:
    assert Scattering((28, 28), J=3).n_features == 217 * 4 * 4
    assert Scattering((28, 28), J=2).n_features == 81 * 7 * 7
    assert Scattering((32, 32, 3), J=2, pool=2).n_features == 3 * 81 * 4 * 4
    assert Scattering((32, 24, 3), J=3, L=6).n_features == 3 * (1 + 18 + 108) * 4 * 3


@pytest.mark.parametrize("side", [28, 256])
def test_what_is_rounded_away_is_far_below_a_half(side: int) -> None:
    checks = np.indices((side, side)).sum(axis=0) % 2
    images = [checks * 255, np.full_like(checks, 255), np.resize(NOISE % 2, checks.shape) * 255]
    features = Scattering((side, side), J=2, L=2)
    for image in images:
        planes = torch.from_numpy(image).to(torch.float64)[None, None] * 2**10
        spectrum = torch.fft.fft2(features._continued(planes))
        parts = torch.view_as_real(features._responses(spectrum, 0, 0))
        assert float((parts - parts.round()).abs().max()) < 0.01


def test_the_bits_of_an_image_are_its_own() -> None:
    images = np.random.default_rng(2).integers(0, 256, (41, 16, 20, 3), dtype=np.uint8)
    features, batch = Scattering((16, 20, 3), J=2, L=4), torch.from_numpy(images)
    whole = features(batch)
    for size in (1, 2, 7, 40):
        assert torch.equal(torch.cat([features(part) for part in torch.split(batch, size)]), whole)
    order = torch.from_numpy(np.random.default_rng(3).permutation(41))
    assert torch.equal(features(batch[order]), whole[order])
    assert torch.equal(features(batch.to(torch.float32)), whole)
    assert torch.equal(features(torch.from_numpy(np.asfortranarray(images))), whole)
    threads = torch.get_num_threads()
    try:
        for number in (1, 2, 3):
            torch.set_num_threads(number)
            assert torch.equal(features(batch), whole)
    finally:
        torch.set_num_threads(threads)


def test_wavelets_are_gone_with_their_map_and_never_sent_with_it() -> None:
    features = Scattering((16, 16), J=3)
    before = len(pickle.dumps(features))
    features(torch.zeros(1, 16, 16))
    assert len(pickle.dumps(features)) == before
    held = weakref.ref(features._wavelets[0, 1])
    del features
    assert held() is None


def test_what_cannot_be_scattered_is_refused() -> None:
    with pytest.raises(DataError, match="expected whole pixel values"):
        Scattering((8, 8))(torch.rand(1, 8, 8))
    with pytest.raises(DataError, match="expected whole pixel values"):
        Scattering((8, 8))(torch.full((1, 8, 8), 256))
    with pytest.raises(SettingsError, match=r"expected sides from 2\^\(J\+1\) to 256 pixels"):
        Scattering((8, 8), J=3)
    with pytest.raises(SettingsError, match="choose another J, or resize"):
        Scattering((300, 300))
    with pytest.raises(SettingsError, match="got pool=2 and 7 by 7 windows"):
        Scattering((28, 28), pool=2)
    for wrong in ((28, 28, 3, 1), (28,), (28, 0), (28.0, 28)):
        with pytest.raises(SettingsError, match="expected samples of shape such as"):
            Scattering(wrong)  # type: ignore[arg-type]
    with pytest.raises(SettingsError, match="J, L and pool of at least 1"):
        Scattering((28, 28), L=0)
