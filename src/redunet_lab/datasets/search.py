"""The order in which a data set is looked for: folder, cache, packages."""

import os
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from redunet.errors import FileAccessError
from redunet_lab.datasets import cache
from redunet_lab.datasets.dataset import Dataset, Published, UnavailableError


def find(
    published: Published,
    data_dir: Path | None,
    look: Callable[[Path], Dataset],
    fetches: Sequence[Callable[[], Dataset]],
    advice: str,
) -> Dataset:
    """Find a data set in the first place that has it.

    Parameters
    ----------
    published : Published
        Which data set.
    data_dir : Path or None
        The folder that the user named, if any; else ``REDUNET_DATA`` counts.
    look : callable
        Reads and checks the data set in a folder, or raises `UnavailableError`.
    fetches : sequence of callable
        Each fetches, decodes and checks it, or raises `UnavailableError`; what
        one returns is cached.
    advice : str
        How a user gets the files: the end of the message if all fails.

    Returns
    -------
    Dataset

    Raises
    ------
    FileAccessError
        No place has it; or the folder that was named does not exist.
    DataError
        A place has it, damaged.
    """
    places: list[Callable[[], Dataset]] = [
        partial(_in_folder, data_dir, look),
        partial(cache.read, published),
    ]
    tried: list[str] = []
    for place in (*places, *fetches):
        try:
            data = place()
        except UnavailableError as reason:
            tried.append(str(reason))
            continue
        if place in fetches:
            cache.write(data)
        return data
    msg = f"{published.name} was not found: {'; '.join(tried)}. {advice}"
    raise FileAccessError(msg)


def named_folder(data_dir: Path | None) -> Path | None:
    """Return the data folder that the user named, here or in ``REDUNET_DATA``; None for none."""
    if data_dir is None:
        named = os.environ.get("REDUNET_DATA")
        if not named:
            return None
        data_dir = Path(named)
    folder = data_dir.expanduser()
    if not folder.is_dir():
        msg = f"The data folder {folder} is not a folder: name one that is, or none."
        raise FileAccessError(msg)
    return folder


def _in_folder(data_dir: Path | None, look: Callable[[Path], Dataset]) -> Dataset:
    folder = named_folder(data_dir)
    if folder is None:
        msg = "no data folder is named (data_dir or REDUNET_DATA)"
        raise UnavailableError(msg)
    return look(folder)
