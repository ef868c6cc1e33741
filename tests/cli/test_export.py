"""The command `export`: what it writes, what it says of it, and what it refuses."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pandas as pd
import pytest
from numpy.typing import NDArray

from redunet import ReduNetClassifier
from redunet.estimators import load
from redunet.features import Flatten, base
from tests.own_data import (
    COLUMNS,
    IMAGES,
    SHAPE,
    WORDS,
    done,
    refused,
    write_csv,
    write_images,
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
    assert "input samples, n x 3 x 4, float64" in said
    assert "output label, scores, probabilities" in said
    assert "of the network's 12, float32" in said
    assert "samples checked 60 labels that differ 0" in said
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


def test_samples_come_in_every_format(model: Path, tmp_path: Path) -> None:
    folder = write_images(tmp_path / "photos", ROWS)
    for data in (folder, write_csv(tmp_path / "t", ROWS)):
        words = ("export", model, "-o", tmp_path / "m.onnx", "--samples", data, "--json")
        assert json.loads(done(*words).stdout)["samples"] == 60
    twice = ("--samples", folder, "--samples", tmp_path / "d.npz")
    result = done("export", model, "-o", tmp_path / "m.onnx", *twice, "--json")
    assert json.loads(result.stdout)["samples"] == 120


def test_tables_with_column_names(tmp_path: Path) -> None:
    table = write_csv(tmp_path / "t", ROWS)
    done("learn", tmp_path / "model", table, "--set", "n_layers=3")
    for samples in (("--samples", table), ()):
        result = done("export", tmp_path / "model", "-o", tmp_path / "m.onnx", *samples, "--json")
        assert json.loads(result.stdout)["input_shape"] == [12]
    named = pd.DataFrame(IMAGES.reshape(-1, 12), columns=COLUMNS)
    wanted = load(tmp_path / "model").predict(named).tolist()
    assert labels_of(tmp_path / "m.onnx", IMAGES) == wanted


def test_without_samples_some_are_made(model: Path, tmp_path: Path) -> None:
    result = done("export", model, "-o", tmp_path / "m.onnx")
    assert "1,024, random input" in " ".join(result.stdout.split())
    assert "give real ones with --samples" in result.stderr


@pytest.mark.parametrize("suffix", ["onnx", "pt2"])
@pytest.mark.parametrize(
    "recipe",
    ["vectors", "tables", "images"],
)
def test_every_recipe_is_exported_without_samples(recipe: str, suffix: str, tmp_path: Path) -> None:
    data, few = write_csv(tmp_path / "t", ROWS), list[str]()
    if recipe == "images":
        np.savez(tmp_path / "i.npz", X=np.repeat(np.repeat(IMAGES, 5, 1), 4, 2), y=WORDS)
        data, few = tmp_path / "i.npz", ["n_filters=4", "n_components=3"]
    settings = [word for one in few for word in ("--set", one)]
    done("learn", tmp_path / "model", data, "--recipe", recipe, *settings)
    found = done("export", tmp_path / "model", "-o", tmp_path / f"m.{suffix}", "--json")
    assert json.loads(found.stdout)["samples"] >= 1024


def test_a_torch_program(model: Path, tmp_path: Path) -> None:
    out = tmp_path / "m.bin"
    words = ("-o", out, "--format", "torch", "--samples", tmp_path / "d.npz", "--json")
    found = json.loads(done("export", model, *words).stdout)
    assert found["outputs"] == ["index", "scores", "probabilities"]
    assert out.read_bytes()[:2] == b"PK"


def test_other_estimators_have_no_layers(tmp_path: Path) -> None:
    data, model = write_npz(tmp_path / "d", ROWS), tmp_path / "lda"
    done("learn", model, data, "--estimator", "linear-discriminant")
    result = done("export", model, "-o", tmp_path / "m.onnx", "--samples", data)
    assert "layers" not in result.stdout
    assert "treat" not in result.stderr
    assert labels_of(tmp_path / "m.onnx", IMAGES) == load(model).predict(IMAGES).tolist()
    assert set(labels_of(tmp_path / "m.onnx", IMAGES)) <= set(WORDS.tolist())


class Own(Flatten):
    kind = "own"


def test_a_feature_map_that_is_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(base._KINDS, "own", Own)
    model, out = tmp_path / "model", tmp_path / "m.onnx"
    ReduNetClassifier(n_layers=2, features=Own(SHAPE)).fit(IMAGES, WORDS).save(model)
    said = refused("export", model, "-o", out, "--samples", write_npz(tmp_path / "d", ROWS))
    assert "expected a feature map that can be exported, got 'own'" in said
    assert "--without-features" in said
    assert not out.exists()
    np.savez(tmp_path / "v.npz", x=IMAGES.reshape(len(IMAGES), -1))
    words = ("-o", out, "--without-features", "--samples", tmp_path / "v.npz", "--json")
    found = json.loads(done("export", model, *words).stdout)
    assert (found["input_shape"], found["samples"]) == ([12], 60)


def test_refusals(model: Path, tmp_path: Path) -> None:
    assert "ends in .onnx or .pt2" in refused("export", model, "-o", tmp_path / "m.bin")
    assert "among onnx, torch" in refused("export", model, "-o", tmp_path / "m", "--format", "x")
    assert "auto or all" in refused("export", model, "-o", tmp_path / "m.onnx", "--layers", "3")
    assert "cannot read" in refused("export", tmp_path / "no", "-o", tmp_path / "m.onnx")
