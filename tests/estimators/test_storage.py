"""Model files: what they hold, and that equal models are equal files."""

from __future__ import annotations

import copy
import hashlib
import json
import random
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from redunet import ModelFileError, ReduNetClassifier, ReduNetError
from redunet.estimators import storage
from redunet.features import Flatten
from tests.conftest import classes_on_subspaces

ROOT = Path(__file__).parents[2]
X, y = classes_on_subspaces(k=4, d=6, per_class=9, rank=2)
NEW = np.random.default_rng(1).standard_normal((11, 6))
IMAGES = np.random.default_rng(2).integers(0, 256, (36, 2, 2, 2)).astype(np.uint8)
ODD = ["", " ", "a\nb", "\x00x", '"\\', "é", "e\u0301", "日本", "😀", "\x7f", "null", "1"]


pytestmark = pytest.mark.usefixtures("one_thread")


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


TINY = file_of(fresh(n_components=1).fit(X[:, :2], y % 2))


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


# The layout


def header(data: bytes) -> dict[str, Any]:
    length = int.from_bytes(data[:8], "little")
    entries: dict[str, Any] = json.loads(data[8 : 8 + length])
    return entries


@pytest.mark.parametrize("labels", [range(4), ["é", "b", "\x7f", "a"]], ids=["int", "str"])
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


def test_a_class_of_few_samples_takes_the_numbers_of_as_many_columns(tmp_path: Path) -> None:
    few = np.random.default_rng(0).standard_normal((40, 784))
    model = fresh().fit(few, np.arange(40) % 10)
    model.save(tmp_path / "model")
    numbers = 10 * (1 + 784 + 1 + 4 + 4 * 784 - 6)  # count, sum, number, places, entries
    assert 8 * numbers < (tmp_path / "model").stat().st_size < 8 * numbers + 2_000
    assert ReduNetClassifier.load(tmp_path / "model").moments_ == model.moments_


def test_sizes_are_those_of_the_tensors(tmp_path: Path) -> None:
    tensors = {
        "b": torch.zeros(3, 5, dtype=torch.int64),
        "a.x": torch.zeros(7, dtype=torch.uint8),
        "empty": torch.zeros(0),
    }
    storage.save(tmp_path / "model", tensors, {"some": "content"})
    assert storage.sizes(tmp_path / "model") == {"a.x": 7, "b": 120, "empty": 0}
    model = fresh().fit(X, y)
    model.save(tmp_path / "model")
    sizes = storage.sizes(tmp_path / "model")
    assert sizes == {"counts": 4 * 8, "sums": 4 * 6 * 8, "second_moments": 4 * 21 * 8}
