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

from redunet.datasets import bounded, cifar_pickle, cifar_png, idx, load
from redunet.errors import DataError, FileAccessError, ReduNetError
from tests.tiny_data import Tiny, pickled, tar_gz, under, write


class Evil:
    def __init__(self, target: Path) -> None:
        self.target = target

    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, (str(self.target),)


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_a_pickle_that_runs_code_is_refused(
    protocol: int, tinies: dict[str, Tiny], tmp_path: Path
) -> None:
    target = tmp_path / "harm"
    files = pickled(tinies["cifar10"], "python2")
    files["data_batch_3"] = pickle.dumps({b"data": Evil(target), b"labels": [0]}, protocol)
    folder = write(tmp_path / "data", under("cifar-10-batches-py", files))
    with pytest.raises(DataError) as caught:
        load("cifar10", folder)
    assert not target.exists()
    assert str(caught.value) == (
        f"data_batch_3 in {folder / 'cifar-10-batches-py'} asks for '{os.mkdir.__module__}.mkdir', "
        "which no CIFAR-10 batch needs: do not trust this file"
    )
    # The same bytes do harm where they are trusted: the test would notice.
    pickle.loads(files["data_batch_3"])
    assert target.is_dir()


@pytest.mark.parametrize(
    ("module", "name"),
    [
        ("builtins", "eval"),
        ("__builtin__", "eval"),
        ("numpy", "load"),
        ("numpy.core.multiarray", "fromfile"),
        ("_codecs", "decode"),
        ("copyreg", "_reconstructor"),
        ("numpy\n\x1b[2Jcore", "ndarray"),
    ],
)
def test_only_five_names_are_allowed(module: str, name: str) -> None:
    words = (b"\x8c" + bytes([len(word)]) + word.encode() for word in (module, name))
    raw = b"\x80\x04" + b"".join(words) + b"\x93."
    with pytest.raises(DataError, match="which no CIFAR-10 batch needs") as caught:
        cifar_pickle.decode(raw, "x")
    assert str(caught.value).isprintable()


def test_what_is_allowed_does_nothing_by_itself() -> None:
    # A void dtype with a state of its own crashes numpy when it is believed.
    raw = (
        b"\x80\x02}(U\x06labels]U\x04datacnumpy.core.multiarray\n_reconstruct\ncnumpy\nndarray\n"
        b"K\x00\x85U\x01b\x87R(K\x01K\x01\x85cnumpy\ndtype\nU\x02V8K\x00K\x01\x87R(K\x03U\x01|NNN"
        b"K\x08K\x01K\x3ftb\x89U\x08aaaaaaaatbu."
    )
    with pytest.raises(DataError, match=r"no CIFAR-10 batch \(data should be an array of bytes\)"):
        cifar_pickle.decode(raw, "x")


def test_a_pickle_cannot_change_what_it_names() -> None:
    # BUILD with a pair sets attributes on whatever has no __setstate__ of its own.
    raw = b"\x80\x02cnumpy\ndtype\nN}U\x08__call__K\x01s\x86b."
    with pytest.raises(DataError, match="no CIFAR-10 batch"):
        cifar_pickle.decode(raw, "x")


@pytest.mark.parametrize(
    ("raw", "line"),
    [
        (b"\x80\x02)" + b"\x85" * 200_000 + b".", "a tuple is too long or too deep"),
        (b"\x80\x02" + b"(" * 300_000, "too many instructions"),
        (b"\x80\x02]" + b"\x85" * 200_000 + b".", "a tuple is too long or too deep"),
        # A slot far out, which the usual machine makes room for: 2.3 GB.
        (b"\x80\x02Nr\xff\xff\xff\x08.", "no CIFAR-10 batch"),
        (b"\x80\x02T\xff\xff\xff\x7f.", "it ends too early"),
        (b"\x80\x02B\xff\xff\xff\xff.", "it ends too early"),
        (b"\x80\x04\x8e" + b"\xff" * 8 + b".", "it ends too early"),
        (b"\x80\x04\x96" + b"\x00\x00\x00\x90" + bytes(4) + b".", "in no genuine one"),
        (b"I" + b"9" * 100_000 + b"\n.", "an integer is too large"),
        (b"\x80\x02\x8b\x00\x00\x00\x10.", "in no genuine one"),
        (b"]q\x00h\x00a.", "no CIFAR-10 batch"),
        (b"}]Ns.", "a key is no word"),
        # One text, encoded again and again.
        (
            b"X\x00\x01\x00\x00" + b"a" * 256 + b"q\x00c_codecs\nencode\nq\x01"
            b"0" + b"h\x01h\x00X\x06\x00\x00\x00latin1\x86R" * 100 + b".",
            "in no genuine one",
        ),
        (
            b"X\x00\x01\x00\x00" + b"a" * 256 + b"q\x00c_codecs\nencode\nq\x01"
            b"X\x06\x00\x00\x00latin1q\x02" + b"h\x01h\x00h\x02\x86R" * 100 + b".",
            "encoded several times",
        ),
    ],
)
def test_small_pickles_cost_little(raw: bytes, line: str) -> None:
    tracemalloc.start()
    with pytest.raises(DataError, match=line):
        cifar_pickle.decode(raw, "x")
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert most < 2**20 + 200 * len(raw)


