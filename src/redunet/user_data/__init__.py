"""A user's own data in batches, never all of it at once: arrays, tables, folders of images.

Nothing is ever unpickled. What cannot be read is an error of one line that
names the file.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from redunet.errors import DataError, FileAccessError
from redunet.user_data.arrays import open_npy, open_npz
from redunet.user_data.images import IMAGE_ENDINGS, open_images
from redunet.user_data.source import Batch, Source, Wanted
from redunet.user_data.tables import open_csv, open_parquet

__all__ = ["Batch", "Source", "Wanted", "open_source"]

_OPENERS: dict[str, Callable[[Path, Wanted], Source]] = {
    ".npz": open_npz,
    ".npy": open_npy,
    ".csv": open_csv,
    ".tsv": open_csv,
    ".parquet": open_parquet,
    **dict.fromkeys(IMAGE_ENDINGS, open_images),
}


def open_source(path: Path, wanted: Wanted) -> Source:
    """Open data by the ending of its name, or as a folder of images.

    Parameters
    ----------
    path : Path
    wanted : Wanted
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
    if path.is_dir():
        return open_images(path, wanted)
    opener = _OPENERS.get(path.suffix.lower())
    if opener is None:
        raise DataError(
            f"expected .npz, .npy, .csv, .parquet or a folder of images, got {path}: "
            f"convert it, or rename it"
        )
    return opener(path, wanted)
