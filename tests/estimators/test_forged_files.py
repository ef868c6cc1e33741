"""Model files made by somebody else, with a valid checksum: refused in one line, at little cost."""

from __future__ import annotations

import copy
import os
from pathlib import Path
from typing import Any

import pytest
import torch

from redunet import FileAccessError, ModelFileError
from redunet.estimators import load, storage
from tests.fuzz.models import FIXTURES, attempt, bounded_memory, forge, original
from tests.own_data import refused

pytestmark = pytest.mark.usefixtures("one_thread")

ORIGINALS = {path.stem: original(path) for path in FIXTURES}
WITHOUT_CLASSES = {
    "counts": torch.zeros(0, dtype=torch.int64),
    "sums": torch.zeros(0, 50_000, dtype=torch.int64),
    "second_moments": torch.zeros(0, 50_000 * 50_001 // 2, dtype=torch.int64),
}
NO_COLUMNS = {
    "counts": torch.ones(2, dtype=torch.int64),
    "sums": torch.zeros(2, 50_000, dtype=torch.int64),
    "n_columns": torch.full((2,), 50_000),
    "pivots": torch.zeros(0, dtype=torch.int64),
    "second_moments": torch.zeros(0, dtype=torch.int64),
}
NO_FEATURES = {"sums": torch.zeros(10**9, 0, dtype=torch.int64)}


def forged(path: Path, name: str, tensors: dict[str, Any], changes: dict[str, Any]) -> Path:
    """A fixture with other tensors, and with other values at places such as "settings.step"."""
    old, content = copy.deepcopy(ORIGINALS[name])
    for place, value in changes.items():
        *above, last = place.split(".")
        target = content
        for key in above:
            target = target[key]
        target[last] = value
    path.write_bytes(storage.encode({**old, **tensors}, content))
    return path


def nested(kind: str, depth: int) -> Any:
    inner: Any = {"kind": "flatten", "values": {"input_shape": [2, 3]}}
    for _ in range(depth):
        inner = {"kind": kind, "values": {"plain": inner}}
    return inner


def of_map(kind: str, **values: Any) -> dict[str, Any]:
    return {"embedding.features": {"kind": kind, "values": values}}


LIFT = {"seed": 0, "relu": True, "centred": False, "learnt_from_data": False}
WEIGHTS = {"seed": 0, "input_shape": [600], "learnt_from_data": False}
HOSTILE: dict[str, tuple[str, dict[str, Any], dict[str, Any], str]] = {
    "no-classes": ("default-words", WITHOUT_CLASSES, {"labels": []}, "at least one class"),
    "no-columns": ("default-words", NO_COLUMNS, {"labels": ["a", "b"]}, "of the same classes"),
    "no-features": ("default-words", NO_FEATURES, {}, "and features"),
    "layers": ("default-words", {}, {"settings.n_layers": 10**9}, "from 0 to 10,000"),
    "sharpness": ("default-words", {}, {"settings.sharpness": 1e308}, "at most 1e"),
    "mirrors": ("default-words", {}, {"embedding.features": nested("mirrored", 40)}, "at most 8"),
    "wide": ("default-words", {}, of_map("flatten", input_shape=[10**6, 10**6]), "at most 16,777"),
    "angles": ("scattering", {}, {"embedding.features.values.L": 10**6}, "L of at most 32"),
    "channels": (
        "default-words", {},
        of_map("gaussian-lift", **LIFT, input_shape=[2, 1, 10**9], n_kernels=3), "at most 16,777",
    ),
    "kernels": (
        "default-words", {},
        of_map("gaussian-lift", **LIFT, input_shape=[2, 3, 1], n_kernels=10**9), "n_kernels",
    ),
    "seed": ("gaussian-lift", {}, {"embedding.features.values.seed": -1}, "seed"),
    "weights": (
        "default-words", {}, of_map("random-relu", **WEIGHTS, width=10**6), "at most 16,777,216 we",
    ),
    "frequencies": (
        "default-words", {}, of_map("fourier", **WEIGHTS, width=5, bandwidth=1e-300), "bandwidth",
    ),
    "root": ("default-words", {}, of_map("root", n_features=6.0), "expected samples of shape"),
    "unknown-label": ("default-words", {}, {"labels": ["a", "b", "\ud800"]}, "surrogate"),
    "nul-label": ("default-words", {}, {"labels": ["a", "b", "b\0"]}, "NUL"),
    "large-label": ("flatten", {}, {"labels": [0, 1, 2**63]}, "64 bits|classes"),
}  # fmt: skip


@pytest.mark.parametrize("case", HOSTILE)
def test_hostile_values_are_refused_before_they_cost_anything(tmp_path: Path, case: str) -> None:
    path = forged(tmp_path / "model", *HOSTILE[case][:3])
    with bounded_memory(), pytest.raises(ModelFileError, match=HOSTILE[case][3]):
        load(path)
    assert "model" in refused("verify", path)


BAD_TENSORS: dict[str, tuple[str, str, Any, str]] = {
    "mean-shape": ("standardize", "features.mean", lambda t: t.reshape(1, 1), "expected mean"),
    "mean-nan": ("standardize", "features.mean", lambda t: t * float("nan"), "finite"),
    "mean-dtype": ("standardize-pixel", "features.mean", lambda t: t.float(), "float64"),
    "deviation-zero": ("standardize", "features.deviation", lambda t: t * 0, "above 0"),
    "filters-dtype": ("patch-filters", "features.filters", lambda t: t.float(), "float64"),
    "filters-size": ("patch-filters", "features.filters", lambda t: t[:, :-1], "expected filters"),
    "offsets": ("patch-filters", "features.offsets", lambda t: t / 0, "finite"),
    "mean-image": ("gaussian-lift-mean", "features.mean_image", lambda t: t[:-1], "mean_image"),
}


@pytest.mark.parametrize("case", BAD_TENSORS)
def test_maps_that_do_not_fit_their_values_are_refused(tmp_path: Path, case: str) -> None:
    name, tensor, change, message = BAD_TENSORS[case]
    changed = change(ORIGINALS[name][0][tensor]).contiguous()
    path = forged(tmp_path / "model", name, {tensor: changed}, {})
    with pytest.raises(ModelFileError, match=message):
        load(path)


def test_forged_files_are_refused_or_used() -> None:
    assert forge(150, seed=7) == []


@pytest.mark.parametrize("path", FIXTURES, ids=lambda path: path.stem)
def test_genuine_files_pass_the_same_examination(path: Path) -> None:
    assert attempt(path) is None


@pytest.mark.parametrize("command", ["verify", "inspect"])
def test_pipes_devices_and_folders_are_refused(tmp_path: Path, command: str) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path, kind in ((tmp_path / "pipe", "pipe"), (tmp_path, "folder"), ("/dev/zero", "device")):
        assert f"expected a regular file, got a {kind}" in refused(command, path)
        with pytest.raises(FileAccessError, match=kind):
            load(path)
        with pytest.raises(FileAccessError, match=kind):
            storage.sizes(path)