def test_a_shape_of_words_is_no_shape() -> None:
    # Multiplied, it would be a word of two billion letters.
    raw = (
        b"\x80\x02}(U\x06labels]U\x04datacnumpy.core.multiarray\n_reconstruct\ncnumpy\nndarray\n"
        b"K\x00\x85U\x01b\x87R(K\x01U\x01aJ\xff\xff\xff\x7f\x86cnumpy\ndtype\nU\x02u1K\x00K\x01"
        b"\x87R\x89U\x08aaaaaaaatbu."
    )
    with pytest.raises(DataError, match="data should be an array of bytes"):
        cifar_pickle.decode(raw, "x")


@pytest.mark.parametrize("protocol", range(5))
def test_batches_of_every_protocol_are_read(protocol: int) -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (4, 3072), dtype=np.uint8)
    for names in (["a.png", "é.png"], [b"a.png", b"b.png"]):
        batch = {"labels": [3, 1, 9, 0], "data": pixels, "filenames": names, "batch_label": b"t"}
        found, labels = cifar_pickle.decode(pickle.dumps(batch, protocol), "x")
        np.testing.assert_array_equal(found, pixels)
        assert labels.tolist() == [3, 1, 9, 0]
    # As Python 2 wrote protocol 0.
    raw = (
        b"(dp1\nS'labels'\np2\n(lp3\nI3\naI0\nasS'data'\np4\ncnumpy.core.multiarray\n_reconstruct\n"
        b"p5\n(cnumpy\nndarray\np6\n(I0\ntp7\nS'b'\np8\ntp9\nRp10\n(I1\n(I2\nI3\ntp11\ncnumpy\n"
        b"dtype\np12\n(S'u1'\np13\nI0\nI1\ntp14\nRp15\n(I3\nS'|'\np16\nNNNI-1\nI-1\nI0\ntp17\nb"
        b"I00\nS'\\x00\\n\\'\\\\ab'\np18\ntp19\nbs."
    )
    found, labels = cifar_pickle.decode(raw, "x")
    assert (found.tolist(), labels.tolist()) == ([[0, 10, 39], [92, 97, 98]], [3, 0])


@given(st.binary(max_size=60))
def test_garbage_is_no_batch(raw: bytes) -> None:
    with pytest.raises(DataError, match=r"^x "):
        cifar_pickle.decode(b"\x80\x02" + raw, "x")


@pytest.mark.parametrize(
    ("labels", "line"),
    [
        ("ab", "labels should be a list of integers"),
        ([True, 0], "labels should be a list of integers"),
        ([0.5], "in no genuine one"),
        ([10**30], "too large"),
    ],
)
def test_labels_must_be_integers(labels: Any, line: str) -> None:
    raw = pickle.dumps({b"labels": labels, b"data": np.zeros((2, 3072), np.uint8)}, 2)
    with pytest.raises(DataError, match=line):
        cifar_pickle.decode(raw, "x")


def test_a_batch_of_another_length_is_an_error(tinies: dict[str, Tiny], tmp_path: Path) -> None:
    files = pickled(tinies["cifar10"], "python2")
    batch = {b"labels": [0] * 3, b"data": np.zeros((3, 3072), np.uint8)}
    files["data_batch_2"] = pickle.dumps(batch, 2)
    line = r"data_batch_2 in .* should have 4 samples of 3072 bytes, not 3 labels for .*\(3, 3072\)"
    with pytest.raises(DataError, match=line):
        load("cifar10", write(tmp_path / "data", files))


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
    with pytest.raises(DataError, match=r"x_train in .* should be an array of integers"):
        load("mnist", folder)


def test_a_tar_member_that_claims_too_much_is_refused(
    tinies: dict[str, Tiny], tmp_path: Path
) -> None:
    member = tarfile.TarInfo("cifar-10-batches-bin/data_batch_1.bin")
    member.size = 1 << 40
    raw = gzip.compress(member.tobuf() + b"\0" * 1024)
    folder = write(tmp_path / "data", {"cifar-10-binary.tar.gz": raw})
    limit = 4 * 3073 + 4096
    assert tinies
    with pytest.raises(
        DataError, match=rf"claims {1 << 40} bytes, more than {limit}: download it again"
    ):
        load("cifar10", folder)


