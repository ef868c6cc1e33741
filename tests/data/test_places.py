"""Folders, images and places that a command cannot use: one line says so, and no model changes."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path
from typing import NoReturn

import pytest
from PIL import Image

from redunet import ReduNetClassifier
from tests.data.test_faults import ROWS, taught
from tests.own_data import (
    IMAGES,
    WORDS,
    done,
    png,
    redunet,
    refused,
    write_images,
    write_npz,
)

__all__ = ["taught"]  # a fixture

pytestmark = pytest.mark.usefixtures("one_thread")


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
        assert said.endswith(
            "mend or remove them, or create the model with --encoder efficientnet-lite0 --recipe "
            "vectors, or with --resize 32, which scale and crop all images, or pass --skip-bad "
            "twice to leave out more than a tenth\n"
        )
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
    said = refused("learn", tmp_path / "new", folder, "--skip-bad")
    assert said.endswith("or pass --skip-bad twice to leave out more than a tenth")
    assert not (tmp_path / "new").exists()
    twice = ("--skip-bad", "--skip-bad")
    result = redunet("learn", tmp_path / "new", folder, *twice, "--set", "n_layers=2")
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
    assert "expected a regular file, got a folder" in refused("learn", tmp_path, data)
    assert "No such file" in refused("learn", tmp_path / "no" / "m", data)
    for command in ("predict", "evaluate", "unlearn"):
        assert "cannot read" in refused(command, tmp_path / "none", data)
    for words in (("inspect",), ("verify",), ("forget", "x")):
        assert "cannot read" in refused(words[0], tmp_path / "none", *words[1:])
    assert "not a redunet model" in refused("learn", data, data)
    for name in ("none.csv", "none"):
        assert "No such file" in refused("learn", taught["images"], tmp_path / name)
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


def test_ctrl_c_tells_what_became_of_the_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, data = tmp_path / "m", write_npz(tmp_path / "d", ROWS)
    save = ReduNetClassifier.save

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

    def stop_waiting(_: float) -> NoReturn:
        raise KeyboardInterrupt

    with open(tmp_path / ".m.changing", "w") as held, monkeypatch.context() as patch:
        held.write("7")
        held.flush()
        fcntl.flock(held, fcntl.LOCK_EX)
        patch.setattr("redunet.safety.lock.time.sleep", stop_waiting)
        result = redunet("forget", path, "ant")
    assert result.exit_code == 1
    assert result.stderr == (
        f"redunet: process 7 is changing {path}: waiting until it is done\n"
        f"redunet: stopped while waiting; {path} was left alone\n"
    )
    assert path.read_bytes() == before
