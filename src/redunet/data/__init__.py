"""A person's own data in batches, never all of it at once: arrays, tables, folders of images.

With an encoder, texts and images become vectors on the way. Nothing is ever unpickled. What cannot
be read is an error of one line that names the file.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from importlib import import_module
from pathlib import Path

from redunet.data.source import Batch, ReadOptions, Source
from redunet.errors import DataError, FileAccessError

__all__ = ["Batch", "ReadOptions", "Source", "open_source"]

IMAGE_ENDINGS = (".png", ".jpg", ".jpeg", ".bmp", ".gif", ".tif", ".tiff", ".webp", ".pgm", ".ppm")
"""Of files that are images."""

_OPENERS = {
    ".npz": "arrays.open_npz",
    ".npy": "arrays.open_npy",
    ".csv": "csv_files.open_csv",
    ".tsv": "csv_files.open_csv",
    ".parquet": "parquet_files.open_parquet",
    ".jsonl": "json_lines.open_json_lines",
    **dict.fromkeys(IMAGE_ENDINGS, "images.open_images"),
}
"""By the ending of a name; imported when needed, as PyArrow and Pillow take time to import."""


def open_source(path: Path, options: ReadOptions) -> Source:
    """Open data by the ending of its name, or as a folder of images.

    Parameters
    ----------
    path : Path
    options : ReadOptions
    """
    try:
        os.stat(path)
    except (OSError, ValueError) as error:  # the latter of a name with a NUL
        why = getattr(error, "strerror", None) or error
        raise FileAccessError(f"cannot read {path}: {why}") from error
    encoder = options.encoder
    if encoder is not None and encoder.takes == "images":
        options = replace(options, shape=encoder.image_shape, resize=True)
    opener = "images.open_images" if path.is_dir() else _OPENERS.get(path.suffix.lower())
    if opener is None:
        raise DataError(
            f"expected .npz, .npy, .csv, .parquet, .jsonl or a folder of images, got {path}: "
            f"convert it, or rename it"
        )
    module, name = opener.split(".")
    found: Callable[[Path, ReadOptions], Source]
    found = getattr(import_module(f"redunet.data.{module}"), name)
    source = found(path, options)
    if encoder is None or source.holds == "vectors":
        return source
    from redunet.data.encoded import encoded

    return encoded(source, encoder)