def bomb(member: tarfile.TarInfo, size: int) -> bytes:
    stream = io.BytesIO()
    with gzip.GzipFile(fileobj=stream, mode="wb", compresslevel=1) as packed:
        packed.write(member.tobuf())
        for _ in range(size >> 20):
            packed.write(bytes(1 << 20))
    return stream.getvalue()


@pytest.mark.parametrize("kind", [tarfile.REGTYPE, tarfile.XHDTYPE, tarfile.GNUTYPE_LONGNAME])
def test_a_tar_that_unpacks_to_too_much_is_refused(kind: bytes, tmp_path: Path) -> None:
    member = tarfile.TarInfo("elsewhere")
    member.type, member.size = kind, 64 << 20
    path = write(tmp_path, {"x.tar.gz": bomb(member, 64 << 20)}) / "x.tar.gz"
    tracemalloc.start()
    try:
        with pytest.raises(DataError, match=r"x\.tar\.gz unpacks to more than it should"):
            bounded.read_tar(path, {"wanted": 1000})
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 24 << 20


def test_a_link_in_a_tar_is_no_member(tmp_path: Path) -> None:
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w:gz") as archive:
        member = tarfile.TarInfo("wanted")
        member.type, member.linkname = tarfile.SYMTYPE, "/etc/passwd"
        archive.addfile(member)
    path = write(tmp_path, {"x.tar.gz": stream.getvalue()}) / "x.tar.gz"
    with pytest.raises(DataError, match=r"x\.tar\.gz should hold wanted, and does not"):
        bounded.read_tar(path, {"wanted": 1000})


@pytest.mark.parametrize("cut", [10, 200, -9, -1])
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
            bounded.read_zip(tmp_path / "x.zip", {"wanted": 1000})
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


@pytest.mark.parametrize("change", [lambda raw: raw[:-4], lambda raw: raw[:30], lambda raw: b"no"])
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


def test_a_binary_batch_of_odd_length_is_an_error(tinies: dict[str, Tiny], tmp_path: Path) -> None:
    files = dict(tinies["cifar10"].files)
    files["data_batch_5.bin"] = files["data_batch_5.bin"][:-2]
    with pytest.raises(DataError, match="should have a multiple of 3073 bytes, not 12290"):
        load("cifar10", write(tmp_path / "data", files))


def test_a_png_is_measured_before_it_is_unpacked() -> None:
    from PIL import Image

    stream = io.BytesIO()
    Image.new("RGB", (1024, 4)).save(stream, "PNG")
    raw = stream.getvalue()
    assert cifar_png.decode_png(raw, (4, 1024), "x").shape == (4, 1024, 3)
    with pytest.raises(DataError, match=r"RGB of shape \(5, 1024\), not RGB of shape \(4, 1024\)"):
        cifar_png.decode_png(raw, (5, 1024), "x")
    for damaged in (raw[:60], raw[:20], b"", raw.replace(b"IDAT", b"XDAT")):
        with pytest.raises(DataError, match=r"x is no readable PNG \("):
            cifar_png.decode_png(damaged, (4, 1024), "x")
    limit = Image.MAX_IMAGE_PIXELS
    # A header that claims 60,000 x 60,000 pixels, with its checksum.
    import zlib

    head = b"IHDR" + struct.pack(">IIBBBBB", 60000, 60000, 8, 2, 0, 0, 0)
    huge = raw[:12] + head + struct.pack(">I", zlib.crc32(head)) + raw[33:]
    with pytest.raises(DataError, match="x is no readable PNG"):
        cifar_png.decode_png(huge, (4, 1024), "x")
    assert limit == Image.MAX_IMAGE_PIXELS


@pytest.mark.parametrize("raw", [b"[1,", b"{}", b'["1"]', b"[1.0]", b"[true]", b"\xff"])
def test_labels_in_json_must_be_integers(raw: bytes) -> None:
    with pytest.raises(DataError, match=r"^x (is no readable JSON|should be a list of integers)"):
        cifar_png.decode_labels(raw, "x")


def test_a_file_that_cannot_be_read_is_said_so(tinies: dict[str, Tiny], tmp_path: Path) -> None:
    folder = write(tmp_path / "data", tinies["mnist"].files)
    with pytest.raises(FileAccessError, match=r"cannot read .*no: No such file or directory"):
        bounded.read_file(folder / "no", 10)


def test_every_error_is_one_line_and_of_this_package(
    tinies: dict[str, Tiny], tmp_path: Path
) -> None:
    random = np.random.default_rng(0)
    good = tar_gz(under("cifar-10-batches-py", pickled(tinies["cifar10"], "python2")))
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
    code = f"import redunet.datasets, sys; print([m for m in {heavy} if m in sys.modules])"
    path = str(Path(idx.__file__).parents[2])
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PYTHONPATH": path},
    )
    assert done.stdout.strip() == "[]"
