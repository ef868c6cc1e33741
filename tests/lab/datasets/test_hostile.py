"""Files that are damaged, or made to do harm: refused in one line, before anything happens."""

import gzip
import io
import os
import pickle
import struct
import sys
import tarfile
import tracemalloc
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from redunet.errors import DataError, ReduNetError
from redunet_lab.datasets import idx, load
from redunet_lab.datasets.files import read_tar, read_zip
from tests.tiny_data import Tiny, pickled, tar_gz, under, write


class Evil:
    def __init__(self, target: Path) -> None:
        self.target = target

    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, (str(self.target),)


def test_a_pickle_that_was_not_published_is_never_unpickled(
    tinies: dict[str, Tiny], tmp_path: Path
) -> None:
    target = tmp_path / "harm"
    files = pickled(tinies["cifar10"].files)
    files["data_batch_3"] = pickle.dumps({b"data": Evil(target), b"labels": [0]}, 2)
    expected = tinies["cifar10"].published.md5["data_batch_3"]
    line = f"data_batch_3 of cifar10 should have the md5 {expected}, not"
    for folder in (
        write(tmp_path / "data", under("cifar-10-batches-py", files)),
        write(
            tmp_path / "packed",
            {"cifar-10-python.tar.gz": tar_gz(under("cifar-10-batches-py", files))},
        ),
    ):
        with pytest.raises(DataError, match=line) as caught:
            load("cifar10", folder)
        assert len(str(caught.value).splitlines()) == 1
        assert not target.exists()
    # The same bytes do harm where they are trusted: the test would notice.
    pickle.loads(files["data_batch_3"])
    assert target.is_dir()


def npz(**arrays: Any) -> bytes:
    stream = io.BytesIO()
    np.savez(stream, **arrays)
    return stream.getvalue()


def test_an_npz_with_pickled_objects_is_refused(tinies: dict[str, Tiny], tmp_path: Path) -> None:
    data, target = tinies["mnist"].data, tmp_path / "harm"
    evil = np.array([Evil(target)], dtype=object)
    raw = npz(x_train=data.x_train, y_train=evil, x_test=data.x_test, y_test=data.y_test)
    folder = write(tmp_path / "data", {"mnist.npz": raw})
    with pytest.raises(DataError, match=r"y_train in .*mnist\.npz .*allow_pickle=False"):
        load("mnist", folder)
    assert not target.exists()


def test_an_npz_is_checked(tinies: dict[str, Tiny], tmp_path: Path) -> None:
    data, folder = tinies["mnist"].data, tmp_path / "data"
    arrays = {"x_train": data.x_train, "y_train": data.y_train, "x_test": data.x_test}
    write(folder, {"mnist.npz": npz(**arrays)})
    with pytest.raises(DataError, match=r"mnist\.npz should hold y_test\.npy, and does not"):
        load("mnist", folder)
    write(folder, {"mnist.npz": npz(**arrays, y_test=np.zeros(10))})
    with pytest.raises(DataError, match=r"y_test of mnist should be int64 .*, not float64"):
        load("mnist", folder)
    write(folder, {"mnist.npz": npz(**arrays, y_test=np.zeros(5000))})
    with pytest.raises(DataError, match=r"y_test\.npy in .* longer than the 4176 bytes expected"):
        load("mnist", folder)


def test_an_npz_that_claims_a_huge_array_is_refused(
    tinies: dict[str, Tiny], tmp_path: Path
) -> None:
    header = b"{'descr': '|u1', 'fortran_order': False, 'shape': (%d,), }\n" % 10**18
    raw = b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header
    folder = write(tmp_path / "data", {"mnist.npz": b""})
    with zipfile.ZipFile(folder / "mnist.npz", "w") as archive:
        for field in ("x_train", "y_train", "x_test", "y_test"):
            archive.writestr(f"{field}.npy", raw)
    assert tinies
    with pytest.raises(DataError, match=r"\w+ in .* should be an array of integers"):
        load("mnist", folder)


def test_a_tar_bomb_is_refused(tmp_path: Path) -> None:
    member = tarfile.TarInfo("wanted")
    member.size = 64 << 20
    stream = io.BytesIO()
    with gzip.GzipFile(fileobj=stream, mode="wb", compresslevel=1) as packed:
        packed.write(member.tobuf())
        for _ in range(64):
            packed.write(bytes(1 << 20))
    path = write(tmp_path, {"x.tar.gz": stream.getvalue()}) / "x.tar.gz"
    tracemalloc.start()
    try:
        with pytest.raises(DataError, match=r"wanted in .*\.gz is longer than the 1000 bytes"):
            read_tar(path, {"wanted": 1000})
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 8 << 20


