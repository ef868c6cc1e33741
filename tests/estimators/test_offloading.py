"""Models in memory-mapped files: the same to the bit, in little memory, and nothing left behind."""

from __future__ import annotations

import copy
import errno
import gc
import json
import os
import pickle
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import safetensors.torch
import torch
from hypothesis import given
from hypothesis import strategies as st

from redunet import FileAccessError, ReduNetClassifier, offload
from redunet.estimators import LinearDiscriminant, QuadraticDiscriminant, load, storage
from tests.conftest import classes_on_subspaces
from tests.own_data import done, refused, write_csv

X, Y = classes_on_subspaces(k=5, d=12, per_class=24, rank=3)


@pytest.fixture
def all_mapped(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let small tensors lie in files too."""
    monkeypatch.setattr("redunet.estimators.offloading._SMALL", 1)


def n_mapped(folder: Path) -> int:
    """How many files of a folder this process has mapped; none of them has a name."""
    assert list(folder.iterdir()) == []
    lines = Path("/proc/self/maps").read_text().splitlines()
    return sum(str(folder) in line and line.endswith("(deleted)") for line in lines)


def history(make: Any, folder: Path) -> list[Any]:
    """What a model answers and saves at several points of its life."""
    found: list[Any] = []

    def note(model: Any) -> Any:
        model.save(folder / "saved")
        found.append((folder / "saved").read_bytes())
        found.append(model.decision_function(X[:30]).tobytes())
        return model

    model = note(make().partial_fit_batches([(X[:40], Y[:40]), (X[40:80], Y[40:80])]))
    note(model.partial_fit(X[80:], Y[80:]))
    note(model.unlearn(X[80:], Y[80:]))
    model.unlearn_batches([(X[70:80], Y[70:80])])
    note(model.forget([int(Y[0])]))
    note(load(folder / "saved").merge(make().fit(X[:80], Y[:80])))
    return found


@pytest.mark.usefixtures("all_mapped")
@pytest.mark.parametrize("few", [0, 2**29], ids=["columns", "matrices"])
@pytest.mark.parametrize(
    "make",
    [
        lambda: ReduNetClassifier(n_layers=3, n_components=3),
        lambda: ReduNetClassifier(n_layers=3, n_components=3, memory=1, whitening=0.1),
        lambda: ReduNetClassifier(n_layers=2, readout="coding", dtype="float32", exact=True),
        LinearDiscriminant,
        QuadraticDiscriminant,
    ],
    ids=["kept", "streamed", "coding", "linear", "quadratic"],
)
@pytest.mark.filterwarnings("ignore::redunet.StreamingWarning")
def test_a_model_in_files_is_the_same_to_the_bit(
    make: Any, few: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("redunet.core.moments._ROOM", few)
    monkeypatch.setattr("redunet.core.accumulate._WAITING", 500)
    files = tmp_path / "files"
    files.mkdir()
    expected = history(make, tmp_path)
    assert n_mapped(files) == 0
    with offload(files):
        found = history(make, tmp_path)
    assert found == expected
    gc.collect()
    assert n_mapped(files) == 0


@pytest.mark.usefixtures("all_mapped")
def test_files_live_as_long_as_the_model_and_have_no_names(tmp_path: Path) -> None:
    with offload(tmp_path):
        model = ReduNetClassifier(n_components=3).fit(X, Y)
    assert n_mapped(tmp_path) >= 5
    model.partial_fit(X[:20], Y[:20]).predict(X[:3])  # after the block
    assert n_mapped(tmp_path) > 10
    twin = copy.deepcopy(model)
    other = pickle.loads(pickle.dumps(model))  # in memory, as it may go to another machine
    assert other.moments_ == twin.moments_ == model.moments_
    del model, twin
    gc.collect()
    assert n_mapped(tmp_path) == 0
    assert other.fit(X, Y).moments_ == ReduNetClassifier().fit(X, Y).moments_
    assert n_mapped(tmp_path) == 0


def test_commands_take_a_folder(tmp_path: Path) -> None:
    data = write_csv(tmp_path / "data", range(60))
    done("learn", tmp_path / "plain", data)
    done("learn", tmp_path / "m", data, "--offload", tmp_path)
    assert (tmp_path / "m").read_bytes() == (tmp_path / "plain").read_bytes()
    with_files = done("predict", tmp_path / "m", data, "--offload", tmp_path).output
    assert with_files == done("predict", tmp_path / "m", data).output
    said = refused("learn", tmp_path / "m", data, "--offload", tmp_path / "none")
    assert said.startswith(f"cannot write {tmp_path / 'none'}: No such file or directory")
    assert (tmp_path / "m").read_bytes() == (tmp_path / "plain").read_bytes()


@pytest.mark.usefixtures("all_mapped")
def test_a_full_disk_is_one_line_and_the_model_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with offload(tmp_path):
        model = ReduNetClassifier(n_components=3).fit(X[:60], Y[:60])
    before = model.moments_

    def full(*_: Any) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "posix_fallocate", full)
    with pytest.raises(FileAccessError, match="No space left on device; check the folder"):
        model.partial_fit(X[60:], Y[60:])
    assert model.moments_ is before


def life(path: Path, k: int) -> list[int]:
    """Learn k classes of 160 features, save, load and build them, and label a few samples."""

    def batches() -> Iterator[tuple[Any, Any]]:
        for label in range(k):
            rng = np.random.default_rng(label)
            yield rng.standard_normal((100, 160), dtype=np.float32), np.full(100, label)

    model: Any = ReduNetClassifier(n_layers=1, n_components=8, memory="1MB", temperature=1.0)
    model.partial_fit_batches(batches()).save(path)
    del model
    model = load(path, memory="1MB")
    new = np.random.default_rng(1).standard_normal((4, 160))
    labels: list[int] = model.predict(new).tolist()
    return labels


IN_LITTLE_MEMORY = """
import contextlib, pathlib, resource, sys
import redunet.core.accumulate
from redunet import offload
from tests.estimators.test_offloading import life

folder, model, k, most = sys.argv[1:]
redunet.core.accumulate._WAITING = 2**22
with offload(folder) if folder else contextlib.nullcontext():
    life(pathlib.Path(model), 10)  # what is allocated once
    now = next(line for line in open("/proc/self/status") if line.startswith("VmData"))
    limit = int(now.split()[1]) * 1024 + int(most)
    resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))
    print(life(pathlib.Path(model), int(k)))
