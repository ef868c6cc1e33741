"""Images without their slant: as arithmetic with fractions has them, and what they are for."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from redunet.errors import DataError, SettingsError
from redunet.features import Deskew, FeatureSettings, Flatten, Scattering

IMAGES = np.random.default_rng(0).integers(0, 256, (12, 6, 5), dtype=np.uint8)


def upright(images: NDArray[Any]) -> NDArray[Any]:
    found = Deskew(Flatten(images.shape[1:]))(torch.from_numpy(images))
    return found.numpy().reshape(images.shape)


def nearest(number: Fraction, steps: int = 1) -> Fraction:
    """The nearest multiple of one over `steps`; of two, the even one."""
    return Fraction(round(number * steps), steps)


def by_fractions(image: NDArray[Any]) -> list[list[int]]:
    """One grey image, pixel by pixel, without any rounding but to the grids."""
    height, width = image.shape
    pixels = {(y, x): int(image[y, x]) for y in range(height) for x in range(width)}
    total = Fraction(max(1, sum(pixels.values())))
    middle_y, middle_x = Fraction(height - 1, 2), Fraction(width - 1, 2)
    mean_y = sum(v * (y - middle_y) for (y, _), v in pixels.items()) / total
    mean_x = sum(v * (x - middle_x) for (_, x), v in pixels.items()) / total
    spread = sum(v * (y - middle_y - mean_y) ** 2 for (y, _), v in pixels.items())
    both = sum(
        v * (y - middle_y - mean_y) * (x - middle_x - mean_x) for (y, x), v in pixels.items()
    )
    slant = Fraction(both) / Fraction(spread) if spread else Fraction(0)
    slant = nearest(min(max(slant, Fraction(-1)), Fraction(1)), 2**10)
    down, right = nearest(mean_y, 2**6), nearest(mean_x, 2**6)

    def between(where: Fraction, place: int) -> Fraction:
        return max(Fraction(0), 1 - abs(where - place))

    return [
        [
            round(
                sum(
                    v * between(y + down, row) * between(x + right + slant * (y - middle_y), column)
                    for (row, column), v in pixels.items()
                )
            )
            for x in range(width)
        ]
        for y in range(height)
    ]


@pytest.mark.parametrize("index", range(len(IMAGES)))
def test_every_pixel_is_what_fractions_give(index: int) -> None:
    assert upright(IMAGES[index : index + 1])[0].tolist() == by_fractions(IMAGES[index])


def test_single_rows_and_empty_images_stay() -> None:
    images = np.zeros((3, 5, 5), dtype=np.uint8)
    images[1, 2] = 7
    images[2, 0, 0] = 9  # a single point goes to the middle
    found = upright(images)
    assert not found[0].any()
    assert found[1].tolist() == images[1].tolist()
    assert found[2, 2, 2] == found[2].sum() == 9


def test_settings_name_it() -> None:
    settings = FeatureSettings(features="upright-scattering", n_scales=1, standardized=False)
    found, wanted = settings.features_from(IMAGES), Deskew(Scattering((6, 5), 1))
    assert torch.equal(found(torch.from_numpy(IMAGES)), wanted(torch.from_numpy(IMAGES)))
    assert not found.learnt_from_data
    assert not settings.needs_images


@pytest.mark.parametrize("kind", ["pixels", "patch-planes", "none", "", "upright-pixels"])
def test_settings_name_no_upright_maps_of_other_kinds(kind: str) -> None:
    with pytest.raises(SettingsError, match="upright- before scattering or patches"):
        FeatureSettings(features=f"upright-{kind}")


def test_vectors_and_fractions_are_refused() -> None:
    with pytest.raises(SettingsError, match=r"expected a map of images, got one for"):
        Deskew(Flatten((5,)))
    with pytest.raises(DataError, match=r"whole pixel values"):
        Deskew(Flatten((2, 2)))(torch.full((1, 2, 2), 0.5))
