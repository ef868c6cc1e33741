"""Labels in files: none becomes another, or the file is refused in one line."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest

from redunet import ReduNetClassifier
from redunet.data import ReadOptions
from redunet.data.csv_files import open_csv
from tests.own_data import done, refused

pytestmark = pytest.mark.usefixtures("one_thread")


def csv_of(path: Path, labels: list[str]) -> Path:
    rows = (f'"{label}",{index},{index**2}\n' for index, label in enumerate(labels, 1))
    path.write_text("label,a,b\n" + "".join(rows), encoding="utf-8")
    return path


def classes(model: Path) -> list[Any]:
    found: list[Any] = ReduNetClassifier.load(model).classes_.tolist()
    return found


@pytest.mark.parametrize(
    ("labels", "expected"),
    [
        (["7", "-3", "0"], [-3, 0, 7]),
        (["007", "7"], ["007", "7"]),
        (["9007199254740993", "9007199254740992"], [9007199254740992, 9007199254740993]),
        (
            ["9007199254740993", "9007199254740992", "1.0"],
            ["1.0", "9007199254740992", "9007199254740993"],
        ),
        (["1.0", "1"], ["1", "1.0"]),
        (["9223372036854775807", "-9223372036854775808"], [-(2**63), 2**63 - 1]),
        (["9223372036854775807", "9223372036854775808"], [str(2**63 - 1), str(2**63)]),
        (["1", "one"], ["1", "one"]),
        (["-0", "0"], ["-0", "0"]),
        (["+1", "1"], ["+1", "1"]),
        (["１", "1"], ["1", "１"]),
        (["0.5", "half"], ["0.5", "half"]),
        ([" a", "a"], [" a", "a"]),
        (["é", "e\u0301"], ["e\u0301", "é"]),
    ],
)
def test_labels_of_a_csv_file_keep_their_identity(
    tmp_path: Path, labels: list[str], expected: list[Any]
) -> None:
    done("learn", tmp_path / "m", csv_of(tmp_path / "t.csv", labels), "--set", "n_layers=1")
    assert classes(tmp_path / "m") == expected
    # And each can be named.
    done("forget", "--", tmp_path / "m", expected[0])
    assert classes(tmp_path / "m") == expected[1:]


def test_what_labels_are_does_not_depend_on_blocks(tmp_path: Path) -> None:
    labels = [str(index % 10) for index in range(200)] + ["010"]
    path = csv_of(tmp_path / "t.csv", labels)
    for block_bytes in (64, 2**20):
        source = open_csv(path, ReadOptions(), block_bytes)
        found = np.concatenate([batch.y for batch in source.batches() if batch.y is not None])
        assert found.tolist() == labels
        assert "taken as text, because '010' is not the usual way to write" in source.notes[0]


def test_labels_take_the_type_of_the_model_or_are_refused(tmp_path: Path) -> None:
    done("learn", tmp_path / "numbers", csv_of(tmp_path / "t.csv", ["7", "8"]))
    done("learn", tmp_path / "words", csv_of(tmp_path / "t.csv", ["x", "7"]))
    odd = csv_of(tmp_path / "odd.csv", ["007", "7"])
    said = refused("learn", tmp_path / "numbers", odd)
    assert "expected whole numbers as labels, as the model has them, got '007' in column" in said
    done("learn", tmp_path / "words", odd)
    assert classes(tmp_path / "words") == ["007", "7", "x"]
    done("learn", tmp_path / "words", csv_of(tmp_path / "t.csv", ["7", "8"]))
    assert classes(tmp_path / "words") == ["007", "7", "8", "x"]
    done("predict", tmp_path / "numbers", odd)  # whose labels are not looked at
    assert "got '007'" in refused("forget", tmp_path / "numbers", "007")


BAD_LABELS: dict[str, tuple[Any, str]] = {
    "uint64": (np.array([2**64 - 1, 1], np.uint64), "expected labels up to 9223372036854775807"),
    "floats": (np.array([2.0**53 + 2, 1.0]), "whole numbers up to 2^53"),
    "fractions": (np.array([0.5, 1.0]), "got 0.5"),
    "nan": (np.array([np.nan, 1.0]), "got nan"),
    "nul": (np.array(["a\0b", "a"]), "without NUL"),
    "surrogate": (np.array(["\ud800", "a"]), "halves of letters"),
    "beyond": (
        np.array([[0x110000, 0], [97, 0]], np.uint32).view("<U2").ravel(),
        "labels of Unicode letters",
    ),
    "swapped": (np.array(["\ud800", "a"]).astype(">U1"), "halves of letters"),
}


@pytest.mark.parametrize("name", BAD_LABELS)
def test_labels_of_arrays_that_cannot_be_told_apart(tmp_path: Path, name: str) -> None:
    labels, message = BAD_LABELS[name]
    np.savez(tmp_path / "d.npz", X=np.eye(2), y=labels)
    assert message in refused("learn", tmp_path / "m", tmp_path / "d.npz")
    np.save(tmp_path / "X.npy", np.eye(2))
    np.save(tmp_path / "y.npy", labels)
    assert message in refused(
        "learn", tmp_path / "m", tmp_path / "X.npy", "--label", tmp_path / "y.npy"
    )
    assert not (tmp_path / "m").exists()


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        (pa.array([2**64 - 1, 1], pa.uint64()), "expected labels up to 9223372036854775807"),
        (pa.array(["a", "a\0"]), "without NUL"),
        (pa.array(["a", "a\0"]).dictionary_encode(), "without NUL"),
        (pa.array(["a", "b" * 257]), "at most 256 letters"),
        (pa.array(["a", "b" * 2**17]), "got one of over 64 kB"),
        (pa.array([2.0**60, 1.0]), "whole numbers up to 2^53"),
        (pa.array([0.5, 1.0]), "got 0.5"),
        (pa.array([b"a", b"b"]), "expected labels that are whole numbers or text"),
    ],
)
def test_labels_of_parquet_that_cannot_be_told_apart(
    tmp_path: Path, labels: Any, message: str
) -> None:
    path = tmp_path / "t.parquet"
    pyarrow.parquet.write_table(pa.table({"y": labels, "a": [1, 2], "b": [3, 4]}), path)
    assert message in refused("learn", tmp_path / "m", path)


def test_folders_whose_names_would_be_shown_alike(tmp_path: Path) -> None:
    for name in (b"a\xff", b"a\\xff"):
        (tmp_path / "i").mkdir(exist_ok=True)
        folder = bytes(tmp_path / "i") + b"/" + name
        Path(folder.decode(errors="surrogateescape")).mkdir()
    assert "got 'a\\\\xff' twice" in refused("learn", tmp_path / "m", tmp_path / "i")
