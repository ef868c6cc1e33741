"""Small files that ask for much: time and memory stay in proportion, or one line refuses."""

from __future__ import annotations

import os
import zipfile
from pathlib import Path

import numpy as np
import pytest

from redunet.data import ReadOptions, open_source
from redunet.errors import DataError
from tests.data.test_faults import npy
from tests.own_data import (
    IMAGES,
    WORDS,
    done,
    png,
    refused,
    write_npz,
)

pytestmark = pytest.mark.usefixtures("one_thread")

ROWS = range(20)


@pytest.mark.parametrize("ending", [".csv", ".npy"])
def test_pipes_and_devices_are_refused_at_once(tmp_path: Path, ending: str) -> None:
    done("learn", tmp_path / "m", write_npz(tmp_path / "d", ROWS))
    os.mkfifo(tmp_path / f"pipe{ending}")
    (tmp_path / f"endless{ending}").symlink_to("/dev/zero")
    for name, kind in (("pipe", "a pipe"), ("endless", "a device")):
        path = tmp_path / f"{name}{ending}"
        said = refused("predict", tmp_path / "m", path)
        assert f"expected a regular file, got {kind}" in said
        said = refused("report", tmp_path / "m", "--samples", path, "-o", tmp_path / "page.html")
        assert f"expected a regular file, got {kind}" in said
    np.save(tmp_path / "X.npy", IMAGES)
    said = refused(
        "learn", tmp_path / "n", tmp_path / "X.npy", "--label", tmp_path / f"pipe{ending}"
    )
    assert "expected a regular file, got a pipe" in said


@pytest.mark.parametrize("method", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_members_packed_in_unusual_ways(tmp_path: Path, method: int) -> None:
    # These unpack whole blocks, however few bytes are asked for.
    with zipfile.ZipFile(tmp_path / "a.npz", "w", method) as file:
        file.writestr("X.npy", npy(np.eye(3)))
        file.writestr("y.npy", npy(np.arange(3)))
    assert "packed as NumPy does it" in refused("learn", tmp_path / "m", tmp_path / "a.npz")


def test_an_array_of_an_archive_is_at_most_so_large(tmp_path: Path) -> None:
    np.savez_compressed(tmp_path / "a.npz", X=IMAGES, y=WORDS)
    with zipfile.ZipFile(tmp_path / "a.npz") as file:
        size = sum(one.file_size for one in file.infolist())
    (batch,) = open_source(tmp_path / "a.npz", ReadOptions(most_unpacked=size)).batches()
    assert np.array_equal(batch.X, IMAGES)
    with pytest.raises(DataError, match=r"got more in .*a\.npz: save it as \.npy"):
        open_source(tmp_path / "a.npz", ReadOptions(most_unpacked=size - 1))


def test_folders_in_folders_without_end(tmp_path: Path) -> None:
    (tmp_path / "i" / "ant").mkdir(parents=True)
    (tmp_path / "i" / "ant" / "1.png").write_bytes(png(IMAGES[0]))
    here = os.open(tmp_path / "i" / "ant", os.O_RDONLY)
    for _ in range(1500):
        os.mkdir("deeper", dir_fd=here)
        below = os.open("deeper", os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = below
    os.close(here)
    said = refused("learn", tmp_path / "m", tmp_path / "i")
    assert said.startswith("expected folders at most 32 deep")
    # The way back up by hand: the usual removal gives up at such depths too.
    top = tmp_path / "i" / "ant"
    os.rename(top / "deeper", tmp_path / "down")
    while (tmp_path / "down" / "deeper").exists():
        os.rename(tmp_path / "down" / "deeper", tmp_path / "next")
        (tmp_path / "down").rmdir()
        os.rename(tmp_path / "next", tmp_path / "down")
