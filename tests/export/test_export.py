"""Exported files: the labels of the model for every sample, with nothing of this package."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from redunet import ReduNetClassifier
from redunet.core.layer import Sharpness
from redunet.core.low_rank import LowRankLayer
from redunet.errors import DataError, SettingsError
from redunet.estimators import (
    EnsembleClassifier,
    LinearDiscriminant,
    NearestMean,
    QuadraticDiscriminant,
    Ridge,
)
from redunet.estimators.predictor import StreamingWarning
from redunet.export import export, exporting, formats
from redunet.export.network import ExportedLayer
from redunet.export.onnx_graph import onnx_model
from redunet.export.program import forms, input_shape, program
from redunet.features import Deskew, Flatten, RandomReLU, Scattering, Standardize
from redunet_lab.closed_forms import AIR, SLDA, FeCAM
from tests.export.running import NAMES, X, Y, opened, outputs, same_labels

NETWORKS: dict[str, dict[str, Any]] = {
    "subspace": {},
    "coding": {"readout": "coding"},
    "discriminant": {"readout": "discriminant", "whitening": 0.1},
    "regression": {"readout": "regression", "sharpness": 10.0, "sharpness_kind": "relative"},
    "quadratic": {"readout": "quadratic", "ridge": 0.1, "normalize": "constant"},
    "pairwise": {"readout": "pairwise", "ridge": 0.1},
    "float32": {"dtype": "float32", "step": 0.05, "step_kind": "relative"},
    "early end": {"tol": 0.05, "step": 0.3, "step_kind": "relative"},
    "no layers": {"n_layers": 0},
}


@pytest.mark.parametrize("name", NETWORKS)
def test_networks_on_digits(name: str, tmp_path: Path) -> None:
    model = ReduNetClassifier(**({"n_layers": 12} | NETWORKS[name])).fit(X[::2], NAMES[::2])
    data = X[::3]
    found = export(model, tmp_path / "m.onnx", data)
    assert (found.samples, found.made) == (599, "")
    assert found.of_layers == len(model.network_.layers)
    assert found.bytes == (tmp_path / "m.onnx").stat().st_size
    samples = np.concatenate([data, np.zeros((1, 64)), 1e200 * X[:3], 1e-200 * X[:3]])
    probabilities = same_labels(model, tmp_path / "m.onnx", samples)
    every = export(model, tmp_path / "all.onnx", data, layers="all")
    assert every.layers == every.of_layers >= found.layers
    exact = model.set_params(exact=True)
    scores, sure = (outputs(tmp_path / "all.onnx", samples)[place] for place in (1, 2))
    np.testing.assert_allclose(scores, exact.decision_function(samples), rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(sure, exact.predict_proba(samples), atol=1e-3)
    np.testing.assert_allclose(probabilities.sum(axis=1), 1)


@pytest.mark.parametrize("reduced", [False, True])
@pytest.mark.parametrize("kind", ["absolute", "relative"])
def test_classes_of_few_samples(reduced: bool, kind: str, tmp_path: Path) -> None:
    random = np.random.RandomState(3)
    centres = random.standard_normal((14, 40))
    sizes = [30, 40] + [4] * 6 + [9] * 6 if not reduced else [2] * 14
    y = np.repeat(np.arange(14), sizes)
    samples = centres[y] + 0.4 * random.standard_normal((len(y), 40))
    if reduced:
        samples = np.insert(samples, 7, 0.0, axis=1)  # a feature that no sample has
    c = 1.0 if kind == "absolute" else 30.0
    model = ReduNetClassifier(
        n_layers=12,
        step=0.2,
        step_kind="relative",
        sharpness=c,
        sharpness_kind=kind,
        n_components=3,
    ).fit(samples, y)
    new = np.concatenate([samples, random.standard_normal((200, samples.shape[1]))])
    for layers in ("auto", "all"):
        found = export(model, tmp_path / "m.onnx", new, layers=layers)
        assert found.largest_difference < 0.1
        same_labels(model, tmp_path / "m.onnx", new)
    first = next(model.network_.layers.iter_reusing_memory())
    assert isinstance(first, LowRankLayer)
    assert (model.network_.layers.space is not None) == reduced
    assert reduced == (not first.dense)


def test_an_exported_layer_is_the_layer() -> None:
    model = ReduNetClassifier(n_layers=2).fit(X, Y)
    Z = torch.nn.functional.normalize(torch.from_numpy(X[:50]), dim=1)
    space = model.network_.layers.space
    Z = Z if space is None else space.rows(Z)[0]
    for layer in model.network_.layers.iter_reusing_memory():
        path = layer.step * layer.coding.alpha
        made = ExportedLayer(layer, Sharpness(1.0), path, torch.float64)
        torch.testing.assert_close(made(Z), layer.move_samples(Z, 1.0), rtol=0, atol=1e-13)


@pytest.mark.parametrize("labels", [[5], [-3, 2**40], ["a"], ["b", "ä\0c"]])
def test_one_and_two_classes(labels: list[Any], tmp_path: Path) -> None:
    y = np.array(labels, dtype=object)[Y[len(labels) > Y]]
    model = ReduNetClassifier(n_layers=5).fit(X[len(labels) > Y], y.tolist())
    found = export(model, tmp_path / "m.onnx", X)
    assert found.samples == len(X)
    same_labels(model, tmp_path / "m.onnx", X)


@pytest.mark.parametrize("data", [None, X])
@pytest.mark.parametrize(
    "estimator", [NearestMean, LinearDiscriminant, QuadraticDiscriminant, Ridge, AIR, SLDA, FeCAM]
)
def test_closed_form_estimators(estimator: Any, data: Any, tmp_path: Path) -> None:
    for options in ({}, {"normalize": "class", "input_range": (0, 16)}):
        model = estimator(**options).fit(X[::2], NAMES[::2])
        found = export(model, tmp_path / "m.onnx", data)
        assert (found.layers, found.of_layers, found.dtype) == (0, 0, "float64")
        assert found.made == ("drawn from the moments" if data is None else "")
        assert found.largest_difference < 1e-8
        probabilities = same_labels(model, tmp_path / "m.onnx", X)
        np.testing.assert_allclose(probabilities, model.predict_proba(X), atol=1e-9)


ALONE = """
import json, sys
class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in {blocked}:
            raise ImportError(name)
