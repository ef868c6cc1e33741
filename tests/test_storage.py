"""Model files: equal models are equal files, any altered byte is refused, a save is all or nothing.

Run as a program, this file is the process that the tests below start and kill.
"""

from __future__ import annotations

import copy
import errno
import hashlib
import json
import linecache
import os
import random
import re
import resource
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any, NoReturn

import numpy as np
import pandas as pd
import pytest
import safetensors.torch
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from redunet import FileAccessError, ModelFileError, ReduNetClassifier, ReduNetError, storage
from redunet.features import FeatureMap, Flatten, GaussianLift, Standardize
from tests.conftest import classes_on_subspaces

ROOT = Path(__file__).parents[1]
X, y = classes_on_subspaces(k=4, d=6, per_class=9, rank=2)
NEW = np.random.default_rng(1).standard_normal((11, 6))
IMAGES = np.random.default_rng(2).integers(0, 256, (36, 2, 2, 2)).astype(np.uint8)
ODD = ["", " ", "a\nb", "\x00x", '"\\', "é", "e\u0301", "日本", "😀", "\ud800", "null", "1"]


@pytest.fixture(autouse=True, scope="module")
def one_thread() -> Iterator[None]:
    """Tiny matrices gain nothing from threads, and lose much on a busy machine."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def fresh(**params: Any) -> ReduNetClassifier:
    return ReduNetClassifier(**{"n_layers": 4, "n_components": 2, **params})


def file_of(model: ReduNetClassifier) -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        model.save(Path(folder, "model"))
        return Path(folder, "model").read_bytes()


def assert_same(one: ReduNetClassifier, other: ReduNetClassifier, new: Any) -> None:
    for ask in ("predict", "predict_proba", "decision_function", "transform"):
        assert np.array_equal(getattr(one, ask)(new), getattr(other, ask)(new)), ask
    assert one.classes_.dtype == other.classes_.dtype
    assert one.moments_ == other.moments_
    assert file_of(one) == file_of(other)


def refusal(path: Path, kind: type[ReduNetError] = ModelFileError) -> str:
    """The message with which a file is refused."""
    with pytest.raises(kind) as caught:
        ReduNetClassifier.load(path)
    assert "\n" not in str(caught.value)
    return str(caught.value).replace(str(path), "FILE")


# Round trips


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize(
    "names", [range(4), [-(2**63), -1, 7, 2**63 - 1], ["d", "B", "é", "aa"], ODD[:4], ODD[8:]]
)
def test_a_loaded_model_answers_to_the_bit(tmp_path: Path, names: Any, dtype: str) -> None:
    model = fresh(dtype=dtype, step_kind="relative", sharpness=3).fit(X, np.array(names)[y])
    model.save(tmp_path / "model")
    loaded = ReduNetClassifier.load(tmp_path / "model")
    assert_same(model, loaded, NEW)
    assert sorted(names) == loaded.classes_.tolist()
    assert loaded.get_params() == model.get_params()


@given(st.lists(st.text(), min_size=1, max_size=8, unique=True), st.integers(0, 9))
@settings(max_examples=25, deadline=None)
def test_any_strings_are_labels(names: list[str], seed: int) -> None:
    labels = np.array(names)[np.random.default_rng(seed).integers(0, len(names), len(X))]
    model = fresh().fit(X, labels)
    with tempfile.TemporaryDirectory() as folder:
        model.save(Path(folder, "m"))
        assert ReduNetClassifier.load(Path(folder, "m")).moments_ == model.moments_


def test_feature_names_return(tmp_path: Path) -> None:
    frame = pd.DataFrame(X, columns=["a", "é", "日", " ", "\n", ""])
    model = fresh().fit(frame, y)
    model.save(tmp_path / "model")
    loaded = ReduNetClassifier.load(tmp_path / "model")
    assert_same(model, loaded, frame)
    assert loaded.feature_names_in_.tolist() == list(frame.columns)
    with pytest.raises(ReduNetError, match="feature names should match"):
        loaded.predict(frame.rename(columns={"a": "b"}))


THREES = torch.full((2, 2, 2), 3.0, dtype=torch.float64)
MAPS: dict[str, FeatureMap] = {
    "flatten": Flatten((2, 2, 2)),
    "standardize": Standardize.learn(IMAGES),
    "standardize-pixel": Standardize.learn(IMAGES[:9], per="pixel"),
    "standardize-shared": Standardize((2, 2, 2), THREES, THREES),
    "lift": GaussianLift(3, (2, 2, 2), n_kernels=2),
    "lift-linear": GaussianLift(np.int64(3), (2, 2, 2), n_kernels=2, relu=False),  # type: ignore[arg-type]
    "lift-mean": GaussianLift.learn(IMAGES, seed=3, n_kernels=2),
}


@pytest.mark.parametrize("features", MAPS.values(), ids=MAPS)
@pytest.mark.parametrize("shape", [(-1, 2, 2, 2), (-1, 8)], ids=["images", "rows"])
def test_feature_maps_return(tmp_path: Path, features: FeatureMap, shape: tuple[int, ...]) -> None:
    images = IMAGES.reshape(shape)
    model = fresh(features=features).fit(images, y)
    model.save(tmp_path / "model")
    loaded = ReduNetClassifier.load(tmp_path / "model")
    assert_same(model, loaded, images)
    assert type(loaded.features) is type(features)
    assert_same(model.partial_fit(images[:5], y[:5]), loaded.partial_fit(images[:5], y[:5]), images)


def test_a_file_midway_changes_nothing(tmp_path: Path) -> None:
    params = {"normalize": "class", "input_range": (-8.0, 8.0), "dtype": "float32"}
    model = fresh(**params)
    whole = fresh(**params).fit(X, y)
    for rows in np.split(np.arange(len(X)), [1, 2, 11, 30]):
        model.partial_fit(X[rows], y[rows]).save(tmp_path / "model")
        if rows[0] % 2:
            model.predict(NEW)
        model = ReduNetClassifier.load(tmp_path / "model")
        assert model.input_range == (-8.0, 8.0)
    assert_same(model, whole, NEW)
    assert_same(model.forget([1]).unlearn(X[y == 2][:3], y[y == 2][:3]), copy.copy(model), NEW)


# Equal models, equal files


@given(st.randoms(use_true_random=False), st.integers(1, 12))
@settings(max_examples=15, deadline=None)
def test_order_and_batches_leave_no_trace(rng: random.Random, batch: int) -> None:
    order = rng.sample(range(len(X)), len(X))
    model = fresh()
    for start in range(0, len(X), batch):
        rows = order[start : start + batch]
        model.partial_fit(X[rows], y[rows])
    expected = fresh().fit(X, y)
    assert hashlib.sha256(file_of(model)).digest() == hashlib.sha256(file_of(expected)).digest()
    model.predict(NEW)
    assert file_of(model) == file_of(model) == file_of(expected)


def test_device_and_memory_are_no_part_of_a_model() -> None:
    data = file_of(fresh().fit(X, y))
    assert file_of(fresh(device="cpu", memory=12345).fit(X, y)) == data
    for word in (b"device", b"cpu", b"memory", b"2GB"):
        assert word not in data


@pytest.mark.parametrize(
    "change",
    [
        {"n_layers": 5}, {"eps": 0.4}, {"step": 0.4}, {"step_decay": 0.9}, {"dtype": "float32"},
        {"step_kind": "relative"}, {"sharpness": 2}, {"n_components": 3}, {"n_components": None},
        {"normalize": "class", "input_range": (-9, 9)}, {"features": Flatten((6,))},
        {"features": Flatten((3, 2))},
    ],
    ids=str,
)  # fmt: skip
def test_whatever_changes_a_label_changes_the_file(change: dict[str, Any]) -> None:
    assert file_of(fresh(**change).fit(X, y)) != file_of(fresh().fit(X, y))


def big() -> tuple[NDArray[Any], NDArray[Any]]:
    """Enough for threads to share the work."""
    X, y = classes_on_subspaces(k=3, d=96, per_class=700, rank=9)
    return X, np.array(["one", "two", "three"])[y]


def test_processes_and_threads_write_one_file(tmp_path: Path) -> None:
    children = []
    for seed, threads in enumerate(["1", "2", "2"]):
        own = {"PYTHONHASHSEED": str(seed), "OMP_NUM_THREADS": threads}
        children.append(start("learn", tmp_path / str(seed), str(seed), environment=own))
    outputs = [child.communicate(timeout=120)[0] for child in children]
    assert [json.loads(output) for output in outputs] == [1, 2, 2]
    expected = file_of(fresh().fit(*big()))
    assert [Path(tmp_path, str(seed)).read_bytes() == expected for seed in range(3)] == [True] * 3


# The layout


def header(data: bytes) -> dict[str, Any]:
    length = int.from_bytes(data[:8], "little")
    entries: dict[str, Any] = json.loads(data[8 : 8 + length])
    return entries


@pytest.mark.parametrize("labels", [range(4), ["é", "b", "\ud800", "a"]], ids=["int", "str"])
def test_layout(labels: Any) -> None:
    data = file_of(fresh().fit(X, np.array(labels)[y]))
    entries = header(data)
    [text] = entries.pop("__metadata__").values()
    assert {name: (entry["dtype"], entry["shape"]) for name, entry in entries.items()} == {
        "counts": ("I64", [4]),
        "sums": ("I64", [4, 6]),
        "second_moments": ("I64", [4, 6 * 7 // 2]),
    }
    # Header and numbers are all there is, so there is no room for a pickle.
    numbers = 8 * 4 * (1 + 6 + 21)
    assert len(data) == 8 + int.from_bytes(data[:8], "little") + numbers
    entry = json.loads(text)
    assert text == json.dumps(entry, sort_keys=True, separators=(",", ":"))
    assert set(entry) == {"version", "content", "checksum"}
    assert entry["version"] == 1
    assert len(bytes.fromhex(entry["checksum"])) == 32
    assert entry["content"]["labels"] == sorted(labels)
    assert entry["content"]["label_type"] == type(labels[0]).__name__
    assert entry["content"]["settings"] == {
        "n_layers": 4, "eps": 0.5, "step": 0.5, "step_decay": 0.933, "step_kind": "absolute",
        "sharpness": 1.0, "n_components": 2, "dtype": "float64",
    }  # fmt: skip


def test_a_model_of_mnist_size_is_under_25_megabytes(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    model = fresh().fit(rng.integers(0, 256, (40, 784)), np.arange(40) % 10)
    model.save(tmp_path / "model")
    assert 24_600_000 < (tmp_path / "model").stat().st_size < 25_000_000
    assert ReduNetClassifier.load(tmp_path / "model").moments_ == model.moments_


# Damage

TINY = file_of(fresh(n_components=1).fit(X[:, :2], y % 2))
COUNTS, SUMS, SECOND = (
    safetensors.torch.load(TINY)[name] for name in ("counts", "sums", "second_moments")
)


@pytest.fixture(scope="module")
def damaged(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("damaged") / "model"


@pytest.mark.parametrize("mask", [0x01, 0x80, 0xFF])
def test_every_byte_counts(damaged: Path, mask: int) -> None:
    for index in range(len(TINY)):
        data = bytearray(TINY)
        data[index] ^= mask
        damaged.write_bytes(data)
        assert "another copy" in (message := refusal(damaged)) or "upgrade" in message


def test_every_truncation_is_noticed(damaged: Path) -> None:
    for length in range(len(TINY)):
        damaged.write_bytes(TINY[:length])
        assert "another copy" in refusal(damaged)


@given(st.integers(0, len(TINY)), st.integers(0, 20), st.binary(max_size=20))
@settings(max_examples=200, deadline=None)
def test_bytes_put_in_taken_out_or_exchanged(
    damaged: Path, start: int, length: int, insert: bytes
) -> None:
    data = TINY[:start] + insert + TINY[start + length :]
    damaged.write_bytes(data)
    if data != TINY:
        assert refusal(damaged)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\x00" * 100,
        b"label,x\n1,2\n",
        "ünïcode, but no model".encode(),
        random.Random(0).randbytes(5000),
        TINY + b"\x00",
        TINY + TINY,
        safetensors.torch.save({"weight": torch.ones(3)}),
        safetensors.torch.save({"weight": torch.ones(3)}, {"format": "pt"}),
        safetensors.torch.save({"a": torch.ones(3)}, {"redunet": "no JSON"}),
        safetensors.torch.save({"a": torch.ones(3).bool()}, {"redunet": '{"version":1}'}),
    ],
    ids=["empty", "zeros", "text", "utf-8", "random", "appended", "twice", "other", "format",
         "entry", "content"],
)  # fmt: skip
def test_what_is_no_model_is_refused(damaged: Path, data: bytes) -> None:
    damaged.write_bytes(data)
    assert "another copy" in refusal(damaged)


def test_no_depth_of_nesting_is_too_much(damaged: Path) -> None:
    for depth in range(sys.getrecursionlimit()):  # where reading ends and writing does is no matter
        nest = f'{{"version":1,"content":{"[" * depth + "]" * depth}}}'
        damaged.write_bytes(safetensors.torch.save({"counts": COUNTS}, {"redunet": nest}))
        assert "another copy" in refusal(damaged)


def test_a_newer_version_asks_for_an_upgrade(
    damaged: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(storage, "FORMAT_VERSION", 2)
        storage.save(damaged, {"other": torch.ones(1)}, ["what a later version may hold"])
    assert "version 2" in (message := refusal(damaged))
    assert "upgrade redunet" in message


def flatten(**values: Any) -> dict[str, Any]:
    return {"kind": "flatten", "values": values}


WRONG_CONTENT: list[tuple[str, Any]] = [
    ("labels", [0]), ("labels", [0, 1, 2]), ("labels", [0, 0]), ("labels", [1, 0]), ("labels", 3),
    ("labels", [0, "1"]), ("labels", [0.0, 1.0]), ("labels", "ab"), ("labels", [False, True]),
    ("labels", [[0], [1]]), ("labels", []), ("labels", None), ("label_type", "str"),
    ("label_type", "float"), ("label_type", None), ("n_features_in", 3), ("n_features_in", "2"),
    ("n_features_in", None), ("n_features_in", 0), ("feature_names", ["a"]), ("feature_names", 3),
    ("feature_names", [1, 2]), ("feature_names", "ab"), ("settings", []), ("settings", None),
    ("settings.eps", -1.0), ("settings.eps", "1"), ("settings.unknown", 1), ("unknown", 1),
    ("settings.n_layers", 2.5), ("settings.dtype", "float16"), ("embedding", None),
    ("embedding.normalize", "none"), ("embedding.input_range", [0, 1]),
    ("embedding.features", {"kind": "unknown", "values": {}}), ("embedding.features", []),
    ("embedding.features", flatten()), ("embedding.features", flatten(input_shape=[5])),
    ("embedding.features", flatten(input_shape=5)), ("embedding.features", flatten(other=[2])),
    ("embedding.features", {"kind": "flatten", "values": ["input_shape"]}),
    ("embedding.features", {"kind": "standardize", "values": {"input_shape": [2]}}),
]  # fmt: skip
WRONG_TENSORS: dict[str, Any] = {
    "counts-zero": COUNTS * 0, "counts-negative": -COUNTS, "counts-over": COUNTS + 2**23,
    "counts-float": COUNTS.double(), "counts-int32": COUNTS.int(), "counts-short": COUNTS[:1],
    "counts-column": COUNTS[:, None], "counts-fewer": COUNTS * 0 + 1, "counts-gone": None,
    "sums-float": SUMS.double(), "sums-bool": SUMS.bool(), "sums-flat": SUMS.flatten(),
    "sums-wide": torch.zeros(2, 3).long(), "sums-large": SUMS * 0 + 2**62, "sums-gone": None,
    "sums-least": SUMS * 0 - 2**63, "sums-none": torch.zeros(2, 0).long(),
    "second_moments-float": SECOND.double(), "second_moments-int32": SECOND.int(),
    "second_moments-negative": -SECOND, "second_moments-large": SECOND * 0 + 2**62,
    "second_moments-square": torch.zeros(2, 2, 2).long(), "second_moments-gone": None,
    "unknown-tensor": COUNTS, "features.mean-tensor": COUNTS,
}  # fmt: skip


@pytest.mark.parametrize(("where", "value"), WRONG_CONTENT, ids=str)
def test_content_that_makes_no_model_is_refused(damaged: Path, where: str, value: Any) -> None:
    damaged.write_bytes(TINY)
    tensors, content = storage.load(damaged)
    *parents, last = where.split(".")
    entry = content
    for name in parents:
        entry = entry[name]
    entry[last] = value
    storage.save(damaged, tensors, content)
    assert refusal(damaged)


@pytest.mark.parametrize("case", WRONG_TENSORS)
def test_tensors_that_make_no_model_are_refused(damaged: Path, case: str) -> None:
    damaged.write_bytes(TINY)
    tensors, content = storage.load(damaged)
    tensors[case.split("-")[0]] = WRONG_TENSORS[case]
    kept = {name: tensor for name, tensor in tensors.items() if tensor is not None}
    storage.save(damaged, kept, content)
    assert refusal(damaged)


# Writing


def listing(folder: Path) -> list[str]:
    return sorted(os.listdir(folder))


def failure(path: Path) -> str:
    """The message with which a save fails."""
    with pytest.raises(FileAccessError) as caught:
        fresh(n_components=1).fit(X[:, :3], y).save(path)
    assert isinstance(caught.value, OSError)
    assert "\n" not in str(caught.value)
    return str(caught.value)


@contextmanager
def powerless() -> Iterator[None]:
    """Without root's right to write everywhere."""
    user = os.geteuid()
    if user == 0:
        os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(user)


