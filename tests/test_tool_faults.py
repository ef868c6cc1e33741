"""Bad input to the commands on model files: one clear line, and a model that is as it was."""

from __future__ import annotations

import errno
import fcntl
import io
import os
import pickle
import struct
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest
from PIL import Image

from redunet import ReduNetClassifier
from tests.own_data import (
    IMAGES,
    NUMBERS,
    WORDS,
    done,
    png,
    redunet,
    refused,
    table,
    write_csv,
    write_images,
    write_npz,
)

pytestmark = pytest.mark.usefixtures("one_thread")

N = len(IMAGES)
ROWS = range(20)


@pytest.fixture(scope="module")
def taught(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Path]]:
    """A model of columns and one of images; at the end both are as they were."""
    place = tmp_path_factory.mktemp("taught")
    done("learn", place / "columns", write_csv(place / "t", ROWS), "--set", "n_layers=2")
    done("learn", place / "images", write_images(place / "i", ROWS), "--set", "n_layers=2")
    models = {name: place / name for name in ("columns", "images")}
    before = {name: path.read_bytes() for name, path in models.items()}
    yield models
    assert {name: path.read_bytes() for name, path in models.items()} == before
    assert sorted(path.name for path in place.iterdir()) == ["columns", "i", "images", "t.csv"]


# Tables


def other_table(tmp_path: Path, kind: str, columns: list[str]) -> Path:
    whole = table(ROWS)
    for name in columns:
        if name not in whole.column_names:
            whole = whole.append_column(name, whole["v0"])
    path = tmp_path / f"other.{kind}"
    write = pyarrow.parquet.write_table if kind == "parquet" else pa.csv.write_csv
    write(whole.select(columns), path)
    return path