sys.meta_path.insert(0, Blocked())
import numpy
X = numpy.load(sys.argv[2])
{run}
print(json.dumps(labels))
"""

RUN_ONNX = """
import onnxruntime
session = onnxruntime.InferenceSession(sys.argv[1], providers=["CPUExecutionProvider"])
labels = session.run(["label"], {"samples": X})[0].tolist()
"""

RUN_TORCH = """
import torch
extra = {"labels.json": ""}
program = torch.export.load(sys.argv[1], extra_files=extra).module()
names = json.loads(extra["labels.json"])
labels = [names[i] for i in program(torch.from_numpy(X))[0].tolist()]
assert [names[program(torch.from_numpy(X[:1]))[0].item()]] == labels[:1]
"""


@pytest.mark.parametrize(
    ("suffix", "blocked", "run"),
    [("onnx", {"redunet", "torch", "sklearn", "onnx"}, RUN_ONNX), ("pt2", {"redunet"}, RUN_TORCH)],
)
def test_files_run_without_this_package(
    suffix: str, blocked: set[str], run: str, tmp_path: Path
) -> None:
    model = ReduNetClassifier(n_layers=3).fit(X[::2], NAMES[::2])
    path = tmp_path / f"m.{suffix}"
    found = export(model, path, X)
    assert found.layers >= 1
    np.save(tmp_path / "X.npy", X)
    code = ALONE.replace("{blocked}", repr(blocked)).replace("{run}", run)
    words = [sys.executable, "-c", code, str(path), str(tmp_path / "X.npy")]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    assert json.loads(done.stdout) == model.predict(X).tolist()
    # Nothing in the file says where this package lies.
    assert str(Path(exporting.__file__).parents[2]).encode() not in path.read_bytes()


def test_a_file_says_what_it_is(tmp_path: Path) -> None:
    model = ReduNetClassifier(n_layers=4).fit(X, NAMES)
    export(model, tmp_path / "m.onnx", X)
    read = onnx.load(tmp_path / "m.onnx")
    onnx.checker.check_model(read, full_check=True)
    about = {prop.key: prop.value for prop in read.metadata_props}
    assert json.loads(about["labels"]) == sorted(set(NAMES.tolist()))
    assert "determine each class's second moment" in about["holds"]
    assert [
        (one.name, one.shape, one.type) for one in opened(tmp_path / "m.onnx").get_inputs()
    ] == [("samples", ["n", 64], "tensor(double)")]
    first = (tmp_path / "m.onnx").read_bytes()
    export(ReduNetClassifier(n_layers=4).fit(X, NAMES), tmp_path / "m.onnx", X)
    assert (tmp_path / "m.onnx").read_bytes() == first


def hard_to_fuse() -> ReduNetClassifier:
    model = ReduNetClassifier(n_layers=24, readout="discriminant", whitening=0.1)
    return model.fit(X[::2], Y[::2])


def test_fusions_are_refined_until_all_labels_are_safe(tmp_path: Path) -> None:
    model = hard_to_fuse()
    tried = list(forms(model, every_layer=False))
    sizes = [len(form.blocks) for form in tried]
    assert sizes[-2:] == [24, 24]
    assert [form.dtype for form in tried[-2:]] == [torch.float32, torch.float64]
    assert sizes == sorted(sizes)
    assert len(sizes) > 3
    found = export(model, tmp_path / "m.onnx", X)
    assert (found.layers, found.dtype) == (24, "float32")
    same_labels(model, tmp_path / "m.onnx", X)


def test_no_file_is_written_where_a_label_differs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = hard_to_fuse()
    coarse = next(forms(model, every_layer=False))
    monkeypatch.setattr(exporting, "forms", lambda *_: iter([coarse]))
    (tmp_path / "m.onnx").write_bytes(b"before")
    with pytest.raises(DataError, match="expected the model's label for each of 1,797 samples"):
        export(model, tmp_path / "m.onnx", X)
    assert (tmp_path / "m.onnx").read_bytes() == b"before"


@settings(max_examples=15, deadline=None)
@given(
    seed=st.integers(0, 1000),
    k=st.integers(1, 5),
    layers=st.integers(0, 6),
    step=st.floats(0.01, 1.0),
    readout=st.sampled_from(
        ["subspace", "coding", "discriminant", "regression", "quadratic", "pairwise"]
    ),
)
def test_any_network(seed: int, k: int, layers: int, step: float, readout: str) -> None:
    random = np.random.RandomState(seed)
    y = np.arange(30) % k
    samples = random.standard_normal((k, 9))[y] + random.standard_normal((30, 9))
    model = ReduNetClassifier(n_layers=layers, step=step, readout=readout, step_kind="relative")
    model.set_params(n_components=2).fit(samples, y)
    new = random.standard_normal((50, 9))
    form = list(forms(model, every_layer=True))[-1]
    made = onnx_model(program(model, form), input_shape(model), model.moments_.labels, {})
    labels, scores = formats.FORMATS["onnx"].running(made.SerializeToString())(new)
    wanted = model.set_params(exact=True).decision_function(new)
    scores = scores[:, 1] - scores[:, 0] if k == 2 else scores
    np.testing.assert_allclose(scores, wanted, atol=1e-8, rtol=1e-8)
    assert set(labels) <= set(y.tolist())


def test_refusals(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = ReduNetClassifier(n_layers=6).fit(X, Y)
    with pytest.raises(SettingsError, match=r"expected a file that ends in \.onnx or \.pt2"):
        export(model, tmp_path / "m.bin", X)
    with pytest.raises(SettingsError, match="expected a format among onnx, torch, got 'tf'"):
        export(model, tmp_path / "m.onnx", X, file_format="tf")
    with pytest.raises(SettingsError, match="expected layers to be auto or all, got 'some'"):
        export(model, tmp_path / "m.onnx", X, layers="some")  # type: ignore[arg-type]
    small = ReduNetClassifier(n_layers=6, memory=1000).fit(X, Y)
    with (
        pytest.warns(StreamingWarning),
        pytest.raises(SettingsError, match="expected layers that fit memory=1000, got"),
    ):
        export(small, tmp_path / "m.onnx", X)
    with pytest.raises(DataError, match="64 features"):
        export(model, tmp_path / "m.onnx", X[:, 1:])
    monkeypatch.setattr(formats, "MOST_BYTES", 1000)
    with pytest.raises(SettingsError, match="expected a network of at most 2 GB for an ONNX file"):
        export(model, tmp_path / "m.onnx", X)
    monkeypatch.undo()
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    with pytest.raises(SettingsError, match=r"expected the package onnxruntime.*redunet\[export\]"):
        export(model, tmp_path / "m.onnx", X)
    assert not list(tmp_path.iterdir())


def test_a_feature_map_without_a_module_is_left_out(tmp_path: Path) -> None:
    images = X.reshape(-1, 8, 8)
    features = Scattering((8, 8), J=1)  # by Fourier transforms
    model = ReduNetClassifier(n_layers=3, features=features, n_components=5).fit(images, Y)
    with pytest.raises(SettingsError, match=r"got 'scattering': .*--without-features"):
        export(model, tmp_path / "m.onnx", images)
    vectors = features(torch.from_numpy(images)).numpy()
    found = export(model, tmp_path / "m.onnx", vectors, without_features=True)
    assert found.input_shape == (features.n_features,)
    label = outputs(tmp_path / "m.onnx", vectors)[0]
    assert label.tolist() == model.predict(images).tolist()
    made = export(model, tmp_path / "m.onnx", without_features=True)
    assert made.made == "drawn from the moments"


def test_samples_that_are_made_pass_the_feature_map(tmp_path: Path) -> None:
    images = X.reshape(-1, 8, 8)
    model = ReduNetClassifier(n_layers=8, features=Standardize.learn(images)).fit(images, Y)
    found = export(model, tmp_path / "m.onnx")
    assert found.made.startswith("random input; and after the feature map")
    assert found.input_shape == (8, 8)
    assert "the feature map, with means and deviations" in found.holds
    flat = ReduNetClassifier(n_layers=8, features=Flatten((8, 8))).fit(images, Y)
    assert "the feature map" in export(flat, tmp_path / "m.onnx").holds


@pytest.mark.parametrize("file_format", ["onnx", "torch"])
@pytest.mark.parametrize(
    "model",
    [
        ReduNetClassifier(n_layers=2),
        LinearDiscriminant(normalize="constant"),
        Ridge(features=RandomReLU(0, (64,), 30)),
        NearestMean(features=Deskew(Flatten((8, 8)))),  # whose rounding loses NaN
        EnsembleClassifier(Ridge(), groups=(30, 34)),
    ],
    ids=lambda model: type(model).__name__,
)
def test_samples_that_are_not_finite_are_marked(
    model: Any, file_format: str, tmp_path: Path
) -> None:
    model.fit(X[::2].reshape(-1, *input_shape_of(model)), NAMES[::2])
    export(model, tmp_path / "m", X.reshape(-1, *input_shape_of(model)), file_format=file_format)
    samples = X[:9].copy()
    samples[0, 3], samples[1, 2], samples[2, 1] = np.nan, np.inf, -np.inf
    samples[3] = np.nan
    data = (tmp_path / "m").read_bytes()
    samples = samples.reshape(-1, *input_shape_of(model))
    labels, scores = formats.FORMATS[file_format].running(data)(samples)
    assert np.isnan(scores[:4]).all()
    assert np.isfinite(scores[4:]).all()
    assert labels[4:] == model.predict(samples[4:]).tolist()
    if file_format == "onnx":
        probabilities = outputs(tmp_path / "m", samples)[2]
        assert np.isnan(probabilities[:4]).all()
        np.testing.assert_allclose(probabilities[4:], model.predict_proba(samples[4:]), atol=1e-3)
        about = {prop.key: prop.value for prop in onnx.load(tmp_path / "m").metadata_props}
        assert about["not finite"].startswith("a sample with NaN or infinity gets NaN")
    else:
        extra = {"about.json": ""}
        program = torch.export.load(tmp_path / "m", extra_files=extra).module()
        probabilities = program(torch.from_numpy(samples))[2]
        assert probabilities[:4].isnan().all()
        assert probabilities[4:].isfinite().all()
        assert "label that means nothing" in json.loads(extra["about.json"])["not finite"]


def input_shape_of(model: Any) -> tuple[int, ...]:
    return (64,) if model.features is None else tuple(model.features.input_shape)


@pytest.mark.parametrize("file_format", ["onnx", "torch"])
def test_the_smallest_numbers_have_the_models_labels(file_format: str, tmp_path: Path) -> None:
    for model in (ReduNetClassifier(n_layers=2), Ridge(features=RandomReLU(0, (64,), 30))):
        model.fit(X, Y)
        export(model, tmp_path / "m", X, file_format=file_format)
        run = formats.FORMATS[file_format].running((tmp_path / "m").read_bytes())
        for scale in (1e-299, 1e-303, 1e-308, 1e-315, 1e-322, 0.0, 1e305):
            samples = X[::9] * scale
            labels, scores = run(samples)
            assert labels == model.predict(samples).tolist()
            np.testing.assert_allclose(scores, model.decision_function(samples), atol=1e-2)
