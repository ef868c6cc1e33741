"""A user's own data in batches, never all of it at once: arrays, tables, folders of images.

With an encoder, texts and images become vectors on the way.

Nothing is ever unpickled. What cannot be read is an error of one line that
names the file.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from redunet.data.arrays import open_npy, open_npz
from redunet.data.encoded import encoded
from redunet.data.images import IMAGE_ENDINGS, open_images
from redunet.data.json_lines import open_json_lines
from redunet.data.source import Batch, ReadOptions, Source
from redunet.data.tables import open_csv, open_parquet
from redunet.errors import DataError, FileAccessError

__all__ = ["Batch", "ReadOptions", "Source", "open_source"]

_OPENERS: dict[str, Callable[[Path, ReadOptions], Source]] = {
    ".npz": open_npz,
    ".npy": open_npy,
    ".csv": open_csv,
    ".tsv": open_csv,
    ".parquet": open_parquet,
    ".jsonl": open_json_lines,
    **dict.fromkeys(IMAGE_ENDINGS, open_images),
}


def open_source(path: Path, wanted: ReadOptions) -> Source:
    """Open data by the ending of its name, or as a folder of images.

    Parameters
    ----------
    path : Path
    wanted : ReadOptions
        What is asked of the data.

    Returns
    -------
    Source
    """
    try:
        os.stat(path)
    except (OSError, ValueError) as error:  # the latter of a name with a NUL
        why = getattr(error, "strerror", None) or error
        raise FileAccessError(f"cannot read {path}: {why}") from error
    if wanted.encoder is not None and wanted.encoder.takes == "images":
        wanted = replace(wanted, shape=wanted.encoder.image_shape, resize=True)
    if path.is_dir():
        return encoded(open_images(path, wanted), wanted.encoder)
    opener = _OPENERS.get(path.suffix.lower())
    if opener is None:
        raise DataError(
            f"expected .npz, .npy, .csv, .parquet, .jsonl or a folder of images, got {path}: "
            f"convert it, or rename it"
        )
    return encoded(opener(path, wanted), wanted.encoder)
