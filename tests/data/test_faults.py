"""Bad input to the commands on model files: one clear line, and a model that is as it was."""

from __future__ import annotations

import io
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

from tests.own_data import (
    IMAGES,
    NUMBERS,
    WORDS,
    done,
    refused,
    table,
    write_csv,
    write_images,
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


@pytest.mark.parametrize(("command", "kind"), [("learn", "csv"), ("predict", "parquet")])
def test_columns_that_are_not_the_models(
    tmp_path: Path, taught: dict[str, Path], command: str, kind: str
) -> None:
    names = [f"v{index}" for index in range(12)]
    for columns, message in (
        (["w", *names[1:]], "expected the 12 columns .* lacks 'v0': pass the same"),
        (names[:-1], "expected the 12 columns .* lacks 'v11'"),
        ([*names, "more"], "expected the 12 columns .* also has 'more'"),
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
        ("", "is not a CSV file, or is damaged: it is empty"),
        ("label,a,b\n", "expected at least one row"),
        ("label,a,a\nx,1,2\n", "'a' twice"),
        ("label,y,b\nx,1,2\n", "got label, y: name it with --label"),
        ("label\nx\n", "got only the labels"),
        ("label,a,b\nx,1\n", "Expected 3 columns, got 2"),
        ("label,a,b\nx,1,red\n", "expected numbers in column 'b' of"),
        ("label,a,b\nx,1,red\n", "got 'red' in row "),
        ("label,a,b\nx,1,2\n,3,4\n", "got none in row 2"),
        ("label,a,b\nx,1,2\ny,,4\n", "row 2, column 'a': Input contains NaN"),
        ("label,a,b\nx,1,2\ny,inf,4\n", "row 2, column 'a': Input contains infinity"),
        ("label,a,b\n0.5,1,2\n1,3,4\n", "got numbers with fractions such as 0.5: name the"),
        ("label,a,b\nx,1,2\ny,\xff\x00,4\n", "t.csv is not a CSV file, or is damaged"),
    ],
)
def test_tables_that_make_no_sense(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "t.csv"
    path.write_bytes(text.encode("latin-1"))
    assert message in refused("learn", tmp_path / "model", path)
    assert not (tmp_path / "model").exists()


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


NONE = "is not an array of numbers or words that NumPy saved"
BAD_ARRAYS: dict[str, tuple[bytes, str]] = {
    "empty": (b"", NONE),
    "text": (b"hello, world", "magic"),
    "cut": (npy(np.ones((20, 12)))[:-5], NONE),
    "objects": (npy(np.array([[{}], [[]]], dtype=object)), NONE),
    "dates": (npy(np.zeros((3, 2), dtype="M8[s]")), "expected numbers or words"),
    "scalar": (npy(np.float64(3)), "at least one sample"),
    "no-rows": (npy(np.ones((0, 12))), "at least one sample"),
    "flat": (npy(np.ones(20)), "expected samples as rows"),
    "words": (npy(np.full((20, 12), "a")), "strings"),
    "negative": (described("<f8", "(-20, 12)"), NONE),
    "huge": (described("<f8", "(20, 999999999999)"), NONE),
    "tall": (described("<f8", "(99999999999, 12)"), NONE),
    "no-dtype": (described("nonsense", "(20, 12)"), NONE),
    "code": (header("__import__('os').abort()"), NONE),
    "nested": (header("-" * 100 + "1"), NONE),
    "pickle": (pickle.dumps(np.ones((20, 12))), NONE),
}


@pytest.mark.parametrize("name", BAD_ARRAYS)
def test_arrays_that_make_no_sense(tmp_path: Path, taught: dict[str, Path], name: str) -> None:
    raw, message = BAD_ARRAYS[name]
    (tmp_path / "X.npy").write_bytes(raw)
    np.save(tmp_path / "y.npy", WORDS[ROWS])
    command = ("learn", taught["images"], tmp_path / "X.npy", "--label", tmp_path / "y.npy")
    assert message in refused(*command)
    assert message in refused("predict", taught["images"], tmp_path / "X.npy")
    with zipfile.ZipFile(tmp_path / "a.npz", "w") as archive:
        archive.writestr("X.npy", raw)
        archive.writestr("y.npy", npy(WORDS[ROWS]))
    refused("learn", taught["images"], tmp_path / "a.npz")


def test_nothing_is_unpickled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def unpickled(*_: object, **__: object) -> NoReturn:
        pytest.fail("something was unpickled")

    np.savez(tmp_path / "a.npz", X=np.array([[{}], [[]]], dtype=object), y=[0, 1])
    monkeypatch.setattr(pickle, "load", unpickled)
    monkeypatch.setattr(pickle, "loads", unpickled)
    assert NONE in refused("learn", tmp_path / "m", tmp_path / "a.npz")


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
    assert "bomb.png (unpacks to far more than it should)" in said
    Image.new("L", (200, 200)).save(tmp_path / "i" / "a" / "bomb.png")
    assert "at most 32,768 features, got 40,000" in refused("learn", tmp_path / "m", tmp_path / "i")
