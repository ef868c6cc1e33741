"""Folders of images, one sub-folder a class."""

from __future__ import annotations

import math
import os
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np

from redunet.data.pixels import BadImageError, OtherImageError, is_colour, pixels, resized
from redunet.data.source import Batch, ReadOptions, Source, listed, rows_at_a_time
from redunet.errors import DataError, FileAccessError

_NAMED = 5  # images in an error
_DEEPEST = 32  # folders in folders: deeper ones are a mistake, or made to last for ever
_NOT_IMAGES = ("thumbs.db", "ehthumbs.db", "desktop.ini", "__macosx")
"""Files that systems put into folders by themselves, beside hidden ones."""


def open_images(path: Path, options: ReadOptions) -> Source:
    """Open a folder with a sub-folder of images for each class; without labels, any images.

    Every file is taken for an image but hidden ones and those that systems make.
    """
    labelled = options.labels == "required" or (
        options.labels == "optional" and path.is_dir() and any(one.is_dir() for one in _list(path))
    )
    files = list(_labelled(path) if labelled else _any(path))
    n_files = len(files)
    if options.pieces is not None:
        files = files[slice(*options.pieces)]
    left_out: list[str] = []
    notes: list[str] = []

    def batches() -> Iterator[Batch]:
        left_out.clear()
        shape, start, animated, others = options.shape, 0, [], 0
        while start < len(files):
            step = rows_at_a_time(math.prod(shape)) if shape else 1
            images, kept = [], []
            for file, label in files[start : start + step]:
                try:
                    if options.resize and shape is not None:
                        image, has_frames = resized(file, shape)
                    else:
                        image, has_frames = pixels(file, shape)
                except BadImageError as error:
                    left_out.append(f"{_shown(file)} ({error})")
                    others += isinstance(error, OtherImageError)
                    continue
                if has_frames:
                    animated.append(_shown(file))
                shape = image.shape
                images.append(image)
                kept.append((file, label))
            start += step
            if images:
                y = np.array([label for _, label in kept]) if labelled else None
                share = min(1.0, start / len(files))
                yield Batch(np.stack(images), y, [_shown(file) for file, _ in kept], share)
        _judge(path, len(files), left_out, options, others)
        notes[:] = [_first_frames(animated)] if animated else []

    return Source(path, batches, left_out=left_out, notes=notes, holds="images", n_pieces=n_files)


def shape_to_resize_to(paths: Iterable[Path], size: tuple[int, int]) -> tuple[int, ...]:
    """The shape of resized images: RGB if any of those in the folders is in colour, else grey."""
    colour = any(is_colour(file) for path in paths for file, _ in _any(path))
    return (*size, 3) if colour else size


def _first_frames(animated: list[str]) -> str:
    return (
        f"{len(animated):,} images have several frames, of which the first was taken: "
        f"{listed(animated)}"
    )


def _judge(
    path: Path, n_files: int, left_out: list[str], options: ReadOptions, others: int
) -> None:
    """Name and count the images that could not be used, where they are too many.

    So many others could be used if they were scaled and converted.
    """
    if len(left_out) <= options.most_bad * n_files and len(left_out) < n_files:
        return
    if not left_out:
        return
    more = f" and {len(left_out) - _NAMED:,} more" if len(left_out) > _NAMED else ""
    remedy = "mend or remove them"
    if others and not options.resize:
        remedy += (
            ", or create the model with --encoder efficientnet-lite0 --recipe vectors, or with "
            "--resize 32, which scale and crop all images"
        )
    if len(left_out) <= n_files / 10:
        remedy += ", or pass --skip-bad to leave them out"
    elif len(left_out) < n_files:
        remedy += ", or pass --skip-bad twice to leave out more than a tenth"
    raise DataError(
        f"{len(left_out):,} of {n_files:,} images in {path} cannot be used: "
        f"{', '.join(left_out[:_NAMED])}{more}: {remedy}"
    )


def _labelled(folder: Path) -> Iterator[tuple[Path, str]]:
    """The images of each sub-folder, and its name; both in order."""
    if not folder.is_dir():
        raise DataError(f"expected a folder with one sub-folder of images a class, got {folder}")
    classes = [one for one in _list(folder) if one.is_dir()]
    strays = [one for one in _list(folder) if not one.is_dir()]
    if not classes or strays:
        found = f"the file {strays[0].name}" if strays else "none"
        raise DataError(
            f"expected one sub-folder of images a class in {folder}, got {found}: "
            f"put images into folders that are named after their classes"
        )
    names = Counter(_shown(one.name) for one in classes)
    if (most := names.most_common(1)[0])[1] > 1:
        raise DataError(f"expected folders of different names in {folder}, got {most[0]!r} twice")
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


def _files(folder: Path, depth: int = 1) -> Iterator[Path]:
    """All files in a folder and below it, in order."""
    if depth > _DEEPEST:
        raise DataError(
            f"expected folders at most {_DEEPEST} deep, got {folder}: put the images higher up"
        )
    for one in _list(folder):
        if one.is_dir():
            if not one.is_symlink():  # it might lead back here
                yield from _files(one, depth + 1)
        else:
            yield one


def _list(folder: Path) -> list[Path]:
    try:
        names = sorted(os.listdir(folder))
    except OSError as error:
        raise FileAccessError(f"cannot read {folder}: {error.strerror or error}") from error
    return [
        folder / name
        for name in names
        if not name.startswith(".") and name.lower() not in _NOT_IMAGES
    ]


def _shown(name: str | Path) -> str:
    """A name as text that can be written anywhere: names of files are bytes of any kind."""
    return os.fsencode(name).decode("utf-8", "backslashreplace")