@pytest.mark.parametrize("command", ["learn", "unlearn", "evaluate", "predict"])
@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_columns_that_are_not_the_models(
    tmp_path: Path, taught: dict[str, Path], command: str, kind: str
) -> None:
    names = [f"v{index}" for index in range(12)]
    for columns, message in (
        ([names[1], names[0], *names[2:]], "expected column 'v0' where .* has 'v1': put the col"),
        (["w", *names[1:]], "expected column 'v0' where .* has 'w': pass the same columns"),
        (names[:-1], "expected 12 columns of numbers, got 11: .* lacks 'v11'"),
        ([*names, "more"], "expected 12 columns of numbers, got 13: .* also has 'more'"),
    ):
        path = other_table(tmp_path, kind, [*columns, "label"])
        with pytest.raises(AssertionError, match=message):
            raise AssertionError(refused(command, taught["columns"], path))


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_a_label_column_that_is_missing(tmp_path: Path, taught: dict[str, Path], kind: str) -> None:
    path = other_table(tmp_path, kind, [f"v{index}" for index in range(12)])
    said = refused("learn", taught["columns"], path)
    assert f"to hold the labels of {path}, but there are only v0, v1" in said
    assert said.endswith("name it with --label")
    assert "'kind' to hold the labels" in refused("learn", tmp_path / "n", path, "--label", "kind")
    done("predict", taught["columns"], path)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "is not a CSV file, or is damaged: Empty CSV file"),
        ("label,a,b\n", "expected at least one row"),
        ("label,a,a\nx,1,2\n", "'a' twice"),
        ("label,y,b\nx,1,2\n", "got label, y: name it with --label"),
        ("label\nx\n", "got only the labels"),
        ("label,a,b\nx,1\n", "Expected 3 columns, got 2"),
        ("label,a,b\nx,1,red\n", "'red'"),
        ("label,a,b\nx,1,2\n,3,4\n", "got none in row 2"),
        ("label,a,b\nx,1,2\ny,,4\n", "row 2: Input contains NaN"),
        ("label,a,b\nx,1,2\ny,inf,4\n", "row 2: Input contains infinity"),
        ("label,a,b\n0.5,1,2\n1,3,4\n", "rows 1 to 2: Unknown label type: continuous"),
        ("label,a,b\nx,1,2\ny,\xff\x00,4\n", "t.csv is not a CSV file, or is damaged"),
    ],
)
def test_tables_that_make_no_sense(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "t.csv"
    path.write_bytes(text.encode("latin-1"))
    assert message in refused("learn", tmp_path / "model", path)
    assert not (tmp_path / "model").exists()


def test_columns_of_parquet_that_are_no_numbers(tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    pyarrow.parquet.write_table(pa.table({"y": [1, 2], "a": ["p", "q"]}), path)
    assert "expected numbers in column 'a'" in refused("learn", tmp_path / "m", path)
    for labels in (
        pa.array([True, False]),
        pa.array([1.5, 2.0]),
        pa.array([b"a", b"b"]),
        pa.array([[1], [2]]),
        pa.array([1, 2], pa.timestamp("s")),
        pa.array([None, 1]),
        pa.nulls(2),
    ):
        pyarrow.parquet.write_table(pa.table({"y": labels, "a": [1, 2], "b": [3, 4]}), path)
        assert "abel" in refused("learn", tmp_path / "m", path)
    assert not (tmp_path / "m").exists()


# Arrays


def npy(array: Any) -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, array)
    return buffer.getvalue()


def header(text: str, version: bytes = b"\x01\x00") -> bytes:
    raw = text.encode().ljust(117) + b"\n"
    return b"\x93NUMPY" + version + struct.pack("<H", len(raw)) + raw


def described(dtype: str, shape: str, fortran: str = "False") -> bytes:
    return header(f"{{'descr': '{dtype}', 'fortran_order': {fortran}, 'shape': {shape}}}")


BAD_ARRAYS: dict[str, tuple[bytes, str]] = {
    "empty": (b"", "damaged"),
    "text": (b"hello, world", "magic"),
    "cut": (npy(np.ones((20, 12)))[:-5], "not as long as its header says"),
    "long": (npy(np.ones((20, 12))) + b"more", "not as long as its header says"),
    "objects": (npy(np.array([[{}], [[]]], dtype=object)), "never unpickled"),
    "fields": (npy(np.zeros(3, dtype=[("a", "f8")])), "expected numbers or words"),
    "dates": (npy(np.zeros((3, 2), dtype="M8[s]")), "expected numbers or words"),
    "scalar": (npy(np.float64(3)), "at least one sample"),
    "no-rows": (npy(np.ones((0, 12))), "at least one sample"),
    "no-columns": (npy(np.ones((20, 0))), "at least one sample"),
    "flat": (npy(np.ones(20)), "expected samples as rows"),
    "words": (npy(np.full((20, 12), "a")), "strings"),
    "complex": (npy(np.ones((20, 12), dtype=complex)), "expected numbers or words"),
    "version": (header("{}", b"\x09\x00"), "format 9.0 is unknown"),
    "negative": (described("<f8", "(-20, 12)"), "at least one sample"),
    "huge": (described("<f8", "(20, 999999999999)"), "values a sample"),
    "tall": (described("<f8", "(99999999999, 12)"), "not as long as its header says"),
    "huge-by-columns": (described("<f8", "(99999999999, 12)", "True"), "not as long"),
    "long-words": (described("<U99999999", "(20, 12)"), "words of at most"),
    "no-dtype": (described("nonsense", "(20, 12)"), "is not an array that NumPy saved"),
    "code": (header("__import__('os').abort()"), "is not an array that NumPy saved"),
    "nested": (header("-" * 100 + "1"), "is not an array that NumPy saved"),
    "pickle": (pickle.dumps(np.ones((20, 12))), "is not an array that NumPy saved"),
}


@pytest.mark.parametrize("name", BAD_ARRAYS)
def test_arrays_that_make_no_sense(tmp_path: Path, taught: dict[str, Path], name: str) -> None:
    raw, message = BAD_ARRAYS[name]
    (tmp_path / "X.npy").write_bytes(raw)
    np.save(tmp_path / "y.npy", WORDS[ROWS])
    command = ("learn", taught["columns"], tmp_path / "X.npy", "--label", tmp_path / "y.npy")
    assert message in refused(*command)
    assert message in refused("predict", taught["columns"], tmp_path / "X.npy")
    with zipfile.ZipFile(tmp_path / "a.npz", "w") as archive:
        archive.writestr("X.npy", raw)
        archive.writestr("y.npy", npy(WORDS[ROWS]))
    refused("learn", taught["columns"], tmp_path / "a.npz")


def test_nothing_is_unpickled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def unpickled(*_: object, **__: object) -> NoReturn:
        pytest.fail("something was unpickled")

    np.savez(tmp_path / "a.npz", X=np.array([[{}], [[]]], dtype=object), y=[0, 1])
    monkeypatch.setattr(pickle, "load", unpickled)
    monkeypatch.setattr(pickle, "loads", unpickled)
    assert "never unpickled" in refused("learn", tmp_path / "m", tmp_path / "a.npz")


def test_archives_without_samples_or_labels(tmp_path: Path) -> None:
    for arrays, message in (
        ({"X": IMAGES}, "but there are only X: name it with --label"),
        ({"y": NUMBERS}, "expected one array of 60 samples"),
        ({"X": IMAGES[:9], "y": NUMBERS}, "got X (9, 3, 4)"),
        ({"X": IMAGES, "Z": IMAGES, "y": NUMBERS}, "got X (60, 3, 4), Z (60, 3, 4)"),
        ({}, "but there are only none"),
    ):
        np.savez(tmp_path / "a.npz", **arrays)
        assert message in refused("learn", tmp_path / "m", tmp_path / "a.npz")
    np.save(tmp_path / "X.npy", IMAGES)
    assert "name the .npy file" in refused("learn", tmp_path / "m", tmp_path / "X.npy")
    np.save(tmp_path / "y.npy", NUMBERS[:-1])
    said = refused("learn", tmp_path / "m", tmp_path / "X.npy", "--label", tmp_path / "y.npy")
    assert "one label for each of 60 samples" in said
    missing = refused("learn", tmp_path / "m", tmp_path / "X.npy", "--label", tmp_path / "no.npy")
    assert missing == f"cannot read {tmp_path / 'no.npy'}: No such file or directory"


# What unpacks to far more than it weighs


def test_archives_that_unpack_to_far_more_than_they_weigh(tmp_path: Path) -> None:
    rows = 2**21
    with (
        zipfile.ZipFile(tmp_path / "bomb.npz", "w", zipfile.ZIP_DEFLATED, compresslevel=1) as file,
        file.open("X.npy", "w") as member,
    ):
        member.write(described("<f8", f"({rows}, 12)"))
        for _ in range(rows * 96 // 2**20):
            member.write(bytes(2**20))
    assert (tmp_path / "bomb.npz").stat().st_size < 10**6
    said = refused("predict", tmp_path / "m", tmp_path / "bomb.npz")
    assert "cannot read" in said  # there is no model
    said = refused("learn", tmp_path / "m", tmp_path / "bomb.npz", "--label", "X")
    assert "unpacks to 201 MB from 0.9 MB" in said


def test_parquet_that_unpacks_to_far_more_than_it_weighs(tmp_path: Path) -> None:
    rows = 2**22
    columns = {name: np.zeros(rows) for name in "abcde"}
    path = tmp_path / "bomb.parquet"
    pyarrow.parquet.write_table(pa.table({"y": np.zeros(rows, np.int8), **columns}), path)
    assert path.stat().st_size < 2 * 10**5
    assert "unpacks to 168 MB" in refused("learn", tmp_path / "m", path)


def test_an_image_that_claims_more_pixels_than_any(tmp_path: Path) -> None:
    def chunk(kind: bytes, data: bytes) -> bytes:
        check = struct.pack(">I", zlib.crc32(kind + data))
        return struct.pack(">I", len(data)) + kind + data + check

    ihdr = struct.pack(">IIBBBBB", 20_000, 20_000, 8, 2, 0, 0, 0)
    body = chunk(b"IHDR", ihdr) + chunk(b"IDAT", zlib.compress(bytes(1000))) + chunk(b"IEND", b"")
    (tmp_path / "i" / "a").mkdir(parents=True)
    (tmp_path / "i" / "a" / "bomb.png").write_bytes(b"\x89PNG\r\n\x1a\n" + body)
    said = refused("learn", tmp_path / "m", tmp_path / "i")
    assert "bomb.png (unpacks to more pixels than any honest image)" in said
    Image.new("L", (200, 200)).save(tmp_path / "i" / "a" / "bomb.png")
    assert "at most 32,768 features, got 40,000" in refused("learn", tmp_path / "m", tmp_path / "i")


# Folders of images


def test_images_of_another_size_or_mode(tmp_path: Path, taught: dict[str, Path]) -> None:
    folder = write_images(tmp_path / "i", range(10))
    Image.new("L", (5, 3)).save(folder / "ant" / "large.png")
    Image.new("RGB", (4, 3)).save(folder / "ant" / "red.png")
    Image.new("RGBA", (4, 3)).save(folder / "ant" / "clear.png")
    for command in ("learn", "unlearn", "evaluate", "predict"):
        result = redunet(command, taught["images"], folder)
        assert result.exit_code == 2
        said = result.stderr
        assert "3 of 13 images" in said
        assert "clear.png (mode RGBA, expected L or RGB, not transparent)" in said
        assert "large.png (5 x 3 L, expected 4 x 3 L)" in said
        assert "red.png (4 x 3 RGB, expected 4 x 3 L)" in said
        assert said.endswith("mend or remove them, or pass --skip-bad\n")
    # Another size throughout.
    other = tmp_path / "o" / "ant"
    other.mkdir(parents=True)
    Image.new("L", (9, 9)).save(other / "1.png")
    assert "1 of 1 images" in refused("learn", taught["images"], tmp_path / "o", "--skip-bad")


def test_unreadable_files_among_many(tmp_path: Path, taught: dict[str, Path]) -> None:
    folder = write_images(tmp_path / "i", ROWS)
    whole = png(IMAGES[0])
    bad = {
        "0.png": b"",
        "1.png": b"no image",
        "2.png": whole[: len(whole) // 2],
        "3.txt": b"notes",
        "4.jpg": b"\xff\xd8\xff" + bytes(50),
        "5.gif": b"GIF89a",
        "6.eps": b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 4 3\n",
    }
    for name, raw in bad.items():
        (folder / "bee" / name).write_bytes(raw)
    (folder / "bee" / "7.png").symlink_to(folder / "nowhere")
    os.mkfifo(folder / "bee" / "8.png")
    said = refused("learn", tmp_path / "new", folder)
    assert "9 of 29 images" in said
    assert f"{folder / 'bee' / '0.png'} (" in said
    assert " and 4 more: mend or remove them, or pass --skip-bad" in said
    assert not (tmp_path / "new").exists()
    result = redunet("learn", tmp_path / "new", folder, "--skip-bad", "--set", "n_layers=2")
    assert result.exit_code == 0
    assert "left out 9 images that cannot be used" in result.stderr
    assert (tmp_path / "new").read_bytes() == taught["images"].read_bytes()


def test_folders_without_images(tmp_path: Path) -> None:
    folder = tmp_path / "i"
    folder.mkdir()
    for command in ("learn", "evaluate"):
        done_before = tmp_path / "m"
        if command == "evaluate":
            done("learn", done_before, write_images(tmp_path / "some", ROWS))
        said = refused(command, done_before, folder)
        assert said.startswith(f"expected one sub-folder of images a class in {folder}, got none")
    assert "expected images in" in refused("predict", tmp_path / "m", folder)
    (folder / "ant").mkdir()
    (folder / "ant" / ".hidden").write_text("")
    assert f"expected images in {folder / 'ant'}, got none" in refused(
        "learn", tmp_path / "n", folder
    )
    (folder / "ant" / "1.png").write_bytes(png(IMAGES[0]))
    (folder / "stray.png").write_bytes(png(IMAGES[0]))
    assert "got the file stray.png" in refused("learn", tmp_path / "n", folder)


def test_a_class_with_one_image(tmp_path: Path) -> None:
    folder = write_images(tmp_path / "i", ROWS)
    (folder / "emu").mkdir()
    (folder / "emu" / "1.png").write_bytes(png(IMAGES[0]))
    result = redunet("learn", tmp_path / "m", folder)
    assert result.exit_code == 0
    assert result.stderr == (
        "redunet: class 'emu' has one sample: what is kept of it is that sample\n"
    )
    done("evaluate", tmp_path / "m", folder)


def test_names_that_are_not_text(tmp_path: Path) -> None:
    folder = write_images(tmp_path / "i", ROWS)
    strange = os.fsencode(folder / "emu") + b"\xff"
    os.mkdir(strange)
    for name in (b"1.png", b"2\xfe.png"):
        with open(os.path.join(strange, name), "wb") as file:
            file.write(png(IMAGES[0]))
    model = Path(os.fsdecode(os.fsencode(tmp_path / "m") + b"\xfd"))
    done("learn", model, folder)
    assert "emu\\xff" in done("evaluate", model, folder).stdout
    for ending in ("csv", "parquet", "jsonl"):
        done("predict", model, folder, "-o", tmp_path / f"out.{ending}")
    assert "2\\xfe.png" in (tmp_path / "out.csv").read_text()
    with open(os.path.join(strange, b"\xfc"), "wb"):
        assert "xfc (no image" in refused("learn", model, folder)


# Paths and places


def test_paths_that_lead_nowhere(tmp_path: Path, taught: dict[str, Path]) -> None:
    data = write_npz(tmp_path / "d", ROWS)
    assert refused("learn", tmp_path, data).endswith("is a folder: give the name of a model file")
    assert "No such file" in refused("learn", tmp_path / "no" / "m", data)
    for command in ("predict", "evaluate", "unlearn"):
        assert "cannot read" in refused(command, tmp_path / "none", data)
    for words in (("inspect",), ("verify",), ("forget", "x")):
        assert "cannot read" in refused(words[0], tmp_path / "none", *words[1:])
    assert "not a redunet model" in refused("learn", data, data)
    for name in ("none.csv", "none"):
        assert "there is no such file" in refused("learn", taught["images"], tmp_path / name)
    (tmp_path / "d.txt").write_text("")
    assert "expected .npz, .npy, .csv" in refused("learn", taught["images"], tmp_path / "d.txt")
    assert "got 'x'" in refused("forget", taught["images"], "x")
    assert "the last one" in refused("forget", taught["images"], *sorted(set(WORDS[ROWS])))
    assert "exists already" in refused(
        "merge", taught["images"], taught["images"], "-o", taught["columns"]
    )
    assert "differ in" in refused(
        "merge", taught["images"], taught["columns"], "-o", tmp_path / "both"
    )
    assert "at least two" in refused("merge", taught["images"], "-o", tmp_path / "both")
    assert not (tmp_path / "both").exists()


def test_predictions_go_only_where_they_may(tmp_path: Path, taught: dict[str, Path]) -> None:
    data = write_csv(tmp_path / "d", ROWS)
    before = data.read_bytes()
    assert "another name" in refused("predict", taught["columns"], data, "-o", data)
    assert "ends in .csv" in refused("predict", taught["columns"], data, "-o", tmp_path / "p.txt")
    (tmp_path / "p.csv").mkdir()
    assert "a folder" in refused("predict", taught["columns"], data, "-o", tmp_path / "p.csv")
    assert "No such file" in refused(
        "predict", taught["columns"], data, "-o", tmp_path / "no" / "p.csv"
    )
    assert data.read_bytes() == before
    bad = tmp_path / "b.csv"
    bad.write_bytes(before + b"ant,1\n")
    (tmp_path / "old.csv").write_text("old")
    refused("predict", taught["columns"], bad, "-o", tmp_path / "old.csv")
    assert (tmp_path / "old.csv").read_text() == "old"
    assert not list(tmp_path.glob(".*"))


@pytest.mark.parametrize("command", ["learn", "unlearn", "forget"])
def test_no_space_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str) -> None:
    data = write_npz(tmp_path / "d", ROWS)
    part = write_npz(tmp_path / "p", range(5))
    done("learn", tmp_path / "m", data)
    before = (tmp_path / "m").read_bytes()

    def full(*_: object) -> NoReturn:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    said = refused(command, tmp_path / "m", "bee" if command == "forget" else part)
    assert "No space left on device" in said
    assert "is unchanged" in said
    assert (tmp_path / "m").read_bytes() == before
    assert not list(tmp_path.glob(".*"))


def test_no_space_for_the_lock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> NoReturn:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr("redunet.tool.lock.json.dumps", full)
    assert "No space left" in refused("learn", tmp_path / "m", write_npz(tmp_path / "d", ROWS))
    assert not list(tmp_path.glob(".*"))


def test_ctrl_c_tells_what_became_of_the_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, data = tmp_path / "m", write_npz(tmp_path / "d", ROWS)
    save, flock = ReduNetClassifier.save, fcntl.flock

    def stop_after(self: ReduNetClassifier, path: Path) -> NoReturn:
        save(self, path)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(ReduNetClassifier, "save", stop_after)
        result = redunet("learn", path, data)
    assert (result.exit_code, result.stderr) == (
        1,
        f"redunet: stopped; {path} was saved before that\n",
    )
    before = path.read_bytes()

    def stop_waiting(file: Any, how: int) -> None:
        if how == fcntl.LOCK_EX:
            raise KeyboardInterrupt
        flock(file, how)

    with open(tmp_path / ".m.changing", "w") as held, monkeypatch.context() as patch:
        held.write('{"process": 7}')
        held.flush()
        flock(held, fcntl.LOCK_EX)
        patch.setattr(fcntl, "flock", stop_waiting)
        result = redunet("forget", path, "ant")
    assert result.exit_code == 1
    assert result.stderr == (
        f"redunet: process 7 is changing {path}: waiting until it is done\n"
        f"redunet: stopped while waiting; {path} was left alone\n"
    )
    assert path.read_bytes() == before


def test_strangers_cannot_be_withdrawn(tmp_path: Path, taught: dict[str, Path]) -> None:
    other = write_images(tmp_path / "o", range(40, 45))
    assert "expected samples that were learnt before" in refused("unlearn", taught["images"], other)


def test_labels_of_another_type(tmp_path: Path) -> None:
    np.savez(tmp_path / "n.npz", X=IMAGES, y=NUMBERS)
    done("learn", tmp_path / "m", tmp_path / "n.npz")
    said = refused("learn", tmp_path / "m", write_npz(tmp_path / "w", ROWS))
    assert "expected whole numbers as labels, as the model has them" in said
    assert "expected whole numbers" in refused("forget", tmp_path / "m", "ant")