"""


def test_a_killed_process_leaves_no_file_and_the_model_as_it_was(tmp_path: Path) -> None:
    program = """
import sys, time
from redunet import ReduNetClassifier, offload
from redunet.estimators import load, offloading
offloading._SMALL = 1
X = [[1.0, 2.0], [2.0, 1.0], [1.0, 1.0]]
def batches():
    for label in range(10**6):
        if label == 100:
            print("there", flush=True)
        yield X, [label] * 3
with offload(sys.argv[1]):
    load(sys.argv[2]).partial_fit_batches(batches()).save(sys.argv[2])
"""
    files, model = tmp_path / "files", tmp_path / "m"
    files.mkdir()
    ReduNetClassifier(n_components=1).fit([[1.0, 2.0]], [0]).save(model)
    before = model.read_bytes()
    words = [sys.executable, "-c", program, str(files), str(model)]
    learning = subprocess.Popen(words, stdout=subprocess.PIPE, text=True)
    assert learning.stdout is not None
    assert learning.stdout.readline() == "there\n"
    learning.kill()
    learning.communicate()
    assert learning.returncode == -signal.SIGKILL
    assert list(files.iterdir()) == []
    assert model.read_bytes() == before


DTYPES = [getattr(torch, name) for name in ("int64", "float64", "float32", "uint8", "bool")]


@given(
    st.dictionaries(
        st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=8),
        st.tuples(st.sampled_from(DTYPES), st.lists(st.integers(0, 3), max_size=3)),
        max_size=6,
    ),
    st.text(st.characters(exclude_categories=["Cs"]), max_size=9),
)
def test_files_are_as_the_library_would_write_them(shapes: dict[str, Any], word: str) -> None:
    shapes.pop("__metadata__", None)
    tensors = {
        name: torch.arange(int(np.prod(shape, dtype=int))).reshape(shape).to(dtype)
        for name, (dtype, shape) in shapes.items()
    }
    data = storage.encode(tensors, {"word": word})
    length = int.from_bytes(data[:8], "little")
    metadata = json.loads(data[8 : 8 + length])["__metadata__"]
    assert safetensors.torch.save(tensors, metadata) == data
