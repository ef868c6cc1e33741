"""Feature maps in graphs: the vectors of the map, by ONNX Runtime."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import onnxruntime
import pytest
import torch
from numpy.typing import NDArray
from torch import nn

from redunet.errors import SettingsError
from redunet.export.feature_maps import feature_module
from redunet.export.onnx_graph import onnx_model
from redunet.features import (
    Chain,
    Concatenate,
    Deskew,
    FeatureMap,
    Flatten,
    Fourier,
    GaussianLift,
    Mirrored,
    PatchFilters,
    RandomReLU,
    SquareRoot,
    StackedPatches,
    Standardize,
)

IMAGES = np.random.RandomState(0).randint(0, 256, (40, 9, 7, 3), dtype=np.uint8)
GREY = IMAGES[..., 0]
LARGE = np.random.RandomState(2).randint(0, 256, (10, 16, 12), dtype=np.uint8)
VECTORS = np.random.RandomState(1).standard_normal((40, 12))
PATCHES = PatchFilters.learn(IMAGES, seed=0, n_filters=5, patch_size=3)

MAPS: dict[str, tuple[FeatureMap, NDArray[Any]]] = {
    "flatten": (Flatten((9, 7, 3)), IMAGES),
    "standardize": (Standardize.learn(IMAGES), IMAGES),
    "standardize pixels": (Standardize.learn(IMAGES, per="pixel"), IMAGES),
    "random relu": (RandomReLU(0, (12,), 30), VECTORS),
    "random relu, centred": (RandomReLU.learn(VECTORS, 0, 30), VECTORS),
    "random relu of images": (RandomReLU(0, (9, 7), 30), GREY),
    "fourier": (Fourier(0, (12,), 30, bandwidth=0.3), VECTORS),
    "fourier, centred": (Fourier.learn(VECTORS, 0, 30), VECTORS),
    "lift": (GaussianLift(0, (9, 7, 3)), IMAGES),
    "lift, mean image": (GaussianLift.learn(IMAGES, 0, n_kernels=3), IMAGES),
    "lift, centred": (GaussianLift.learn(IMAGES, 0, centred=True, relu=False), IMAGES),
    "patches": (PATCHES, IMAGES),
    "patches in windows": (PatchFilters.learn(GREY, 0, 4, 4, window=2.0), GREY),
    "patches across edges": (PatchFilters.learn(IMAGES, 0, 4, 4, padding=2), IMAGES),
    "patches of grey": (PatchFilters.learn(GREY, 0, 4, 4, cells=3), GREY),
    "stacked patches": (StackedPatches.learn(IMAGES, 0, 4, 3), IMAGES),
    "stacked patches of grey": (StackedPatches.learn(LARGE, 0, 4, window=2.5), LARGE),
    "roots": (Chain(PATCHES, SquareRoot(PATCHES.n_features)), IMAGES),
    "mirrored": (Mirrored(PATCHES), IMAGES),
    "upright": (Deskew(Flatten((9, 7, 3))), IMAGES),
    "together": (Concatenate((PATCHES, Standardize.learn(IMAGES))), IMAGES),
    "chain": (Chain.standardized(PATCHES, IMAGES), IMAGES),
    "nested": (
        Concatenate((Mirrored(Chain(PATCHES, SquareRoot(PATCHES.n_features))), PATCHES)),
        IMAGES,
    ),
}


class Alone(nn.Module):
    """A feature map in the place of a whole program."""

    def __init__(self, features: FeatureMap) -> None:
        super().__init__()
        self.features = feature_module(features)

    def forward(self, samples: torch.Tensor) -> tuple[torch.Tensor, ...]:
        Z = self.features(samples)
        return Z.argmax(1), Z, Z


@pytest.mark.parametrize("name", MAPS)
def test_vectors_are_those_of_the_map(name: str) -> None:
    features, samples = MAPS[name]
    wanted = features(torch.from_numpy(samples)).numpy()
    labels = list(range(features.n_features))
    data = onnx_model(Alone(features), features.input_shape, labels, {}).SerializeToString()
    session = onnxruntime.InferenceSession(data, providers=["CPUExecutionProvider"])
    for rows in (samples, samples[:1]):
        found = session.run(["scores"], {"samples": rows.astype(np.float64)})[0]
        # A step of a grid where rounding may fall to either side.
        np.testing.assert_allclose(found, wanted[: len(rows)], rtol=1e-11, atol=2e-5)
        close = np.isclose(found, wanted[: len(rows)], rtol=1e-11, atol=1e-11)
        assert close.mean() > 0.99


def test_whole_numbers_stay_exact() -> None:
    for name in (
        "flatten",
        "lift",
        "lift, centred",
        "patches",
        "patches of grey",
        "patches across edges",
        "stacked patches",
        "roots",
        "upright",
    ):
        features, samples = MAPS[name]
        found = feature_module(features)(torch.from_numpy(samples.astype(np.float64)))
        if name == "lift, centred":  # the mean image is no whole number
            torch.testing.assert_close(
                found, features(torch.from_numpy(samples)), rtol=1e-15, atol=0
            )
        else:
            assert torch.equal(found, features(torch.from_numpy(samples)))


class Own:
    """A map of one's own, which is not written to be traced."""

    kind: ClassVar[str] = "own"
    input_shape = (8, 8)
    n_features = 64
    learnt_from_data = False

    def __call__(self, X: torch.Tensor) -> torch.Tensor:
        return X.reshape(len(X), -1)

    def to_state(self) -> tuple[dict[str, Any], dict[str, torch.Tensor]]:
        return {}, {}


def test_a_map_inside_others_that_cannot_be_exported_is_named() -> None:
    with pytest.raises(SettingsError, match="got 'own'"):
        feature_module(Mirrored(Own()))
