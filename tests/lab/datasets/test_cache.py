"""The cache: any damaged byte is noticed, and writers at the same time do no harm."""

import hashlib
import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from redunet.errors import DataError, FileAccessError
from redunet_lab.datasets import Dataset, cache, cifar10, idx, load, mnist
from redunet_lab.datasets.dataset import ARRAYS, UnavailableError
from tests.tiny_data import Tiny, same, under, write

PYTHON = sys.executable


@pytest.fixture
def fetches(tinies: dict[str, Tiny], monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Let every fetch succeed at once, and note it."""
    done: list[str] = []

    def fetch() -> Dataset:
        done.append("fetched")
        return tinies["mnist"].data

    monkeypatch.setattr(mnist, "from_pip", fetch)
    return done


def test_folder_then_cache_then_fetch(
    tinies: dict[str, Tiny], fetches: list[str], tmp_path: Path
) -> None:
    folder = write(tmp_path / "data", under("MNIST/raw", tinies["mnist"].files))
    assert load("mnist", folder).source == "folder"
    assert fetches == []
    assert load("mnist").source == "test"
    assert fetches == ["fetched"]
    found = load("mnist")
    assert found.source == "cache"
    same(found, tinies["mnist"].data)
    assert load("mnist", folder).source == "folder"
    assert load("mnist", tmp_path / "nothing").source == "cache"
    assert fetches == ["fetched"]


def test_a_cached_file_is_an_npz_that_ends_with_its_own_hash(
    tinies: dict[str, Tiny], tmp_path: Path
) -> None:
    cache.write(tinies["cifar10"].data)
    path = tmp_path / "cache" / "cifar10.npz"
    raw = path.read_bytes()
    assert raw[-64:].decode() == hashlib.sha256(raw[:-64]).hexdigest()
    with np.load(path) as arrays:
        assert sorted(arrays) == sorted(ARRAYS)
        np.testing.assert_array_equal(arrays["x_test"], tinies["cifar10"].data.x_test)
    assert path.stat().st_mode & 0o777 == 0o666 & ~umask()
    same(cache.read(cifar10.PUBLISHED), tinies["cifar10"].data)


def umask() -> int:
    now = os.umask(0)
    os.umask(now)
    return now


def test_any_flipped_byte_is_noticed_and_fetched_again(
    tinies: dict[str, Tiny], fetches: list[str], tmp_path: Path
) -> None:
    load("mnist")
    path = tmp_path / "cache" / "mnist.npz"
    good = path.read_bytes()
    ends = [*range(80), *range(len(good) - 400, len(good))]
    places = [*ends, *np.random.default_rng(0).integers(0, len(good), 100).tolist()]
    for place in places:
        raw = bytearray(good)
        raw[place] ^= 0x40
        path.write_bytes(raw)
        with pytest.raises(UnavailableError, match=r"^the cached .*mnist\.npz is damaged$"):
            cache.read(mnist.PUBLISHED)
    assert load("mnist").source == "test"
    assert fetches == ["fetched"] * 2
    assert path.read_bytes() == good
    same(load("mnist"), tinies["mnist"].data)


@pytest.mark.parametrize("length", [0, 1, 63, 64, 65, 1000, -1, -64])
def test_a_truncated_file_is_noticed_and_fetched_again(
    length: int, fetches: list[str], tmp_path: Path
) -> None:
    load("mnist")
    path = tmp_path / "cache" / "mnist.npz"
    good = path.read_bytes()
    path.write_bytes(good[:length])
    with pytest.raises(UnavailableError, match=r"mnist\.npz is damaged$"):
        cache.read(mnist.PUBLISHED)
    assert load("mnist").source == "test"
    assert fetches == ["fetched"] * 2
    assert path.read_bytes() == good


def test_a_damaged_cache_is_named_when_there_is_no_other_way(
    tinies: dict[str, Tiny], tmp_path: Path
) -> None:
    cache.write(tinies["mnist"].data)
    path = tmp_path / "cache" / "mnist.npz"
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(FileAccessError, match=f"REDUNET_DATA\\); the cached {path} is damaged; `"):
        load("mnist")


def test_a_sound_file_of_other_shapes_is_not_used(
    tinies: dict[str, Tiny], fetches: list[str], tmp_path: Path
) -> None:
    cache.write(tinies["cifar10"].data)
    (tmp_path / "cache" / "cifar10.npz").rename(tmp_path / "cache" / "mnist.npz")
    with pytest.raises(UnavailableError, match=r"mnist\.npz is of another version$"):
        cache.read(mnist.PUBLISHED)
    assert load("mnist").source == "test"
    assert fetches == ["fetched"]


def test_what_fails_its_check_is_not_cached(
    tinies: dict[str, Tiny], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def fetch() -> Dataset:
        return idx.checked(tinies["fashion_mnist"].data, mnist.PUBLISHED, "there")

    monkeypatch.setattr(mnist, "from_pip", fetch)
    with pytest.raises(DataError, match=r"^there: train-images-idx3-ubyte of mnist should have"):
        load("mnist")
    assert not (tmp_path / "cache").exists()


def test_a_cache_that_cannot_be_written_is_a_warning(
    tinies: dict[str, Tiny], fetches: list[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    write(tmp_path, {"file": b""})
    monkeypatch.setenv("REDUNET_CACHE", str(tmp_path / "file"))
    line = r"^mnist could not be cached \(cannot write .*/file: .*\): it will be fetched again;"
    with pytest.warns(UserWarning, match=line):
        found = load("mnist")
    same(found, tinies["mnist"].data)
    assert fetches == ["fetched"]


def test_an_interrupted_write_leaves_nothing(
    tinies: dict[str, Tiny], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def interrupt(descriptor: int) -> None:
        assert [file.suffix for file in (tmp_path / "cache").iterdir()] == [".tmp"]
        assert os.fstat(descriptor).st_size > 64
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "fsync", interrupt)
    with pytest.raises(KeyboardInterrupt):
        cache.write(tinies["mnist"].data)
    assert list((tmp_path / "cache").iterdir()) == []


WRITER = """
import sys, numpy as np
from redunet_lab.datasets import Dataset, cache
x, y = np.arange(20 * 784, dtype=np.uint8).reshape(20, 28, 28), np.arange(20)
for _ in range(60):
    cache.write(Dataset("mnist", x, y, x[:10], y[:10], "writer"))
"""


def test_two_processes_write_while_a_third_reads(
    tinies: dict[str, Tiny], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    assert tinies
    environment = {**os.environ, "PYTHONPATH": str(Path(cache.__file__).parents[2])}
    writers = [subprocess.Popen([PYTHON, "-c", WRITER], env=environment) for _ in range(2)]
    reads, reasons = 0, set[str]()
    start = time.monotonic()
    while any(writer.poll() is None for writer in writers) and time.monotonic() < start + 60:
        try:
            found = cache.read(mnist.PUBLISHED)
        except UnavailableError as error:
            reasons.add(str(error))
            # Before the first rename; afterwards there always is a file, and it is sound.
            assert reads == 0
            continue
        assert found.x_train.ravel()[783] == 783 % 256
        reads += 1
    assert [writer.wait(timeout=60) for writer in writers] == [0, 0]
    assert reads > 5
    assert reasons <= {f"the cache has no {tmp_path / 'cache' / 'mnist.npz'}"}
    assert [file.name for file in (tmp_path / "cache").iterdir()] == ["mnist.npz"]


def test_the_cache_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("REDUNET_CACHE", "~/here")
    assert cache.folder() == tmp_path / "here"
    monkeypatch.setenv("REDUNET_CACHE", "")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert cache.folder() == tmp_path / "xdg" / "redunet"
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    assert cache.folder() == tmp_path / ".cache" / "redunet"
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.delenv("REDUNET_CACHE")
    assert cache.folder() == tmp_path / ".cache" / "redunet"
