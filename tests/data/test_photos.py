"""Photographs as people have them: any size, turned, of any mode, among files that are none."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from redunet import ReduNetClassifier
from redunet.data.pixels import BadImageError, pixels, resized
from redunet.errors import ModelFileError
from redunet.estimators import storage
from tests.own_data import done, png, redunet, refused, write_csv, write_images, write_npz

pytestmark = pytest.mark.usefixtures("one_thread")

QUICK = ("--set", "n_layers=1", "--set", "n_components=3")


def photo(label: str, width: int, height: int, seed: int) -> Image.Image:
    """Stripes that run down in one class and across in the other, of any size."""
    noise = np.random.default_rng(seed).integers(0, 40, (height, width, 3), dtype=np.uint8)
    y, x = np.mgrid[:height, :width] / min(height, width)
    stripes = (np.sin(20 * (x if label == "down" else y)) > 0)[..., None] * 200
    return Image.fromarray((noise + stripes).astype(np.uint8))


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    return write_photos(tmp_path / "photos", 40, 90)


def write_photos(folder: Path, width: int, height: int) -> Path:
    """Photographs of two classes, of 12 sizes: each is broader and lower than the one before."""
    for label in ("down", "across"):
        (folder / label).mkdir(parents=True)
        for seed in range(12):
            size = (width + width * seed // 6, height - height * seed // 18)
            photo(label, *size, seed).save(folder / label / f"{seed:02d}.jpg")
    return folder


def shape_of(path: Path) -> tuple[int, ...] | None:
    features = ReduNetClassifier.load(path).features
    return None if features is None else features.input_shape


def test_photographs_of_any_size_are_learnt_and_labelled(photos: Path, tmp_path: Path) -> None:
    done("learn", tmp_path / "m", photos, "--resize", "16x12", *QUICK)
    model = ReduNetClassifier.load(tmp_path / "m")
    assert model.resize_images_
    assert shape_of(tmp_path / "m") == (12, 16, 3)
    found = json.loads(done("evaluate", tmp_path / "m", photos, "--json").stdout)
    assert found["accuracy"] > 0.9
    # Another size again, without a word about it.
    photo("down", 301, 199, 99).save(tmp_path / "new.png")
    said = done("predict", tmp_path / "m", tmp_path / "new.png", "--json").stdout
    assert json.loads(said)["label"] == "down"
    # Learning in parts and withdrawing is exact, as ever.
    part = tmp_path / "part" / "across"
    part.mkdir(parents=True)
    photo("across", 77, 33, 5).save(part / "more.png")
    before = (tmp_path / "m").read_bytes()
    done("learn", tmp_path / "m", tmp_path / "part")
    assert (tmp_path / "m").read_bytes() != before
    done("unlearn", tmp_path / "m", tmp_path / "part")
    assert (tmp_path / "m").read_bytes() == before
    done("report", tmp_path / "m", "--samples", photos, "-o", tmp_path / "page.html")


def test_the_size_is_the_models(photos: Path, tmp_path: Path) -> None:
    done("learn", tmp_path / "m", photos, "--resize", "8", *QUICK)
    said = refused("learn", tmp_path / "m", photos, "--resize", "8")
    assert "keeps the settings that it was made with: leave out resize" in said
    done("learn", tmp_path / "other", photos, "--resize", "8x8", *QUICK)
    assert (tmp_path / "other").read_bytes() == (tmp_path / "m").read_bytes()
    done("merge", tmp_path / "m", tmp_path / "other", "-o", tmp_path / "both")
    assert ReduNetClassifier.load(tmp_path / "both").resize_images_
    np.savez(tmp_path / "d.npz", X=np.zeros((2, 8, 8, 3), np.uint8) + 1, y=["a", "b"])
    done("learn", tmp_path / "plain", tmp_path / "d.npz", *QUICK)
    said = refused("merge", tmp_path / "m", tmp_path / "plain", "-o", tmp_path / "no")
    assert "they differ in whether image files are resized" in said
    done("predict", tmp_path / "m", tmp_path / "d.npz", "--label", "y")  # arrays of that shape
    for word in ("0", "-3", "8x", "x", "8x8x3", "99999"):
        assert "--resize 32" in refused("learn", tmp_path / "new", photos, f"--resize={word}")
    table = write_npz(tmp_path / "d", range(20))
    assert "leave out --resize" in refused("learn", tmp_path / "new", table, "--resize", "8")


@pytest.mark.parametrize("resize", [False, "yes"])
def test_a_forged_setting_is_refused(tmp_path: Path, resize: Any) -> None:
    done("learn", tmp_path / "m", write_images(tmp_path / "i", range(20)), *QUICK)
    tensors, content = storage.load(tmp_path / "m")
    storage.save(tmp_path / "m", tensors, {**content, "resize": resize})
    with pytest.raises(ModelFileError):
        ReduNetClassifier.load(tmp_path / "m")
    storage.save(tmp_path / "m", tensors, {**content, "resize": True})
    assert ReduNetClassifier.load(tmp_path / "m").resize_images_
    done("learn", tmp_path / "n", write_csv(tmp_path / "t", range(20)), *QUICK)
    tensors, content = storage.load(tmp_path / "n")
    storage.save(tmp_path / "n", tensors, {**content, "resize": True})
    with pytest.raises(ModelFileError, match="expected a feature map of images"):
        ReduNetClassifier.load(tmp_path / "n")


# One image


def gradient(width: int, height: int) -> Image.Image:
    x = np.linspace(0, 255, width)[None, :].repeat(height, 0)
    return Image.fromarray(np.stack([x, x, 255 - x], axis=2).astype(np.uint8))


def test_images_are_scaled_to_cover_and_cropped_around_the_centre(tmp_path: Path) -> None:
    wide = np.zeros((20, 60, 3), np.uint8)
    wide[:, 20:40] = 255  # the middle third
    Image.fromarray(wide).save(tmp_path / "wide.png")
    found, _ = resized(tmp_path / "wide.png", (10, 10, 3))
    assert found.shape == (10, 10, 3)
    assert found.dtype == np.uint8
    assert (found[:, 1:-1] == 255).all()
    tall, _ = resized(tmp_path / "wide.png", (10, 30))
    assert tall.shape == (10, 30)
    assert (tall[:, :9] == 0).all()
    assert (tall[:, 11:19] == 255).all()


def test_images_are_turned_as_their_exif_data_says(tmp_path: Path) -> None:
    upright = gradient(40, 40)
    exif = Image.Exif()
    exif[0x0112] = 6  # to be turned by 90 degrees clockwise
    upright.transpose(Image.Transpose.ROTATE_90).save(tmp_path / "turned.png", exif=exif)
    upright.save(tmp_path / "upright.png")
    turned, straight = (
        resized(tmp_path / name, (8, 8, 3))[0] for name in ("turned.png", "upright.png")
    )
    np.testing.assert_array_equal(turned, straight)
    # As they are, without a change of size, too.
    wide = gradient(30, 20)
    wide.save(tmp_path / "wide.png")
    for orientation, back in (
        (3, Image.Transpose.ROTATE_180),
        (6, Image.Transpose.ROTATE_90),
        (8, Image.Transpose.ROTATE_270),
    ):
        exif[0x0112] = orientation
        wide.transpose(back).save(tmp_path / "turned.png", exif=exif)
        found, _ = pixels(tmp_path / "turned.png", (20, 30, 3))
        np.testing.assert_array_equal(found, pixels(tmp_path / "wide.png", (20, 30, 3))[0])


def test_all_modes_become_grey_or_rgb(tmp_path: Path) -> None:
    colour = gradient(32, 32)
    rgb = np.asarray(colour.resize((8, 8), Image.Resampling.BICUBIC)).astype(int)
    half = Image.new("RGBA", (32, 32), (0, 0, 0, 0))
    sixteen = Image.fromarray(np.asarray(colour.convert("L")).astype(np.uint16) << 8)
    ramp = np.asarray(colour.convert("L").resize((8, 8), Image.Resampling.BICUBIC)).astype(int)
    for name, image, expected in (
        ("rgb.png", colour, rgb),
        ("alpha.png", half, np.full((8, 8, 3), 255)),
        ("palette.png", colour.convert("P", palette=Image.Palette.ADAPTIVE), rgb),
        ("cmyk.tif", colour.convert("CMYK"), rgb),
        ("sixteen.png", sixteen, np.repeat(ramp[..., None], 3, axis=2)),
        ("grey.png", colour.convert("L"), np.repeat(ramp[..., None], 3, axis=2)),
        ("bits.png", Image.new("1", (32, 32), 1), np.full((8, 8, 3), 255)),
        ("grey-alpha.png", colour.convert("L").convert("LA"), np.repeat(ramp[..., None], 3, 2)),
    ):
        image.save(tmp_path / name)
        found, _ = resized(tmp_path / name, (8, 8, 3))
        assert np.abs(found.astype(int) - expected).max() <= 12, name
        assert resized(tmp_path / name, (8, 8))[0].shape == (8, 8)
    Image.fromarray(np.zeros((4, 4), np.float32)).save(tmp_path / "floats.tif")
    with pytest.raises(BadImageError, match="mode F"):
        resized(tmp_path / "floats.tif", (8, 8))


def test_of_several_frames_the_first_is_taken_and_said_so(tmp_path: Path) -> None:
    folder = write_images(tmp_path / "i", range(20))
    frames = [Image.new("L", (4, 3), shade) for shade in (10, 200)]
    frames[0].save(folder / "ant" / "film.gif", save_all=True, append_images=frames[1:])
    found, animated = pixels(folder / "ant" / "film.gif", None)
    assert animated
    assert (found == 10).all()
    result = redunet("learn", tmp_path / "m", folder, "--resize", "4x3", *QUICK)
    assert result.exit_code == 0
    assert "1 images have several frames, of which the first was taken" in result.stderr
    assert "film.gif" in result.stderr


def test_a_tenth_may_be_bad_where_that_is_asked_for(tmp_path: Path) -> None:
    folder = write_images(tmp_path / "i", range(20))
    for index in range(2):
        (folder / "ant" / f"bad{index}.png").write_bytes(b"no image")
    result = redunet("learn", tmp_path / "m", folder, "--skip-bad", *QUICK)
    assert result.exit_code == 0
    assert "left out 2 images" in result.stderr
    (folder / "ant" / "bad2.png").write_bytes(png(np.zeros((9, 9), np.uint8)))
    assert "3 of 23 images" in refused("learn", tmp_path / "n", folder, "--skip-bad", *QUICK)
    done("learn", tmp_path / "n", folder, "--skip-bad", "--skip-bad", *QUICK)
    assert (tmp_path / "n").read_bytes() == (tmp_path / "m").read_bytes()
