"""The command `export`: what it writes, what it says of it, and what it refuses."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest
from numpy.typing import NDArray

from redunet.estimators import load
from tests.own_data import (
    IMAGES,
    done,
    refused,
    write_npz,
)

pytestmark = pytest.mark.usefixtures("one_thread")

ROWS = range(len(IMAGES))


@pytest.fixture
def model(tmp_path: Path) -> Path:
    path = tmp_path / "model.safetensors"
    done("learn", path, write_npz(tmp_path / "d", ROWS), "--set", "n_layers=12")
    return path


def labels_of(path: Path, samples: NDArray[Any]) -> list[object]:
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    shape = session.get_inputs()[0].shape[1:]
    samples = samples.reshape(len(samples), *shape).astype(np.float64)
    found: list[object] = session.run(["label"], {"samples": samples})[0].tolist()
    return found


def test_it_says_what_was_exported_and_checked(model: Path, tmp_path: Path) -> None:
    out = tmp_path / "m.onnx"
    result = done("export", model, "-o", out, "--samples", tmp_path / "d.npz")
    said = " ".join(result.stdout.split())
    assert f"Exported {model}: {out}, {out.stat().st_size / 1e6:.2f} MB" in said
    assert "Input: samples, n x 3 x 4, float64." in said
    assert "Output: label, scores, probabilities." in said
    assert "of the network's 12, float32" in said
    assert "Checked on 60 samples: 0 labels differ" in said
    assert "second moment" in said
    assert "treat it as you treat the model" in result.stderr
    assert labels_of(out, IMAGES) == load(model).predict(IMAGES).tolist()


def test_json_has_the_same_facts(model: Path, tmp_path: Path) -> None:
    out = tmp_path / "m.onnx"
    words = (
        "export",
        model,
        "-o",
        out,
        "--samples",
        tmp_path / "d.npz",
        "--json",
        "--layers",
        "all",
    )
    found = json.loads(done(*words).stdout)
    assert (found["layers"], found["of_layers"]) == (12, 12)
    assert (found["samples"], found["differ"], found["made"]) == (60, 0, "")
    assert found["largest_difference"] < 1e-4
    assert found["bytes"] == out.stat().st_size
    assert done("export", model, "-o", out, "--quiet").stdout == ""


def test_without_samples_some_are_made(model: Path, tmp_path: Path) -> None:
    result = done("export", model, "-o", tmp_path / "m.onnx")
    assert "1,024 samples, random input" in " ".join(result.stdout.split())
    assert "give real ones with --samples" in result.stderr


def test_a_torch_program(model: Path, tmp_path: Path) -> None:
    out = tmp_path / "m.bin"
    words = ("-o", out, "--format", "torch", "--samples", tmp_path / "d.npz", "--json")
    found = json.loads(done("export", model, *words).stdout)
    assert found["outputs"] == ["index", "scores", "probabilities"]
    assert out.read_bytes()[:2] == b"PK"


def test_refusals(model: Path, tmp_path: Path) -> None:
    assert "ends in .onnx or .pt2" in refused("export", model, "-o", tmp_path / "m.bin")
    assert "among onnx, torch" in refused("export", model, "-o", tmp_path / "m", "--format", "x")
    assert "auto or all" in refused("export", model, "-o", tmp_path / "m.onnx", "--layers", "3")
    assert "cannot read" in refused("export", tmp_path / "no", "-o", tmp_path / "m.onnx")
