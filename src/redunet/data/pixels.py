"""One image file as pixels: as it is, or turned, scaled, cropped and converted."""

from __future__ import annotations

import logging
import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import ExifTags, Image, ImageOps

from redunet.data.source import MOST_VALUES, check_weight
from redunet.encoders.fitting import fitted
from redunet.errors import DataError, FileAccessError
from redunet.safety.untrusted import open_regular

_FORMATS = ("BMP", "GIF", "JPEG", "PNG", "PPM", "TIFF", "WEBP")
_MODES = {"L": "L", "RGB": "RGB", "1": "L", "P": "RGB"}
_LONGEST_SIDE = 2**16
"""Pixels; JPEG goes no further. Pillow keeps a pointer for each row, so height costs memory too."""
_GREY = ("1", "L", "LA", "La", "I", "F")

# Pillow logs what it raises, and without a handler that goes to the terminal.
logging.getLogger("PIL").addHandler(logging.NullHandler())


class BadImageError(Exception):
    """One image that cannot be used, and why."""


class OtherImageError(BadImageError):
    """One image that could be used if it were scaled and converted."""


def pixels(file: Path, shape: tuple[int, ...] | None) -> tuple[NDArray[np.uint8], bool]:
    """The pixels of an image that is grey or RGB, and not transparent, turned as EXIF data says.

    With it goes whether the image has several frames, of which this is the first.
    """
    with _opened(file) as image:
        if image.height * image.width > MOST_VALUES:  # first, as to read EXIF data may unpack it
            raise BadImageError(f"more than {MOST_VALUES:,} pixels")
        mode = None if image.has_transparency_data else _MODES.get(image.mode)
        on_its_side = image.getexif().get(ExifTags.Base.Orientation) in (5, 6, 7, 8)
        found: tuple[int, ...] = (image.height, image.width)
        found = found[::-1] if on_its_side else found
        found = (*found, 3) if mode == "RGB" else found
        if mode is None:
            raise OtherImageError(f"mode {image.mode}, expected L or RGB, not transparent")
        if shape is not None and found != shape:
            raise OtherImageError(f"{_size(found)}, expected {_size(shape)}")
        frames = _has_frames(image)
        return np.asarray(ImageOps.exif_transpose(image).convert(mode)), frames


def resized(file: Path, shape: tuple[int, ...]) -> tuple[NDArray[np.uint8], bool]:
    """The pixels of any image, scaled to cover a shape and cropped to it around its centre.

    The image is turned as its EXIF data says. What is transparent becomes white, 16
    bits become 8, and all else becomes grey or RGB, as the shape asks for.
    """
    with _opened(file) as image:
        frames = _has_frames(image)
        side = 2 * max(shape[:2])
        image.draft(None, (side, side))  # JPEG files can be unpacked at less than full size
        ImageOps.exif_transpose(image, in_place=True)  # each copy less is memory less
        plain = _eight_bits(image)
        if plain.has_transparency_data:
            over = plain if plain.mode == "RGBA" else plain.convert("RGBA")
            plain = Image.alpha_composite(Image.new("RGBA", over.size, "white"), over)
        return fitted(plain, shape), frames


def is_colour(file: Path) -> bool:
    """Whether an image has colours; one that cannot be read has none."""
    try:
        with _opened(file) as image:
            return not image.mode.startswith("I;") and image.mode not in _GREY
    except BadImageError:
        return False


@contextmanager
def _opened(file: Path) -> Iterator[Image.Image]:
    """An image whose pixels are not unpacked yet; what goes wrong is a `BadImageError`."""
    try:
        with warnings.catch_warnings(), open_regular(file) as stream:
            warnings.simplefilter("ignore")
            warnings.simplefilter("error", Image.DecompressionBombWarning)
            with Image.open(stream, formats=_FORMATS) as image:
                size = os.fstat(stream.fileno()).st_size
                if max(image.size) > _LONGEST_SIDE:
                    raise BadImageError(f"more than {_LONGEST_SIDE:,} pixels high or wide")
                check_weight(file, 4 * image.width * image.height, size)
                yield image
    except (BadImageError, MemoryError):
        raise
    except (Image.DecompressionBombWarning, Image.DecompressionBombError, DataError):
        raise BadImageError("unpacks to far more than it should") from None
    except FileAccessError as error:
        raise BadImageError(str(error).rpartition(": ")[2]) from None
    except Exception as error:  # noqa: BLE001 - decoders fail in as many ways as there are formats
        raise BadImageError(
            getattr(error, "strerror", None) or "no image that can be read"
        ) from None


def _has_frames(image: Image.Image) -> bool:
    frames: bool = getattr(image, "is_animated", False)
    return frames


def _eight_bits(image: Image.Image) -> Image.Image:
    """An image of at most eight bits a value."""
    if image.mode == "F":
        raise BadImageError("mode F, whose values may mean anything")
    if image.mode == "I" or image.mode.startswith("I;"):
        values = np.clip(np.asarray(image), 0, 2**16 - 1)
        return Image.fromarray((values >> 8).astype(np.uint8))
    return image


def _size(shape: tuple[int, ...]) -> str:
    return f"{shape[1]} x {shape[0]} {'RGB' if len(shape) == 3 else 'L'}"