@pytest.fixture
def shared() -> Iterator[Path]:
    """A folder that other users can reach, which pytest's own are not, with a model in it."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o777)
        (folder / "model").write_bytes(TINY)
        yield folder
        folder.chmod(0o777)


def test_a_folder_without_write_permission(shared: Path) -> None:
    shared.chmod(0o555)
    with powerless():
        assert "Permission denied" in failure(shared / "model")
        assert "Permission denied" in failure(shared / "new")
    assert listing(shared) == ["model"]
    assert (shared / "model").read_bytes() == TINY


def test_a_file_or_folder_without_read_permission(shared: Path) -> None:
    (shared / "model").chmod(0o000)
    with powerless():
        assert "Permission denied" in refusal(shared / "model", FileAccessError)
    shared.chmod(0o000)
    with powerless():
        assert "Permission denied" in refusal(shared / "model", FileAccessError)
        assert "Permission denied" in failure(shared / "model")


def test_a_folder_that_can_be_written_but_not_listed(shared: Path) -> None:
    shared.chmod(0o733)
    message = ""
    with powerless():
        try:
            fresh().fit(X, y).save(shared / "model")
        except FileAccessError as error:
            message = str(error)
    assert ("unchanged" in message) == ((shared / "model").read_bytes() == TINY)
    assert listing(shared) == ["model"]


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("missing/model", "No such file"),
        ("file/model", "Not a directory"),
        ("x" * 300, "name too long"),
        ("two\nlines/model", "No such file"),
        ("nul\0", "null byte"),
        ("folder", "a folder is in the way|Is a directory"),
        (".", "a folder is in the way|Is a directory"),
    ],
    ids=["missing", "file", "long", "lines", "nul", "folder", "here"],
)
def test_paths_that_lead_nowhere(tmp_path: Path, name: str, message: str) -> None:
    (tmp_path / "file").write_bytes(TINY)
    (tmp_path / "folder").mkdir()
    assert re.search(message, failure(tmp_path / name))
    assert re.search(message, refusal(tmp_path / name, FileAccessError))
    assert listing(tmp_path) == ["file", "folder"]
    assert listing(tmp_path / "folder") == []


@pytest.mark.parametrize("step", ["fsync", "replace", "truncate"])
@pytest.mark.parametrize("old", [TINY, None], ids=["over", "new"])
def test_a_full_disk_leaves_the_old_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str, old: bytes | None
) -> None:
    def full(*_: object) -> NoReturn:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    path = tmp_path / "model"
    if old:
        path.write_bytes(old)
    if step == "truncate":  # a real limit: the third hundred bytes find no room
        soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (300, hard))
        try:
            assert "File too large" in failure(path)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    else:
        with monkeypatch.context() as patch:
            patch.setattr(os, step, full)
            assert "No space left" in failure(path)
    assert listing(tmp_path) == (["model"] if old else [])
    assert not old or path.read_bytes() == old
    fresh().fit(X, y).save(path)
    assert listing(tmp_path) == ["model"]


def test_an_error_after_the_rename_claims_nothing_false(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, calls = os.fsync, iter([True, False])

    def fail_second(handle: int) -> None:
        if not next(calls):
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        real(handle)

    path = tmp_path / "model"
    path.write_bytes(TINY)
    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", fail_second)
        message = failure(path)
    assert ("unchanged" in message) == (path.read_bytes() == TINY)
    assert listing(tmp_path) == ["model"]


def test_leftovers_of_any_size_are_removed(tmp_path: Path) -> None:
    model = fresh().fit(X, y)
    with pytest.MonkeyPatch.context() as patch:  # what a killed save leaves, found by looking
        patch.setattr(os, "replace", lambda source, _: Path(source).with_name("x").touch())
        patch.setattr(Path, "unlink", lambda *_, **__: None)
        model.save(tmp_path / "model")
    [leftover] = set(listing(tmp_path)) - {"x"}
    for size in (0, 10, 10**6):
        (tmp_path / leftover).write_bytes(b"?" * size)
        model.save(tmp_path / "model")
        assert listing(tmp_path) == ["model", "x"]
        assert (tmp_path / "model").read_bytes() == file_of(model)


# Killed processes


def start(
    *arguments: str | Path, environment: dict[str, str] | None = None
) -> subprocess.Popen[bytes]:
    """This file as a program."""
    own = {"PYTHONPATH": os.pathsep.join(sys.path), **(environment or {})}
    return subprocess.Popen(
        [sys.executable, "-m", "tests.test_storage", *map(str, arguments)],
        cwd=ROOT,
        env={**os.environ, **own},
        stdout=subprocess.PIPE,
    )


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What a process found that killed its children while they saved."""
    program = start("kill", tmp_path_factory.mktemp("killed") / "model")
    output, _ = program.communicate(timeout=300)
    assert program.returncode == 0
    found: dict[str, Any] = json.loads(output)
    return found


