"""Fashion-MNIST: 70,000 pictures of clothes of 28×28, in the format of MNIST."""

from __future__ import annotations

from pathlib import Path

from redunet_lab.datasets import idx
from redunet_lab.datasets.dataset import Published, Samples, UnavailableError
from redunet_lab.datasets.places import find

TITLE = "Fashion-MNIST"
PUBLISHED = Published(
    name="fashion_mnist",
    image_shape=(28, 28),
    n_train=60_000,
    n_test=10_000,
    md5={
        "train-images-idx3-ubyte": "f4a8712d7a061bf5bd6d2ca38dc4d50a",
        "train-labels-idx1-ubyte": "9018921c3c673c538a1fc5bad174d6f9",
        "t10k-images-idx3-ubyte": "8181f5470baa50b63fa0f6fddb340f0a",
        "t10k-labels-idx1-ubyte": "15d484375f8d13e6eb1aabb0c3f46965",
    },
)
PACKAGE = "dataset-fashion-mnist"
PREFIXES = (Path("/usr"), Path("/usr/local"))
ADVICE = (
    f"On Debian or Ubuntu run `apt-get install {PACKAGE}`; or put {idx.FOUR} into "
    "FashionMNIST/raw/ or fashion-mnist/ in a folder, and name the folder by data_dir or "
    "REDUNET_DATA."
)
FOLDERS = ("FashionMNIST/raw", "FashionMNIST", "fashion-mnist", "fashion_mnist")


def load(data_dir: Path | None = None) -> Samples:
    """Load Fashion-MNIST: images (60000, 28, 28) and (10000, 28, 28)."""
    return find(PUBLISHED, data_dir, look, from_debian, ADVICE)


def look(folder: Path) -> Samples:
    """Read Fashion-MNIST from a folder, in the first of the known layouts that is there."""
    data = idx.look(folder, FOLDERS, PUBLISHED) or idx.look_loose(folder, PUBLISHED)
    if data is None:
        raise UnavailableError(f"the data folder {folder} has no {TITLE}")
    return data


def from_debian() -> Samples:
    """Read Fashion-MNIST where Debian's package puts it."""
    for prefix in PREFIXES:
        folder = prefix / "share/datasets/fashion-mnist"
        if paths := idx.locate(folder):
            return idx.read(paths, PUBLISHED, f"debian {PACKAGE}", str(folder))
    raise UnavailableError(f"Debian's package {PACKAGE} is not installed")
