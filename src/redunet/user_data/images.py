"""Folders of images, one sub-folder a class."""

from __future__ import annotations

import math
import os
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from redunet.errors import DataError, FileAccessError
from redunet.user_data.source import Batch, Source, Wanted, rows_at_a_time

IMAGE_ENDINGS = (".png", ".jpg", ".jpeg", ".bmp", ".gif", ".tif", ".tiff", ".webp", ".pgm", ".ppm")

_FORMATS = ("BMP", "GIF", "JPEG", "PNG", "PPM", "TIFF", "WEBP")
_MODES = {"L": "L", "RGB": "RGB", "1": "L", "P": "RGB"}
_NAMED = 5


class _BadImageError(Exception):
    """One image that cannot be used, and why."""


def open_images(path: Path, wanted: Wanted) -> Source:
    """A folder with a sub-folder of images for each class; without labels, any images.

    Every file is taken for an image but those whose names begin with a dot.
    """
    files = list(_labelled(path) if wanted.labels else _any(path))
    left_out: list[str] = []

    def batches() -> Iterator[Batch]:
        left_out.clear()
        shape = wanted.shape
        start = 0
        while start < len(files):
            step = rows_at_a_time(math.prod(shape)) if shape else 1
            images, kept = [], []
            for file, label in files[start : start + step]:
                try:
                    image = _pixels(file, shape)
                except _BadImageError as error:
                    left_out.append(f"{_shown(file)} ({error})")
                    continue
                shape = image.shape
                images.append(image)
                kept.append((file, label))
            start += step
            if images:
                y = np.array([label for _, label in kept]) if wanted.labels else None
                share = min(1.0, start / len(files))
                yield Batch(np.stack(images), y, [_shown(file) for file, _ in kept], share)
        _judge(path, len(files), left_out, wanted.skip_bad)

    return Source(path, batches, None, left_out)


def _judge(path: Path, n_files: int, left_out: list[str], skip_bad: bool) -> None:
    """Name and count the images that could not be used, where that is an error."""
    if left_out and (not skip_bad or len(left_out) == n_files):
        more = f" and {len(left_out) - _NAMED:,} more" if len(left_out) > _NAMED else ""
        remedy = "mend them" if skip_bad else "mend or remove them, or pass --skip-bad"
        raise DataError(
            f"{len(left_out):,} of {n_files:,} images in {path} cannot be used: "
            f"{', '.join(left_out[:_NAMED])}{more}: {remedy}"
        )


def _labelled(folder: Path) -> Iterator[tuple[Path, str]]:
    """The images of each sub-folder, and its name; both in order."""
    if not folder.is_dir():
        raise DataError(f"expected a folder with one sub-folder of images a class, got {folder}")
    classes = [one for one in _listing(folder) if one.is_dir()]
    strays = [one for one in _listing(folder) if not one.is_dir()]
    if not classes or strays:
        found = f"the file {strays[0].name}" if strays else "none"
        raise DataError(
            f"expected one sub-folder of images a class in {folder}, got {found}: "
            f"put images into folders that are named after their classes"
        )
    for one in classes:
        files = list(_files(one))
        if not files:
            raise DataError(f"expected images in {one}, got none: put some there, or remove it")
        yield from ((file, _shown(one.name)) for file in files)


def _any(path: Path) -> Iterator[tuple[Path, str]]:
    """An image, or all those in a folder and below it, without labels."""
    files = list(_files(path)) if path.is_dir() else [path]
    if not files:
        raise DataError(f"expected images in {path}, got none: put some there")
    return ((file, "") for file in files)


def _files(folder: Path) -> Iterator[Path]:
    """All files in a folder and below it, in order."""
    for one in _listing(folder):
        if one.is_dir():
            if not one.is_symlink():  # it might lead back here
                yield from _files(one)
        else:
            yield one


def _listing(folder: Path) -> list[Path]:
    try:
        names = sorted(os.listdir(folder))
    except OSError as error:
        raise FileAccessError(f"cannot read {folder}: {error.strerror or error}") from error
    return [folder / name for name in names if not name.startswith(".")]


def _pixels(file: Path, shape: tuple[int, ...] | None) -> NDArray[np.uint8]:
    """Pixels of shape (height, width) or (height, width, 3); looked at before they are unpacked."""
    if not file.is_file():
        raise _BadImageError("not a plain file")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            warnings.simplefilter("error", Image.DecompressionBombWarning)
            with Image.open(file, formats=_FORMATS) as image:
                mode = None if "transparency" in image.info else _MODES.get(image.mode)
                found: tuple[int, ...] = (image.height, image.width)
                found = (*found, 3) if mode == "RGB" else found
                if mode is None:
                    raise _BadImageError(f"mode {image.mode}, expected L or RGB, not transparent")
                if shape is not None and found != shape:
                    raise _BadImageError(f"{_size(found)}, expected {_size(shape)}")
                return np.asarray(image.convert(mode))
    except _BadImageError:
        raise
    except (Image.DecompressionBombWarning, Image.DecompressionBombError):
        raise _BadImageError("unpacks to more pixels than any honest image") from None
    except MemoryError:
        raise
    except Exception as error:  # noqa: BLE001 - decoders fail in as many ways as there are formats
        why: Any = getattr(error, "strerror", None) or "no image that can be read"
        raise _BadImageError(why) from None


def _shown(name: str | Path) -> str:
    """A name as text that can be written anywhere: names of files are bytes of any kind."""
    return os.fsencode(name).decode("utf-8", "backslashreplace")


def _size(shape: tuple[int, ...]) -> str:
    return f"{shape[1]} x {shape[0]} {'RGB' if len(shape) == 3 else 'L'}"
