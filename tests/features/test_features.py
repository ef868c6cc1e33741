"""Feature maps: what they compute, and that a sample's bits are its own."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch
from scipy.signal import correlate  # type: ignore[import-untyped]

from redunet import DataError, ReduNetClassifier, SettingsError
from redunet.features import (
    Chain,
    Concatenate,
    Deskew,
    FeatureMap,
    Flatten,
    GaussianLift,
    Mirrored,
    PatchFilters,
    Scattering,
    SquareRoot,
    StackedPatches,
    Standardize,
    held_of_data,
    restore,
)

IMAGES = np.random.default_rng(0).integers(0, 256, (40, 7, 6, 3), dtype=np.uint8)
BATCH = torch.from_numpy(IMAGES)
SCATTERING = Scattering((7, 6, 3), J=1, L=3)

MAPS: dict[str, FeatureMap] = {
    "flatten": Flatten((7, 6, 3)),
    "standardize": Standardize.learn(IMAGES),
    "per pixel": Standardize.learn(IMAGES, per="pixel"),
    "lift": GaussianLift(1, (7, 6, 3)),
    "lift, mean image": GaussianLift.learn(IMAGES, 1),
    "lift, mean of channels": GaussianLift.learn(IMAGES, 1, per="channel"),
    "lift, centred": GaussianLift(1, (7, 6, 3), centred=True),
    "lift, centred, mean image": GaussianLift.learn(IMAGES, 1, centred=True),
    "lift, linear": GaussianLift.learn(IMAGES, 1, n_kernels=3, relu=False),
    "scattering": SCATTERING,
    "patches": PatchFilters.learn(IMAGES, 1, 5, patch_size=3),
    "stacked patches": StackedPatches.learn(IMAGES, 1, 5, patch_size=3, window=2.0),
    "patches, mirrored": Mirrored(PatchFilters.learn(IMAGES, 1, 5, 3)),
    "scattering, mirrored": Mirrored(SCATTERING),
    "scattering, upright": Deskew(SCATTERING),
    "roots": Chain(SCATTERING, SquareRoot(SCATTERING.n_features)),
    "chain": Chain(SCATTERING, Standardize.learn(SCATTERING(BATCH), per="pixel")),
    "together": Concatenate((Flatten((7, 6, 3)), Mirrored(PatchFilters.learn(IMAGES, 1, 5, 3)))),
}


@pytest.mark.parametrize("features", MAPS.values(), ids=MAPS)
def test_the_bits_of_a_sample_do_not_depend_on_its_batch(features: FeatureMap) -> None:
    whole = features(BATCH)
    assert whole.shape == (40, features.n_features)
    assert whole.dtype == torch.float64
    for size in (1, 3, 39):
        assert torch.equal(torch.cat([features(part) for part in torch.split(BATCH, size)]), whole)
    assert torch.equal(features(BATCH.flip(0)).flip(0), whole)
    assert torch.equal(features(BATCH.to(torch.float32)), whole)
    fortran = torch.from_numpy(np.asfortranarray(IMAGES))
    assert torch.equal(features(fortran), whole)


@pytest.mark.parametrize("features", MAPS.values(), ids=MAPS)
def test_a_map_is_made_again_from_its_state(features: FeatureMap) -> None:
    values, tensors = features.to_state()
    again = restore(features.kind, json.loads(json.dumps(values)), tensors)
    assert type(again) is type(features)
    assert torch.equal(again(BATCH), features(BATCH))
    assert again.learnt_from_data == features.learnt_from_data


def test_standardize_by_hand() -> None:
    pixels = IMAGES.astype(np.float64)
    by_hand = (pixels - pixels.mean()) / pixels.std()
    np.testing.assert_allclose(MAPS["standardize"](BATCH), by_hand.reshape(40, -1), rtol=1e-12)
    by_hand = (pixels - pixels.mean(axis=0)) / pixels.std(axis=0)
    np.testing.assert_allclose(
        MAPS["per pixel"](BATCH), by_hand.reshape(40, -1), rtol=1e-10, atol=1e-12
    )


@pytest.mark.parametrize("name", [name for name in MAPS if name.startswith("lift")])
def test_a_lift_is_a_convolution(name: str) -> None:
    lift = MAPS[name]
    assert isinstance(lift, GaussianLift)
    kernels = lift.kernels.reshape(lift.n_kernels, 3, 3, 3).numpy()  # kernel, channel, row, column
    pixels = IMAGES[:4].astype(np.float64)
    if lift.mean_image is not None:
        pixels = pixels - lift.mean_image.numpy()
    if lift.centred:
        pixels = (pixels - pixels.mean(axis=(1, 2, 3), keepdims=True)) * (7 * 6 * 3)
    for image, features in zip(pixels, lift(BATCH[:4]), strict=True):
        for kernel, mine in zip(kernels, features.reshape(lift.n_kernels, 7, 6), strict=True):
            padded = np.pad(image, ((1, 1), (1, 1), (0, 0)))
            by_hand = sum(
                correlate(padded[:, :, c], kernel[c], mode="valid", method="direct")
                for c in range(3)
            )
            by_hand = np.maximum(by_hand, 0) if lift.relu else by_hand
            np.testing.assert_allclose(mine, by_hand, rtol=1e-9, atol=1e-4 * 2**20)


def test_a_chain_is_one_map_after_another() -> None:
    chain = MAPS["chain"]
    vectors = SCATTERING(BATCH).numpy()
    by_hand = (vectors - vectors.mean(axis=0)) / vectors.std(axis=0)
    np.testing.assert_allclose(chain(BATCH), by_hand, rtol=1e-9, atol=1e-9)
    assert chain.input_shape == (7, 6, 3)
    assert chain.learnt_from_data
    assert not Chain(SCATTERING, Flatten((SCATTERING.n_features,))).learnt_from_data
    with pytest.raises(SettingsError, match=f"vectors of {SCATTERING.n_features} features"):
        Chain(SCATTERING, Flatten((5,)))


def test_an_estimator_takes_images_or_their_rows() -> None:
    labels = np.arange(40) % 4
    model = ReduNetClassifier(n_layers=3, features=MAPS["lift"]).fit(IMAGES, labels)
    rows = IMAGES.reshape(40, -1)
    assert np.array_equal(model.predict_proba(rows), model.predict_proba(IMAGES))
    assert model.n_features_in_ == 126
    assert model.moments_.n_features == 7 * 6 * 5
    grey = GaussianLift(0, (7, 6, 1), 2)
    model = ReduNetClassifier(n_layers=3, features=grey).fit(IMAGES[..., 0], labels)
    assert np.array_equal(model.predict(IMAGES[..., :1]), model.predict(IMAGES[..., 0]))


def test_what_a_map_cannot_use_is_refused() -> None:
    with pytest.raises(DataError, match="expected whole pixel values"):
        MAPS["lift"](BATCH / 255)
    with pytest.raises(DataError, match="got none"):
        Standardize.learn(IMAGES[:0])
    with pytest.raises(DataError, match="got none"):
        GaussianLift.learn(IMAGES[:0], 0)
    with pytest.raises(SettingsError, match=r"expected samples of shape .*, got \(8, 8\)"):
        GaussianLift(0, (8, 8))  # type: ignore[arg-type]
    with pytest.raises(DataError, match="expected a feature map among"):
        restore("wavelets", {}, {})


def test_a_centred_lift_is_exact_and_blind_to_brightness() -> None:
    """Whole numbers throughout, as Python's integers have them; a shade more changes nothing."""
    rng = np.random.RandomState(3)
    lift = GaussianLift(5, centred=True)
    image = rng.randint(0, 256, size=(32, 32, 3))
    image[:16] = 255
    kernels = lift.kernels.to(torch.int64).numpy().reshape(5, 3, 3, 3)
    assert not kernels.sum(axis=(1, 2, 3)).any()
    inside = np.pad(image * image.size - image.sum(), ((1, 1), (1, 1), (0, 0)))
    windows = np.lib.stride_tricks.sliding_window_view(inside, (3, 3), axis=(0, 1))
    wanted = np.einsum("hwcij,kcij->khw", windows.astype(object), kernels.astype(object))
    assert max(abs(value) for value in wanted.ravel()) > 2**44
    got = lift(torch.from_numpy(image)[None]).numpy().reshape(5, 32, 32)
    np.testing.assert_array_equal(got.astype(np.int64), np.maximum(wanted, 0).astype(np.int64))
    darker = torch.from_numpy(image // 2)[None]
    assert torch.equal(lift(darker + 100), lift(darker))


def test_maps_side_by_side_count_the_same() -> None:
    parts = (SCATTERING, Flatten((7, 6, 3)), PatchFilters.learn(IMAGES, 1, 5, 3))
    together = Concatenate(parts)
    vectors = together(BATCH)
    start = 0
    for part in parts:
        own = vectors[:, start : start + part.n_features]
        start += part.n_features
        plain = part(BATCH)
        lengths = torch.linalg.vector_norm(plain, dim=1, keepdim=True)
        torch.testing.assert_close(own, plain / lengths, rtol=1e-14, atol=0)
    assert start == together.n_features == vectors.shape[1]
    assert together.learnt_from_data
    assert not Concatenate(parts[:2]).learnt_from_data
    both = Concatenate((*parts, parts[2], Standardize.learn(IMAGES)))
    assert held_of_data(both) == "filters made of patches of images, and means and deviations"
    with pytest.raises(SettingsError, match=r"one shape, got \(3,\), \(7, 6, 3\)"):
        Concatenate((Flatten((3,)), SCATTERING))
    with pytest.raises(SettingsError, match="one shape, got none"):
        Concatenate(())