@pytest.mark.parametrize("before", ["old", "none"])
def test_a_kill_before_each_line_leaves_a_whole_file(killed: dict[str, Any], before: str) -> None:
    moments = killed[f"lines over {before}"]
    found = [moment["found"] for moment in moments]
    assert set(found) == {before, "new"}
    assert found == sorted(found, reverse=True)  # the old one until the new one
    assert any(
        set(moment["folder"]) > set() if before == "none" else {"model"} for moment in moments
    )
    assert all(moment["folder after a save"] == ["model"] for moment in moments)
    lines = [moment["line"] for moment in moments]
    for step, times in {"write(data)": 1, "os.fsync(": 2, "os.replace(": 1, "os.close(": 1}.items():
        assert sum(step in line for line in lines) >= times, step


def test_fifty_kills_at_random_moments_leave_a_whole_file(killed: dict[str, Any]) -> None:
    moments = killed["random"]
    assert len(moments) == 50
    assert {moment["found"] for moment in moments} == {"old", "new"}
    assert any(len(moment["folder"]) > 1 for moment in moments)
    assert all(moment["folder after a save"] == ["model"] for moment in moments)


def test_two_processes_that_save_at_once_do_so_in_turn(killed: dict[str, Any]) -> None:
    race = killed["race"]
    assert race["exits"] == [0, 0]
    assert set(race["seen"]) == {"old", "new"}
    assert race["folder"] == ["model"]