def test_a_link_in_a_tar_is_no_member(tmp_path: Path) -> None:
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w:gz") as archive:
        member = tarfile.TarInfo("wanted")
        member.type, member.linkname = tarfile.SYMTYPE, "/etc/passwd"
        archive.addfile(member)
    path = write(tmp_path, {"x.tar.gz": stream.getvalue()}) / "x.tar.gz"
    with pytest.raises(DataError, match=r"x\.tar\.gz should hold wanted, and does not"):
        read_tar(path, {"wanted": 1000})


@pytest.mark.parametrize("cut", [10, 200])
def test_a_truncated_archive_is_damaged(cut: int, tinies: dict[str, Tiny], tmp_path: Path) -> None:
    raw = tar_gz(under("cifar-10-batches-bin", tinies["cifar10"].files))[:cut]
    folder = write(tmp_path / "data", {"cifar-10-binary.tar.gz": raw})
    with pytest.raises(DataError, match=r"cifar-10-binary\.tar\.gz is damaged \("):
        load("cifar10", folder)


def test_a_zip_bomb_is_refused(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "x.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("wanted", bytes(64 << 20))
    tracemalloc.start()
    try:
        with pytest.raises(DataError, match=r"wanted in .*x\.zip is longer than the 1000 bytes"):
            read_zip(tmp_path / "x.zip", {"wanted": 1000})
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 8 << 20


def test_a_gzip_bomb_is_refused(tinies: dict[str, Tiny], tmp_path: Path) -> None:
    files = {f"{name}.gz": gzip.compress(raw) for name, raw in tinies["mnist"].files.items()}
    files["train-labels-idx1-ubyte.gz"] = gzip.compress(bytes(64 << 20), 1)
    folder = write(tmp_path / "data", files)
    with pytest.raises(DataError, match=r"train-labels-idx1-ubyte\.gz is longer than the 28 bytes"):
        load("mnist", folder)


@pytest.mark.parametrize(
    ("change", "line"),
    [
        (lambda raw: raw[:-1], r"train-images-idx3-ubyte should have 15680 bytes .*, not 15679"),
        (lambda raw: raw[:7], r"should begin as an idx file of bytes of shape \(20, 28, 28\)"),
        (lambda raw: b"", "should begin as an idx file"),
        (lambda raw: b"\0\0\x0d" + raw[3:], "should begin as an idx file"),
        (lambda raw: raw + b"\0", "is longer than the 15696 bytes expected"),
    ],
)
def test_a_damaged_idx_file_is_an_error(
    change: Any, line: str, tinies: dict[str, Tiny], tmp_path: Path
) -> None:
    files = dict(tinies["mnist"].files)
    files["train-images-idx3-ubyte"] = change(files["train-images-idx3-ubyte"])
    with pytest.raises(DataError, match=line):
        load("mnist", write(tmp_path / "data", files))


@pytest.mark.parametrize("change", [lambda raw: raw[:-4], lambda raw: b"no"])
def test_a_damaged_gzip_file_is_an_error(
    change: Any, tinies: dict[str, Tiny], tmp_path: Path
) -> None:
    files = {f"{name}.gz": gzip.compress(raw) for name, raw in tinies["mnist"].files.items()}
    files["t10k-labels-idx1-ubyte.gz"] = change(files["t10k-labels-idx1-ubyte.gz"])
    with pytest.raises(DataError, match=r"t10k-labels-idx1-ubyte\.gz is damaged \("):
        load("mnist", write(tmp_path / "data", files))


@given(st.binary(max_size=40))
def test_garbage_is_no_idx(raw: bytes) -> None:
    with pytest.raises(DataError, match=r"^x should "):
        idx.decode(raw, (20, 28, 28), "x")


def test_every_error_is_one_line_and_of_this_package(
    tinies: dict[str, Tiny], tmp_path: Path
) -> None:
    random = np.random.default_rng(0)
    good = tar_gz(under("cifar-10-batches-py", pickled(tinies["cifar10"].files)))
    lines = []
    for _ in range(60):
        raw = bytearray(good)
        raw[int(random.integers(10, len(raw) - 8))] ^= 1 << int(random.integers(8))
        folder = write(tmp_path / "data", {"cifar-10-python.tar.gz": bytes(raw)})
        try:
            load("cifar10", folder)
        except ReduNetError as error:
            lines.append(str(error))
    assert len(lines) > 50
    assert all(line.isprintable() for line in lines)


def test_importing_is_cheap() -> None:
    import subprocess

    heavy = ("sklearn", "PIL", "rich", "torch", "scipy")
    code = f"import redunet_lab.datasets, sys; print([m for m in {heavy} if m in sys.modules])"
    path = str(Path(idx.__file__).parents[2])
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PYTHONPATH": path},
    )
    assert done.stdout.strip() == "[]"