class Saver:
    """Saves two models over one path, in children that get killed."""

    def __init__(self, path: Path) -> None:
        self.path = path
        X, y = classes_on_subspaces(k=3, d=80, per_class=9, rank=2)
        self.models = {
            "old": ReduNetClassifier().fit(X, y),
            "new": ReduNetClassifier().fit(X[1:], y[1:]),
        }
        self.files = {file_of(model): name for name, model in self.models.items()}
        self.save("old")

    def save(self, name: str, times: int = 1) -> None:
        for _ in range(times):
            self.models[name].save(self.path)

    def found(self) -> str:
        """Which model the file is."""
        return self.files.get(self.path.read_bytes(), "broken") if self.path.exists() else "none"

    def after_kill(self) -> dict[str, Any]:
        found, folder = self.found(), listing(self.path.parent)
        self.save("old")
        return {"found": found, "folder": folder, "folder after a save": listing(self.path.parent)}

    def child(self, work: Callable[[int], object]) -> tuple[int, int]:
        """A process that works, with a pipe to tell how far it is: its id, and the pipe's end."""
        reader, writer = os.pipe()
        pid = os.fork()
        if pid:
            os.close(writer)
            return pid, reader
        status = 1
        try:
            work(writer)
            status = 0
        finally:
            os._exit(status)

    def save_until_line(self, number: int, pipe: int) -> None:
        """Save the new model, but kill this process before the given line of storage.py."""
        count = 0

        def trace(frame: FrameType, event: str, _: object) -> Any:
            nonlocal count
            if frame.f_code.co_filename != storage.__file__:
                return None
            count += event == "line"
            if count == number:
                os.write(pipe, linecache.getline(storage.__file__, frame.f_lineno).encode())
                os.kill(os.getpid(), signal.SIGKILL)
            return trace

        sys.settrace(trace)
        self.save("new")

    def lines(self, before: str) -> list[dict[str, Any]]:
        """Kill before each line that a save comes to, until one lives to its end."""
        moments: list[dict[str, Any]] = []
        while True:
            if before == "none":
                self.path.unlink()
            pid, pipe = self.child(partial(self.save_until_line, len(moments) + 1))
            with open(pipe) as lines:
                line = lines.read()
            if os.waitpid(pid, 0)[1] != signal.SIGKILL:
                return moments
            moments.append({"line": line, **self.after_kill()})

    def save_forever(self, pipe: int) -> None:
        self.save("new")
        os.close(pipe)
        while True:
            self.save("old")
            self.save("new")

    def random(self, times: int) -> list[dict[str, Any]]:
        rng, moments = random.Random(0), []
        for _ in range(times):
            pid, pipe = self.child(self.save_forever)
            with open(pipe) as lines:
                lines.read()
            time.sleep(rng.uniform(0, 0.02))
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            moments.append(self.after_kill())
        return moments

    def race(self, times: int) -> dict[str, Any]:
        """Two children save at once, and the file is read all the while."""
        seen, exits = set(), []
        running = [self.child(lambda _, n=name: self.save(n, times))[0] for name in self.models]  # type: ignore[misc]
        while running:
            seen.add(self.found())
            for pid in running.copy():
                ended, status = os.waitpid(pid, os.WNOHANG)
                if ended:
                    running.remove(pid)
                    exits.append(status)
        return {"exits": exits, "seen": sorted(seen), "folder": listing(self.path.parent)}


def main(job: str, path: Path, seed: str = "") -> object:
    if job == "learn":
        X, y = big()
        model = fresh()
        for rows in np.array_split(np.random.default_rng(int(seed)).permutation(len(X)), 5):
            model.partial_fit(X[rows], y[rows])
        model.save(path)
        return torch.get_num_threads()
    torch.set_num_threads(1)
    saver = Saver(path)
    return {
        "lines over old": saver.lines("old"),
        "lines over none": saver.lines("none"),
        "random": saver.random(50),
        "race": saver.race(60),
    }


if __name__ == "__main__":
    json.dump(main(sys.argv[1], Path(sys.argv[2]), *sys.argv[3:]), sys.stdout)
